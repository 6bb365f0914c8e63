"""What is known of a stream's amounts before it runs: bytes of a step, memory of the queue, data files. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workflow.plan.making import Making, counted
from workflow.plan.plan_model import EndPlan, StagePlan
from workflow.plan.streams.aggregation import count_subfiles
from workflow.plan.streams.queue_memory import Held, check_memory, check_ssc_step, held, step_size
from workflow.plan.streams.transports import BUILD
from workflow.plan.topology.port_matching import Joined
from workflow.plan.topology.variable_contracts import Contract

SERIAL = "this ADIOS2 is built without MPI"


class Amounts(NamedTuple):
    """None is what is not known, or does not exist for that engine."""

    step_size: int | None = None
    queue_memory: int | None = None
    subfiles: int | None = None


def stream_amounts(
    joined: Mapping[str, Joined], contracts: Mapping[str, Contract | None], stages: Sequence[StagePlan], making: Making
) -> dict[str, Amounts]:
    """By stream. Notes queues that do not fit into the memory of their nodes."""
    by_name = {stage.name: stage for stage in stages}
    queues: dict[str, Held] = {}
    found: dict[str, Amounts] = {}
    for name, stream in joined.items():
        writer = by_name.get(stream.writer.stage) if stream.writer else None
        if writer is None:
            found[name] = Amounts()
            continue
        size = step_size(stream, contracts[name], making)
        queue = held(stream, size, writer.placement, making)
        if queue is not None:
            queues[name] = queue
            check_ssc_step(queue, writer.ranks, making)
        end = next(each for each in writer.ends if each.stream == name and each.side == "write")
        # Of part of a step nothing can be said that a measurement could be compared with.
        whole = size if size is not None and size.whole else None
        memory = queue.bytes if queue is not None and whole is not None else None
        found[name] = Amounts(whole and whole.bytes, memory, _subfiles(writer, end, making))
    check_memory(queues, making)
    return found


def _subfiles(stage: StagePlan, end: EndPlan, making: Making) -> int | None:
    gathered = _gathered(stage, end, making)
    ranks = 1 if gathered else stage.ranks
    count = count_subfiles(end.engine, end.parameters, ranks, min(ranks, stage.placement.ranks_per_node))
    key = f"streams.{end.stream}.subfiles"
    if gathered:
        making.notes.why(
            f"streams.{end.stream}.blocks",
            f"all blocks are rank 0's, which writes for all {stage.ranks}: {SERIAL}",
        )
    if count is not None and gathered:
        _advise_serial(end, making)
        making.notes.why(key, f"rank 0 writes for all {stage.ranks}: {SERIAL}")
    elif count is not None:
        making.notes.why(key, f"written by {counted(ranks, 'rank')} with these engine parameters")
        _advise_stripes(end.stream, count, stage, making)
    return count


def _gathered(stage: StagePlan, end: EndPlan, making: Making) -> bool:
    """Whether workflow.stage gathers the data of all ranks on rank 0, since only that one can open the stream."""
    by_adios2 = end.engine in ("SST", "BP5", "BP4")
    return by_adios2 and stage.ranks > 1 and stage.observed == "metrics" and making.site.parallel_adios2 is False


def _advise_serial(end: EndPlan, making: Making) -> None:
    if any(key in end.parameters for key in ("NumAggregators", "NumSubFiles", "AggregationType")):
        making.notes.advise(
            f"stream {end.stream}: ADIOS2 without MPI: rank 0 writes for all; aggregation has no effect; "
            f"{BUILD.format('MPI')}"
        )


def _advise_stripes(stream: str, count: int, stage: StagePlan, making: Making) -> None:
    """A striped file and many files at once are two ways to the same bandwidth: one of them is enough."""
    policy = making.loaded.spec.stages[stage.name].output.aggregation
    if policy is not None and policy.auto and making.site.nodes > 1:
        making.notes.advise(
            f"stream {stream}: on a striped file system (Lustre) give each of its {counted(count, 'data file')} one "
            "stripe (`lfs setstripe -c 1 DIRECTORY`) when they are as many as its targets, else targets ÷ files"
        )
