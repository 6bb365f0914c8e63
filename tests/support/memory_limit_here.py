"""Whether a memory cgroup with a limit can be made here: not in a container without rights, nor in most user sessions.

A skip would be a failure under CI, so tests are left out by this, and the end of every test run says so.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from workflow.run.processes.kernel_oom_kills import memory_cgroup

LIMIT = 64 * 2**20


@contextlib.contextmanager
def limited_cgroup() -> Iterator[Path]:
    """A memory cgroup of `LIMIT` bytes below that of this process. Raises OSError where none can be made."""
    own = memory_cgroup(Path("/proc/self/cgroup").read_text())
    if own is None:
        raise OSError("this system has no memory cgroups")
    folder = own.folder / f"wf-test-{os.getpid()}"
    folder.mkdir()
    try:
        files = [folder / "memory.max", folder / "memory.limit_in_bytes"]
        file = next((file for file in files if file.exists()), None)
        if file is None:
            raise OSError("a cgroup below that of this process has no memory limit")
        file.write_text(str(LIMIT))
        for swap in (folder / "memory.swap.max", folder / "memory.memsw.limit_in_bytes"):
            with contextlib.suppress(OSError):
                swap.write_text("0" if swap.name == "memory.swap.max" else str(LIMIT))
        yield folder
    finally:
        deadline = time.monotonic() + 10
        while folder.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):  # busy while its last process ends
                folder.rmdir()


def _obstacle() -> str:
    """Why no process can be put under a memory limit here; empty if one can."""
    try:
        with limited_cgroup() as folder:
            join = ["sh", "-c", 'echo 0 > "$1"', "sh", str(folder / "cgroup.procs")]
            joined = subprocess.run(join, capture_output=True, text=True, check=False)
            return "" if joined.returncode == 0 else f"no process can be moved into a cgroup: {joined.stderr.strip()}"
    except OSError as error:
        return error.strerror or str(error)


_SEEN = _obstacle()
LIMITS_WORK = not _SEEN
LEFT_OUT = f"a real kill for lack of memory is not tested here, no memory limit can be set: {_SEEN}" if _SEEN else ""
