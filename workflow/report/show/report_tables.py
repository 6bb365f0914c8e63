"""The tables of a report: stages, streams, expectations, and the proved placement. Pure.

They are the same in report.html, `wf report` and `wf status`; each column says where it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from workflow.errors import Problem
from workflow.formatting import NOTHING, duration, fine_duration, number, percent, plural, rate, size, three_figures
from workflow.report.show.text_table import (
    EVERYWHERE,
    PAGE,
    TERMINAL,
    Column,
    LineBelow,
    Table,
    View,
    command_column,
    make_table,
    number_column,
    state_column,
    text_column,
)

if TYPE_CHECKING:
    from workflow.plan.plan_model import ExpectationPlan, Plan, StreamPlan
    from workflow.report.read.run_records import ProofTables, RanksOnNode, StreamResult
    from workflow.report.report_model import (
        Activity,
        ExpectationPart,
        RankSpread,
        ReaderPart,
        Report,
        StagePart,
        StepTimes,
        StreamPart,
    )


def exit_text(stage: StagePart) -> str:
    """`0`, `signal 9`, or `-`."""
    return f"signal {stage.signal}" if stage.signal else number(stage.exit_code)


def process_text(stage: StagePart) -> str:
    """The process of a stage that runs; of one with several ranks the launcher's, of several members none."""
    return number(stage.pid if stage.ended is None else None)


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


DEVICE_COPIES = "device copies"
# On a terminal only the shares fit.
STAGE_COLUMNS: list[Column[StagePart]] = [
    text_column("stage", lambda stage: stage.name, EVERYWHERE),
    command_column("program", lambda stage: stage.program),
    number_column("ranks", lambda stage: str(stage.ranks), gives_way=2),
    text_column("nodes", lambda stage: hosts_text(stage.hosts), EVERYWHERE, gives_way=5),
    state_column("state", lambda stage: stage.state, EVERYWHERE),
    number_column("process", process_text, ("status",)),
    number_column("exit", exit_text, EVERYWHERE, gives_way=1),
    number_column("time", lambda stage: duration(stage.wall_s), EVERYWHERE),
    number_column("computing", lambda stage: time_and_share(stage, "compute"), PAGE),
    number_column("computing", lambda stage: percent(stage.share("compute")), TERMINAL),
    number_column(DEVICE_COPIES, lambda stage: time_and_share(stage, "device"), PAGE),
    number_column(DEVICE_COPIES, lambda stage: percent(stage.share("device")), TERMINAL, gives_way=9),
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
EXPLAINED = [
    LineBelow(
        "Shares of the time: computing, moving data, waiting; rest: opening the streams, start and end of the program.",
        frozenset({"computing", "moving", "waiting", "rest"}),
    ),
    LineBelow("CPU: CPU time of all its processes ÷ time.", frozenset({"CPU"})),
]


def hosts_text(hosts: Sequence[str]) -> str:
    """`n1, n2`, and of many the first, the last and their number."""
    return ", ".join(hosts) if len(hosts) < 4 else f"{hosts[0]} … {hosts[-1]} ({len(hosts)})"


def stage_table(report: Report, view: View) -> Table:
    """What each stage did: a row per stage. Nodes have a column where it ran on those of a job, the processes while one
    of them runs, copies to and from devices where there were any."""
    running = any(process_text(stage) != NOTHING for stage in report.stages)
    copied = any(stage.device_s for stage in report.stages)
    columns = [column for column in STAGE_COLUMNS if running or column.cell is not process_text]
    columns = [column for column in columns if copied or column.title != DEVICE_COPIES]
    if not any(stage.hosts for stage in report.stages):
        columns = [column for column in columns if column.title != "nodes"]
    return make_table(columns, report.stages, view, below=[] if view == "status" else EXPLAINED)


NOT_KNOWN = "not known"


class StreamRow(NamedTuple):
    """One reader of a stream. The stream's own figures stand in the row of its first reader only."""

    stream: StreamPart
    reader: ReaderPart
    is_first: bool


def engine_text(stream: StreamPart | StreamPlan) -> str:
    """`SST ucx`, `BP5`."""
    return f"{stream.engine} {stream.transport}" if stream.transport else stream.engine


def steps_read(reader: ReaderPart) -> str:
    """`39 (2 not read)`, `39 (2 lost)`."""
    if reader.lost:
        return f"{number(reader.steps)} ({reader.lost} lost)"
    return number(reader.steps) + (f" ({reader.dropped} not read)" if reader.dropped else "")


def once(cell: Callable[[StreamPart], str]) -> Callable[[StreamRow], str]:
    """A figure of the stream as a whole, in its first row."""
    return lambda row: cell(row.stream) if row.is_first else ""


def data_text(stream: StreamPart) -> str:
    """`38.4 MB`, `≥ 38.4 MB`, `not known`; `-` of a stream without steps."""
    if stream.bytes is None:
        return NOT_KNOWN if stream.steps else NOTHING
    return ("≥ " if stream.bytes_are == "at_least" else "") + size(stream.bytes)


def limit_text(stream: StreamPart) -> str:
    """The stage that limits the stream, `not known`, or `-` where the question does not apply."""
    return stream.limited_by or (NOT_KNOWN if stream.limit_unknown else NOTHING)


STREAM_COLUMNS: list[Column[StreamRow]] = [
    text_column("stream", lambda row: row.stream.name, EVERYWHERE),
    text_column("from, to", lambda row: f"{row.stream.writer} → {row.reader.stage}", EVERYWHERE),
    text_column("engine", once(lambda stream: f"{engine_text(stream)}, {stream.coupling}"), PAGE),
    text_column("engine", once(engine_text), ("terminal", "status"), gives_way=1),
    number_column("written", once(lambda stream: number(stream.steps)), EVERYWHERE, gives_way=2),
    number_column("read", lambda row: steps_read(row.reader), EVERYWHERE),
    number_column("data", once(data_text), EVERYWHERE, gives_way=3),
    number_column("throughput", once(lambda stream: rate(stream.throughput)), EVERYWHERE),
    number_column("transfer rate, written", once(lambda stream: rate(stream.transfer_rate)), PAGE),
    number_column("transfer rate, read", lambda row: rate(row.reader.transfer_rate), PAGE),
    number_column("writer waits", once(lambda stream: percent(stream.idle)), PAGE),
    text_column("limited by", once(limit_text), EVERYWHERE, gives_way=4),
]


def stream_table(report: Report, view: View) -> Table:
    """What went through each stream: a row per reader; below it what its rates are, and what limited it."""
    from workflow.run.state.stream_rates import THROUGHPUT, TRANSFER_RATE  # `wf plan` has no rates

    rows = [
        StreamRow(stream, reader, place == 0)
        for stream in report.streams
        for place, reader in enumerate(stream.readers)
    ]
    rates = [THROUGHPUT] if view == "page" or any(stream.throughput for stream in report.streams) else []
    rates += [TRANSFER_RATE] if view == "page" else []
    return make_table(STREAM_COLUMNS, rows, view, below=[*rates, *([] if view == "status" else limit_lines(report))])


def limit_lines(report: Report) -> list[str]:
    """How sure it is what limited the run; why it is not known of the run and its streams."""
    run = report.run
    lines = [f"the run was limited by {run.limited_by}: {run.limit_evidence}"] if run.limit_evidence else []
    lines += [f"what limited the run is not known: {run.limit_unknown}"] if run.limit_unknown else []
    same = run.limit_unknown
    return lines + [
        f"what limited stream {stream.name} is not known: {stream.limit_unknown}"
        for stream in report.streams
        if stream.limit_unknown not in ("", same)
    ]


class SpreadRow(NamedTuple):
    """How what a stage did differed from step to step, and from rank to rank."""

    stage: str
    what: str
    steps: StepTimes | None
    ranks: RankSpread | None


def imbalance_text(row: SpreadRow) -> str:
    """`1.25 (rank 3)`: how much longer than the median rank the slowest one took, and which that is."""
    if row.ranks is None or row.ranks.imbalance is None:
        return NOTHING
    return f"{three_figures(row.ranks.imbalance)} (rank {row.ranks.rank})"


SPREAD_COLUMNS: list[Column[SpreadRow]] = [
    text_column("stage", lambda row: row.stage),
    text_column("time of a step", lambda row: row.what),
    number_column("median", lambda row: NOTHING if row.steps is None else fine_duration(row.steps.p50)),
    number_column("95 %", lambda row: NOTHING if row.steps is None else fine_duration(row.steps.p95)),
    number_column("slowest", lambda row: NOTHING if row.steps is None else fine_duration(row.steps.max)),
    number_column("slowest rank ÷ median", imbalance_text),
]


def spread_table(report: Report) -> Table:
    """Of each stage whole steps, then writing and loading; what is not known of steps nor ranks is left out."""
    rows = []
    for stage in report.stages:
        rows.append(SpreadRow(stage.name, "whole step (ranks: computing)", stage.step_times, stage.compute_ranks))
        for stream in report.streams:
            if stream.writer == stage.name:
                rows.append(SpreadRow(stage.name, f"writing {stream.name}", stream.write_times, stream.write_ranks))
                copies = f"copying {stream.name} from a device"
                rows.append(SpreadRow(stage.name, copies, stream.device_times, stream.device_ranks))
            for reader in stream.readers:
                if reader.stage == stage.name:
                    rows.append(SpreadRow(stage.name, f"loading {stream.name}", reader.load_times, reader.load_ranks))
                    copies = f"copying {stream.name} to a device"
                    rows.append(SpreadRow(stage.name, copies, reader.device_times, reader.device_ranks))
    return make_table(SPREAD_COLUMNS, [row for row in rows if row.steps or row.ranks], "page")


_TEXTS: dict[str, Callable[[float], str]] = {
    "s": duration, "B": size, "B/s": rate, "1": percent, "ratio": three_figures,
    "steps": lambda value: f"{value:.0f}",
    "steps/s": lambda value: f"{three_figures(value)} steps/s",
}  # fmt: skip
# Nearer to its limit than this share, a figure that misses it is shown with more digits.
_NEAR = 0.01
_EXACT: dict[str, Callable[[float], str]] = {
    "s": lambda value: f"{value:.6g} s", "B": lambda value: f"{value:.0f} B", "B/s": lambda value: f"{value:.9g} B/s",
    "1": lambda value: f"{value * 100:.6g} %", "steps/s": lambda value: f"{value:.6g} steps/s",
}  # fmt: skip


def measured_text(each: ExpectationPart) -> str:
    """`312 MB/s`; nothing where it was not measured."""
    if each.measured is None:
        return NOTHING
    return figure_text(each.measured, each.unit, each.limit if each.state == "violated" else None)


def figure_text(value: float, unit: str, limit: float | None) -> str:
    """`312 MB/s`; of one that misses a limit by little `59.98 %`, where rounding would show the limit itself."""
    texts = _EXACT if limit is not None and abs(value - limit) <= _NEAR * abs(limit) else _TEXTS
    return texts[unit](value) if unit in texts else f"{value:.6g}"


def state_text(each: ExpectationPart) -> str:
    """`met`, `not measured`."""
    return each.state.replace("_", " ")


PLANNED_COLUMNS: list[Column[ExpectationPlan]] = [
    text_column("expected of", lambda each: each.figure),
    text_column("condition", lambda each: each.expected),
    text_column("written at", lambda each: place_text(each), gives_way=1),
]
EXPECTATION_COLUMNS: list[Column[ExpectationPart]] = [
    text_column("expected of", lambda each: each.figure, EVERYWHERE),
    text_column("condition", lambda each: each.expected, EVERYWHERE),
    text_column("measured", measured_text, EVERYWHERE),
    state_column("state", state_text, EVERYWHERE),
    text_column("written at", lambda each: each.place, EVERYWHERE, gives_way=1),
]


def place_text(each: ExpectationPlan) -> str:
    """`pipeline.yaml:14:9`, or the option."""
    return f"{each.source}:{each.line}:{each.column}" if each.line else each.source


def planned_expectation_table(plan: Plan) -> Table:
    """What a run of the plan will be compared with."""
    return make_table(PLANNED_COLUMNS, plan.expectations)


def expectation_table(report: Report, view: View) -> Table:
    """What was expected, and what the run measured."""
    return make_table(EXPECTATION_COLUMNS, report.expectations, view)


def expectations_text(report: Report) -> str:
    """`3 expectations met`, `1 of 3 expectations not met`; empty where there are none, or none were checked."""
    checked = [each for each in report.expectations if each.state != "not_checked"]
    missed = sum(each.state != "met" for each in checked)
    count = plural(len(checked), "expectation")
    return "" if not checked else f"{missed} of {count} not met" if missed else f"{count} met"


def expectation_messages(report: Report) -> list[Problem]:
    """An error for each expectation that was not met: key and place, what was expected, what was measured."""
    return [_message(each, report) for each in report.expectations if each.is_violated]


def _message(each: ExpectationPart, report: Report) -> Problem:
    if each.state == "not_measured":
        text = f"expected {each.expected}, but the run did not measure it"
        return Problem(each.place, 0, 0, each.key, text, _why_unknown(each, report))
    return Problem(each.place, 0, 0, each.key, f"expected {each.expected}, measured {measured_text(each)}", "")


def _why_unknown(each: ExpectationPart, report: Report) -> str:
    """What to look at where a figure is missing."""
    from workflow.report.build.met_expectations import why_not_measured  # its models take long to load

    stage = next((one for one in report.stages if each.figure.startswith(f"stages.{one.name}.")), None)
    why = "" if stage is None else why_not_measured(each.figure, stage.figures, stage.figures_problem)
    return why or "the notes of `wf report` say what was not recorded"


def tables_of_report(report: Report, view: View) -> list[Table]:
    """The tables of `wf report` and of notebooks, or of `wf status`, in their order. The page has each in its section.

    The members of an ensemble are one row, and its streams another.
    """
    from workflow.report.show.folded_members import fold_report, spread_lines  # the live display imports this module
    from workflow.report.show.member_values import members_of_run

    folded = fold_report(report)
    stages = stage_table(folded, view)
    if view != "status":
        stages = stages._replace(below=[*map(LineBelow, spread_lines(report)), *stages.below])
    return [stages, *members_of_run(report, view), stream_table(folded, view), expectation_table(report, view)]


# Of a large run the page has the first nodes; proof.json has all.
MOST_ROWS = 200
RANK_COLUMNS: list[Column[RanksOnNode]] = [
    text_column("stage", lambda each: each.stage),
    text_column("node", lambda each: each.host),
    text_column("ranks", lambda each: each.ranks),
    text_column("cores of each", lambda each: each.cores),
    text_column("GPUs", lambda each: each.gpus or "-"),
]
SMOKE_STREAM_COLUMNS: list[Column[StreamResult]] = [
    text_column("stream", lambda each: each.stream),
    text_column("way", lambda each: each.way or "-"),
    text_column("result", lambda each: each.result),
]


def placement_tables(proof: ProofTables | None) -> list[Table]:
    """Where the ranks were, and what crossed; [] without a proof."""
    if proof is None:
        return []
    tables = [make_table(RANK_COLUMNS, proof.ranks[:MOST_ROWS], "page")]
    return tables + ([make_table(SMOKE_STREAM_COLUMNS, proof.streams, "page")] if proof.streams else [])
