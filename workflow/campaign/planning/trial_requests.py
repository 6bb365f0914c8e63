"""What each repetition requests from a pilot: nodes, cores, how long it will take, and its place in the order. Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from workflow.campaign.ledger import History, Repetition
from workflow.campaign.planning.free_nodes import Footprint
from workflow.campaign.planning.packing import Request
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.plan.plan_model import Plan


def all_requests(
    planned: PlannedCampaign,
    repetitions: Sequence[Repetition],
    estimates: EstimatedDurations,
    *,
    share_nodes: bool,
) -> list[Request]:
    """One request for each of these repetitions. `share_nodes`: it needs only its cores, and others run on its nodes.

    Its block has one repetition of each trial; in the order of the file, all of one trial.
    """
    spec = planned.spec
    footprints = {each.key: footprint_of(each.plan, share_nodes=share_nodes) for each in planned.ready}
    place_in_file = {each.key: index for index, each in enumerate(planned.ready)}

    def request(each: Repetition) -> Request:
        in_blocks = each.number - 1 + (0 if each.warmup else spec.warmup)
        block = place_in_file[each.key] if spec.order.by == "file" else in_blocks
        footprint = footprints[each.key]
        return Request(footprint.nodes, footprint.cores_per_node, estimates.of(each.key), block)

    return [request(each) for each in repetitions]


def footprint_of(plan: Plan, *, share_nodes: bool) -> Footprint:
    """The nodes of a plan, and how many cores of each where it can share them.

    It has its nodes for itself where a stage is bound to no cores, uses GPUs, or needs all cores there are.
    """
    bound = all(stage.placement.cores and not stage.placement.gpus for stage in plan.stages)
    if not share_nodes or not bound:
        return Footprint(plan.nodes, None)
    cores = max(len(plan.used_cores(node)) for node in range(plan.nodes))
    return Footprint(plan.nodes, cores if cores < len(plan.node.usable) else None)


class EstimatedDurations:
    """Estimates for the trials of one campaign, which become better with each attempt that ends. In seconds.

    Of a trial: the median of its attempts that succeeded, warm-ups included; else of the other trials', as they are,
    since nothing says how trials compare; else what the campaign file expects; else its deadline, after which a
    repetition has ended in any case.
    """

    def __init__(self, expected_s: float | None, deadline_s: float) -> None:
        self._without_s = deadline_s if expected_s is None else expected_s
        self._of_trial: dict[str, list[float]] = {}
        self._of_all: list[float] = []

    @classmethod
    def from_history(cls, history: History, expected_s: float | None, deadline_s: float) -> EstimatedDurations:
        """With all that a ledger holds."""
        estimates = cls(expected_s, deadline_s)
        for repetition, attempt in history.ended.items():
            if attempt.state == "succeeded":
                estimates.add(repetition.key, attempt.wall_s)
        return estimates

    def add(self, key: str, wall_s: float) -> None:
        """An attempt of the trial `key` has succeeded."""
        insort(self._of_trial.setdefault(key, []), wall_s)
        insort(self._of_all, wall_s)

    def of(self, key: str) -> float:
        """Of a repetition of the trial `key`."""
        return _median(self._of_trial.get(key) or self._of_all) or self._without_s

    def is_measured(self, key: str) -> bool:
        """Whether the estimate is by attempts of this very trial."""
        return key in self._of_trial

    @property
    def any_measured(self) -> bool:
        """Whether anything has been measured: without, all estimates are what the file says."""
        return bool(self._of_all)


def _median(ordered: Sequence[float]) -> float:
    """Of values in their order; 0 of none."""
    if not ordered:
        return 0.0
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
