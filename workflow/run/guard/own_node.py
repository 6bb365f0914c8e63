"""What the allocation calls this node: for its guard, and for the supervisor, which is on one, too."""

from __future__ import annotations

import os
import socket


def node_name() -> str:
    """The name of this node in the allocation: Slurm's, which may differ from the system's."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()
