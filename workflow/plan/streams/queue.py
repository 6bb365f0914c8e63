"""The queue of a stream: its bound, what happens when it is full, and the memory that it takes. Pure.

SST holds `limit` finished steps and the one that is being filled (sst/cp/cp_writer.c of ADIOS2 2.12.1). Files hold all
steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from workflow.engines import queue_settings, traits_of
from workflow.plan.plan_model import Placement
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.streams.engine_parameters import EngineSettings, ParameterError
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream
from workflow.plan.topology.variable_contracts import Contract
from workflow.site.site_model import Site
from workflow.spec.models.pipeline import Queue, TypeAndShape
from workflow.spec.origins import Origins

# More of a node's memory than this leaves too little for the programs themselves.
MUCH = 0.5
_WHEN_FULL = {
    "block": "the writer waits when the queue is full: no step is lost",
    "discard": "the newest step is dropped when the queue is full",
}


class StepSize(NamedTuple):
    """Bytes of one step of all ranks, and where that is known from. `whole`: nothing else is in a step."""

    bytes: int
    source: str
    whole: bool = True


class QueueMemory(NamedTuple):
    """What a queue may hold: in all, and on the node of its writer that holds most."""

    key: str
    """Where the size of a step is written, or else the stream."""
    stream: str
    bytes: int
    on_node: int
    nodes: list[tuple[int, int]]
    size: StepSize
    steps: int


def queue_of(stream: JoinedStream) -> Queue | None:
    """The queue of a stream; None for files, which hold all steps."""
    return stream.spec.queue if stream.engine.traits.in_memory else None


def check_queue(stream: JoinedStream, notes: Notes) -> None:
    """Notes a `queue:` that was written for an engine without a queue of its own."""
    spec = stream.spec
    if stream.engine.traits.in_memory or "queue" not in spec.model_fields_set:
        return
    holds = "a file holds all steps"
    if spec.queue.when_full == "discard":
        holds += ", and none is dropped"
    notes.not_used(f"streams.{stream.name}.queue", spec.via, holds)


def queue_parameters(stream: JoinedStream, origins: Origins) -> EngineSettings:
    """The bound of a writer's queue as engine parameters."""
    queue = stream.spec.queue
    written = "queue" in stream.spec.model_fields_set
    source = origins.of(f"streams.{stream.name}.queue.limit") if written else "default"
    return {
        "QueueLimit": (
            str(queue.limit),
            f"queue.limit {queue.limit} ({source}): the writer holds at most {queue.limit + 1} steps in memory, "
            "the queue and the one it fills",
        ),
        "QueueFullPolicy": (queue.when_full.capitalize(), f"queue.when_full: {_WHEN_FULL[queue.when_full]}"),
    }


def check_bound(engine: str, parameters: Mapping[str, str]) -> None:
    """Refuses settings of an SST writer that lose every step or hang. Raises ParameterError.

    Sources: sst/cp/cp_writer.c L2152-2163 (Discard has no test for an unlimited queue) and runs of 2.12.1.
    """
    if not traits_of(engine).in_memory:
        return
    (limit, discard), reserve = queue_settings(parameters), int(parameters.get("ReserveQueueLimit", "0"))
    if discard and limit == 0:
        raise ParameterError("QueueFullPolicy Discard with QueueLimit 0 drops every step", "give queue.limit 1 or more")
    if reserve and 0 < limit <= reserve:
        fate = "no room would be left for new steps" if discard else "the writer would wait forever"
        raise ParameterError(
            f"ReserveQueueLimit {reserve} must be smaller than queue.limit {limit}: {fate}",
            f"set queue.limit to {reserve + 1} or more",
        )
    if parameters.get("FirstTimestepPrecious") == "true" and limit == 1:
        raise ParameterError(
            "FirstTimestepPrecious keeps step 0 in the queue, so queue.limit 1 leaves no room",
            "set queue.limit to 2 or more",
        )


def step_size(joined: JoinedStream, contract: Contract | None, stages: Mapping[str, DeclaredStage]) -> StepSize | None:
    """The size of a stream's steps: as stated, by a parameter of the component, or by shapes; None: not known."""
    stated = joined.spec.step_size
    if stated is not None:
        return StepSize(int(stated), "step_size")
    if joined.writer is None:
        return None
    stage = stages[joined.writer.stage]
    if stage.component is not None:
        parameter, ranks = stage.component.writes[joined.writer.name].bytes_per_rank or "", stage.spec.ranks
        each = stage.parameters.get(parameter)
        if isinstance(each, int) and each:
            return StepSize(each * ranks, f"{parameter} of {stage.name} × {ranks} ranks")
    sizes = {name: _bytes(variable) for name, variable in (contract.writer if contract else {}).items()}
    known = sum(each for each in sizes.values() if each is not None)
    declared = joined.writer.variables or {}
    # Of those that are optional it is not known whether they are there.
    whole = bool(declared) and None not in sizes.values() and not any(each.optional for each in declared.values())
    return StepSize(known, "the shapes of its variables", whole) if known else None


def queue_memory(joined: JoinedStream, size: StepSize | None, ranks: int, placement: Placement) -> QueueMemory | None:
    """What the queue of a writer of so many ranks may hold; None where there is no queue, or the size is not known."""
    queue = queue_of(joined)
    if size is None or queue is None:
        return None
    steps = steps_held(queue)
    all_ranks = steps * size.bytes
    on_node = held_on_node(all_ranks, ranks, placement)
    key = f"streams.{joined.name}" + ("" if joined.spec.step_size is None else ".step_size")
    return QueueMemory(key, joined.name, all_ranks, on_node, list(placement.nodes), size, steps)


def steps_held(queue: Queue) -> int:
    """The queue, and the step that is being filled."""
    return queue.limit + 1


def held_on_node(size: int, ranks: int, placement: Placement) -> int:
    """What the node with most ranks of a writer holds, of so many bytes of all its ranks."""
    return size * min(ranks, placement.ranks_per_node) // ranks


def check_memory(queues: Mapping[str, QueueMemory], site: Site, notes: Notes) -> None:
    """Notes queues that a node cannot hold: each alone, and all on one node together."""
    room = site.memory_per_node
    for start in sorted({first for each in queues.values() for first, _ in each.nodes}):
        here = [each for each in queues.values() if any(first <= start < end for first, end in each.nodes)]
        total = sum(each.on_node for each in here)
        biggest = max(here, key=lambda each: each.on_node)
        if total > room:
            _refuse(biggest, here, total, site, notes.problems)
        elif total > MUCH * room:
            notes.advise(
                f"queues of {_names(here)} may take {_said(total)} of the {_said(room)} that a node of site "
                f"{site.site} has: `queue: {{limit: 1}}` takes less"
            )
    for each in (queue for queue in queues.values() if queue.size.whole):
        notes.why(f"streams.{each.stream}.queue.memory", explain_memory(each))


def explain_memory(queue: QueueMemory) -> str:
    """`3 steps × 2 GiB (step_size) = 6 GiB, 3 GiB on a node: the queue and the step that is being filled`."""
    least = "" if queue.size.whole else "at least "
    on_node = f", {_said(queue.on_node)} on a node" if queue.on_node != queue.bytes else ""
    product = f"{queue.steps} steps × {_said(queue.size.bytes)} ({queue.size.source}) = {_said(queue.bytes)}"
    return f"{least}{product}{on_node}: the queue and the step that is being filled"


def _refuse(biggest: QueueMemory, here: list[QueueMemory], total: int, site: Site, problems: Problems) -> None:
    room = site.memory_per_node
    others = total - biggest.on_node
    each = math.ceil(biggest.on_node / biggest.steps)
    fits = (room - others) // each - 1
    ways = [f"`queue: {{limit: {fits}}}`"] if fits >= 1 else []
    ways += ["more nodes for its writer (`place: {nodes: N}`)"] if site.nodes > 1 else []
    ways += ["smaller steps", "`via: bp5`, which keeps steps on disk"]
    together = f" with {_names([one for one in here if one is not biggest])}" if len(here) > 1 else ""
    problems.add(
        biggest.key,
        f"the writer may hold {explain_memory(biggest)}; a node of site {site.site} has {_said(room)}"
        + (f", and{together} it is {_said(total)}" if together else ""),
        ", or ".join(ways),
    )


def _names(queues: list[QueueMemory]) -> str:
    return " and ".join(each.stream for each in queues)


def _bytes(variable: TypeAndShape) -> int | None:
    """Of a whole variable; None where its type or a size is not a number."""
    width = re.search(r"\d+$", variable.type or "")
    if width is None or variable.shape is None:
        return None
    total = int(width[0]) // 8
    for length in variable.shape:
        if not isinstance(length, int):
            return None
        total *= length
    return total


def _said(count: int) -> str:
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:.3g} {unit}"
    return f"{count} B"
