"""Flux: `flux run` inside a Flux instance. Options: flux-run(1), flux-shell-options(7)

Flux gives no core to two jobs at the same time. A stage without cores of its own needs one of each node all the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from workflow.core_set import format_cores
from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest, rank_settings
from workflow.launch.rank_ends import signal_of_shell

_LOCAL_RANK = "FLUX_TASK_LOCAL_ID"


def _line(request: LaunchRequest) -> LaunchLine:
    """`flux run --ntasks=16 --nodes=2 --requires=host:a,b -o cpu-affinity=map:0-6;8-14 A`."""
    layout = request.layout
    maps_gpus = bool(layout.gpus) and bool(request.options["gpus"])
    settings = rank_settings(request, _LOCAL_RANK, selects_gpus=maps_gpus)
    argv = [
        request.executable, "run", f"--ntasks={request.ranks}", f"--nodes={layout.nodes}",
        f"--cores-per-task={max(1, layout.cores_per_rank)}",
        *([f"--gpus-per-task={max(map(len, layout.gpus))}"] if layout.gpus else []),
        *(request.option("hosts", ",".join(request.own_hosts)) if request.own_hosts else []),
        *(request.option("cores", _map(layout.cores)) if layout.cores else request.option("no_binding")),
        *(request.option("gpus", _map(layout.gpus)) if maps_gpus else []),
        *request.option("kill_on_bad_exit"), *request.option("unbuffered"),
        *request.arguments, *settings.through, *request.program,
    ]  # fmt: skip
    return LaunchLine(argv, dict(settings.files), settings.env)


def _map(sets: Iterable[Iterable[int]]) -> str:
    return ";".join(format_cores(each) for each in sets)


LAUNCHER = Launcher(
    _line,
    executable="flux",
    options=frozenset({"hosts", "cores", "no_binding", "gpus", "kill_on_bad_exit", "unbuffered"}),
    binds=True,
    selects_gpus=True,
    other_machines=True,
    shares_cores=False,
    signal_of=lambda code, _lines: signal_of_shell(code),
    rank_variable="FLUX_TASK_RANK",
    local_rank_variable=_LOCAL_RANK,
)
