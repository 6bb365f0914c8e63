"""Stage programs that read or write several streams, for tests. Run as `python fan_programs.py ROLE [NUMBER]`."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import numpy as np

from workflow import stage

STEPS = 6
LENGTH = 1000


def content(stream: str, step: int) -> np.ndarray:
    """The values of a stream at a step, [LENGTH]."""
    return np.arange(LENGTH) * (1.0 + step) + sum(map(ord, stream))


def one() -> None:
    """Write the only stream; the argument is the number of steps."""
    count = int(sys.argv[2])
    with stage.open_writer() as out:
        for step in range(count):
            with out.step():
                out.write("a", content(out.name, step))


def two() -> None:
    """Write y and x, opened in this order."""
    with stage.open_writer("y") as y, stage.open_writer("x") as x:
        for step in range(STEPS):
            for out in (x, y):
                with out.step():
                    out.write("a", content(out.name, step))


def join() -> None:
    """Read x and y in lockstep, opened in this order; with an argument, y is asked for each step first."""
    with stage.open_reader("x") as x, stage.open_reader("y") as y:
        readers = (y, x) if sys.argv[2:] else (x, y)
        for steps in stage.in_step(*readers):
            for reader, step in zip(readers, steps, strict=True):
                np.testing.assert_array_equal(step.read("a"), content(reader.name, step.index), strict=True)
            print(*(step.index for step in steps), flush=True)


def out_of_line() -> None:
    """Write the streams named by the arguments, in this order, step by step; close them in the opposite order."""
    with ExitStack() as closes:
        outs = [closes.enter_context(stage.open_writer(name)) for name in sys.argv[2:]]
        for step in range(STEPS):
            for out in outs:
                with out.step():
                    out.write("a", *share(content(out.name, step)))


def pass_on() -> None:
    """Read x and write it as z."""
    with stage.open_reader("x") as x, stage.open_writer("z") as z:
        for step in x:
            values = step.read("a")
            with z.step():
                z.write("a", *share(values))


def side_by_side() -> None:
    """Read streams in lockstep: the first argument is the number of steps, 0 for all; the others name the streams."""
    count = int(sys.argv[2])
    with ExitStack() as closes:
        readers = [closes.enter_context(stage.open_reader(name)) for name in sys.argv[3:]]
        for steps in stage.in_step(*readers):
            for reader, step in zip(readers, steps, strict=True):
                source = reader.name.replace("z", "x")
                np.testing.assert_array_equal(step.read("a"), content(source, step.index), strict=True)
            if stage.rank() == 0:
                print(*(step.index for step in steps), flush=True)
            if steps[0].index + 1 == count:
                break


def share(values: np.ndarray) -> tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]:
    """This rank's block of an array, the shape of the array, and the start of the block."""
    start, count = stage.block(len(values))
    return values[start : start + count], values.shape, (start,)


def couple() -> None:
    """Write `mine`, then read `yours`, step by step, and go on with the mean. The argument: which is opened first."""
    first_in = sys.argv[2] == "in"
    value = np.full(LENGTH, 1.0 if first_in else 3.0)
    if first_in:
        yours = stage.open_reader("yours")
        mine = stage.open_writer("mine")
    else:
        mine = stage.open_writer("mine")
        yours = stage.open_reader("yours")
    # The reader is closed first: closing a writer waits until its readers have released all steps.
    with mine, yours:
        for step in range(STEPS):
            with mine.step():
                mine.write("a", value)
            other = next(yours).read("a")
            value = (value + other) / 2 + step
    print(value[0], flush=True)


if __name__ == "__main__":
    roles = (one, two, join, out_of_line, pass_on, side_by_side, couple)
    {role.__name__: role for role in roles}[sys.argv[1]]()
