"""What a run removes or marks when it ends: contact files, streams not kept, BP files that a dead writer left open.

It also removes spools on this node that are outside of the run directory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from workflow.engines import CONTACT_SUFFIXES
from workflow.formats.absent_readers import ABSENT
from workflow.formats.bp_index import deactivate
from workflow.formats.node_folder import links, remove_here
from workflow.formats.step_files import is_numbered, newest_step_file
from workflow.plan.plan_model import Plan


def clean(run_dir: Path, plan: Plan) -> list[str]:
    """Remove stale contact files and the streams not to be kept; mark unfinished BP files as ended.

    Only what the plan names is examined, and the first level of each stage's work directory: a walk over all that a
    run has written takes minutes on a parallel file system. `plan` has its run directory filled in. Returns what was
    touched, relative to the run directory; what could not be removed or marked is left out. Must be called when no
    stage runs any more.
    """
    touched = remove_here(run_dir)
    on_other_nodes = links(run_dir)  # their guards need the links, until they have ended
    touched += [path for path in _contact_files(run_dir, plan) if _remove(path)]
    for stream in plan.streams:
        if not stream.keep:
            inside = (Path(place) for place in stream.on_disk if _is_ours(Path(place), run_dir, plan))
            touched += [path for path in inside if path not in on_other_nodes and _remove(path)]
    touched += [folder for folder in _bp_candidates(run_dir, plan) if deactivate(folder / "md.idx")]
    return [str(path.relative_to(run_dir)) for path in touched]


def _is_ours(place: Path, run_dir: Path, plan: Plan) -> bool:
    """Whether a stream is where wf puts streams, or where a program of the run writes one by a name of its own."""
    folders = (run_dir / "streams", *(Path(stage.cwd) for stage in plan.stages))
    return any(place != folder and place.is_relative_to(folder) for folder in folders)


def _contact_files(run_dir: Path, plan: Plan) -> list[Path]:
    """Also while they are being written; a killed writer leaves them, and they crash later writers."""
    places = {run_dir / "streams"} | {Path(end.path).parent for stage in plan.stages for end in stage.ends}
    inside = [place for place in places if place.is_relative_to(run_dir / "streams")]
    own = [Path(end.path + end.traits.contact_suffix) for stage in plan.stages for end in stage.ends if end.opened]
    own = [path for path in own if path.suffix in CONTACT_SUFFIXES and _is_ours(path, run_dir, plan)]
    return own + sorted(
        path for place in inside for ending in (*CONTACT_SUFFIXES, ABSENT, ".tmp") for path in place.glob(f"*{ending}")
    )


def _bp_candidates(run_dir: Path, plan: Plan) -> list[Path]:
    """What may be a BP directory inside the run directory: streams, outputs of components, entries of work directories.

    Links are not followed.
    """
    named = {Path(end.path) for stage in plan.stages for end in stage.ends}
    named |= {Path(place) for stream in plan.streams for place in (stream.path, *stream.on_disk)}
    named |= {Path(text) for stage in plan.stages for text in _texts(stage.parameters.values()) if text.startswith("/")}
    # Of a stream with a file per step all but the newest are closed.
    streams = (Path(stream.path).parent for stream in plan.streams if is_numbered(stream.path))
    named |= {newest for folder in streams if (newest := newest_step_file(folder)) is not None}
    listed = {path for stage in plan.stages for path in _folders(Path(stage.cwd))}
    return sorted(path for path in named | listed if path.is_relative_to(run_dir) and _is_folder(path))


def _folders(folder: Path) -> Iterator[Path]:
    """The directories in a directory."""
    try:
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return


def _texts(values: Iterable[Any]) -> Iterator[str]:
    """The strings among parameters and lists of parameters."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _texts(value)


def _remove(path: Path) -> bool:
    """Returns whether there was something, and all of it is gone."""
    if not _exists(path):
        return False
    if _is_folder(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):  # a mount point, a file that NFS or the operating system still uses
            path.unlink(missing_ok=True)
    return not _exists(path)


def _exists(path: Path) -> bool:
    return _mode(path) is not None


def _is_folder(path: Path) -> bool:
    """Whether this is a directory, and not a link to one."""
    return stat.S_ISDIR(_mode(path) or 0)


def _mode(path: Path) -> int | None:
    """The mode of a file or link. A text that no file system accepts, too long or with a NUL byte, is no path."""
    try:
        return path.lstat().st_mode
    except (OSError, ValueError):
        return None
