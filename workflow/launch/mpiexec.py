"""MPICH's mpiexec (hydra), as of MPICH 4.2. Options: `mpiexec -help`."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable

from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest

# hydra exits with the number of the signal that ended a rank, and names it in this line.
_EXIT_STRING = re.compile(r"EXIT STRING: .*\(signal (\d+)\)")


def _line(request: LaunchRequest) -> LaunchLine:
    """`mpiexec -n 4 A`, or `mpiexec -n 2 A : -n 1 B`: ranks are numbered in this order."""
    options = _node_options(request)
    if len(request.programs) == 1:
        (program,) = request.programs
        count = ["-n", str(program.ranks)]
        return LaunchLine([request.executable, *count, *options, *request.arguments, *program.argv])
    argv = [request.executable, *request.arguments, *options]
    for index, program in enumerate(request.programs):
        argv += [*([":"] if index else []), "-n", str(program.ranks), *program.argv]
    return LaunchLine(argv)


def _node_options(request: LaunchRequest) -> list[str]:
    layout = request.layout
    options = [] if layout.nodes == 1 else ["-ppn", str(layout.ranks_per_node)]
    if request.own_hosts:
        options += ["-hosts", ",".join(request.own_hosts)]
    if layout.gpus_per_rank:
        # MPICH 5.0.2 aborts at this option on a node without GPUs.
        options += ["-gpus-per-proc", str(layout.gpus_per_rank)]
    return options


def _signal_of(code: int, lines: Iterable[str]) -> int | None:
    for line in lines:
        match = _EXIT_STRING.search(line)
        if match and int(match[1]) == code:
            return code
    return code - 128 if 128 < code < 128 + signal.NSIG else None


LAUNCHER = Launcher(
    _line,
    executable="mpiexec",
    comes_with_python=True,
    several_programs=True,
    needs_hosts=True,
    ranks_below=True,
    outlives_ranks=True,  # when its proxy is killed
    signal_of=_signal_of,
    rank_variable="PMI_RANK",
    local_rank_variable="MPI_LOCALRANKID",
    independent=("-disable-auto-cleanup",),
    interrupt_notice=re.compile(
        r"\[mpiexec@[^\]]*\] (?:Sending Ctrl-C to processes as requested|Press Ctrl-C again to force abort)"
    ),
)
