"""The probe, a program that runs in place of a stage's program and reports where the launcher has put its rank.

`python -I -S rank_probe.py PROOF_DIR STAGE RANK_VARIABLE LOCAL_RANK_VARIABLE LOOKERS` prints one JSON object a line:
one of its rank, and from the first rank of each node one of the node. Only the standard library.

Ranks of the stage that LOOKERS names (`0,8,16`; `-`: none) also check the run's directory: they read `token`, write a
file of their own, and wait until `pulse`, which the supervisor keeps replacing, has changed.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOKEN, PULSE, ANSWERS = "token", "pulse", "nodes"
# How long to wait for a change that another node has made.
STALE_S = 5.0
# Between two looks, about: of 256 nodes these are 1,000 opens a second.
_LOOK_S = 0.25
_CPU, _NODE, _DEV = Path("/sys/devices/system/cpu"), Path("/sys/devices/system/node"), Path("/dev")
GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
NIC_VARIABLES = ("FABRIC_IFACE", "UCX_NET_DEVICES", "FI_CXI_DEFAULT_DEVICE")
_INTERFACES = ("net", "cxi", "infiniband")


def probe_rank(stage: str, rank_variable: str) -> dict[str, Any]:
    """Which rank this is, on which node, and what it may use there."""
    status = dict(line.split(":\t", 1) for line in _text(Path("/proc/self/status")).splitlines() if ":\t" in line)
    return {
        "stage": stage,
        "rank": int(os.environ.get(rank_variable) or 0),
        "node": node_name(),
        "cores": status.get("Cpus_allowed_list", ""),
        "memory_nodes": status.get("Mems_allowed_list", ""),
        "gpus": {name: os.environ[name] for name in GPU_VARIABLES if name in os.environ},
        "nics": {name: os.environ[name] for name in NIC_VARIABLES if name in os.environ},
    }


def probe_node() -> dict[str, Any]:
    """What the node has. Lists of processors are as Linux writes them: `0-3,8`."""
    # Only here: it takes longer than all that the other ranks do.
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # where the package is
    from workflow.run.processes.kernel_oom_kills import memory_cgroup

    cgroup = memory_cgroup(_text(Path("/proc/self/cgroup")))
    return {
        "node": node_name(),
        "online": _text(_CPU / "online"),
        "siblings": sorted(set(_texts(_CPU.glob("cpu[0-9]*/topology/thread_siblings_list"))), key=_first),
        "numa": sorted(_texts(_NODE.glob("node[0-9]*/cpulist")), key=_first),
        "l3": sorted(set(_texts(_CPU.glob("cpu[0-9]*/cache/index3/shared_cpu_list"))), key=_first),
        "memory_limit": None if cgroup is None else cgroup.limit_bytes(),
        "gpu_devices": sorted(path.name for pattern in ("nvidia[0-9]*", "dri/renderD*") for path in _DEV.glob(pattern)),
        "interfaces": sorted(path.name for kind in _INTERFACES for path in Path("/sys/class", kind).glob("*")),
    }


def probe_directory(folder: Path, answer: str) -> Iterator[dict[str, Any]]:
    """What this node sees of the run's directory, line by line as it happens."""
    begin = _text(folder / PULSE)
    line: dict[str, Any] = {"node": node_name(), "token": _text(folder / TOKEN), "answer": answer}
    try:
        (folder / ANSWERS / answer).write_text(line["token"])
    except OSError as error:
        line["error"] = f"{error.strerror}: {error.filename}"
    yield line
    deadline = time.monotonic() + STALE_S
    while line["token"] and time.monotonic() < deadline:
        time.sleep(_LOOK_S * (0.5 + os.urandom(1)[0] / 256))  # the nodes must not look all at once
        now = _text(folder / PULSE)
        if now != begin and now.isdigit():
            yield {"node": node_name(), "pulse": int(now)}
            return


def node_name() -> str:
    """The name of this node in the allocation: Slurm's, which may differ from the system's."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _texts(paths: Iterator[Path]) -> list[str]:
    return [text for path in paths if (text := _text(path))]


def _first(cores: str) -> int:
    return int(cores.replace("-", ",").split(",")[0])


def main(folder: str, stage: str, rank_variable: str, local_rank_variable: str, lookers: str) -> None:
    """Print what is found."""
    rank = probe_rank(stage, rank_variable)
    lines = [rank]
    if not int(os.environ.get(local_rank_variable) or 0):
        lines.append(probe_node())
    _print(lines)
    if str(rank["rank"]) in lookers.split(","):
        for line in probe_directory(Path(folder), f"{rank['node']}.{stage}.{rank['rank']}"):
            _print([line])


def _print(lines: list[dict[str, Any]]) -> None:
    text = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    while text:
        text = text[os.write(1, text) :]


if __name__ == "__main__":
    main(*sys.argv[1:6])
