"""Runs that are attached to a run: what joins it while it runs is a run of its own, below the directory of the other.

RUN/attached/NAME        the directory of such a run
RUN/attached/NAME.yaml   its pipeline file, where wf has written it
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from workflow.run.records.run_directory import ATTACHED, PLAN_FILE


def attached_runs(run_dir: Path) -> list[Path]:
    """The directories of the runs that are or were attached to a run, in the order in which they came."""
    found = []
    for plan in (run_dir / ATTACHED).glob(f"*/{PLAN_FILE}"):
        with contextlib.suppress(OSError):  # it may be removed at any moment
            found.append((plan.stat().st_mtime, plan.parent))
    return [directory for _, directory in sorted(found)]


def attached_to(run_dir: Path) -> Path | None:
    """The run to which this one is attached; None for all others."""
    other = run_dir.absolute().parent.parent
    return other if run_dir.absolute().parent.name == ATTACHED and (other / PLAN_FILE).exists() else None
