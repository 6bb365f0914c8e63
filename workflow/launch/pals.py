"""HPE's PALS, the mpiexec of Aurora and Polaris. Options: `man mpiexec` there, and the centre's guides."""

from __future__ import annotations

from workflow.core_set import format_cores
from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest, host_options, rank_settings
from workflow.launch.rank_ends import signal_of_shell

_LOCAL_RANK = "PALS_LOCAL_RANKID"


def _line(request: LaunchRequest) -> LaunchLine:
    """`mpiexec -n 24 --ppn 12 --hosts a,b --cpu-bind list:1-8:9-16 A`."""
    settings = rank_settings(request, _LOCAL_RANK)
    hosts, files = host_options(request, request.own_hosts)
    argv = [
        request.executable,
        *request.option("ranks", request.ranks),
        *request.option("ranks_per_node", request.layout.ranks_per_node),
        *hosts,
        *_binding(request),
        *_gpus(request),
        *request.arguments,
        *settings.through,
        *request.program,
    ]
    return LaunchLine(argv, files | settings.files, settings.env)


def _binding(request: LaunchRequest) -> list[str]:
    cores = request.layout.cores
    return request.option("cores", ":".join(map(format_cores, cores))) if cores else request.option("no_binding")


def _gpus(request: LaunchRequest) -> list[str]:
    """Where no variable restricts ranks to their GPUs."""
    if not request.layout.gpus or request.node.gpu_variable:
        return []
    return request.option("gpus", ":".join(",".join(map(str, gpus)) for gpus in request.layout.gpus))


LAUNCHER = Launcher(
    _line,
    executable="mpiexec",
    version_words=("PALS",),
    options=frozenset({"ranks", "ranks_per_node", "hosts", "host_file", "cores", "no_binding", "gpus"}),
    binds=True,
    selects_gpus=True,
    other_machines=True,
    signal_of=lambda code, _lines: signal_of_shell(code),
    rank_variable="PALS_RANKID",
    local_rank_variable=_LOCAL_RANK,
)
