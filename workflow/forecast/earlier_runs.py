"""What earlier runs say of a plan: which record is of which stage, and sizes and numbers of steps of streams. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from workflow.forecast.calibration_model import Calibration, EndKind, StageRecord
from workflow.plan.plan_model import EndPlan, Plan, StagePlan

# Sizes of steps that differ by less are the same.
SAME_SIZE = 0.01
# By convention of the components: they say how long a stage goes on, and nothing of what a step takes.
LENGTHS = ("steps", "run_steps")


class StageIdentity(NamedTuple):
    """A program with what it is given."""

    program: str
    parameters: dict[str, Any]
    ranks: int


class OtherSize(NamedTuple):
    """A run in which a stage read steps of so many bytes, where they have so many now."""

    run: str
    then: float
    now: float


@dataclass
class EarlierRuns:
    """What is known of a plan by the plan itself, and by earlier runs of its programs."""

    records: dict[str, StageRecord] = field(default_factory=dict)
    """Stage → its newest record with steps of the sizes that it gets now."""
    differing: dict[str, OtherSize] = field(default_factory=dict)
    """Stage → its newest run, where it read steps of other sizes only: it says nothing of this plan."""
    sizes: dict[str, float] = field(default_factory=dict)
    """Stream → bytes of a step."""
    stage_steps: dict[str, float] = field(default_factory=dict)
    """Steps of each stage for one step of the sources of the pipeline."""
    stream_steps: dict[str, float] = field(default_factory=dict)

    def share(self, stage: StagePlan, end: EndPlan) -> float:
        """How much of a step of a stream this end moves; all of it where that is not known."""
        record = self.records.get(stage.name)
        port = None if record is None else record.port(end.port, end.side)
        return 1.0 if port is None else port.share


def stage_identity(stage: StagePlan) -> StageIdentity:
    """What a stage is, apart from its streams, its name and its place."""
    if stage.component is None:
        return StageIdentity(shlex.join(stage.program), {}, stage.ranks)
    kept = {name: value for name, value in stage.parameters.items() if name not in LENGTHS}
    return StageIdentity(stage.component, kept, stage.ranks)


def identity_of(record: StageRecord) -> StageIdentity:
    """Of which stage a record is."""
    return StageIdentity(record.program, record.parameters, record.ranks)


def end_kind(stage: StagePlan, end: EndPlan, plan: Plan) -> EndKind:
    """What decides the time of moving a step at this end."""
    stream = plan.stream(end.stream)
    writing = plan.stage(stream.writer).end(stream.name, "write")
    others = stream.readers if end.side == "write" else [stream.writer]
    operators = sorted({_operator_text(each.type, each.parameters) for each in writing.operators.values()})
    return EndKind(
        engine=stream.engine,
        transport=stream.transport or "",
        side=end.side,
        ranks=stage.ranks,
        apart=stream.traits.in_memory and any(not _share_a_node(stage, plan.stage(other)) for other in others),
        subfiles=stream.subfiles if end.side == "write" else None,
        asynchronous=writing.parameters.get("AsyncWrite", "off").lower(),
        operator=" and ".join(operators),
    )


def _operator_text(name: str, parameters: dict[str, str]) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in sorted(parameters.items()))])


def _share_a_node(one: StagePlan, other: StagePlan) -> bool:
    return any(
        low < other_high and other_low < high
        for low, high in one.placement.nodes
        for other_low, other_high in other.placement.nodes
    )


def same_size(one: float, other: float) -> bool:
    """Whether steps are of the same size."""
    return abs(one - other) <= SAME_SIZE * max(one, other)


def find_earlier_runs(plan: Plan, calibration: Calibration) -> EarlierRuns:
    """Stage by stage along the streams: what a stage reads decides which record is of it, and what it writes.

    A stage makes a step for each step of its fastest input, or as many as an earlier run made. A stream that closes a
    circle does not count: its size and its steps follow from those of the others.
    """
    found = EarlierRuns()
    written: dict[str, list[str]] = {stage.name: [] for stage in plan.stages}
    order: TopologicalSorter[str] = TopologicalSorter({stage.name: () for stage in plan.stages})
    for stream in plan.streams:
        written[stream.writer].append(stream.name)
        for reader in stream.readers if not stream.closes_circle else []:
            order.add(reader, stream.writer)
        if stream.step_size is not None:
            found.sizes[stream.name] = stream.step_size
    for name in order.static_order():
        stage = plan.stage(name)
        identity = stage_identity(stage)
        _take_record(found, stage, plan, (each for each in calibration.stages if identity_of(each) == identity))
        inputs = [end for end in stage.ends if end.side == "read" and end.stream in found.stream_steps]
        found.stage_steps[name] = max((_steps_for(found, stage, end) for end in inputs), default=1.0)
        for of_stage in written[name]:
            _take_stream(found, stage, of_stage, [end.stream for end in inputs])
    return found


def _take_record(found: EarlierRuns, stage: StagePlan, plan: Plan, records: Iterable[StageRecord]) -> None:
    """The newest of the records of a stage whose steps had the sizes of this plan, as far as it reads streams."""
    inputs = [end for end in stage.ends if end.side == "read" and not plan.stream(end.stream).closes_circle]
    for record in records:
        ports = [(record.port(end.port, "read"), found.sizes.get(end.stream)) for end in inputs]
        # Who reads no data of a stream, but its steps, does the same whatever their size.
        read = [(port.bytes_per_step / port.share, whole) for port, whole in ports if port and port.bytes_per_step]
        other = [(then, now) for then, now in read if now is not None and not same_size(then, now)]
        if any(now is None for _, now in read):
            continue
        if not other:
            found.records[stage.name] = record
            return
        found.differing.setdefault(stage.name, OtherSize(record.run, *other[0]))


def _steps_for(found: EarlierRuns, stage: StagePlan, end: EndPlan) -> float:
    """Steps of a stage for those that come at this end. One that writes ten for each has ten, by its record."""
    record = found.records.get(stage.name)
    port = None if record is None else record.port(end.port, "read")
    return found.stream_steps[end.stream] / (port.per_step if port is not None and port.per_step else 1.0)


def _take_stream(found: EarlierRuns, stage: StagePlan, stream: str, inputs: Sequence[str]) -> None:
    """Size and number of steps of what a stage writes. One that passes steps on writes what it reads."""
    record = found.records.get(stage.name)
    port = None if record is None else record.port(stage.end(stream, "write").port, "write")
    found.stream_steps[stream] = found.stage_steps[stage.name]
    if port is not None and port.per_step:
        found.stream_steps[stream] *= port.per_step
    if stream in found.sizes:
        return
    if stage.passes_on and inputs and inputs[0] in found.sizes:
        found.sizes[stream] = found.sizes[inputs[0]]
    elif port is not None and port.bytes_per_step:
        found.sizes[stream] = port.bytes_per_step
