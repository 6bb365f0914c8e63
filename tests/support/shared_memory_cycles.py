"""A writer and two readers through shared memory, one of which is killed, or stopped and killed, at a random moment.

The programs are forked from one that has imported all: a cycle takes some 50 ms.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.support.waiting import wait_until
from workflow import stage
from workflow.formats.absent_readers import note_absent
from workflow.formats.stage_file import StageSettings
from workflow.stage import settings
from workflow.stage.variables import Array

STEPS = 30
CELLS = 5000
_LASTS_S = 0.08  # about as long as a cycle that nothing disturbs


class Cycle(NamedTuple):
    """One cycle: what happens to a reader, when, and how long it is stopped."""

    number: int
    stopped_s: float | None
    after_s: float


def make_cycles(count: int, seed: int = 20) -> list[Cycle]:
    """The same ones each time."""
    dice = random.Random(seed)
    return [
        Cycle(number, dice.uniform(0.0, 0.1) if number % 2 else None, dice.uniform(0.0, _LASTS_S))
        for number in range(count)
    ]


def run_cycle(cycle: Cycle, folder: Path) -> int:
    """Run it. Returns how many steps the reader had begun that was hurt. The writer and the other reader have to end in
    order, with all steps."""
    path, seen = folder / f"stream{cycle.number}", folder / f"seen{cycle.number}"
    writer = forked(lambda: _write(path))
    good, hurt = forked(lambda: _read(path, "good", None)), forked(lambda: _read(path, "hurt", seen))
    time.sleep(cycle.after_s)  # the moment of the fault, not a condition
    if cycle.stopped_s is not None:
        os.kill(hurt, signal.SIGSTOP)
        time.sleep(cycle.stopped_s)
    os.kill(hurt, signal.SIGKILL)
    os.waitpid(hurt, 0)
    note_absent(path.with_name(path.name + ".shm"), "hurt")  # as the supervisor does
    codes: dict[int, int] = {}

    def all_ended() -> bool:
        for pid in {writer, good} - codes.keys():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                codes[pid] = os.waitstatus_to_exitcode(status)
        return len(codes) == 2

    wait_until(all_ended, f"the writer and the other reader end: {cycle}")
    assert codes == {writer: 0, good: 0}, (cycle, codes)
    return len(seen.read_bytes()) if seen.exists() else 0


def forked(program: Callable[[], None]) -> int:
    """The process of this program, whose exit code says whether it has raised an exception."""
    pid = os.fork()
    if not pid:
        try:
            program()
        except BaseException as error:  # the exit code says so
            print(type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def _values(step: int) -> Array:
    values: Array = np.sin(np.arange(CELLS + 100.0 * step) + step)
    return values


def _write(path: Path) -> None:
    parameters = {"RendezvousReaderCount": "2", "QueueLimit": "2"}
    with stage.open_writer(path=path, engine="SHM", parameters=parameters) as out:
        for number in range(STEPS):
            with out.step():
                out.write("V", _values(number))
                out.write("number", number)


def _read(path: Path, name: str, seen: Path | None) -> None:
    settings.current = lambda: StageSettings(stage=name)  # a run would tell the two apart
    with stage.open_reader(path=path, engine="SHM") as steps:
        for step in steps:
            if seen is not None:
                with seen.open("ab") as file:
                    file.write(b".")
            assert step.read("number") == step.index
            assert np.array_equal(step.view("V"), _values(step.index))
        assert steps.steps == STEPS
