"""Writing a file so that a reader sees the old bytes or the new ones, never half of them."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
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


# What a file system says that has no hard links, or lets nobody make one.
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL)


def create_whole(path: Path, data: bytes) -> None:
    """Write a file that is not there yet: of several processes one succeeds. A reader sees all bytes or no file; on a
    file system without hard links, for a moment an empty one.

    Raises:
        FileExistsError: it is there.
        OSError: it cannot be written; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}.{threading.get_ident()}")
    try:
        temporary.write_bytes(data)
        # Unlike a rename, a link fails where the name exists.
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS or not temporary.exists():
            raise
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        try:
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()  # the empty one is ours: nobody else could make one since
            raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


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
