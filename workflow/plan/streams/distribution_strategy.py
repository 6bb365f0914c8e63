"""Which rank reads what of each stream: the strategy of every reading end, and the nodes that it needs to know.

The strategies are in `workflow.distribution`; blocks are known only when they are written, so `workflow.stage` deals
them out, from what is decided here. The reasons: docs/decisions/0010-who-reads-what.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from workflow.distribution import ALL, HYPERSLAB, Ranks, choose
from workflow.plan.plan_model import Placement, RanksPlan, SharePlan
from workflow.plan.plan_notes import Notes
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, StagePort
from workflow.site.site_model import Site
from workflow.spec.origins import Origins


def decide_share(
    port: StagePort,
    joined: JoinedStream,
    stages: Mapping[str, DeclaredStage],
    placements: Mapping[str, Placement],
    site: Site,
    origins: Origins,
    notes: Notes,
) -> SharePlan | None:
    """The share of one reading end; None where there is nothing to share."""
    name, stream, engine = joined.name, joined.spec, joined.engine
    if not port.shares or not engine.traits.has_steps or joined.writer is None:
        return None
    writers, readers = (_ranks_of(stages[stage], placements) for stage in (joined.writer.stage, port.stage))
    if not engine.traits.records_blocks and stream.strategy not in (HYPERSLAB, ALL):
        strategy, why = HYPERSLAB, f"{engine.engine} files do not record which rank wrote which part: equal slabs"
    elif stream.strategy != "auto":
        strategy, why = stream.strategy, f"requested ({origins.of(f'streams.{name}.strategy')})"
    else:
        strategy, why = choose(writers, readers)
        if strategy != HYPERSLAB and site.parallel_adios2 is False:
            strategy, why = HYPERSLAB, "rank 0 moves the data of all ranks: this ADIOS2 is built without MPI"
    notes.why(f"streams.{name}.read.{port.stage}.strategy", why)
    return SharePlan(strategy=strategy, writers=_plan(writers), readers=_plan(readers))


def _ranks_of(stage: DeclaredStage, placements: Mapping[str, Placement]) -> Ranks:
    """Where the ranks of a stage are: as the launchers deal them out, node after node."""
    placement = placements[stage.name]
    return Ranks(stage.spec.ranks, placement.nodes[0][0], placement.ranks_per_node)


def _plan(ranks: Ranks) -> RanksPlan:
    return RanksPlan(**ranks._asdict())


def check_strategy(joined: JoinedStream, stages: Mapping[str, DeclaredStage], notes: Notes) -> None:
    """Notes a `strategy:` that no reader can follow: it would be ignored silently."""
    name, stream, engine = joined.name, joined.spec, joined.engine
    key = f"streams.{name}.strategy"
    if stream.strategy == "auto":
        return
    ignoring = [port for port in joined.readers if not port.shares]
    without_blocks = engine.traits.has_steps and stream.strategy in (HYPERSLAB, ALL)
    if not engine.traits.records_blocks and not without_blocks:
        notes.not_used(key, stream.via, "it is not recorded which rank wrote what")
    elif ignoring and len(ignoring) == len(joined.readers):
        whys = [_why_ignored(stages[port.stage], port) for port in ignoring]
        notes.problems.add(
            key,
            f"{' and '.join(whys)}: a strategy would have no effect",
            "remove it; only programs that read by `step.share` of workflow.stage follow a strategy",
        )
    # One rank alone gets everything once by any strategy.
    summing = [port.stage for port in joined.readers if port.shares == "once" and stages[port.stage].spec.ranks > 1]
    if stream.strategy == ALL and summing:
        notes.problems.add(
            key,
            f"every rank of {' and '.join(summing)} would get everything, and its component needs every element once",
            f"remove it, or `strategy: {HYPERSLAB}`",
        )
    for port in ignoring:
        notes.why(f"streams.{name}.read.{port.stage}.strategy", f"not used: {_why_ignored(stages[port.stage], port)}")


def _why_ignored(stage: DeclaredStage, port: StagePort) -> str:
    if stage.component is not None:
        return f"component {stage.spec.component} of stage {port.stage} does not share out what it reads there"
    return f"the program of stage {port.stage} does not read through workflow.stage"
