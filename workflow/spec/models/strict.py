"""What all models of files share: unknown keys are refused, and nothing is changed after it was read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """Settings that every part of the file shares."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)
