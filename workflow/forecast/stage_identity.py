"""Which stages take the same: the key under which the computing time of a stage is kept."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

from workflow.forecast.calibration_model import StageRecord
from workflow.plan.plan_model import StagePlan

# By convention of the components: they say how long a stage goes on, and nothing of what a step takes.
LENGTHS = ("steps", "run_steps")


class StageIdentity(NamedTuple):
    """A program with what it is given."""

    program: str
    parameters: dict[str, Any]
    ranks: int


def stage_identity(stage: StagePlan) -> StageIdentity:
    """What a stage is, apart from its streams, its name and its place."""
    if stage.component is None:
        return StageIdentity(shlex.join(stage.program), {}, stage.ranks)
    kept = {name: value for name, value in stage.parameters.items() if name not in LENGTHS}
    return StageIdentity(stage.component, kept, stage.ranks)


def is_record_of(record: StageRecord, identity: StageIdentity) -> bool:
    """Whether a record is of such a stage."""
    return (record.program, record.parameters, record.ranks) == identity
