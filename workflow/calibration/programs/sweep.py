"""Sends steps of several sizes through a stream: `sweep.py write SIZES`, `sweep.py read`.

SIZES are bytes per rank, separated by commas. Of each size some steps are written as fast as the stream takes them, and
then some with pauses, so that nothing is under way when the next one is written. What the steps took is in the metrics
of the stages; beside it rank 0 prints as one line of JSON when it began, when it opened its stream (Unix s), and for
each step its size, whether it was written after a pause, and the CPU time of its process so far: that of the threads
with which ADIOS2 moves data is in it.
"""

from __future__ import annotations

import json
import sys
import time

BEGAN = time.time()

import numpy as np  # noqa: E402 (the start of the program is before its imports)

from workflow import stage  # noqa: E402

CROWDED, PAUSED = 14, 8
# Pauses are as long as this many steps without.
PAUSE = 1.5
StepMark = tuple[int, bool, float]  # (bytes of the step, all ranks; after a pause; seconds of CPU)


def write(sizes: list[int]) -> tuple[float, list[StepMark]]:
    """Write the steps."""
    rank, ranks = stage.rank(), stage.size()
    marks = [(0, False, time.process_time())]
    opened = time.time()
    with stage.open_writer("data") as out:
        for size in sizes:
            count = max(1, size // 8)
            values = np.arange(count, dtype=np.float64)
            begin = time.perf_counter()
            pause = 0.0
            for number in range(CROWDED + PAUSED):
                if number == CROWDED:
                    pause = PAUSE * (time.perf_counter() - begin) / CROWDED
                if pause:
                    time.sleep(pause)
                    values += 1.0  # as a simulation does: what it writes is not what the caches have of the step before
                with out.step():
                    out.write("values", values, shape=(count * ranks,), start=(count * rank,))
                marks.append((count * 8 * ranks, bool(pause), time.process_time()))
    return opened, marks


def read() -> tuple[float, list[StepMark]]:
    """Read this rank's share of each step."""
    marks = [(0, False, time.process_time())]
    taken: list[object] = []
    opened = time.time()
    with stage.open_reader("data") as stream:
        for step in stream:
            taken.append(step.share("values"))
            del taken[:-1]  # one is kept until the next is there, as programs do
            marks.append((step.shape("values")[0] * 8, False, time.process_time()))
    return opened, marks


def main() -> None:
    """Be the writer or the reader."""
    opened, marks = write([int(size) for size in sys.argv[2].split(",")]) if sys.argv[1] == "write" else read()
    if stage.rank() == 0:
        print(json.dumps({"began": BEGAN, "opened": opened, "steps": marks}))


if __name__ == "__main__":
    main()
