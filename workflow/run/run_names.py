"""Which run is meant: by a path, by its name below `runs/` or a part of it that no other run has, or as the newest. The
same for all verbs; those that end or remove a run take no part of a name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from workflow.errors import RunError, nearest_name, shortened
from workflow.run.run_directory import LATEST, PLAN_FILE, RUNS
from workflow.run.run_index import noted_runs
from workflow.spec.user_paths import exists

# Runs of a pipeline are called NAME-TIME-ID: all are alike, and only a slip of the keyboard is a reason to suggest one.
ALIKE = 0.9
# Of the runs that a message lists.
SHOWN = 5


def known_runs() -> list[str]:
    """Names of the runs below `runs/`, the oldest first."""
    # What is left of a removed run has a name with a dot.
    found = [plan.parent for plan in Path(RUNS).glob(f"*/{PLAN_FILE}")]
    return [run.name for run in _by_age(run for run in found if run.name != LATEST and not run.name.startswith("."))]


def listed_runs(everywhere: bool = False) -> list[Path]:
    """The runs below `runs/`, and those of `--run-dir` that were started in this folder, the oldest first. With
    `everywhere` also those of `--run-dir` that were started elsewhere."""
    here = Path(RUNS).resolve()
    noted = noted_runs(None if everywhere else Path.cwd())
    return _by_age([*(Path(RUNS) / name for name in known_runs()), *(run for run in noted if run.parent != here)])


def _by_age(runs: Iterable[Path]) -> list[Path]:
    """The oldest first. A run that is being removed may go at any moment."""
    found = []
    for run in runs:
        with contextlib.suppress(OSError):
            found.append(((run / PLAN_FILE).stat().st_mtime, run))
    return [run for _, run in sorted(found)]


def find_run(run: str | os.PathLike[str] | None = None) -> Path:
    """The directory of a run: the one given, by path or by its name below `runs/`, or the newest (`latest`).

    Of a name its beginning, or its parts after a `-`, are enough where they are those of one run only. Raises RunError
    when there is none, or more than one.
    """
    latest = Path(RUNS) / LATEST
    name = LATEST if run is None else os.fspath(run)
    # Below `runs/` first; inside that folder `latest` is the link itself.
    found = latest if name == LATEST and exists(latest / PLAN_FILE) else _directory_of(name)
    if found is not None:
        return found.resolve()
    known = known_runs()
    if name == LATEST:
        raise RunError(f"no run here: there is no {latest}", _other_runs("", known))
    if exists(Path(name)):
        text = f"{name} is not a run directory: it has no {PLAN_FILE}"
        raise RunError(text, _other_runs(name, known))
    meant = _meant_by(name, known)
    if len(meant) == 1:
        return (Path(RUNS) / meant[0]).resolve()
    if meant:
        newest = ", ".join(reversed(meant[-SHOWN:])) + (", …" if len(meant) > SHOWN else "")
        raise RunError(f"`{shortened(name)}` fits {len(meant)} runs", f"type more of the name: {newest}")
    raise RunError(f"there is no run `{shortened(name)}`", _other_runs(name, known))


def find_whole_run(run: str | os.PathLike[str] | None = None) -> Path:
    """The same for what cannot be undone: a part of a name does not do, because it may become that of another run.

    A script that names a run which has been removed meanwhile would hit the next one whose name begins so.
    """
    given = "" if run is None else os.fspath(run)
    if (whole := full_name(given)) != given:
        raise RunError(f"`{shortened(given)}` is a part of the name of a run", f"type the whole name: {whole}")
    return find_run(run)


def full_name(run: str) -> str:
    """The name below `runs/` of which a part was given; what was given, where it is that of no run, or of several."""
    meant = [] if is_run(run) or exists(Path(run)) else _meant_by(run, known_runs())
    return meant[0] if len(meant) == 1 else run


def is_run(name: str) -> bool:
    """Whether this names a run."""
    return _directory_of(name) is not None


def _directory_of(run: str) -> Path | None:
    return next((each for each in (Path(run), Path(RUNS) / run) if exists(each / PLAN_FILE)), None)


def _meant_by(name: str, known: list[str]) -> list[str]:
    """The runs whose names begin so, or end so after a `-`: NAME-TIME-ID."""
    return [run for run in known if name and (run.startswith(name) or run.endswith(f"-{name}"))]


def _other_runs(name: str, known: list[str]) -> str:
    """The run that was probably meant, or the newest ones. The name of a pipeline means its newest run."""
    if not known:
        return "start one: wf run PIPELINE"
    last = Path(name).name
    of_pipeline = [run for run in known if last and run.startswith(f"{last}-")]
    meant = of_pipeline[-1] if of_pipeline else nearest_name(last, known, ALIKE) or nearest_name(last, [LATEST])
    return f"did you mean `{meant}`?" if meant else f"the newest runs here: {', '.join(reversed(known[-SHOWN:]))}"
