"""The tidy table of a campaign: one row per repetition and figure, as CSV and, where pyarrow is installed, Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workflow.campaign.file.trials import short_names, value_text
from workflow.campaign.results.results_model import MetricFacts
from workflow.campaign.results.samples import Measured
from workflow.errors import WfError
from workflow.installation import install_command
from workflow.replace_file import replace_file
from workflow.report_figures import to_figure_name

Cell = str | int | float | bool
FIRST = ("trial", "baseline")
LAST = ("repetition", "warmup", "metric", "part", "name", "figure", "value", "unit")


def table_columns(keys: Sequence[str]) -> list[str]:
    """The titles: the trial, a column per key that varies, the repetition, and what was measured."""
    names = column_names(keys)
    return [*FIRST, *(names[key] for key in keys), *LAST]


def column_names(keys: Sequence[str]) -> dict[str, str]:
    """Key → the title of its column: short, unless another column has that title."""
    names = short_names(keys)
    return {key: key if names[key] in (*FIRST, *LAST) else names[key] for key in keys}


def table_rows(
    repetitions: Sequence[Measured], keys: Sequence[str], metrics: Sequence[MetricFacts]
) -> Iterator[list[Cell]]:
    """A row per repetition and figure; `metric` is empty for figures to which the campaign gives no name.

    Values of keys are texts, as they are written in YAML; units are s, B, B/s, steps and 1, or those
    of the metric.
    """
    named = {metric.of: metric for metric in metrics}
    for each in repetitions:
        values = [value_text(each.trial.parameters[key]) if key in each.trial.parameters else "" for key in keys]
        head: list[Cell] = [each.trial.key, each.trial.is_baseline, *values, each.number, each.warmup]
        for text, value in each.figures.items():
            figure = to_figure_name(text)
            if figure is not None and figure.is_known:
                part = figure.section.removesuffix("s")
                metric = named.get(text)
                name, unit = ("", figure.figure.unit) if metric is None else (metric.name, metric.unit)
                yield [*head, name, part, figure.name, figure.field, value, unit]


def write_table(directory: Path, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[Path]:
    """Write table.csv and, where pyarrow is installed, table.parquet; returns what was written."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    written = [directory / "table.csv"]
    replace_file(written[0], text.getvalue().encode())
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        return written
    data = {column: [row[index] for row in rows] for index, column in enumerate(columns)}
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(data), sink)
    written.append(directory / "table.parquet")
    replace_file(written[1], sink.getvalue().to_pybytes())
    return written


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of table.csv or table.parquet; of CSV all cells are texts.

    Raises:
        OSError: it cannot be read; ValueError: it is no table; WfError: pyarrow is not installed.
    """
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise WfError(f"reading {path.name} needs pyarrow", install_command("campaign")) from error
    try:
        found: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise ValueError(str(error)) from error
    return found
