"""Compares the ranks of the running stages, as the guards see them, with the plan. Pure.

The probe is another launch than that of the stages, and an OpenMP runtime may bind a rank itself. Which of them did it
is not seen: a difference is a warning, once for each stage on each node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workflow.core_set import parse_cores
from workflow.formatting import plural
from workflow.run.nodes.lost_nodes import RankSeen
from workflow.run.proof.compare_placement import named_cores
from workflow.run.proof.planned_ranks import PlannedStage
from workflow.run.proof.probe_answers import NodeFound
from workflow.run.state.events import NodeRanks

# A rank has other cores while its launcher starts it.
SETTLED_S = 2.0


class RankWatch:
    """Takes what has changed. `nodes`: what the probes found, by host."""

    def __init__(self, planned: Iterable[PlannedStage], nodes: Mapping[str, NodeFound]) -> None:
        self._planned = {plan.stage: plan for plan in planned}
        self._nodes = nodes
        self._pending: dict[tuple[str, int], tuple[float, RankSeen]] = {}
        self._told: set[tuple[str, str]] = set()

    def look(self, changed: Iterable[RankSeen], now: float) -> list[NodeRanks]:
        """The warnings that are due."""
        for rank in changed:
            key = rank.stage, rank.world
            if self._differs(rank):
                self._pending[key] = now, rank
            else:
                self._pending.pop(key, None)
        due = [key for key, (since, _) in self._pending.items() if now - since >= SETTLED_S]
        found: dict[tuple[str, str], list[RankSeen]] = {}
        for key in due:
            rank = self._pending.pop(key)[1]
            found.setdefault((rank.stage, rank.host), []).append(rank)
        new = {key: ranks for key, ranks in found.items() if key not in self._told}
        self._told |= set(new)
        return [self._warning(ranks, now) for ranks in new.values()]

    def _differs(self, rank: RankSeen) -> bool:
        plan = self._planned.get(rank.stage)
        if plan is None or not plan.cores:
            return False
        return self._cores(rank) != plan.cores_of(rank.world - plan.first)

    def _cores(self, rank: RankSeen) -> frozenset[int]:
        node = self._nodes.get(rank.host)
        processors = parse_cores(rank.cores)
        return frozenset(processors) if node is None else node.to_cores(processors)

    def _warning(self, ranks: list[RankSeen], now: float) -> NodeRanks:
        first = min(ranks)
        plan = self._planned[first.stage]
        number = first.world - plan.first
        more = f" (and {plural(len(ranks) - 1, 'more rank')} there)" if len(ranks) > 1 else ""
        text = (
            f"rank {number} of {first.stage} now may use {named_cores(self._cores(first))} of {first.host}, the plan "
            f"binds it to {named_cores(plan.cores_of(number))}{more}: its launcher or its program did that"
        )
        seen = [(each.world - plan.first, each.pid, each.cores) for each in sorted(ranks)]
        return NodeRanks(now, first.node, first.host, first.stage, seen, text)
