"""Writer and reader of tests/integration/test_mxn.py: one pair of process groups for several paths, one by one.

`python mxn_program.py write|read FOLDER`, where `FOLDER/paths.json` lists the paths and WF_STAGE names settings with
an end for each. The reader applies every strategy to every variable of every step. It appends the name of a path to
`FOLDER/read.txt` when all values were right, bit for bit.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from workflow import stage
from workflow.distribution.boxes import Block
from workflow.distribution.strategies import ALL, STRATEGIES
from workflow.stage.variables import Array

STEPS = 2
DEADLINE_S = 60.0
GRIDS = {"line": (23,), "plane": (11, 7), "cube": (6, 5, 4)}
MOST_ROWS = 9


def content(name: str, shape: tuple[int, ...], step: int) -> Array:
    """A whole variable of random bits, NaNs included."""
    random = np.random.default_rng([step, *name.encode()])
    if name == "id":
        return random.integers(0, 2**63, shape, dtype=np.int64)
    return random.integers(0, 2**64, shape, dtype=np.uint64).view(np.float64)


def rows(writers: int, step: int) -> list[int]:
    """Particles of each writing rank: unequal, different at each step, and none on one rank."""
    return [
        0 if writers > 1 and rank == step % writers else 2 + (5 * rank + 3 * step) % MOST_ROWS
        for rank in range(writers)
    ]


def grid_blocks(shape: tuple[int, ...], writers: int) -> list[Block]:
    parts = stage.grid(shape, writers)
    return [Block(*stage.block_of(shape, parts, rank), rank) for rank in range(writers)]


def boxes(start: tuple[int, ...], extent: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(first, first + n) for first, n in zip(start, extent, strict=True))


def write(writers: int) -> None:
    rank = stage.rank()
    with stage.open_writer(sys.argv[3]) as out:
        for step in range(STEPS):
            with out.step():
                for name, shape in GRIDS.items():
                    start, extent = grid_blocks(shape, writers)[rank][:2]
                    out.write(name, content(name, shape, step)[boxes(start, extent)], shape=shape, start=start)
                counts = rows(writers, step)
                first, count, total = sum(counts[:rank]), counts[rank], sum(counts)
                for name, rest in (("position", (3,)), ("id", ())):
                    mine = content(name, (total, *rest), step)[first : first + count]
                    out.write(name, mine, shape=(total, *rest), start=(first, *(0 for _ in rest)))
                # two adjacent blocks of each rank
                twice = content("twice", (6 * writers,), step)
                for part in (0, 1):
                    first = 6 * rank + 3 * part
                    out.write("twice", twice[first : first + 3], shape=twice.shape, start=(first,))
                out.write("time", np.float64(step))


def read(writers: int) -> None:
    with stage.open_reader(sys.argv[3]) as data:
        for step in data:
            shapes = {**GRIDS, "position": (sum(rows(writers, step.index)), 3), "id": (sum(rows(writers, step.index)),)}
            shapes["twice"] = (6 * writers,)
            for strategy in STRATEGIES:
                check(step, strategy, shapes)
            assert step.share("time")[0].values == step.index
        assert data.steps == STEPS


def check(step: Any, strategy: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """Check that every element is read exactly once, bit for bit."""
    found = step.shares(shapes, strategy)
    matching = step.shares(["position", "id"], strategy, like="position")
    found |= {f"{name}, like": pieces for name, pieces in matching.items()}
    seen, numbers = [], [len(pieces) for pieces in found.values()]
    for label, pieces in found.items():
        name = label.partition(",")[0]
        whole, times = content(name, shapes[name], step.index), np.zeros(shapes[name], np.int64)
        for piece in pieces:
            box = boxes(piece.start, piece.values.shape)
            assert piece.values.dtype == whole.dtype
            assert piece.values.tobytes() == whole[box].tobytes(), (label, strategy, piece.start, piece.values.shape)
            times[box] += 1
        seen.append(times.ravel())
    once = stage.size() if strategy == ALL else 1
    assert (total(np.concatenate(seen)) == once).all(), strategy
    assert list(total(np.array(numbers))) == [number * stage.size() for number in numbers], strategy
    starts = [[(piece.start[0], len(piece.values)) for piece in matching[name]] for name in ("position", "id")]
    assert starts[0] == starts[1], strategy


def total(values: Array) -> Array:
    """The sum over the ranks, on all of them."""
    comm = stage.communicator()
    if comm is None or stage.size() == 1:
        return values
    summed = np.empty_like(values)
    comm.Allreduce(values, summed)
    return summed


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} does not exist after {DEADLINE_S} s"
        time.sleep(0.01)


def main() -> None:
    side, folder = sys.argv[1], Path(sys.argv[2])
    for path in json.loads((folder / "paths.json").read_text()):
        sys.argv[3:] = [path["name"]]
        written = folder / f"{path['name']}.written"
        if side == "write":
            write(path["writers"])
            if stage.rank() == 0:
                written.touch()
            continue
        if path["after"]:
            wait_for(written)
        read(path["writers"])
        comm = stage.communicator()
        if comm is not None:
            comm.Barrier()
        if stage.rank() == 0:
            with (folder / "read.txt").open("a") as done:
                done.write(path["name"] + "\n")


if __name__ == "__main__":
    main()
