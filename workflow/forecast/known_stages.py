"""What is known of a plan's stages and streams before it runs: computing times, sizes and numbers of steps, and which
stages take turns on the same cores. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from workflow.forecast.calibration_model import Calibration, StageRecord
from workflow.forecast.quartiles import NOTHING, Quartiles, between
from workflow.formats.sides import Side
from workflow.formatting import plural, size
from workflow.plan.plan_model import Plan, StagePlan, StreamPlan

# Sizes of steps that differ by less are the same.
SAME_SIZE = 0.01
# By convention of the components: they say how long a stage goes on, and nothing of what a step takes.
LENGTHS = ("steps", "run_steps")


@dataclass(frozen=True)
class StreamSize:
    """Bytes of a step of a stream."""

    bytes: float
    source: str


@dataclass(frozen=True)
class ComputeTime:
    """What a stage computes for a step. `cpu_s` is of all ranks, None where it is not known."""

    seconds: Quartiles
    cpu_s: float | None
    source: str


def records_of(stage: StagePlan, calibration: Calibration) -> list[StageRecord]:
    """What is known of former runs of such a stage, the newest first."""
    identity = stage_identity(stage)
    return [record for record in calibration.stages if is_record_of(record, identity)]


def stream_sizes(plan: Plan, records: Mapping[str, Sequence[StageRecord]]) -> dict[str, StreamSize]:
    """The streams whose steps have a known size: as the plan states it, or as a former run of an end had it.

    A stage that passes steps on writes what it reads; only where the size of that is not known, what it once wrote.
    """
    sizes: dict[str, StreamSize] = {}
    passed_on = [stream for stream in plan.streams if plan.stage(stream.writer).passes_on]
    for stream in plan.streams:
        if stream.step_size is not None:
            sizes[stream.name] = StreamSize(stream.step_size, "the plan")
        elif not plan.stage(stream.writer).passes_on:
            _take_recorded(sizes, stream, plan, records)
    _pass_on(sizes, passed_on, plan)
    for stream in passed_on:
        if stream.name not in sizes:
            _take_recorded(sizes, stream, plan, records)
    _pass_on(sizes, passed_on, plan)
    return sizes


def _take_recorded(
    sizes: dict[str, StreamSize], stream: StreamPlan, plan: Plan, records: Mapping[str, Sequence[StageRecord]]
) -> None:
    """The size that the newest former run of the writer has of it, if any."""
    port = plan.stage(stream.writer).end(stream.name, "write").port
    for record in records[stream.writer]:
        found = next((each for each in record.ports if (each.port, each.side) == (port, "write")), None)
        if found is not None and found.bytes_per_step:
            sizes[stream.name] = StreamSize(found.bytes_per_step, f"run {record.run}")
            return


def _pass_on(sizes: dict[str, StreamSize], passed_on: Sequence[StreamPlan], plan: Plan) -> None:
    """The sizes of what such stages write, from what they read; one may follow another."""
    read = {reader: stream.name for stream in plan.streams for reader in stream.readers}
    waiting = [stream for stream in passed_on if stream.name not in sizes]
    while known := [stream for stream in waiting if read.get(stream.writer) in sizes]:
        sizes.update({stream.name: sizes[read[stream.writer]] for stream in known})
        waiting = [stream for stream in waiting if stream.name not in sizes]


def step_ratios(plan: Plan, records: Mapping[str, Sequence[StageRecord]]) -> tuple[dict[str, float], dict[str, float]]:
    """(steps of each stage, steps of each stream) for one step of the sources of the pipeline.

    A stage makes a step for each step of its fastest input; its outputs have as many as in a former run. Of streams in
    a circle the one that leads back into it does not count: its steps follow from those of the others.
    """
    of_stage: dict[str, float] = {}
    of_stream: dict[str, float] = {}
    reads: dict[str, list[str]] = {stage.name: [] for stage in plan.stages}
    writes: dict[str, list[str]] = {stage.name: [] for stage in plan.stages}
    for stream in plan.streams:
        writes[stream.writer].append(stream.name)
        for reader in stream.readers:
            reads[reader].append(stream.name)
    for name in _along_the_streams(plan):
        of_stage[name] = max((of_stream[each] for each in reads[name] if each in of_stream), default=1.0)
        for each in writes[name]:
            of_stream[each] = of_stage[name] * _share(plan, each, records[name])
    return of_stage, of_stream


def _along_the_streams(plan: Plan) -> list[str]:
    """The stages, each behind the writers of its inputs; in a circle, but for the stream that leads back into it.

    The reverse of the order in which a depth-first search leaves them. No recursion: chains may be long.
    """
    readers: dict[str, list[str]] = {stage.name: [] for stage in plan.stages}
    for stream in plan.streams:
        readers[stream.writer] += stream.readers
    behind_others = {name for names in readers.values() for name in names}
    left: list[str] = []
    seen: set[str] = set()
    for root in sorted(readers, key=lambda name: name in behind_others):  # a circle is entered from outside
        path = {} if root in seen else {root: iter(readers[root])}  # each with the readers not followed yet
        seen.add(root)
        while path:
            name = next(reversed(path))
            following = next(path[name], None)
            if following is None:
                path.popitem()
                left.append(name)
            elif following not in seen:
                seen.add(following)
                path[following] = iter(readers[following])
    return left[::-1]


def _share(plan: Plan, stream: str, records: Sequence[StageRecord]) -> float:
    if not records or not records[0].steps:
        return 1.0
    port = plan.stage(plan.stream(stream).writer).end(stream, "write").port
    found = next((each for each in records[0].ports if (each.port, each.side) == (port, "write")), None)
    return found.steps / records[0].steps if found is not None and found.steps else 1.0


def read_share(stage: StagePlan, stream: str, records: Sequence[StageRecord]) -> float:
    """How much of a step of a stream a stage reads, by a former run; all of it where none is known."""
    port = next((end.port for end in stage.ends if (end.stream, end.side) == (stream, "read")), "")
    known = (each.share for record in records for each in record.ports if (each.port, each.side) == (port, "read"))
    return next(known, 1.0)


def compute_time(
    stage: StagePlan, records: Sequence[StageRecord], sizes: Mapping[str, StreamSize]
) -> ComputeTime | None:
    """What the stage computes for a step of its inputs; None where no such stage has run.

    Between former runs that read steps of other sizes it is interpolated; otherwise it is taken as proportional to
    what the stage reads.
    """
    if not records:
        return ComputeTime(NOTHING, 0.0, "it passes steps on") if stage.passes_on else None
    wanted = _read(stage, records, sizes)
    newest = records[0]
    own = _recorded(newest, "read")
    if wanted is None or not own or abs(wanted - own) <= SAME_SIZE * own:
        return ComputeTime(newest.compute_s, newest.cpu_s, _source(newest))
    by_size = sorted({round(_recorded(each, "read")): each for each in reversed(records)}.items())
    above = next((index for index, (read, _) in enumerate(by_size) if read >= wanted), len(by_size))
    if 0 < above < len(by_size):
        (less, low), (more, high) = by_size[above - 1], by_size[above]
        share = (wanted - less) / (more - less)
        cpu_s = None if low.cpu_s is None or high.cpu_s is None else low.cpu_s * (1 - share) + high.cpu_s * share
        source = f"runs {low.run} and {high.run}, interpolated to steps of {size(wanted)}"
        return ComputeTime(between(low.compute_s, high.compute_s, share), cpu_s, source)
    read, nearest = by_size[min(above, len(by_size) - 1)]
    factor = wanted / read if read else 1.0
    source = f"{_source(nearest)}, in proportion to what it reads: {size(wanted)} for {size(read)}"
    return ComputeTime(nearest.compute_s * factor, None if nearest.cpu_s is None else nearest.cpu_s * factor, source)


def _read(stage: StagePlan, records: Sequence[StageRecord], sizes: Mapping[str, StreamSize]) -> float | None:
    """Bytes that a stage reads per step; None where a size is not known."""
    streams = [end.stream for end in stage.ends if end.side == "read"]
    if any(stream not in sizes for stream in streams):
        return None
    return sum(sizes[stream].bytes * read_share(stage, stream, records) for stream in streams)


def _recorded(record: StageRecord, side: Side) -> float:
    return sum(port.bytes_per_step for port in record.ports if port.side == side)


def _source(record: StageRecord) -> str:
    return f"{plural(record.steps, 'step')} of run {record.run}"


class StageIdentity(NamedTuple):
    """A program with what it is given."""

    program: str
    parameters: dict[str, Any]
    ranks: int


def stage_identity(stage: StagePlan) -> StageIdentity:
    """What a stage is, apart from its streams, its name and its place."""
    if stage.component is None:
        return StageIdentity(shlex.join(stage.program), {}, stage.ranks)
    kept = {name: value for name, value in stage.parameters.items() if name not in LENGTHS}
    return StageIdentity(stage.component, kept, stage.ranks)


def is_record_of(record: StageRecord, identity: StageIdentity) -> bool:
    """Whether a record is of such a stage."""
    return (record.program, record.parameters, record.ranks) == identity


def has_several_ranks(stage: StagePlan) -> bool:
    """Whether a stage has several ranks on a node, which exchange data in each step by MPI.

    What another program takes from one of them delays all. While they wait for a step, one waits for the data, and the
    others for that one: they poll, and so are ready to run all the time.
    """
    return stage.placement.ranks_per_node > 1


def competitors(stage: StagePlan, others: Iterable[str], plan: Plan) -> list[StagePlan]:
    """Those of the other stages that find too few free cores beside the ranks of a stage, and so run on its cores."""
    return [
        other
        for name in others
        if name != stage.name
        and share_a_node(stage, other := plan.stage(name))
        and other.placement.ranks_per_node > _free_cores(stage, other, plan)
    ]


def share_of_a_core(busy: Sequence[float]) -> float:
    """What a process gets of its core on average, beside others that are busy so much of the time (0 to 1 each).

    Those that are ready at the same time have equal parts, as Linux gives them; they become ready independently of
    each other.
    """
    ready = [1.0]  # probability that so many others are ready
    for each in busy:
        now = [*ready, 0.0]
        ready = [now[count] * (1 - each) + (now[count - 1] * each if count else 0.0) for count in range(len(now))]
    return sum(probability / (1 + count) for count, probability in enumerate(ready))


def _free_cores(stage: StagePlan, other: StagePlan, plan: Plan) -> int:
    """Cores that `other` may use, and that the ranks of `stage` leave free."""
    taken, allowed = _usable_cores(stage, plan), _usable_cores(other, plan)
    # Ranks that are not bound leave those that others are bound to.
    left = 0 if stage.placement.cores else max(0, len(taken) - stage.placement.ranks_per_node)
    return min(len(allowed), len(allowed - taken) + left)


def _usable_cores(stage: StagePlan, plan: Plan) -> set[int]:
    """The cores of a node that a stage is bound to, or may use."""
    return set(stage.placement.cores) or set(plan.node.usable)


def share_a_node(one: StagePlan, other: StagePlan) -> bool:
    """Whether both have ranks on some node."""
    return any(
        low < other_high and other_low < high
        for low, high in one.placement.nodes
        for other_low, other_high in other.placement.nodes
    )
