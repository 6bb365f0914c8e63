"""Writing a file so that a reader sees the old bytes or the new ones, never half of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write under a temporary name, then rename. Into a device or a pipe is written directly: nothing takes its place.

    Raises:
        OSError: it cannot be written; the old file is as it was.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Replace several files: all of them, or none where one cannot be written. All bytes are on the file system under
    temporary names before the first file is renamed; into devices and pipes is written directly.

    Raises:
        OSError: one cannot be written; the old files are as they were.
    """
    written: dict[Path, Path] = {}
    try:
        for path, data in contents.items():
            if not path.exists() or path.is_file():
                written[path] = path.with_name(f".{path.name}.{os.getpid()}")
                written[path].write_bytes(data)
        for path in contents.keys() - written.keys():
            path.write_bytes(contents[path])
        for path in list(written):
            written[path].replace(path)
            del written[path]
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)
