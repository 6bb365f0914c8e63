"""The plan of a run that goes on with an earlier one: the plan of its pipeline, with what is there already. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from workflow.plan.plan_model import EndPlan, PartPlan, Plan, StagePlan
from workflow.plan.streams.end_plans import end_of_spool

# Stage → stream → a step.
Steps = Mapping[str, Mapping[str, int]]


def to_part(plan: Plan, part: PartPlan, begins: Steps, ends: Steps) -> Plan:
    """The plan of a part.

    Args:
        plan: of the whole pipeline.
        part: what is there already.
        begins: of each stage that is not finished, where its program begins.
        ends: where the streams go on there: what the program writes before that is dropped.
    """
    stages = [
        stage if stage.name in part.finished else _goes_on(plan, part, stage, begins[stage.name], ends[stage.name])
        for stage in plan.stages
    ]
    return plan.model_copy(update={"stages": stages, "part": part})


def _goes_on(
    plan: Plan, part: PartPlan, stage: StagePlan, begins: Mapping[str, int], now: Mapping[str, int]
) -> StagePlan:
    ends = []
    for planned in stage.ends:
        stream, first = plan.stream(planned.stream), now[planned.stream]
        # What a stage reads after its writer, or of one that has ended, is there from the first step on.
        whole = planned.side == "read" and (stream.coupling == "after" or stream.writer in part.finished)
        is_gone = whole and not stream.is_kept and stream.spool != ""
        end: EndPlan = end_of_spool(planned, plan.stream(stream.spool)) if is_gone else planned
        changed = {"first_step": first, "repeated": first - begins[end.stream], "before": 0 if whole else first}
        ends.append(end.model_copy(update=changed))
    update: dict[str, object] = {"ends": ends}
    if stage.name in part.states and stage.checkpoint is not None and stage.checkpoint.program:
        update["program"] = stage.checkpoint.program
    return stage.model_copy(update=update)
