"""The plan of a run that goes on with an earlier one: the plan of its pipeline, with what is there already. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workflow.plan.placeholders import earlier_file
from workflow.plan.plan_model import RUN_DIR, PartPlan, Plan, StagePlan
from workflow.plan.streams.end_plans import end_of_spool

# Of a file that is read from its first step on.
WHOLE = {"before": 0, "earlier": ""}
# Stage → stream → a step of that end.
StepOfEnds = Mapping[str, Mapping[str, int]]


def why_anew(stage: StagePlan, plan: Plan) -> str:
    """Why a stage begins at its first step in each part, whatever it has done; "" where it goes on."""
    if stage.from_start:
        return stage.from_start
    if outside := [path for path in stage.kept_files if not path.startswith(RUN_DIR)]:
        return f"writes {outside[0]}, outside of the run directory"
    for end in stage.ends:
        queue = plan.stream(end.stream).queue
        if end.side == "read" and queue is not None and queue.when_full == "discard":
            return f"reads {end.stream}, which may discard steps: it is not known which ones arrived"
    return ""


def to_part(plan: Plan, part: PartPlan, begins: StepOfEnds, ends: StepOfEnds) -> Plan:
    """The plan of a part.

    Args:
        plan: of the whole pipeline.
        part: what is there already.
        begins: of each stage that is not finished, where its program begins.
        ends: where the streams go on there: what the program writes before that is suppressed.
    """
    writing = [
        stage if stage.name in part.finished else _writes(stage, begins[stage.name], ends[stage.name])
        for stage in plan.stages
    ]
    # Where a stage reads depends on where the writer goes on.
    written = plan.model_copy(update={"stages": writing, "part": part})
    stages = [
        stage if stage.name in part.finished else _goes_on(written, part, stage, ends) for stage in written.stages
    ]
    return written.model_copy(update={"stages": stages})


def _writes(stage: StagePlan, begins: Mapping[str, int], now: Mapping[str, int]) -> StagePlan:
    """The stage with the ends that write."""
    ends = []
    for end in stage.ends:
        first = now[end.stream]
        changed = {"first_step": first, "repeated": first - begins[end.stream], "part_step": first, "before": first}
        ends.append(end.model_copy(update=changed) if end.side == "write" else end)
    return stage.model_copy(update={"ends": ends})


def _goes_on(plan: Plan, part: PartPlan, stage: StagePlan, ends_of: StepOfEnds) -> StagePlan:
    """The stage with the ends that read, and the program that begins where it was."""
    ends = []
    for end in stage.ends:
        stream = plan.stream(end.stream)
        first = ends_of[stage.name][stream.name]
        changed: dict[str, Any] = {"first_step": first, "part_step": first}
        if end.side == "read":
            changed["skipped"] = part.skipped.get(stage.name, [])
        if end.side == "write":
            ends.append(end)
        elif stream.coupling == "after" or stream.writer in part.finished:
            # It is there from its first step on.
            is_gone = not stream.is_kept and stream.spool != ""
            ends.append((end_of_spool(plan, end) if is_gone else end).model_copy(update=changed | WHOLE))
        else:
            before = ends_of[stream.writer][stream.name] if stream.is_kept else first
            earlier = earlier_file(stream.path) if first < before else ""
            ends.append(end.model_copy(update={**changed, "before": before, "earlier": earlier}))
    update: dict[str, Any] = {"ends": ends}
    if stage.name in part.states and stage.checkpoint is not None and stage.checkpoint.program:
        update["program"] = stage.checkpoint.program
    return stage.model_copy(update=update)
