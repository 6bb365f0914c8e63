"""Who reads what of each stream: the strategy of every reading end, and the nodes of both sides for it.

The strategies are in `workflow.distribution`; blocks are known only when they are written, so `workflow.stage` deals
them out, from what is decided here. docs/decisions/0010-who-reads-what.md says why.
"""

from __future__ import annotations

from collections.abc import Mapping

from workflow.distribution.strategies import ALL, HYPERSLAB, Ranks, choose
from workflow.plan.making import Making
from workflow.plan.plan_model import Placement, RanksPlan, SharePlan
from workflow.plan.topology.port_matching import HANDED_OVER, Joined
from workflow.plan.topology.ports import StagePort
from workflow.spec.models.engine import Engine

NO_BLOCKS = "HDF5"  # its files do not tell which rank wrote what


def decide_share(
    name: str, port: StagePort, joined: Joined, engine: Engine, placements: Mapping[str, Placement], making: Making
) -> SharePlan | None:
    """The share of one end of stream `name`; None where there is nothing to share. Notes what cannot be had."""
    stream = making.loaded.spec.streams[name]
    asked = stream.strategy != "auto"
    if port.side == "write":
        if asked:
            _check(name, joined, engine, making)
        return None
    if not port.shares or engine.engine == HANDED_OVER or joined.writer is None:
        return None
    writers, readers = (ranks_of(stage, placements, making) for stage in (joined.writer.stage, port.stage))
    if engine.engine == NO_BLOCKS and stream.strategy not in (HYPERSLAB, ALL):
        strategy, why = HYPERSLAB, f"{NO_BLOCKS} files do not tell which rank wrote what: equal slabs"
    elif asked:
        strategy, why = stream.strategy, f"asked for ({making.loaded.origins.of(f'streams.{name}.strategy')})"
    else:
        strategy, why = choose(writers, readers)
        if strategy != HYPERSLAB and making.site.parallel_adios2 is False:
            strategy, why = HYPERSLAB, "rank 0 moves the data of all ranks: this ADIOS2 is built without MPI"
    making.notes.why(f"streams.{name}.read.{port.stage}.strategy", why)
    return SharePlan(strategy=strategy, writers=_plan(writers), readers=_plan(readers))


def ranks_of(stage: str, placements: Mapping[str, Placement], making: Making) -> Ranks:
    """Where the ranks of a stage are: as the launchers deal them out, node after node."""
    placement = placements[stage]
    return Ranks(making.loaded.spec.stages[stage].ranks, placement.nodes[0][0], placement.ranks_per_node)


def _plan(ranks: Ranks) -> RanksPlan:
    return RanksPlan(**ranks._asdict())


def _check(name: str, joined: Joined, engine: Engine, making: Making) -> None:
    """A strategy that no reader can follow would be ignored in silence."""
    key, stream = f"streams.{name}.strategy", making.loaded.spec.streams[name]
    deaf = [port for port in joined.readers if not port.shares]
    blind = engine.engine == NO_BLOCKS and stream.strategy in (HYPERSLAB, ALL)
    if engine.engine in (NO_BLOCKS, HANDED_OVER) and not blind:
        why = f"with `via: {stream.via}` nobody knows which rank wrote what"
        if making.layer(f"streams.{name}.via") not in ("", making.layer(key)):
            making.notes.why(key, f"not used {why}")
            return
        hint = "`strategy: hyperslab`, or `via: bp5`" if engine.engine == NO_BLOCKS else "remove it, or use `via: bp5`"
        making.problems.add(key, f"{stream.strategy} deals out the blocks of the writer's ranks, and {why}", hint)
    elif deaf and len(deaf) == len(joined.readers):
        making.problems.add(
            key,
            f"{' and '.join(_deaf(port, making) for port in deaf)}: a strategy would have no effect",
            "remove it; a program that reads by `step.share` of workflow.stage can be told",
        )
    stages = making.loaded.spec.stages
    # One rank alone gets everything once by any strategy.
    summing = [port.stage for port in joined.readers if port.shares == "once" and stages[port.stage].ranks > 1]
    if stream.strategy == ALL and summing:
        making.problems.add(
            key,
            f"every rank of {' and '.join(summing)} would get everything, and its component needs every element once",
            f"remove it, or `strategy: {HYPERSLAB}`",
        )
    for port in deaf:
        making.notes.why(f"streams.{name}.read.{port.stage}.strategy", f"not used: {_deaf(port, making)}")


def _deaf(port: StagePort, making: Making) -> str:
    stage = making.loaded.spec.stages[port.stage]
    if stage.component is not None:
        return f"component {stage.component} of stage {port.stage} does not share out what it reads there"
    return f"the program of stage {port.stage} does not read through workflow.stage"
