"""Estimates for a stream before it runs: bytes of a step, memory of the queue, number of data files. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workflow.formatting import plural
from workflow.plan.plan_model import EndPlan, Placement
from workflow.plan.plan_notes import Notes
from workflow.plan.streams.aggregation import count_subfiles
from workflow.plan.streams.queue import QueueMemory, check_memory, queue_memory, step_size
from workflow.plan.streams.transports import BUILD
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream
from workflow.plan.topology.variable_contracts import Contract
from workflow.site.site_model import Site

SERIAL = "this ADIOS2 is built without MPI"


class StreamEstimates(NamedTuple):
    """None is what is not known, or does not exist for that engine."""

    step_size: int | None = None
    queue_memory: int | None = None
    subfiles: int | None = None
    no_effect: Sequence[str] = ()


def estimate_streams(
    joined: Mapping[str, JoinedStream],
    contracts: Mapping[str, Contract | None],
    ends: Mapping[str, Sequence[EndPlan]],
    stages: Mapping[str, DeclaredStage],
    placements: Mapping[str, Placement],
    site: Site,
    notes: Notes,
) -> dict[str, StreamEstimates]:
    """By stream. `ends` are those of each stage. Notes queues that do not fit into the memory of their nodes."""
    queues: dict[str, QueueMemory] = {}
    found: dict[str, StreamEstimates] = {}
    for name, stream in joined.items():
        if stream.writer is None:
            found[name] = StreamEstimates()
            continue
        writer, placement = stages[stream.writer.stage], placements[stream.writer.stage]
        size = step_size(stream, contracts[name], stages)
        queue = queue_memory(stream, size, writer.spec.ranks, placement)
        if queue is not None:
            queues[name] = queue
        end = next(each for each in ends[writer.name] if each.stream == name and each.side == "write")
        # An estimate of part of a step could not be compared with a measurement.
        whole = size if size is not None and size.whole else None
        memory = queue.bytes if queue is not None and whole is not None else None
        subfiles = _subfiles(writer, end, placement, site, notes)
        idle = _without_effect(end) if subfiles is not None and _gathered(writer, end, site) else []
        found[name] = StreamEstimates(whole and whole.bytes, memory, subfiles, idle)
    check_memory(queues, site, notes)
    return found


def _subfiles(stage: DeclaredStage, end: EndPlan, placement: Placement, site: Site, notes: Notes) -> int | None:
    gathered = _gathered(stage, end, site)
    ranks = 1 if gathered else stage.spec.ranks
    count = count_subfiles(end.engine, end.parameters, ranks, min(ranks, placement.ranks_per_node))
    key = f"streams.{end.stream}.subfiles"
    if gathered:
        notes.why(
            f"streams.{end.stream}.blocks",
            f"all blocks are rank 0's, which writes for all {stage.spec.ranks}: {SERIAL}",
        )
    if count is not None and gathered:
        _advise_serial(end, notes)
        notes.why(key, f"rank 0 writes for all {stage.spec.ranks}: {SERIAL}")
    elif count is not None:
        notes.why(key, f"written by {plural(ranks, 'rank')} with these engine parameters")
        _advise_stripes(end.stream, count, stage, site, notes)
    return count


def _gathered(stage: DeclaredStage, end: EndPlan, site: Site) -> bool:
    """Whether workflow.stage gathers the data of all ranks on rank 0, since only that one can open the stream."""
    opens_by_adios2 = end.traits.library == "adios2" and stage.spec.uses_stage
    return opens_by_adios2 and stage.spec.ranks > 1 and site.parallel_adios2 is False


def _without_effect(end: EndPlan) -> list[str]:
    """Engine parameters that change nothing where one rank writes for all."""
    return [name for name in ("NumAggregators", "NumSubFiles", "AggregationType") if name in end.parameters]


def _advise_serial(end: EndPlan, notes: Notes) -> None:
    if _without_effect(end):
        notes.advise(
            f"stream {end.stream}: ADIOS2 without MPI: rank 0 writes for all; aggregation has no effect; "
            f"{BUILD.format('MPI')}"
        )


def _advise_stripes(stream: str, count: int, stage: DeclaredStage, site: Site, notes: Notes) -> None:
    """A striped file and many files at once are two ways to the same bandwidth: one of them is enough."""
    policy = stage.spec.output.aggregation
    if policy is not None and policy.auto and site.nodes > 1:
        notes.advise(
            f"stream {stream}: on a striped file system (Lustre) give each of its {plural(count, 'data file')} one "
            "stripe (`lfs setstripe -c 1 DIRECTORY`) when they are as many as its targets, else targets ÷ files"
        )
