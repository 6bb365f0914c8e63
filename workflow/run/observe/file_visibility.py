"""How long after a stage has ended its last records may become visible here.

A file that another node has written can be seconds old here: NFS clients believe the attributes of a file for 3 s and
more, and those of a directory for 30 s (nfs(5): acregmin, acdirmin). On a file system of this machine what has been
written is visible at once.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

# Longer than NFS clients believe by default that a file is not there (acdirmin, 30 s).
VISIBILITY_S = 35.0
LOCAL = frozenset({"btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"})
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


def visibility_s(folder: Path, local: frozenset[str] = LOCAL) -> float:
    """So long may records in `folder` take to become visible: 0 on a file system of this machine, of a type in `local`.

    A file system of unknown type counts as shared.
    """
    folder = folder.resolve()
    try:
        kinds = mounted(Path("/proc/self/mounts").read_bytes())
    except OSError:
        return VISIBILITY_S
    kind = next((kinds[place] for place in (folder, *folder.parents) if place in kinds), "")
    return 0.0 if kind in local else VISIBILITY_S


def mounted(table: bytes) -> dict[Path, str]:
    """The type of the file system at each mount point, of a table as in proc_pid_mounts(5).

    Spaces, tabs, newlines, backslashes and `#` are octal there: `\\040`. A later line hides an earlier one.
    """
    lines = [line.split(b" ") for line in table.split(b"\n")]
    return {
        Path(os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), line[1]))): os.fsdecode(line[2])
        for line in lines
        if len(line) > 2
    }
