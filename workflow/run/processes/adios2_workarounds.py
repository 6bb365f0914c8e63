"""What the supervisor does about faults of ADIOS2: process ids far apart, and stand-ins for readers that have failed.

EVPath, SST's network layer, names each process by a random number whose seed is its process id plus the time in
seconds when it opens its first stream (ADIOS2 2.12.1, thirdparty/EVPath cm.c, CManager_create and CMinternal_get_conn).
Two stages started together have ids one or two apart, and often open their streams a second or two apart. Then both
get the same name, and a stage connected to both sends messages to the wrong one, which prints
"CM - No handler for incoming data" and waits for ever. Seen in 7 of 100 runs of a chain of three stages. The plan says
which stages need it: not those whose ADIOS2 has the patch of `make adios2-mpi` (docs/decisions/0022-evpath-ids.md).
The system assigns ids in order, also to threads, and a thread is cheap: threads use up some ids between two stages.

A writer waits for ever in its open for a reader that has failed before: another process opens the stream in its place.
"""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path

from workflow.launch.launchers import ProcessSpec
from workflow.plan.plan_model import Plan, StagePlan
from workflow.run.processes.process_tree import children

# Safe when stages open their streams within so many seconds of each other. Takes about 5 ms.
GAP = 300
# How long a launcher may take to start its ranks here; hydra takes some 15 ms.
_RANKS_S = 0.2
_LOOK_S = 0.001


def use_up_ids(count: int = GAP) -> None:
    """Advance the system's next process id by at least `count` (until it wraps around).

    By threads of the C library that run `getpid`. Python's threads wait for each other and took up to ten times
    as long.
    """
    library = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    deadline = time.monotonic() + _RANKS_S
    while count and time.monotonic() < deadline:
        if library.pthread_create(ctypes.byref(thread), None, library.getpid, None):
            time.sleep(_LOOK_S)  # as many as allowed exist right now
        else:
            library.pthread_detach(thread)
            count -= 1


def wait_for_ranks(launcher: int, ranks: int) -> None:
    """Return when a local launcher has started its ranks, so that ids used up from now on come after theirs."""
    deadline = time.monotonic() + _RANKS_S
    while time.monotonic() < deadline and Path(f"/proc/{launcher}").exists():
        if sum(len(children(proxy)) for proxy in children(launcher)) >= ranks:
            return
        time.sleep(_LOOK_S)


_STAND_IN = Path(__file__).parents[2] / "stage" / "adios" / "sst_end.py"


def stand_in(plan: Plan, stage: StagePlan, stream: str, folder: Path) -> ProcessSpec:
    """The process; what it prints goes into `folder`. A relay is a Python program with ADIOS2: its Python is taken."""
    writer = plan.stage(plan.stream(stream).writer)
    python, env = (writer.program[0], writer.env) if writer.added == "relay" else (sys.executable, {})
    end = stage.end(stream, "read")
    settings = [f"{key}={value}" for key, value in end.parameters.items()]
    argv = [python, str(_STAND_IN), "stand-in", end.path, *settings]
    return ProcessSpec(f"{stage.name} ({stream})", argv, folder, str(folder), "none", env=env)
