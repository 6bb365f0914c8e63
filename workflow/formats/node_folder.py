"""The folder that a run has on one node, outside of its own directory: in /dev/shm, or on the node's disk.

A file there is known by a link in `streams` of the run directory, at the path that the plan gives it. Only the node
that has the folder can read it by the link. Whoever ends the run finds by the link what is to be removed; the name of
the folder is made from the path of the run directory, so that nobody takes the folder of another run for it, and on
disk from the name of the node, too: $TMPDIR may lead to a folder that nodes share.

The guards of a run import this module where only the standard library can be found, and every rank of a stage imports
it: what takes long to import is imported where it is used.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from workflow.formats.sides import TMPDIR, OnNode
from workflow.own_process import temporary_folder

MEMORY = Path("/dev/shm")
_STREAMS = "streams"


def folder_name(run_dir: str | Path) -> str:
    """The name of the folder of a run in memory, however the path of its directory is written."""
    import hashlib

    path = os.path.realpath(run_dir)
    digest = hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()
    return f"wf-{os.getuid()}-{digest}"


def root_here(place: OnNode) -> Path:
    """Where such folders are on this node."""
    return Path(temporary_folder() if place == TMPDIR else place)


def _name_on_disk(run_dir: str | Path) -> str:
    # Not Slurm's name of the node: the supervisor, and `wf clean` in another session, may not have its variable.
    return f"{folder_name(run_dir)}-{os.uname().nodename}"


def _folder(run_dir: str | Path, place: OnNode) -> Path:
    root = root_here(place)
    return root / (folder_name(run_dir) if root == MEMORY else _name_on_disk(run_dir))


def make_here(link: Path, run_dir: str | Path, place: OnNode) -> None:
    """Make the folder of a run on this node, in it the directory of a BP file, and the link by which it is known.

    What an earlier attempt has left is used again where it is on this node. Raises OSError, also where a file is at the
    path of the link, or the folder belongs to another user.
    """
    target = _folder(run_dir, place) / link.name
    # The link first: whoever ends the run finds what is to be removed, whenever this process is killed.
    try:
        link.symlink_to(target)
    except FileExistsError:
        if not link.is_symlink():
            raise
        if link.exists():
            target = link.readlink()
        elif link.readlink() != target:  # it was on another node, or $TMPDIR was another one
            _replace_link(link, target)
    folder = target.parent
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_own(folder):
        raise FileExistsError(errno.EEXIST, "belongs to another user", str(folder))
    target.mkdir(exist_ok=True)


def _replace_link(link: Path, target: Path) -> None:
    """At no time there is no link: other ranks may open the file by it."""
    new = link.with_name(f".{link.name}.{os.getpid()}")
    new.symlink_to(target)
    new.replace(link)


def links(run_dir: str | Path) -> dict[Path, Path]:
    """Link in the run directory → the folder of this run to which it leads, on whatever node."""
    name, found = folder_name(run_dir), {}
    with contextlib.suppress(OSError), os.scandir(Path(run_dir, _STREAMS)) as entries:
        for entry in entries:
            if entry.is_symlink():
                folder = Path(entry.path).readlink().parent
                if folder.name == name or folder.name.startswith(f"{name}-"):
                    found[Path(entry.path)] = folder
    return found


def folders_here(run_dir: str | Path, known: Iterable[Path] = ()) -> set[Path]:
    """The folders of a run that are on this node. `known`: folders that links have led to."""
    names = {folder_name(run_dir), _name_on_disk(run_dir)}
    places = {_folder(run_dir, str(MEMORY)), _folder(run_dir, TMPDIR), *links(run_dir).values(), *known}
    return {folder for folder in places if folder.name in names and _is_own(folder)}


def remove_here(run_dir: str | Path, known: Iterable[Path] = ()) -> list[Path]:
    """Remove the folders of a run that are on this node, and the links to them, which are returned. No stage of the run
    may run any more. `known`: folders that links have led to."""
    import shutil

    here = folders_here(run_dir, known)
    # In memory the folders of all nodes have the same path: of those in `here` some links may lead to other nodes.
    led_here = {link: folder for link, folder in links(run_dir).items() if folder in here and link.exists()}
    for folder in here:
        shutil.rmtree(folder, ignore_errors=True)
    gone = [link for link, folder in led_here.items() if not folder.exists()]
    for link in gone:
        with contextlib.suppress(OSError):
            link.unlink(missing_ok=True)
    return sorted(gone)


def remove_links(run_dir: str | Path) -> None:
    """Remove the links to folders on other nodes, whose guards have removed them."""
    for path in links(run_dir):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _is_own(folder: Path) -> bool:
    """Whether this is a directory of this user, and not a link to one: anybody may write beside it."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
