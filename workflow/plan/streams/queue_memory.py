"""What the queues of writers may take of their nodes' memory, compared with what the nodes have. Pure.

SST holds `limit` finished steps and the one that is being filled (sst/cp/cp_writer.c of ADIOS2 2.12.1); SSC one
finished step and the one that is being filled, each rank's in one buffer of MPI, which counts bytes by an int.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from workflow.plan.making import Making, counted
from workflow.plan.plan_model import Placement
from workflow.plan.programs.mpmd_groups import ONE_STEP, SSC
from workflow.plan.topology.port_matching import Joined
from workflow.plan.topology.variable_contracts import Contract
from workflow.spec.models.pipeline import Variable

# More of a node's memory than this leaves too little for the programs themselves.
MUCH = 0.5
# Bytes of one rank's step that SSC cannot move any more.
SSC_MOST = 2**31


class StepSize(NamedTuple):
    """Bytes of one step of all ranks, and where that is known from. `whole`: nothing else is in a step."""

    bytes: int
    source: str
    whole: bool = True


class Held(NamedTuple):
    """What a queue may hold: in all, and on the node of its writer that holds most."""

    stream: str
    bytes: int
    on_node: int
    nodes: list[tuple[int, int]]
    size: StepSize
    steps: int
    engine: str = "SST"


def step_size(joined: Joined, contract: Contract | None, making: Making) -> StepSize | None:
    """The size of a stream's steps: as stated, by a parameter of the component, or by shapes; None: not known."""
    spec, name = making.loaded.spec, joined.name
    stated = spec.streams[name].step_size
    if stated is not None:
        return StepSize(int(stated), "step_size")
    if joined.writer is None:
        return None
    stage = spec.stages[joined.writer.stage]
    if stage.component is not None:
        port = making.loaded.components[stage.component].writes[joined.writer.name]
        each = making.loaded.parameters[joined.writer.stage].get(port.bytes_per_rank or "")
        if isinstance(each, int) and each:
            return StepSize(each * stage.ranks, f"{port.bytes_per_rank} of {joined.writer.stage} × {stage.ranks} ranks")
    sizes = {name: _bytes(variable) for name, variable in (contract.writer if contract else {}).items()}
    known = sum(each for each in sizes.values() if each is not None)
    declared = joined.writer.variables or {}
    # Of those that are optional it is not known whether they are there.
    whole = bool(declared) and None not in sizes.values() and not any(each.optional for each in declared.values())
    return StepSize(known, "the shapes of its variables", whole) if known else None


def held(joined: Joined, size: StepSize | None, placement: Placement, making: Making) -> Held | None:
    """What the writer's queue may hold; None where there is no queue, or the size is not known."""
    engine = making.loaded.engines[joined.name].engine
    if size is None or joined.writer is None or engine not in ("SST", SSC):
        return None
    queue = ONE_STEP if engine == SSC else making.loaded.spec.streams[joined.name].queue
    steps = queue.limit + 1
    ranks = making.loaded.spec.stages[joined.writer.stage].ranks
    all_ranks = steps * size.bytes
    on_node = all_ranks * placement.ranks_per_node // ranks
    return Held(joined.name, all_ranks, on_node, list(placement.nodes), size, steps, engine)


def check_ssc_step(queue: Held, ranks: int, making: Making) -> None:
    """Refuses a step of SSC of which some rank of `ranks` has more than MPI moves at once."""
    if queue.engine != SSC or queue.size.bytes < ranks * SSC_MOST:
        return
    making.problems.add(
        _key(queue, making),
        f"{'' if queue.size.whole else 'at least '}{_said(queue.size.bytes)} a step ({queue.size.source}) from "
        f"{counted(ranks, 'rank')}: by SSC a rank's part of a step must be less than {_said(SSC_MOST)}",
        f"`via: sst`, or at least {queue.size.bytes // SSC_MOST + 1} writing ranks, or smaller steps",
    )


def check_memory(queues: Mapping[str, Held], making: Making) -> None:
    """Notes queues that a node cannot hold: each alone, and all on one node together."""
    room, site = making.site.memory_per_node, making.site
    for start in sorted({first for each in queues.values() for first, _ in each.nodes}):
        here = [each for each in queues.values() if any(first <= start < end for first, end in each.nodes)]
        total = sum(each.on_node for each in here)
        biggest = max(here, key=lambda each: each.on_node)
        if total > room:
            _refuse(biggest, here, total, making)
        elif total > MUCH * room:
            less = "`queue: {limit: 1}` takes less" if biggest.engine != SSC else "smaller steps take less"
            making.notes.advise(
                f"queues of {_names(here)} may take {_said(total)} of the {_said(room)} that a node of site "
                f"{site.site} has: {less}"
            )
    for each in (queue for queue in queues.values() if queue.size.whole):
        making.notes.why(f"streams.{each.stream}.queue.memory", explain(each))


def explain(queue: Held) -> str:
    """`3 steps × 2 GiB (step_size) = 6 GiB, 3 GiB on a node: the queue and the step that is being filled`."""
    least = "" if queue.size.whole else "at least "
    on_node = f", {_said(queue.on_node)} on a node" if queue.on_node != queue.bytes else ""
    product = f"{queue.steps} steps × {_said(queue.size.bytes)} ({queue.size.source}) = {_said(queue.bytes)}"
    finished = "the step that is read" if queue.engine == SSC else "the queue"
    return f"{least}{product}{on_node}: {finished} and the step that is being filled"


def _key(queue: Held, making: Making) -> str:
    """Where the size was said, or else the stream."""
    stated = making.loaded.spec.streams[queue.stream].step_size is not None
    return f"streams.{queue.stream}.step_size" if stated else f"streams.{queue.stream}"


def _refuse(biggest: Held, here: list[Held], total: int, making: Making) -> None:
    site, room = making.site, making.site.memory_per_node
    others = total - biggest.on_node
    each = math.ceil(biggest.on_node / biggest.steps)
    fits = (room - others) // each - 1
    ways = [f"`queue: {{limit: {fits}}}`"] if fits >= 1 and biggest.engine != SSC else []
    ways += ["more nodes for its writer (`place: {nodes: N}`)"] if site.nodes > 1 else []
    ways += ["smaller steps", "`via: bp5`, which keeps steps on disk"]
    together = f" with {_names([one for one in here if one is not biggest])}" if len(here) > 1 else ""
    making.problems.add(
        _key(biggest, making),
        f"the writer may hold {explain(biggest)}; a node of site {site.site} has {_said(room)}"
        + (f", and{together} it is {_said(total)}" if together else ""),
        ", or ".join(ways),
    )


def _names(queues: list[Held]) -> str:
    return " and ".join(each.stream for each in queues)


def _bytes(variable: Variable) -> int | None:
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
