"""What the repetitions of a campaign ask of a pilot: their nodes and cores, duration, and place in the order. Pure."""

from __future__ import annotations

from collections.abc import Collection

from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.file.trials import Repetition, make_schedule
from workflow.campaign.ledger import RepetitionId
from workflow.campaign.planning.estimated_duration import EstimatedDurations
from workflow.campaign.planning.free_nodes import Footprint
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial
from workflow.campaign.planning.waiting_requests import Request
from workflow.plan.plan_model import Plan


def all_requests(
    planned: PlannedCampaign,
    estimates: EstimatedDurations,
    *,
    share_nodes: bool,
    finished: Collection[RepetitionId] = (),
) -> list[Request]:
    """One request for each repetition of the campaign that is not finished, in the order of its schedule."""
    spec = planned.spec
    schedule = make_schedule(len(planned.ready), spec.repetitions, spec.warmup, spec.order)
    footprints = [footprint_of(trial.plan, share_nodes=share_nodes) for trial in planned.ready]
    found = []
    for each in schedule:
        key = planned.ready[each.trial].key
        if RepetitionId(key, each.number, each.warmup) in finished:
            continue
        footprint, expected_s = footprints[each.trial], estimates.of(key)
        found.append(Request(footprint.nodes, footprint.cores_per_node, expected_s, schedule_block(each, spec)))
    return found


def to_request(
    trial: ReadyTrial, repetition: Repetition, spec: CampaignSpec, estimates: EstimatedDurations, *, share_nodes: bool
) -> Request:
    """The request for one repetition. `share_nodes`: it needs only its cores, and others run on its nodes."""
    footprint = footprint_of(trial.plan, share_nodes=share_nodes)
    return Request(footprint.nodes, footprint.cores_per_node, estimates.of(trial.key), schedule_block(repetition, spec))


def footprint_of(plan: Plan, *, share_nodes: bool) -> Footprint:
    """The nodes of a plan, and how many cores of each where it can share them.

    It has its nodes for itself where a stage is bound to no cores, uses GPUs, or needs all cores there are.
    """
    bound = all(stage.placement.cores and not stage.placement.gpus for stage in plan.stages)
    if not share_nodes or not bound:
        return Footprint(plan.nodes, None)
    cores = max(len(plan.used_cores(node)) for node in range(plan.nodes))
    return Footprint(plan.nodes, cores if cores < plan.node.cores - len(plan.node.reserved) else None)


def schedule_block(repetition: Repetition, spec: CampaignSpec) -> int:
    """The block of a repetition: one repetition of each trial; in the order of the file, all of one trial."""
    if spec.order.by == "file":
        return repetition.trial
    return repetition.number - 1 + (0 if repetition.warmup else spec.warmup)
