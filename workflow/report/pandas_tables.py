"""The report as pandas tables, for notebooks: the only module that uses pandas, which it imports on first use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from workflow.errors import WfError
from workflow.installation import install_command
from workflow.report.read.run_records import SUFFIX, read_records
from workflow.report.report_model import ReaderPart, Report, StagePart, StreamPart
from workflow.run.records.find_runs import find_run

if TYPE_CHECKING:
    import pandas


def report_tables(report: Report) -> dict[str, pandas.DataFrame]:
    """`stages` (by stage), `streams` (by stream), `readers` (by stream and stage); columns as in the report.

    Raises:
        WfError: pandas is not installed.
    """
    frame = _pandas().DataFrame
    stages = [stage.model_dump(exclude={"last_lines"}) for stage in report.stages]
    streams = [stream.model_dump(exclude={"readers", "parameters"}) for stream in report.streams]
    readers = [{"stream": each.name} | reader.model_dump() for each in report.streams for reader in each.readers]
    return {
        "stages": frame(stages, columns=_columns(StagePart, "last_lines")).set_index("name"),
        "streams": frame(streams, columns=_columns(StreamPart, "readers", "parameters")).set_index("name"),
        "readers": frame(readers, columns=["stream", *_columns(ReaderPart)]).set_index(["stream", "stage"]),
    }


def steps_table(run: str | os.PathLike[str] | None = None) -> pandas.DataFrame:
    """One row per step and end: stage, stream, side, step, t (Unix s, its end), bytes, wait_s, io_s, compute_s, count.

    The file of a sink has rows as a stream has, by its name. In a long run, later rows hold the sums over `count`
    steps; `step` is the last of them. A run is named by its path, by its name below `runs/`, or as `latest`, the
    default.

    Raises:
        RunError: there is no such run.
        WfError: pandas is not installed.
    """
    columns = ["stage", "stream", "side", "step", "t", "bytes", "wait_s", "io_s", "compute_s", "count"]
    rows = [
        [stage, step.stream.removesuffix(SUFFIX), *(getattr(step, column) for column in columns[2:])]
        for stage, metrics in sorted(read_records(find_run(run)).metrics.items())
        for step in metrics.steps
    ]
    return _pandas().DataFrame(rows, columns=columns)


def _columns(part: type[StagePart | StreamPart | ReaderPart], *without: str) -> list[str]:
    return [name for name in part.model_fields if name not in without]


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise WfError("tables need pandas", install_command("notebook")) from error
    return pandas
