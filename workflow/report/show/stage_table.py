"""The columns of the report's stage table: in report.html, `wf report` and `wf status`. Pure."""

from __future__ import annotations

from collections.abc import Collection

from workflow.formatting import duration, number, percent
from workflow.report.report_model import Activity, Report, StagePart
from workflow.report.show.text_table import (
    EVERYWHERE,
    PAGE,
    TERMINAL,
    Column,
    Table,
    View,
    command_column,
    make_table,
    number_column,
    state_column,
    text_column,
)


def exit_text(stage: StagePart) -> str:
    """`0`, `signal 9`, or `-`."""
    return f"signal {stage.signal}" if stage.signal else number(stage.exit_code)


def time_and_share(stage: StagePart, part: Activity) -> str:
    """`2.02 s (35 %)`: that part of the stage's wall time."""
    share = stage.share(part)
    seconds = duration(stage.seconds(part))
    return seconds if share is None else f"{seconds} ({percent(share)})"


def rest_share(stage: StagePart) -> float | None:
    """What is left of the time of a stage beside computing, moving data and waiting."""
    shares = [stage.share(part) for part in ("open", "other")]
    known = [share for share in shares if share is not None]
    return sum(known) if known else None


# On a terminal only the shares fit.
STAGE_COLUMNS: list[Column[StagePart]] = [
    text_column("stage", lambda stage: stage.name, EVERYWHERE),
    command_column("program", lambda stage: stage.program),
    number_column("ranks", lambda stage: str(stage.ranks), gives_way=2),
    state_column("state", lambda stage: stage.state, EVERYWHERE),
    number_column("exit", exit_text, EVERYWHERE, gives_way=1),
    number_column("time", lambda stage: duration(stage.wall_s), EVERYWHERE),
    number_column("computing", lambda stage: time_and_share(stage, "compute"), PAGE),
    number_column("computing", lambda stage: percent(stage.share("compute")), TERMINAL),
    number_column("moving data", lambda stage: time_and_share(stage, "io"), PAGE),
    number_column("moving", lambda stage: percent(stage.share("io")), TERMINAL, gives_way=7),
    number_column("waiting", lambda stage: time_and_share(stage, "wait"), PAGE),
    number_column("waiting", lambda stage: percent(stage.share("wait")), TERMINAL, gives_way=8),
    number_column("rest", lambda stage: percent(rest_share(stage)), gives_way=6),
    number_column("CPU time", lambda stage: time_and_share(stage, "cpu"), PAGE),
    number_column("CPU", lambda stage: percent(stage.share("cpu")), TERMINAL, gives_way=5),
    number_column("steps in", lambda stage: number(stage.steps_in), PAGE),
    number_column("in", lambda stage: number(stage.steps_in), TERMINAL, gives_way=3),
    number_column("steps out", lambda stage: number(stage.steps_out), PAGE),
    number_column("out", lambda stage: number(stage.steps_out), TERMINAL, gives_way=4),
]


# The columns that a sentence is about, and the sentence. What was recorded may add up to a little more than the time.
EXPLAINED = (
    (
        {"computing", "moving", "waiting", "rest"},
        "Shares of the time: computing, moving data, waiting; rest: opening the streams, start and end of the program.",
    ),
    ({"CPU"}, "CPU: CPU time of all its processes ÷ time."),
)


def explain_columns(left_out: Collection[str] = ()) -> str:
    """What the columns mean that are shown."""
    return " ".join(text for titles, text in EXPLAINED if titles.isdisjoint(left_out))


def stage_table(report: Report, view: View) -> Table:
    """What each stage did: a row per stage."""
    return make_table(STAGE_COLUMNS, report.stages, view)
