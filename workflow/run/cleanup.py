"""What a run leaves on disk when it ends: no contact files, no BP file that looks as if it still grew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from workflow.plan.plan_model import Plan
from workflow.run.observe.bp_index import deactivate

# Deep enough for a component's output below the run directory or in its stage's work directory.
_DEPTH = 4


def clean(run_dir: Path, plan: Plan) -> list[str]:
    """Remove stale contact files and the streams not to be kept; mark unfinished BP files as ended.

    `plan` has its run directory filled in. Returns what was touched, relative to the run directory. Must
    be called when no stage runs any more.
    """
    touched = [path for path in _contact_files(run_dir, plan) if _remove(path)]
    for stream in plan.streams:
        if stream.engine == "SSC":
            touched += [path for path in _handshakes(Path(stream.path)) if _remove(path)]
        if not stream.keep:
            inside = (Path(place) for place in stream.on_disk if Path(place).is_relative_to(run_dir / "streams"))
            touched += [path for path in inside if _remove(path)]
    touched += [index.parent for index in _indices(str(run_dir), _DEPTH) if deactivate(index)]
    return [str(path.relative_to(run_dir)) for path in touched]


def _contact_files(run_dir: Path, plan: Plan) -> list[Path]:
    """SST's, also while they are being written; a killed writer leaves them, and they crash later writers."""
    places = {run_dir / "streams"} | {Path(end.path).parent for stage in plan.stages for end in stage.ends}
    inside = [place for place in places if place.is_relative_to(run_dir / "streams")]
    return sorted(path for place in inside for ending in ("*.sst", "*.tmp") for path in place.glob(ending))


def _handshakes(stream: Path) -> list[Path]:
    """What SSC's two ends leave beside a stream when they are killed while they look for each other."""
    return sorted(path for end in "rw" for path in stream.parent.glob(f"{stream.name}.*.{end}*"))


def _indices(folder: str, depth: int) -> Iterator[Path]:
    """The `md.idx` of BP directories; links are not followed."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name == "md.idx" and entry.is_file(follow_symlinks=False):
            yield Path(entry.path)
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _indices(entry.path, depth - 1)


def _remove(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists() or path.is_symlink():
        path.unlink(missing_ok=True)
    else:
        return False
    return True
