"""Removes run directories. Each is renamed first: whenever the removal is interrupted, a run is whole or gone.

What is left of one that was renamed is `.removed-ID-NAME` beside it, which the next removal finds. Its plan goes first:
what still has it is whole.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from workflow.formats.node_folder import folders_here
from workflow.run.records.find_runs import known_runs
from workflow.run.records.run_directory import LATEST, PLAN_FILE, RUNS, point_latest

_BLOCK = 512  # the unit of st_blocks
_LONGEST = 200  # bytes of a name, which with `.removed-ID-` stay below the 255 of Linux's file systems
_REST = re.compile(r"\.removed-[0-9a-f]{8}-(.*)")


@dataclass(frozen=True)
class LeftDirectory:
    """What is left of a run whose removal was interrupted: where, and how many bytes on disk.

    `is_whole`: its removal had not begun, or another `wf clean` looks at it now.
    """

    directory: Path
    size: int
    is_whole: bool

    @property
    def name(self) -> str:
        """That of the run; a very long one is cut off."""
        found = _REST.fullmatch(self.directory.name)
        return found[1] if found else self.directory.name


@dataclass(frozen=True)
class RunContents:
    """Which directory it is, and what is in it: another one of the same name, or a file more, makes a difference.

    `size`: bytes on disk; links are not followed, and what has several names counts once. `newest`: the last
    modification, in ns.
    """

    device: int
    inode: int
    entries: int
    size: int
    newest: int


def look_into(directory: Path) -> RunContents | None:
    """What a directory holds now; None for a link, for no directory, and where not all of it can be read."""
    try:
        top = directory.lstat()
        if not stat.S_ISDIR(top.st_mode):
            return None
        entries, size, newest = 0, top.st_blocks * _BLOCK, top.st_mtime_ns
        linked: set[tuple[int, int]] = set()
        for found in _walk(directory):
            entries += 1
            newest = max(newest, found.st_mtime_ns)
            if found.st_nlink == 1 or stat.S_ISDIR(found.st_mode) or (found.st_dev, found.st_ino) not in linked:
                size += found.st_blocks * _BLOCK
                linked.add((found.st_dev, found.st_ino))
    except OSError:
        return None
    return RunContents(top.st_dev, top.st_ino, entries, size, newest)


def _walk(directory: Path) -> Iterator[os.stat_result]:
    waiting = [os.fspath(directory)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def find_inside(directory: Path, names: Collection[str], without: str) -> Path | None:
    """A folder below this one, relative to it, that has a file of one of these names; None where there is none.

    Links are not followed, and neither the many files of a BP folder nor the folder `without` in this one are looked
    at. Raises OSError.
    """
    for folder, folders, files in os.walk(directory, onerror=_raise):
        if Path(folder) != directory and any(name in files for name in names):
            return Path(folder).relative_to(directory)
        known = {without} if Path(folder) == directory else set()
        folders[:] = sorted(name for name in folders if not name.endswith(".bp") and name not in known)
    return None


def _raise(error: OSError) -> None:
    raise error


def remove_run(run_dir: Path, listed: RunContents) -> str:
    """Remove a run that is as it was when it was listed. Returns why it stays; empty when it is gone.

    Whoever works on a run changes it: a supervisor renews its lease. Interrupted before anything of it is removed, the
    run is where it was.
    """
    if changed := _since_listed(run_dir, listed):
        return changed
    spool_folders = folders_here(run_dir)
    name = os.fsencode(run_dir.name)[:_LONGEST].decode(errors="ignore")
    away = run_dir.with_name(f".removed-{secrets.token_hex(4)}-{name}")
    try:
        run_dir.rename(away)
    except OSError as error:
        return f"it cannot be renamed: {error.strerror}"
    try:
        # Nobody finds it by its name any more: what has come until now is all that may have come.
        changed = _since_listed(away, listed)
    except BaseException:
        _rename_back(away, run_dir)
        raise
    try:
        if not changed:
            (away / PLAN_FILE).unlink()
    except OSError as error:
        changed = f"it cannot be removed: {error.strerror}"
    if changed:
        return f"{changed}{_rename_back(away, run_dir)}"
    for folder in spool_folders:  # of a run that was killed together with its guard
        shutil.rmtree(folder, ignore_errors=True)
    return remove_rest(away)


def _rename_back(away: Path, run_dir: Path) -> str:
    """Give a run its name again. Returns where it is when the name is taken; empty when it is back."""
    try:
        away.rename(run_dir)
    except OSError as error:
        return f", and is {away} now: it cannot be renamed back: {error.strerror}"
    return ""


def _since_listed(directory: Path, listed: RunContents) -> str:
    now = look_into(directory)
    if now is None or (now.device, now.inode) != (listed.device, listed.inode):
        return "it is not the directory that was listed"
    return "" if now == listed else "it has changed since it was listed"


def remove_rest(rest: Path) -> str:
    """Remove what is left of a run that was renamed. Returns why it could not be; empty when it is gone."""
    try:
        shutil.rmtree(rest)
    except FileNotFoundError:
        return remove_rest(rest) if rest.exists() else ""  # somebody else removes it, too
    except OSError as error:
        return f"what is left of it is {rest}: {error.strerror}: {error.filename}"
    return ""


def find_rests(folder: Path) -> list[LeftDirectory]:
    """What is left in a folder of runs whose removal was interrupted, by their names."""
    rests: list[LeftDirectory] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _REST.fullmatch(entry.name) and (contents := look_into(Path(entry.path))):
                rests.append(LeftDirectory(Path(entry.path), contents.size, Path(entry.path, PLAN_FILE).exists()))
    return sorted(rests, key=lambda rest: rest.name)


def repair_latest() -> None:
    """Where the run that `runs/latest` pointed to is gone, let it point to the newest one; without any it goes, too."""
    link = Path(RUNS).absolute() / LATEST
    if not link.is_symlink() or link.exists():
        return
    if left := known_runs():
        point_latest(link.parent, link.parent / left[-1])
    else:
        link.unlink(missing_ok=True)
