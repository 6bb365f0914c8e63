"""Open MPI's mpirun, versions 4 and 5. Options: mpirun(1), and prte-map(1) of version 5."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from workflow.formats.run_variables import RUN_VARIABLES
from workflow.launch.launch_request import Files, Launcher, LaunchLine, LaunchRequest, host_options, rank_settings
from workflow.launch.rank_ends import signal_of_shell

_HERE = "localhost"
# By these mpirun takes an outer job, whose launcher may be missing here, for its own.
_OF_SCHEDULERS = ("SLURM_*", "PBS_*", "LSB_*", "LSF_*", "FLUX_*")
_LOCAL_RANK = "OMPI_COMM_WORLD_LOCAL_RANK"
# mpirun exits with 128 + the number, and names it in this line.
_EXITED_ON = re.compile(r"exited on signal (\d+)")


def _line(request: LaunchRequest) -> LaunchLine:
    """`mpirun --host a:2,b:2 --rankfile FILE --np 4 A`: the file has the host and the cores of every rank."""
    settings = rank_settings(request, _LOCAL_RANK)
    hosts, files = host_options(request, _slots(request), "{} slots={}")
    mapping, more = _mapping(request)
    argv = [
        request.executable,
        *hosts,
        *mapping,
        *_exported(request),
        *request.arguments,
        *request.option("ranks", request.ranks),
        *settings.through,
        *request.program,
    ]
    return LaunchLine(argv, files | more | settings.files, settings.env, () if request.hosts else _OF_SCHEDULERS)


def _slots(request: LaunchRequest) -> list[str]:
    """`host:ranks`: else mpirun takes what it finds of a batch system."""
    return [f"{host}:{len(ranks)}" for host, ranks in zip(_hosts(request), request.ranks_by_node, strict=False)]


def _hosts(request: LaunchRequest) -> Sequence[str]:
    return request.own_hosts or [_HERE] * request.layout.nodes


def _mapping(request: LaunchRequest) -> tuple[list[str], Files]:
    """A file where ranks have cores of their own; else ranks per node."""
    layout = request.layout
    if not layout.cores:
        return [*request.option("ranks_per_node", layout.ranks_per_node), *request.option("no_binding")], {}
    path = f"{request.folder}/rankfile"
    return request.option("rank_file", path), {path: lambda: _rank_file(request)}


def _rank_file(request: LaunchRequest) -> str:
    """A line for each rank."""
    lines = [
        f"rank {rank}={host} slot={','.join(map(str, cores))}\n"
        for host, ranks in zip(_hosts(request), request.ranks_by_node, strict=False)
        for rank, cores in zip(ranks, request.layout.cores, strict=False)
    ]
    return "".join(lines)


def _exported(request: LaunchRequest) -> list[str]:
    """Ranks on other nodes inherit no variables but those that are named."""
    names = [*request.env, *request.secrets, *RUN_VARIABLES] if request.hosts else []
    return [word for name in dict.fromkeys(names) for word in request.option("export", name)]


def _signal_of(code: int, lines: Iterable[str]) -> int | None:
    for line in lines:
        if match := _EXITED_ON.search(line):
            return int(match[1])
    return signal_of_shell(code)


LAUNCHER = Launcher(
    _line,
    executable="mpirun",
    version_words=("Open MPI", "OpenRTE"),
    options=frozenset({"ranks", "ranks_per_node", "hosts", "host_file", "rank_file", "no_binding", "export"}),
    binds=True,
    ranks_below=True,
    signal_of=_signal_of,
    rank_variable="OMPI_COMM_WORLD_RANK",
    local_rank_variable=_LOCAL_RANK,
)
