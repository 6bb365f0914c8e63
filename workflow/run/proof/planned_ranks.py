"""Where the ranks of each launch line must be: the plan and the hosts as the launcher was given them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workflow.plan.plan_model import Plan


@dataclass(frozen=True)
class PlannedStage:
    """The ranks of one stage: rank i is on `hosts[i // ranks_per_node]`; `hosts` is empty where they have no names.

    `cores`, `gpus` and `nics` have one entry for each rank of a node; empty: not bound by the plan, no GPUs, any
    adapter. `own_cores`: no other rank may be on the cores of these, whoever chooses them. `first` is the number
    of rank 0 in its launch line.
    """

    stage: str
    ranks: int
    nodes: int
    ranks_per_node: int
    hosts: Sequence[str] = ()
    cores: Sequence[Sequence[int]] = ()
    cores_per_rank: int = 0
    own_cores: bool = False
    gpus: Sequence[Sequence[int]] = ()
    nics: Sequence[str] = ()
    first: int = 0

    def host(self, rank: int) -> str:
        """Where a rank must be; empty where that is not known."""
        index = rank // self.ranks_per_node
        return self.hosts[index] if index < len(self.hosts) else ""

    def cores_of(self, rank: int) -> frozenset[int]:
        """The cores that a rank is bound to; none where it is not."""
        return frozenset(self.cores[rank % self.ranks_per_node]) if self.cores else frozenset()

    def gpus_of(self, rank: int) -> Sequence[int]:
        """The devices of a rank, as the site counts them."""
        return self.gpus[rank % self.ranks_per_node] if self.gpus else ()


class Company:
    """Which stages may run at the same time: those of which none waits for the end of the other."""

    def __init__(self, starts_after: Mapping[str, Sequence[str]]) -> None:
        self._before: dict[str, frozenset[str]] = {}
        for stage in starts_after:
            self._find(stage, starts_after)

    @classmethod
    def of(cls, plan: Plan) -> Company:
        """Of the stages of a plan."""
        return cls({stage.name: stage.starts_after for stage in plan.stages})

    def may_meet(self, one: str, other: str) -> bool:
        """Whether they may run at the same time."""
        return one not in self._before[other] and other not in self._before[one]

    def _find(self, stage: str, starts_after: Mapping[str, Sequence[str]]) -> frozenset[str]:
        if stage not in self._before:
            waits = starts_after[stage]
            earlier = [self._find(each, starts_after) for each in waits]
            self._before[stage] = frozenset(waits).union(*earlier)
        return self._before[stage]
