"""Open MPI's mpirun, versions 4 and 5. Options: mpirun(1), and prte-map(1) of version 5."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    argv = [request.executable, *hosts, *mapping, *_exported(request), *request.arguments]
    for index, program in enumerate(request.programs):
        argv += [":"] if index else []
        argv += [*request.option("ranks", program.ranks), *settings.through, *program.argv]
    return LaunchLine(argv, files | more | settings.files, settings.env, () if request.hosts else _OF_SCHEDULERS)


def _slots(request: LaunchRequest) -> list[str]:
    """`host:ranks`, each host once: else mpirun takes what it finds of a batch system."""
    counts: dict[str, int] = {}
    for each in request.segments():
        host = request.hosts[each.node] if request.hosts else _HERE
        counts[host] = counts.get(host, 0) + each.ranks
    return [f"{host}:{ranks}" for host, ranks in counts.items()]


def _mapping(request: LaunchRequest) -> tuple[list[str], Files]:
    """A file where ranks have cores of their own, or nodes different numbers of ranks; else ranks per node."""
    bound = all(each.layout.cores for each in request.programs)
    if not bound and request.ranks_per_node:
        return [*request.option("ranks_per_node", request.ranks_per_node), *request.option("no_binding")], {}
    path = f"{request.folder}/rankfile"
    return request.option("rank_file" if bound else "shared_rank_file", path), {path: lambda: _rank_file(request)}


def _rank_file(request: LaunchRequest) -> str:
    """A line for each rank. Without cores of its own a rank may use all of the node."""
    lines = []
    for segment in request.segments():
        host = request.hosts[segment.node] if request.hosts else _HERE
        for index in range(segment.ranks):
            cores = segment.layout.cores[index] if segment.layout.cores else range(request.node.cores)
            lines.append(f"rank {segment.first + index}={host} slot={','.join(map(str, cores))}\n")
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
    options=frozenset(
        {"ranks", "ranks_per_node", "hosts", "host_file", "rank_file", "shared_rank_file", "no_binding", "export"}
    ),
    several_programs=True,
    binds=True,
    needs_hosts=True,
    ranks_below=True,
    signal_of=_signal_of,
    rank_variable="OMPI_COMM_WORLD_RANK",
    local_rank_variable=_LOCAL_RANK,
)
