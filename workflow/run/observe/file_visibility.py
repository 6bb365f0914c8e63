"""How long after a stage has ended its last records may become visible here.

A file that another node has written can be seconds old here: NFS clients believe the attributes of a file for 3 s and
more, and those of a directory for 30 s (nfs(5): acregmin, acdirmin). On a file system of this machine what has been
written is visible at once.
"""

from __future__ import annotations

from pathlib import Path

# Longer than NFS clients believe by default that a file is not there (acdirmin, 30 s).
VISIBILITY_S = 35.0
LOCAL = frozenset({"btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"})


def visibility_s(folder: Path, local: frozenset[str] = LOCAL) -> float:
    """So long may records in `folder` take to become visible: 0 on a file system of this machine, of a type in `local`.

    A file system of unknown type counts as shared.
    """
    import psutil  # takes 20 ms; most runs never need it

    folder = folder.resolve()
    mounts = {Path(mount.mountpoint): mount.fstype for mount in psutil.disk_partitions(all=True)}
    kind = next((mounts[place] for place in (folder, *folder.parents) if place in mounts), "")
    return 0.0 if kind in local else VISIBILITY_S
