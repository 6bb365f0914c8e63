"""Environment that differs between the ranks of a node: which GPUs each sees, which network adapter it uses.

A launcher gives all ranks of a line one environment. Where they need different ones, each rank starts through a
script of a few lines, which sets its variables by its number on its node and becomes the program.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from workflow.formats.rank_files import NOT_STARTED
from workflow.launch.launch_request import LaunchRequest

NIC_VARIABLE = "FABRIC_IFACE"  # of SST's RDMA transport (ADIOS2, toolkit/sst/dp/rdma_dp.c)
SCRIPT = "rank_settings.sh"


class RankSettings(NamedTuple):
    """What every rank starts through, [] for nothing; the script that this needs; environment of all ranks."""

    through: list[str]
    files: dict[str, Callable[[], str]]
    env: dict[str, str]


def rank_settings(request: LaunchRequest, local_rank: str, *, selects_gpus: bool = False) -> RankSettings:
    """The settings of the ranks of a line. `local_rank` is the variable with a rank's number on its node.

    `selects_gpus`: the launcher restricts each rank to its GPUs itself.
    """
    layout = request.local
    variable = "" if selects_gpus else request.node.gpu_variable
    ranks: list[dict[str, str]] = [{} for _ in range(max(len(layout.gpus) if variable else 0, len(layout.nics)))]
    for rank, settings in enumerate(ranks):
        if variable and rank < len(layout.gpus):
            settings[variable] = ",".join(map(str, layout.gpus[rank]))
        if rank < len(layout.nics) and layout.nics[rank]:
            settings[NIC_VARIABLE] = layout.nics[rank]
    if not any(ranks):
        return RankSettings([], {}, {})
    if all(settings == ranks[0] for settings in ranks):
        return RankSettings([], {}, ranks[0])
    path = f"{request.folder}/{SCRIPT}"
    return RankSettings(["/bin/sh", path], {path: lambda: _script(local_rank, ranks)}, {})


def _script(local_rank: str, ranks: Sequence[Mapping[str, str]]) -> str:
    cases = "".join(
        f"{rank}) export {' '.join(f'{name}={shlex.quote(value)}' for name, value in settings.items())} ;;\n"
        for rank, settings in enumerate(ranks)
    )
    return (
        f'#!/bin/sh\n# GPUs and network adapter of each rank of a node\ncase "${local_rank}" in\n{cases}'
        f'*) echo "wf: {local_rank}=${local_rank}: no rank of this node has that number" >&2; exit {NOT_STARTED} ;;\n'
        'esac\nexec "$@"\n'
    )
