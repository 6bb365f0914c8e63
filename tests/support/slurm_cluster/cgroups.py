"""The control groups of a node: one of its own in every hierarchy (cgroup version 1), of which it sees no parent.

By them Slurm finds every process of a step, also one that left its session, and limits memory and cores.
"""

from __future__ import annotations

from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")
# What the plugins proctrack/cgroup, task/cgroup and jobacct_gather/cgroup use.
CONTROLLERS = ("freezer", "cpuset", "memory", "cpuacct", "devices")


def cgroups_here() -> bool:
    """Whether this machine has cgroups of version 1; Slurm 22.05 needs systemd for those of version 2."""
    return all((MOUNTED / controller / "cgroup.procs").exists() for controller in CONTROLLERS)


def make_groups(name: str) -> list[Path]:
    """A group in each hierarchy, where a process can be entered; its `cgroup.procs` takes the process's id."""
    groups = [MOUNTED / controller / name for controller in CONTROLLERS]
    for group in groups:
        group.mkdir(exist_ok=True)
    # A new group of this hierarchy has no cores and takes no process.
    for file in ("cpuset.cpus", "cpuset.mems"):
        (MOUNTED / "cpuset" / name / file).write_text((MOUNTED / "cpuset" / file).read_text())
    return groups


def remove_groups(name: str) -> None:
    """Remove the groups of a node whose processes have ended, with those that Slurm has made in them."""
    for controller in CONTROLLERS:
        group = MOUNTED / controller / name
        # The deepest first: a group with groups in it cannot be removed.
        for folder in sorted((path for path in group.glob("**/") if path.is_dir()), key=lambda path: -len(path.parts)):
            folder.rmdir()
