"""A stage of the tests' chains that gets the same id in EVPath as another one: as on two nodes, but on one.

EVPath makes the id from the process id plus the time in seconds at which a process opens its first stream. The stage
with the argument `first` says which sum it will have, by the file `sum` beside the stages' directories; the other one,
which must have the smaller process id, opens its stream when it has that sum too.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

import adios2  # noqa: F401  # takes long, so before the time is chosen

from tests.faults.programs import behaviour
from workflow import stage

DEADLINE_S = 30
EARLY_S = 0.1  # in its second, so that a slow machine opens it within that second


def wait_until(t: float) -> None:
    while time.time() < t:
        time.sleep(0.001)


def read_sum(path: Path) -> int:
    end = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < end, "the first stage has not said its sum"
        time.sleep(0.001)
    return int(path.read_text())


def main() -> None:
    role = sys.argv.pop()
    behaviour.arguments()
    stage.communicator()
    path = Path.cwd().parents[1] / "sum"
    if role == "first":
        second = int(time.time()) + 1
        path.with_suffix(".new").write_text(str(second + os.getpid()))
        path.with_suffix(".new").rename(path)
    else:
        second = read_sum(path) - os.getpid()
    assert second > time.time(), "too late"
    wait_until(second + EARLY_S)
    runpy.run_path(str(Path(__file__).with_name("staged.py")))


main()
