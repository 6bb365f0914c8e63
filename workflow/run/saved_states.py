"""The states that a stage has saved."""

from __future__ import annotations

from pathlib import Path

from workflow.plan.plan_model import Plan


def saved_steps(run_dir: Path, plan: Plan, stage: str) -> tuple[int, ...]:  # noqa: ARG001
    """The steps at which a stage has saved its state, in a run and the parts before it, oldest first."""
    return ()
