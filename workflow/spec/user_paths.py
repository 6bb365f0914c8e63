"""Texts that users write as paths: why no file system takes one, and whether it names a file."""

from __future__ import annotations

import os
from pathlib import Path

from workflow.errors import WfError

_MAX_NAME_BYTES = 255  # NAME_MAX of Linux's file systems
_MAX_PATH_BYTES = 4095  # PATH_MAX of Linux, without its closing NUL


def path_mistake(path: str | Path) -> str:
    """Why no file system takes a path, e.g. "it holds a NUL byte"; empty when a file system may take it."""
    text = str(path)
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair"
    if b"\0" in encoded:
        return "it holds a NUL byte"
    if len(encoded) > _MAX_PATH_BYTES:
        return f"a path has at most {_MAX_PATH_BYTES} bytes, this one has {len(encoded)}"
    longest = max(len(name) for name in encoded.split(b"/"))
    return f"a file name has at most {_MAX_NAME_BYTES} bytes, not {longest}" if longest > _MAX_NAME_BYTES else ""


def is_file(path: Path) -> bool:
    """Whether there is a file that can be seen. False too for a path that no file system takes."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """Whether there is anything that can be seen. False too for a path that no file system takes."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_utf8(path: Path, hint: str = "rename it") -> None:
    """Raises WfError for a path that is not UTF-8: no record of a run can name it, and ADIOS2 takes no such path."""
    if (shown := in_utf8(str(path))) != str(path):
        raise WfError(f"{shown}: this name is not UTF-8", hint)


def in_utf8(text: str) -> str:
    """A text of the system, such as a path, as JSON takes it: bytes that are no UTF-8 as `?`."""
    return text.encode("utf-8", "replace").decode()
