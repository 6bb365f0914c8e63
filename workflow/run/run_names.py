"""Which run is meant: by a path, by its name below `runs/`, or as the newest. The same for all verbs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from workflow.errors import RunError
from workflow.run.run_directory import LATEST, PLAN_FILE, RUNS
from workflow.spec.suggest import nearest_name, shortened
from workflow.spec.user_paths import exists

# Runs of a pipeline are called NAME-TIME-ID: all are alike, and only a slip of the keyboard is a reason to suggest one.
ALIKE = 0.9


def known_runs() -> list[str]:
    """Names of the runs below `runs/`, the oldest first."""
    found = []
    for plan in Path(RUNS).glob(f"*/{PLAN_FILE}"):
        # What is left of a removed run has a name with a dot; one that is being removed may go at any moment.
        if plan.parent.name != LATEST and not plan.parent.name.startswith("."):
            with contextlib.suppress(OSError):
                found.append((plan.stat().st_mtime, plan.parent.name))
    return [name for _, name in sorted(found)]


def find_run(run: str | os.PathLike[str] | None = None) -> Path:
    """The directory of a run: the one given, by path or by its name below `runs/`, or the newest (`latest`).

    Raises RunError when there is none.
    """
    latest = Path(RUNS) / LATEST
    name = LATEST if run is None else os.fspath(run)
    # Below `runs/` first; inside that folder `latest` is the link itself.
    found = latest if name == LATEST and exists(latest / PLAN_FILE) else _directory_of(name)
    if found is not None:
        return found.resolve()
    if name == LATEST:
        raise RunError(f"no run here: there is no {latest}", _other_runs("", known_runs()))
    hint = _other_runs(name, known_runs())
    if exists(Path(name)):
        raise RunError(f"{name} is not a run directory: it has no {PLAN_FILE}", hint)
    raise RunError(f"there is no run `{shortened(name)}`", hint)


def is_run(name: str) -> bool:
    """Whether this names a run."""
    return _directory_of(name) is not None


def _directory_of(run: str) -> Path | None:
    return next((each for each in (Path(run), Path(RUNS) / run) if exists(each / PLAN_FILE)), None)


def _other_runs(name: str, known: list[str]) -> str:
    """The run that was probably meant, or the newest ones. The name of a pipeline means its newest run."""
    if not known:
        return "start one: wf run PIPELINE"
    last = Path(name).name
    of_pipeline = [run for run in known if last and run.startswith(f"{last}-")]
    meant = of_pipeline[-1] if of_pipeline else nearest_name(last, known, ALIKE) or nearest_name(last, [LATEST])
    return f"did you mean `{meant}`?" if meant else f"the newest runs here: {', '.join(reversed(known[-5:]))}"
