"""What a cluster needs of this machine, and which of that is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# Where Debian puts the daemons, which are not on every user's PATH.
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# command → the Debian package that has it
PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mpirun.openmpi": "openmpi-bin",
    "bindfs": "bindfs",
    "fsfreeze": "util-linux",
    "mkfs.ext4": "e2fsprogs",
}
# Linux capabilities by number (include/uapi/linux/capability.h): namespaces and mounts, network interfaces.
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}


def path_with_daemons() -> str:
    return ":".join([os.environ.get("PATH", "/usr/bin:/bin"), *SYSTEM_FOLDERS])


def missing_packages() -> list[str]:
    """Debian packages whose commands are not on this machine, each once."""
    absent = [package for command, package in PACKAGES.items() if not shutil.which(command, path=path_with_daemons())]
    return list(dict.fromkeys(absent))


def missing_for_cluster() -> list[str]:
    """One sentence for each thing that is missing; an empty list: a cluster can be started."""
    missing = []
    if os.geteuid() != 0:
        missing.append("a cluster makes namespaces, mounts and network interfaces: run as root")
    else:
        effective = _effective_capabilities()
        missing += [
            f"root has no {name} here: start the container with it"
            for name, bit in CAPABILITIES.items()
            if not effective >> bit & 1
        ]
    if packages := missing_packages():
        missing.append(f"packages are missing: apt-get install --no-install-recommends {' '.join(packages)}")
    return missing


def _effective_capabilities() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
