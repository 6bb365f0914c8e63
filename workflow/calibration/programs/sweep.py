"""Sends steps of several sizes through a stream: `sweep.py write SIZES [compute]`, `sweep.py read`.

SIZES are bytes per rank, separated by commas. Of each size some steps are written as fast as the stream takes them, and
then some with pauses, so that nothing is under way when the next one is written. With `compute` the ranks compute in
these pauses, and wait for each other after each piece of it, as simulations do: it takes longer while a thread of
ADIOS2 writes. What the steps took is in the metrics of the stages; beside it rank 0 prints as one line of JSON when it
began, when it opened its stream (Unix s), and for each step its size, whether it was written after a pause, the CPU
time of its process so far, that of the threads with which ADIOS2 moves data included, and how much longer the computing
before it took than alone.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

BEGAN = time.time()

import numpy as np  # noqa: E402 (the start of the program is before its imports)
import numpy.typing as npt  # noqa: E402

from workflow import stage  # noqa: E402

CROWDED, PAUSED = 14, 8
# Pauses are as long as this many steps without.
PAUSE = 1.5
# How often the computing is measured alone.
ALONE = 3
# (bytes of the step, all ranks; after a pause; seconds of CPU; seconds that computing took longer)
StepMark = tuple[int, bool, float, float]


def write(sizes: list[int], *, computes: bool) -> tuple[float, list[StepMark]]:
    """Write the steps."""
    rank, ranks = stage.rank(), stage.size()
    marks = [(0, False, time.process_time(), 0.0)]
    opened = time.time()
    with stage.open_writer("data") as out:
        for size in sizes:
            count = max(1, size // 8)
            values = np.arange(count, dtype=np.float64)
            begin = time.perf_counter()
            pause = more_s = 0.0
            for number in range(CROWDED + PAUSED):
                if number == CROWDED:
                    pause = PAUSE * (time.perf_counter() - begin) / CROWDED
                    rounds, alone_s = computing_alone(values, pause) if computes else (0, 0.0)
                if pause and computes:
                    more_s = compute(values, rounds) - alone_s
                elif pause:
                    time.sleep(pause)
                    values += 1.0  # as a simulation does: what it writes is not what the caches have of the step before
                with out.step():
                    out.write("values", values, shape=(count * ranks,), start=(count * rank,))
                marks.append((count * 8 * ranks, bool(pause), time.process_time(), more_s))
    return opened, marks


def computing_alone(values: npt.NDArray[np.float64], pause: float) -> tuple[int, float]:
    """How many rounds of `compute` fill a pause, the same for all ranks, and what they take when nothing is written."""
    time.sleep(pause)  # the last step is written meanwhile
    rounds, comm = max(1, round(pause / compute(values, 1))), stage.communicator()
    rounds = rounds if comm is None else comm.bcast(rounds)
    return rounds, statistics.median(compute(values, rounds) for _ in range(ALONE))


def compute(values: npt.NDArray[np.float64], rounds: int) -> float:
    """Seconds of so many changes of all values, after each of which the ranks wait for each other."""
    comm, begin = stage.communicator(), time.perf_counter()
    for _ in range(rounds):
        values += 1.0
        if comm is not None:
            comm.Barrier()
    return time.perf_counter() - begin


def read() -> tuple[float, list[StepMark]]:
    """Read this rank's share of each step."""
    marks = [(0, False, time.process_time(), 0.0)]
    taken: list[object] = []
    opened = time.time()
    with stage.open_reader("data") as stream:
        for step in stream:
            taken.append(step.share("values"))
            del taken[:-1]  # one is kept until the next is there, as programs do
            marks.append((step.shape("values")[0] * 8, False, time.process_time(), 0.0))
    return opened, marks


def main() -> None:
    """Be the writer or the reader."""
    if sys.argv[1] == "write":
        opened, marks = write([int(size) for size in sys.argv[2].split(",")], computes="compute" in sys.argv[3:])
    else:
        opened, marks = read()
    if stage.rank() == 0:
        print(json.dumps({"began": BEGAN, "opened": opened, "steps": marks}))


if __name__ == "__main__":
    main()
