"""The plan of a run that goes on with an earlier one: the plan of its pipeline, with what is there already. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workflow.plan.plan_model import EndPlan, PartPlan, PiecePlan, Plan, StagePlan
from workflow.plan.streams.end_plans import end_of_spool


def to_part(
    plan: Plan,
    number: int,
    run: str,
    finished: Mapping[str, Mapping[str, int]],
    first_steps: Mapping[str, int],
    pieces: Mapping[str, Sequence[PiecePlan]],
) -> Plan:
    """The plan of a part.

    Args:
        plan: of the whole pipeline.
        number: of the part.
        run: the directory of the part before.
        finished: stage that is not started again → stream → steps.
        first_steps: each other stage → its first step.
        pieces: file, relative to the run directory → what earlier parts hold of it.
    """
    stages = [
        stage if stage.name in finished else _goes_on(plan, stage, first_steps[stage.name], finished)
        for stage in plan.stages
    ]
    part = PartPlan(
        number=number,
        run=run,
        finished={name: dict(steps) for name, steps in finished.items()},
        pieces={name: list(found) for name, found in pieces.items()},
    )
    return plan.model_copy(update={"stages": stages, "part": part})


def _goes_on(plan: Plan, stage: StagePlan, first: int, finished: Mapping[str, Mapping[str, int]]) -> StagePlan:
    ends = []
    for planned in stage.ends:
        stream = plan.stream(planned.stream)
        # What a stage reads after its writer, or of one that has ended, is there from the first step on.
        whole = planned.side == "read" and (stream.coupling == "after" or stream.writer in finished)
        is_gone = whole and not stream.is_kept and stream.spool != ""
        end: EndPlan = end_of_spool(planned, plan.stream(stream.spool)) if is_gone else planned
        ends.append(end.model_copy(update={"first_step": first, "before": 0 if whole else first}))
    return stage.model_copy(update={"ends": ends})
