"""MPICH's mpiexec (hydra), as of MPICH 4.2: `launcher: mpiexec`. Options: `mpiexec -help`, `mpiexec -bind-to -help`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest, host_options, rank_settings
from workflow.launch.rank_ends import signal_of_shell

# hydra exits with the number of the signal that ended a rank, and names it in this line.
_EXIT_STRING = re.compile(r"EXIT STRING: .*\(signal (\d+)\)")
# In a job of Slurm hydra starts its proxies by srun. Two lines of one run would wait for each other's cores.
_BOOTSTRAP = {"SLURM_OVERLAP": "1"}
# Ranks of this node alone need none. Variables of a job, or of its outer one, say otherwise where there is no srun, as
# in a container: hydra then waits for ever.
_HERE = {"HYDRA_LAUNCHER": "fork"}
_OF_OTHERS = ("HYDRA_LAUNCHER*", "HYDRA_RMK", "HYDRA_HOST_FILE")
_LOCAL_RANK = "MPI_LOCALRANKID"


def _line(request: LaunchRequest) -> LaunchLine:
    """`mpiexec -n 4 -ppn 2 -hosts a,b -bind-to user:0,1 A`."""
    settings = rank_settings(request, _LOCAL_RANK)
    env = settings.env | (_HERE if request.is_here else _BOOTSTRAP if request.own_hosts else {})
    without = _OF_OTHERS if request.is_here else ()
    hosts, files = host_options(request, request.own_hosts)
    argv = [
        request.executable,
        *request.option("ranks", request.ranks),
        *(request.option("ranks_per_node", request.layout.ranks_per_node) if request.layout.nodes > 1 else []),
        *hosts,
        *_binding(request),
        *_gpus(request),
        *request.arguments,
        *settings.through,
        *request.program,
    ]
    return LaunchLine(argv, files | settings.files, env, without)


def _binding(request: LaunchRequest) -> list[str]:
    """`user:0+1,2+3`: the cores of each rank of a node."""
    sets = ",".join("+".join(map(str, cores)) for cores in request.layout.cores)
    return request.option("cores", sets) if sets else []


def _gpus(request: LaunchRequest) -> list[str]:
    """Where no variable restricts ranks to their GPUs. MPICH 5.0.2 aborts at this option on a node without GPUs."""
    count = {len(each) for each in request.layout.gpus}
    return request.option("gpus_per_rank", max(count)) if count and not request.node.gpu_variable else []


def _signal_of(code: int, lines: Iterable[str]) -> int | None:
    for line in lines:
        match = _EXIT_STRING.search(line)
        if match and int(match[1]) == code:
            return code
    return signal_of_shell(code)


LAUNCHER = Launcher(
    _line,
    executable="mpiexec",
    version_words=("HYDRA",),
    options=frozenset({"ranks", "ranks_per_node", "hosts", "host_file", "cores", "gpus_per_rank"}),
    comes_with_python=True,
    binds=True,
    selects_gpus=True,
    ranks_below=True,
    outlives_ranks=True,  # when its proxy is killed
    signal_of=_signal_of,
    rank_variable="PMI_RANK",
    local_rank_variable=_LOCAL_RANK,
    independent=("-disable-auto-cleanup",),
    interrupt_notice=re.compile(
        r"\[mpiexec@[^\]]*\] (?:Sending Ctrl-C to processes as requested|Press Ctrl-C again to force abort)"
    ),
)
