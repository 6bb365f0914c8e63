"""A stream in one BP output per step: `field/000000.bp`, `field/000001.bp`, …, and what says that there are no more.

The path of such a stream has `%06T` for the number of the step, as the names of file-based openPMD series have. The
writer leaves `closed.json` beside the files when it closes the stream: without it nobody could tell a stream that has
ended from one whose writer died.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from workflow.engines import BP_SUFFIXES
from workflow.formats.read_json import check_version, read_json

NUMBERED_NAME = "%06T"
CLOSED_FILE = "closed.json"
_VERSION_KEY, _VERSION = "step_files_version", 1
_STEP_FILE = re.compile(r"\d{6,}\.bp[45]?")


def is_numbered(path: str) -> bool:
    """Whether this is the path of a stream with a file per step."""
    return NUMBERED_NAME in Path(path).name


def step_file(path: str, step: int) -> str:
    """The file of a step.

    >>> step_file("streams/field/%06T.bp", 12)
    'streams/field/000012.bp'
    """
    return str(Path(path).with_name(Path(path).name.replace(NUMBERED_NAME, f"{step:06d}")))


def write_closed(path: str, steps: int) -> None:
    """Note that the stream was closed after so many steps."""
    part = Path(path).with_name(f"{CLOSED_FILE}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps({_VERSION_KEY: _VERSION, "steps": steps}) + "\n")
    part.replace(part.with_name(CLOSED_FILE))


def read_closed(path: str) -> int | None:
    """How many steps the stream has; None where its writer has not closed it.

    Raises:
        ValueError: the file is of a newer version, or not what `write_closed` writes.
    """
    file = Path(path).with_name(CLOSED_FILE)
    try:
        found = read_json(file.read_bytes())
    except FileNotFoundError:
        return None
    check_version(found, _VERSION_KEY, _VERSION, file)
    return int(found["steps"])


def first_file(path: str) -> Path:
    """What exists as soon as there is something to read: the index of the first file, or the end of the stream."""
    closed = Path(path).with_name(CLOSED_FILE)
    return closed if closed.exists() else Path(step_file(path, 0)) / "md.idx"


def newest_step_file(directory: Path) -> Path | None:
    """The file of the last step in the directory of a stream; None where there is none."""
    found = [each for each in directory.glob("*.bp*") if _STEP_FILE.fullmatch(each.name)]
    return max(found, key=lambda each: int(each.stem), default=None)


def numbered_path(directory: Path) -> Path | None:
    """The path of the stream whose files are in a directory; None where it is not such a directory."""
    for suffix in BP_SUFFIXES:
        path = directory / f"{NUMBERED_NAME}{suffix}"
        if (directory / f"{0:06d}{suffix}" / "md.idx").exists():
            return path
    return None
