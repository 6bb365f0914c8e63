"""A campaign as `wf campaign compare` takes it: its file, directory or name, its report.json, or its table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from workflow.campaign.campaign_directory import SCHEDULE_FILE, find_campaign
from workflow.campaign.ledger import read_history
from workflow.campaign.results.make_results import make_results
from workflow.campaign.results.results_model import CampaignResults, MetricFacts, TrialCount, TrialResult
from workflow.campaign.results.results_table import FIRST, LAST, read_table
from workflow.campaign.statistics.median_interval import median_interval
from workflow.campaign.statistics.outliers import outliers
from workflow.errors import RunError, shortened
from workflow.formats.read_json import read_json
from workflow.report_figures import FigureName
from workflow.spec.user_paths import exists

REPORT_FILE = "report.json"
TABLES = (".csv", ".parquet")
DEFAULT_THRESHOLD = 0.05
"""Of a table, which does not state it; as in a campaign file."""
_GIVE = "give a campaign's directory or name, the report.json of `wf campaign report`, or its table.csv"


@dataclass(frozen=True)
class GivenCampaign:
    """One of the two campaigns."""

    source: str
    """As the user named it."""
    results: CampaignResults
    is_table: bool = False
    """Read from a table: keys are short, values are texts, and nothing is known of the machine."""


def read_given(given: Path) -> GivenCampaign:
    """The results of a campaign.

    Raises:
        RunError: it is no campaign, cannot be read, or has not been run.
        SpecError: its campaign file is wrong.
    """
    source = str(given)
    if given.suffix == ".json" or (given.is_dir() and not (given / SCHEDULE_FILE).exists() and _has_report(given)):
        return GivenCampaign(source, _read_report(given / REPORT_FILE if given.is_dir() else given))
    if given.suffix in TABLES:
        return GivenCampaign(source, _read_table(given), is_table=True)
    if given.is_file() and given.suffix not in (".yaml", ".yml"):
        raise RunError(f"{shortened(source)} is not a campaign", _GIVE)
    found, campaign, schedule = find_campaign(given)
    return GivenCampaign(source, make_results(campaign.spec, schedule, read_history(found)))


def _has_report(folder: Path) -> bool:
    """Whether a folder holds a report alone, as a CI job downloads it."""
    return exists(folder / REPORT_FILE)


def _read_report(path: Path) -> CampaignResults:
    data = _read(path)
    try:
        content = read_json(data)
    except ValueError as error:
        raise RunError(f"{shortened(str(path))} is not JSON: {error}", _GIVE) from error
    if not isinstance(content, dict) or "results_version" not in content:
        if isinstance(content, dict) and "report_version" in content:
            text = f"{shortened(str(path))} is the report of a run, not of a campaign"
            raise RunError(text, "`wf compare RUN_A RUN_B` compares the data of two runs")
        raise RunError(f"{shortened(str(path))} is not the report of a campaign", _GIVE)
    try:
        return CampaignResults.model_validate(content)
    except ValidationError as error:
        text = f"{shortened(str(path))} cannot be read by this wf"
        raise RunError(text, "write it again where it was measured: wf campaign report") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read {shortened(str(path))}: {error.strerror}", _GIVE) from error


def _read_table(path: Path) -> CampaignResults:
    """The results that the rows of a table make: its measured repetitions of metrics that have names."""
    try:
        rows = read_table(path)
    except (OSError, ValueError, csv.Error) as error:
        raise RunError(f"cannot read {shortened(str(path))}: {error}", _GIVE) from error
    if not rows or not {*FIRST, *LAST} <= set(rows[0]):
        raise RunError(f"{shortened(str(path))} is not the table of a campaign", _GIVE)
    try:
        return _to_results(path, rows)
    except (KeyError, ValueError) as error:
        text = f"{shortened(str(path))} is not the table of a campaign: {error}"
        raise RunError(text, _GIVE) from error


def _to_results(path: Path, rows: Iterable[Mapping[str, Any]]) -> CampaignResults:
    metrics: dict[str, MetricFacts] = {}
    parameters: dict[str, dict[str, object]] = {}
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["metric"] == "" or _is_true(row["baseline"]) or _is_true(row["warmup"]):
            continue
        section = row["part"] if row["part"] == "run" else f"{row['part']}s"
        name = FigureName(section, row["name"], row["figure"])
        unit, better, _ = name.figure
        if name.is_own:
            text = f"{shortened(str(path))} does not say whether more of {name} is better"
            raise RunError(text, "give the report.json of that campaign")
        metrics[row["metric"]] = MetricFacts(
            name=row["metric"], of=str(name), unit=unit, better=better, threshold=DEFAULT_THRESHOLD
        )
        keys = [key for key in row if key not in (*FIRST, *LAST) and row[key] != ""]
        parameters.setdefault(row["trial"], {key: row[key] for key in keys})
        values.setdefault((row["metric"], row["trial"]), []).append(float(row["value"]))
    counts = {trial: max(len(v) for (_, of), v in values.items() if of == trial) for trial in parameters}
    return CampaignResults(
        campaign="", description="", site="", host="", versions={}, seed=0, started=None, ended=None, load=None,
        trials=[
            TrialCount(trial=key, parameters=at, is_baseline=False, succeeded=counts[key], failed=0, wanted=counts[key])
            for key, at in parameters.items()
        ],
        metrics=list(metrics.values()),
        results=[
            _to_result(trial, parameters[trial], metric, found) for (metric, trial), found in values.items()
        ],
        comparisons=[],
        notes=[],
    )  # fmt: skip


def _to_result(trial: str, parameters: dict[str, object], metric: str, values: list[float]) -> TrialResult:
    middle, low, high = median_interval(values)
    return TrialResult(
        trial=trial, parameters=parameters, metric=metric, values=values, outliers=outliers(values),
        median=middle, low=low, high=high,
    )  # fmt: skip


def _is_true(value: object) -> bool:
    """Of CSV, which has texts, and of Parquet, which has truth values."""
    return value in (True, "True")
