"""IBM's jsrun (LSF). Options: `jsrun --help`; the explicit resource file is described in IBM's JSM documentation.

Summit, its largest machine, has ended; the file is made as its users wrote it.
"""

from __future__ import annotations

from workflow.core_set import format_cores
from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest, rank_settings
from workflow.launch.rank_ends import signal_of_shell

_LOCAL_RANK = "OMPI_COMM_WORLD_LOCAL_RANK"
# Stages on one node overlap only in what they share on purpose.
_HEAD = """cpu_index_using: physical
overlapping_rs: allow
oversubscribe_cpu: allow
oversubscribe_gpu: allow
oversubscribe_mem: allow
launch_distribution: packed
"""


def _line(request: LaunchRequest) -> LaunchLine:
    """`jsrun --erf_input FILE A`: the file has node, cores and GPUs of every rank."""
    settings = rank_settings(request, _LOCAL_RANK, selects_gpus=True)
    path = f"{request.folder}/resources.erf"
    argv = [request.executable, *request.option("rank_file", path), *request.arguments]
    files = {path: lambda: _resources(request)} | settings.files
    return LaunchLine([*argv, *settings.through, *request.program], files, settings.env)


def _resources(request: LaunchRequest) -> str:
    """A line for each rank. Hosts are counted from 1 within the allocation; cores are those of hardware threads."""
    lines, threads, layout = [_HEAD], request.node.threads_per_core, request.layout
    for host, ranks in enumerate(request.ranks_by_node, layout.first_node + 1):
        for index, rank in enumerate(ranks):
            cores = layout.cores[index] if layout.cores else range(request.node.cores)
            sets = format_cores(core * threads + thread for core in cores for thread in range(threads))
            cpus = ",".join(f"{{{part}}}" for part in sets.split(","))
            gpus = f"; gpu: {{{','.join(map(str, layout.gpus[index]))}}}" if layout.gpus else ""
            lines.append(f"rank: {rank}: {{ host: {host}; cpu: {cpus}{gpus} }}\n")
    return "".join(lines)


LAUNCHER = Launcher(
    _line,
    executable="jsrun",
    options=frozenset({"rank_file"}),
    binds=True,
    selects_gpus=True,
    other_machines=True,
    signal_of=lambda code, _lines: signal_of_shell(code),
    rank_variable="OMPI_COMM_WORLD_RANK",
    local_rank_variable=_LOCAL_RANK,
)
