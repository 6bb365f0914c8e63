"""Chains of jobs: whether the part of a run that was stopped before its time limit gets a next one, and the record of
that, `next_part.json` in the directory of the part before. The decisions are pure.

The record says first that a part is planned, then its name, then that it was submitted or why there is none: whoever
follows or cancels the run knows from it whether to wait.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from workflow.errors import EXIT_STOPPED
from workflow.formats.read_json import read_json
from workflow.formats.typed_fields import from_fields
from workflow.formatting import plural
from workflow.plan.plan_model import Plan, StagePlan
from workflow.replace_file import replace_file

NEXT_PART_FILE = "next_part.json"
# What the stages leave of the grace, for the report, the plan of the next part, and the scheduler's answer: so much, or
# this share of it, where that is less.
SUBMISSION_S = 30.0
SUBMISSION_SHARE = 0.25


@dataclass(frozen=True)
class NextPart:
    """What has become of the next part of a run.

    `run`: its directory, from `submitting` on. `reason`: why there is none, with `hint`, what to type next; of a part
    that was submitted what is not known of its job. `without`: hosts that were lost in this part or one before, which
    the scheduler is asked to leave out.
    """

    state: Literal["planned", "submitting", "submitted", "none"]
    run: str = ""
    reason: str = ""
    hint: str = ""
    without: list[str] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        """Whether nobody works on it any more."""
        return self.state in ("submitted", "none")


def write_next_part(run_dir: Path, record: NextPart) -> None:
    """Write the record. Raises OSError."""
    replace_file(run_dir / NEXT_PART_FILE, (json.dumps(asdict(record), indent=2) + "\n").encode())


def read_next_part(run_dir: Path) -> NextPart | None:
    """The record of a run; None where there is none, or it cannot be read."""
    try:
        return from_fields(NextPart, read_json((run_dir / NEXT_PART_FILE).read_bytes()))
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def next_part_text(run: str, record: NextPart) -> str:
    """What has become of the next part of a run of this name, in a line. Pure."""
    if record.state == "none":
        return f"no part follows {run}: {record.reason}"
    text = f"{Path(record.run).name} goes on with {run}" if record.run else f"the next part of {run} is being planned"
    return f"{text}; {record.reason}" if record.reason else text


def is_planned(plan: Plan, exit_code: int) -> bool:
    """Whether the process of a job, once its run has ended so, decides on a next part. Pure."""
    return plan.most_parts > 1 and exit_code == EXIT_STOPPED


def submission_s(plan: Plan, left_s: float) -> float:
    """How much of the time that is left to a run when it is stopped is for the submission of its next part. Pure."""
    follows = plan.part_number < plan.most_parts
    return min(SUBMISSION_S, SUBMISSION_SHARE * left_s) if follows else 0.0


def why_last(plan: Plan) -> str:
    """Why no part follows one that was stopped, whatever it has done; empty where one may. Pure."""
    if plan.part_number < plan.most_parts:
        return ""
    asked = f"`allocation.parts` asks for {plural(plan.most_parts, 'part')} at most"
    return f"{asked}, and this was part {plan.part_number}"


def standstill(before: Plan, following: Plan) -> str:
    """Why a next part would do what the one before has done: no stage would begin later. Empty where one would. Pure.

    Args:
        before: the part that has ended.
        following: the one that would go on with it.
    """
    began, begins = first_steps(before), first_steps(following)
    if any(_is_later(begins[name], began.get(name, 0)) for name in begins):
        return ""
    steps = {name: step for name, step in begins.items() if step is not None}
    if len(set(steps.values())) == 1:
        where = f"step {next(iter(steps.values()))}"
    else:
        where = ", ".join(f"step {step} of {name}" for name, step in steps.items())
    return f"part {before.part_number} made no progress: it began and ended at {where}"


def first_steps(plan: Plan) -> dict[str, int | None]:
    """Stage → the step at which it begins in this part; None: it had done its work before. Pure."""
    return {stage.name: first_step(plan, stage) for stage in plan.stages}


def first_step(plan: Plan, stage: StagePlan) -> int | None:
    """The step at which a stage begins in this part; None: it does not run. Pure."""
    is_finished = plan.part is not None and stage.name in plan.part.finished
    return None if is_finished else max((end.begin for end in stage.ends), default=0)


def _is_later(step: int | None, than: int | None) -> bool:
    return than is not None and (step is None or step > than)
