"""What each repetition requests from a pilot: nodes, cores and duration, and its position in the order. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.campaign.ledger import Repetition
from workflow.campaign.planning.estimated_duration import EstimatedDurations
from workflow.campaign.planning.free_nodes import Footprint
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.planning.waiting_requests import Request
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
