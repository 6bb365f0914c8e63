"""What `wf plan` shows: its verdict, its tables and their columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from workflow.errors import Problem
from workflow.formats.step_files import is_numbered
from workflow.formatting import NOTHING, command_text, duration, plural, size
from workflow.plan.node_groups import NodeGroup, node_groups
from workflow.plan.part_plan import why_anew
from workflow.plan.plan_model import (
    RUN_DIR,
    START_OF_SOURCES,
    EndPlan,
    OperatorPlan,
    ParameterPlan,
    Plan,
    StagePlan,
    StreamPlan,
)
from workflow.plan.streams.spool_places import spool_text
from workflow.plan.visible_steps import LOG_LEVEL
from workflow.report.show.node_map import has_node_map
from workflow.report.show.report_tables import engine_text, planned_expectation_table
from workflow.report.show.text_table import GAP, Column, Table, make_table, number_column, prose_column, text_column
from workflow.spec.placeholder_syntax import scalar_text
from workflow.spec.suggest import shortened

LONGEST_PROGRAM = 40
_WITHOUT = "the others go on without it"
PLAN_STAGE_COLUMNS: list[Column[StagePlan]] = [
    text_column("stage", lambda stage: stage.name),
    text_column("kind", lambda stage: f"{stage.kind} ({stage.added})" if stage.added else stage.kind, gives_way=2),
    prose_column("program", lambda stage: program_text(stage)),
    number_column("ranks", lambda stage: str(stage.ranks)),
    text_column("nodes", lambda stage: ranges_text(stage.placement.nodes), gives_way=1),
    text_column("cores", lambda stage: cores_text(stage.placement.cores), gives_way=4),
    text_column("starts", lambda stage: start_text(stage), gives_way=3),
]


def plan_stream_columns(plan: Plan) -> list[Column[StreamPlan]]:
    """The columns of the streams of this plan: of the file of a spool, what it keeps is said by the other stream."""
    spooled = {each.spool: each for each in plan.streams if each.spool}
    return [
        text_column("stream", lambda stream: stream.name),
        text_column("from, to", lambda stream: f"{stream.writer} → {', '.join(stream.readers)}"),
        text_column("engine", lambda stream: engine_text(stream)),
        text_column("coupling", lambda stream: stream.coupling, gives_way=3),
        prose_column("queue", lambda stream: queue_text(stream, spooled.get(stream.name)), gives_way=4),
        text_column("path", lambda stream: path_text(stream), gives_way=2),
    ]


class PlanParameterRow(NamedTuple):
    """A parameter of the pipeline, with the value that is filled in."""

    name: str
    plan: ParameterPlan


PLAN_PARAMETER_COLUMNS: list[Column[PlanParameterRow]] = [
    text_column("parameter", lambda row: row.name),
    text_column("value", lambda row: parameter_text(row.plan)),
    prose_column("meaning", lambda row: row.plan.text, gives_way=1),
]


class EndRow(NamedTuple):
    """One end of a stream, and the stages that have it with the same parameters."""

    stages: tuple[str, ...]
    end: EndPlan


END_COLUMNS: list[Column[EndRow]] = [
    text_column("stream", lambda row: row.end.stream),
    prose_column("end", lambda row: f"{', '.join(row.stages)} {row.end.side}{'s' if len(row.stages) == 1 else ''}"),
    prose_column("engine parameters", lambda row: parameters_text(row.end)),
]


class TransportRow(NamedTuple):
    """How the data of these streams move, and why."""

    streams: tuple[str, ...]
    transport: str
    reason: str


TRANSPORT_COLUMNS: list[Column[TransportRow]] = [
    prose_column("stream", lambda row: ", ".join(row.streams)),
    text_column("transport", lambda row: row.transport),
    prose_column("because", lambda row: row.reason),
]


class AddedRow(NamedTuple):
    """A stage that wf added, and why."""

    stage: str
    reason: str


ADDED_COLUMNS: list[Column[AddedRow]] = [
    text_column("added", lambda row: row.stage),
    prose_column("because", lambda row: row.reason),
]


class FailureRow(NamedTuple):
    """A stage, what follows when it fails, and what is lost then."""

    stage: str
    follows: str
    lost: str


FAILURE_COLUMNS: list[Column[FailureRow]] = [
    text_column("when it fails", lambda row: row.stage),
    prose_column("then", lambda row: row.follows),
    prose_column("lost", lambda row: row.lost),
]


class ResumeRow(NamedTuple):
    """A stage, and where it begins when a run that was cut short goes on."""

    stage: str
    begins: str
    reason: str


RESUME_COLUMNS: list[Column[ResumeRow]] = [
    text_column("when resumed", lambda row: row.stage),
    text_column("begins", lambda row: row.begins),
    prose_column("because it", lambda row: row.reason),
]


class SettingOfStages(NamedTuple):
    """An environment variable that wf sets, and why."""

    stages: list[str]
    setting: str
    reason: str


class NodesRow(NamedTuple):
    """Nodes from `first` up to, not including, `end` that run the same stages."""

    first: int
    end: int
    stages: list[StagePlan]


NODES_COLUMNS: list[Column[NodesRow]] = [
    text_column("nodes", lambda row: ranges_text([(row.first, row.end)])),
    prose_column("cores", lambda row: "; ".join(f"{s.name}: {cores_text(s.placement.cores)}" for s in row.stages)),
]


def verdict_text(plan: Plan, missing: Sequence[Problem]) -> str:
    """`shock fits: 2 of 2 cores; streams by SST tcp; nothing missing`.

    Args:
        missing: what this machine lacks for the stages, and notes on what cannot be known here.
    """
    engines = list(dict.fromkeys(_engine_in_words(stream) for stream in plan.streams))
    streams = f"streams by {' and '.join(engines)}" if engines else "no streams"
    lacks = sum(problem.level != "note" for problem in missing)
    if any(problem.level == "error" for problem in missing):
        return f"{plan.pipeline} cannot start here: {plural(lacks, 'thing')} missing; {_used_cores(plan)}; {streams}"
    state = f"{plural(lacks, 'thing')} may be missing" if lacks else "nothing missing"
    state = "programs not checked here" if missing and not lacks else state
    return f"{plan.pipeline} fits: {_used_cores(plan)}; {streams}; {state}"


def _engine_in_words(stream: StreamPlan) -> str:
    return engine_text(stream) + (" (shared memory)" if stream.traits.one_node else "")


def _used_cores(plan: Plan) -> str:
    """`2 of 2 cores`; of several nodes those of the node on which most are used."""
    usable = len(plan.node.usable)
    used = max(len(_cores_of(group)) for group in node_groups(plan))
    if any(stage.placement.cores_per_rank and not stage.placement.cores for stage in plan.stages):
        cores = f"{plural(usable, 'core')} shared by more ranks"
    else:
        cores = f"{used} of {plural(usable, 'core')}"
    return f"{plural(plan.nodes, 'node')}, at most {cores} on each" if plan.nodes > 1 else cores


def _cores_of(group: NodeGroup) -> set[int]:
    return {core for stage in group.stages for rank in stage.cores for core in rank}


def plan_tables(plan: Plan, whole: bool) -> list[Table]:
    """The tables of `wf plan`, in order; one without rows is not shown. `whole`: those of `--wide`, too.

    A node map replaces the table of the cores.
    """
    tables = [plan_parameter_table(plan)] if whole else []
    shown = plan
    if not whole and any(stage.member for stage in plan.stages):
        from workflow.report.show.folded_members import fold_plan  # few plans pay for it

        shown = fold_plan(plan)
    tables += [plan_stage_table(shown), added_table(plan), plan_stream_table(shown), failure_table(shown)]
    tables.append(resume_table(shown, whole))
    if whole:
        tables += [end_table(plan), transport_table(plan)]
    tables.append(planned_expectation_table(plan))
    if whole and not has_node_map(plan):
        tables.append(nodes_table(plan))
    if any(stage.member for stage in plan.stages):
        from workflow.report.show.member_values import planned_members  # few plans pay for it

        tables += planned_members(plan)
    return tables


def plan_parameter_table(plan: Plan) -> Table:
    """The values that are filled in for `${{ params.NAME }}`."""
    rows = [PlanParameterRow(name, each) for name, each in plan.params.items()]
    return make_table(PLAN_PARAMETER_COLUMNS, rows)


def parameter_text(parameter: ParameterPlan) -> str:
    """`0.001 m`: a value with its unit."""
    return f"{scalar_text(parameter.value)} {parameter.unit}".rstrip()


def parameters_line(params: Mapping[str, ParameterPlan]) -> str:
    """`n = 32, tolerance = 0.001 m`: all of a pipeline in a line; empty without any."""
    return ", ".join(f"{name} = {parameter_text(each)}" for name, each in params.items())


def plan_stage_table(plan: Plan) -> Table:
    """What will be started, where and when."""
    return make_table(PLAN_STAGE_COLUMNS, plan.stages)


def added_table(plan: Plan) -> Table:
    """The stages that are not written in the pipeline file, and why they are there."""
    added = [stage.name for stage in plan.stages if stage.added]
    return make_table(ADDED_COLUMNS, [AddedRow(name, plan.reasons.get(f"stages.{name}", "")) for name in added])


def failure_table(plan: Plan) -> Table:
    """What a run survives; no rows for a pipeline that stops at every failure."""
    rules = any(stage.restart or (stage.optional and not stage.added) for stage in plan.stages)
    rows = [_failure_row(stage, plan) for stage in plan.stages]
    spare = plan.nodes - plan.nodes_of_stages
    if spare > 0 and any(stage.restart for stage in plan.stages):
        then = "its stages are started again on a spare node, if each of them may be"
        rows.append(FailureRow("a node", then, f"as above; up to {plural(spare, 'time')}"))
    return make_table(FAILURE_COLUMNS, rows if rules else [])


def _failure_row(stage: StagePlan, plan: Plan) -> FailureRow:
    if stage.restart is None:
        if not stage.optional:
            return FailureRow(stage.name, "the run stops", "what follows")
        what = "restarts of its readers" if stage.added == "spool" else "its own results"
        return FailureRow(stage.name, _WITHOUT, what)
    others = [name for name in stage.restart.stages if name != stage.name]
    together = f", with {', '.join(others)}" if others else ""
    begins = [f"; {name} begins {START_OF_SOURCES[how]}" for name, how in stage.restart.sources.items()]
    follows = f"it is started again{together}, up to {plural(stage.restart.times, 'time')}{''.join(begins)}"
    follows += f"; then {_WITHOUT}" if stage.restart.then == "ignore" else ""
    lost = "a step at which it fails twice" if stage.restart.same_step == "skip" else "nothing"
    if stage.restart.from_start:
        also = f", also by {' and '.join(stage.restart.sources)}" if stage.restart.sources else ""
        return FailureRow(stage.name, follows, f"{lost}: all steps are computed again{also}")
    read = [plan.stream(end.stream) for end in stage.ends if end.side == "read"]
    spools = [f"{stream.spool}: {spool_text(stream)}" for stream in read if stream.spool]
    kept = f" (steps from {'; '.join(spools)})" if spools else ""
    if sources := stage.restart.sources:
        time = f"time: what {' and '.join(sources)} had done since then is computed again"
        lost = time if lost == "nothing" else f"{lost}, and {time}"
        return FailureRow(stage.name, follows + kept, lost)
    return FailureRow(stage.name, follows + kept, f"{lost}: it goes on at the step where it was")


def resume_table(plan: Plan, whole: bool) -> Table:
    """Where the stages of a run begin that goes on; without `whole` only of a pipeline that is made for that."""
    meant = plan.most_parts > 1 or any(stage.checkpoint for stage in plan.stages)
    return make_table(RESUME_COLUMNS, [_resume_row(stage, plan) for stage in plan.stages] if whole or meant else [])


def _resume_row(stage: StagePlan, plan: Plan) -> ResumeRow:
    first, reads = "at its first step", any(end.side == "read" for end in stage.ends)
    if why := why_anew(stage, plan):
        return ResumeRow(stage.name, first, why)
    if (checkpoint := stage.checkpoint) is not None:
        files = checkpoint.files.rpartition("/")[2]
        often = f"every {duration(checkpoint.every_s)}"
        asked = f", at SIG{checkpoint.signal} {often}" if checkpoint.signal else ""
        how = f"writes checkpoints, {files}{asked}" if files else f"saves its state {often}"
        return ResumeRow(stage.name, "at the newest that fits", how)
    if not reads:
        return ResumeRow(stage.name, first, "saves nothing; steps that its readers have are not sent again")
    if stage.observed != "metrics":
        return ResumeRow(stage.name, first, "does not use workflow.stage: nobody knows where it was")
    return ResumeRow(stage.name, "where it was", "reads steps; what is whole in its output counts")


def plan_stream_table(plan: Plan) -> Table:
    """How the stages will be connected; the variables where units of some are known."""
    units = {each.name: units_text(plan, each.name) for each in plan.streams}
    own: Column[StreamPlan] = prose_column("units", lambda stream: units[stream.name] or NOTHING, gives_way=1)
    return make_table([*plan_stream_columns(plan), *([own] if any(units.values()) else [])], plan.streams)


def units_text(plan: Plan, stream: str) -> str:
    """`position Å, velocity Å/ps`, as far as pipeline and components state them."""
    ends = [end for stage in plan.stages for end in stage.ends if end.stream == stream]
    units = {name: unit for end in ends for name, unit in end.units.items()}
    return ", ".join(f"{name} {unit}" for name, unit in units.items())


def end_table(plan: Plan) -> Table:
    """The engine parameters at each end of each stream."""
    same: dict[tuple[str, str, str], EndRow] = {}
    ends = [(stage.name, end) for stage in plan.stages for end in stage.ends]
    for stream in plan.streams:
        for stage, end in ends:
            if end.stream == stream.name:
                key = (stream.name, end.side, parameters_text(end))
                before = same[key].stages if key in same else ()
                same[key] = EndRow((*before, stage), end)
    return make_table(END_COLUMNS, same.values())


def transport_rows(plan: Plan) -> list[TransportRow]:
    """How the data of each stream move, where there was a choice; those of the members of an ensemble together."""
    from workflow.report.show.folded_members import Folding

    folded = Folding.of_plan(plan).streams
    same: dict[tuple[str, str], dict[str, None]] = {}
    for each in plan.streams:
        if reason := plan.reasons.get(f"streams.{each.name}.transport", ""):
            same.setdefault((each.transport_word or NOTHING, reason), {})[folded.get(each.name, each.name)] = None
    return [TransportRow(tuple(names), *key) for key, names in same.items()]


def transport_table(plan: Plan) -> Table:
    """The same as a table."""
    return make_table(TRANSPORT_COLUMNS, transport_rows(plan))


def environment_settings(plan: Plan) -> list[SettingOfStages]:
    """The environment variables of the stages that were set for a reason of their own."""
    stages: dict[tuple[str, str], list[str]] = {}
    for stage in plan.stages:
        for name, value in stage.env.items():
            reason = plan.reasons.get(f"stages.{stage.name}.env.{name}")
            if reason and name not in (LOG_LEVEL, "OMP_NUM_THREADS"):
                stages.setdefault((f"{name}={value}", reason), []).append(stage.name)
    return [SettingOfStages(names, *key) for key, names in stages.items()]


def setting_lines(each: SettingOfStages, width: int | None) -> list[str]:
    """`sim, pdf: NAME=VALUE`; too long for this width, a line for each part of the value, which `:` separates."""
    whole = f"{', '.join(each.stages)}: {each.setting}"
    name, _, value = each.setting.partition("=")
    if width is None or len(whole) + GAP <= width or ":" not in value:
        return [whole]
    parts = value.split(":")
    return [f"{', '.join(each.stages)}: {name}=", *(f"    {part}:" for part in parts[:-1]), f"    {parts[-1]}"]


def nodes_table(plan: Plan) -> Table:
    """Which stages run on which cores of which nodes; nodes with the same stages share a row."""
    edges = sorted({edge for stage in plan.stages for span in stage.placement.nodes for edge in span})
    rows = [
        NodesRow(first, end, [stage for stage in plan.stages if stage.placement.has_node(first)])
        for first, end in pairwise(edges)
    ]
    return make_table(NODES_COLUMNS, [row for row in rows if row.stages])


def program_text(stage: StagePlan) -> str:
    """The component, or the first words of the command without their folders; the launch lines have all of it."""
    return stage.component or brief_command(stage.program)


def brief_command(words: Sequence[str]) -> str:
    """The first words of a command without their folders."""
    names = (Path(word).name if word.startswith("/") else word for word in words)
    return shortened(command_text(names), LONGEST_PROGRAM)


def start_text(stage: StagePlan) -> str:
    """`at once`, or `after sim`."""
    return f"after {', '.join(stage.starts_after)}" if stage.starts_after else "at once"


def launch_lines(plan: Plan) -> list[tuple[str, list[str]]]:
    """(stage, what is executed) of each.

    A line that names hosts has `node[0]` in place of the first host of the allocation.
    """
    # Only `--wide` shows them.
    from workflow.launch.launchers import launch_line
    from workflow.plan.launch_requests import GrantedNodes, node_names, stage_request

    received = GrantedNodes(node_names(plan))
    return [(stage.name, launch_line(stage_request(stage, plan, received=received)).argv) for stage in plan.stages]


def queue_text(stream: StreamPlan, spooled: StreamPlan | None) -> str:
    """`2, block when full, up to 4.80 MB`. `spooled`: the stream whose spool this one is."""
    held = "all steps on disk" if spooled is None else spool_text(spooled)
    parts = [f"{stream.queue.limit}, {stream.queue.when_full} when full" if stream.queue else held]
    parts += [f"up to {size(stream.queue_memory)}"] if stream.queue_memory else []
    each = " each step" if is_numbered(stream.path) else ""
    parts += [f"{plural(stream.subfiles, 'data file')}{each}"] if stream.subfiles else []
    return ", ".join(parts)


def path_text(stream: StreamPlan) -> str:
    """`streams/atoms.bp (removed after the run)`, inside the run directory."""
    return stream.path.removeprefix(f"{RUN_DIR}/") + ("" if stream.keep else " (removed after the run)")


def parameters_text(end: EndPlan) -> str:
    """`QueueLimit=2, RendezvousReaderCount=1; density: zfp accuracy=0.001`."""
    settings = [", ".join(f"{key}={value}" for key, value in sorted(end.parameters.items()))]
    settings += [f"{name}: {operator_text(each)}" for name, each in end.operators.items()]
    return "; ".join(each for each in settings if each) or NOTHING


def operator_text(operator: OperatorPlan) -> str:
    """`zfp accuracy=0.001`."""
    return " ".join([operator.type, *(f"{key}={value}" for key, value in operator.parameters.items())])


def ranges_text(spans: Sequence[tuple[int, int]]) -> str:
    """Half-open ranges as people write them: `0`, `0-3, 8`."""
    return ", ".join(str(low) if high - low == 1 else f"{low}-{high - 1}" for low, high in spans) or NOTHING


def cores_text(cores: Sequence[int]) -> str:
    """`0-3`, or `not bound`."""
    spans: list[tuple[int, int]] = []
    for core in sorted(cores):
        if spans and spans[-1][1] == core:
            spans[-1] = (spans[-1][0], core + 1)
        else:
            spans.append((core, core + 1))
    return ranges_text(spans) if spans else "not bound"
