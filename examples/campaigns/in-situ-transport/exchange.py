"""The workload of LowFive's synthetic benchmark: a grid and particles from some producers to fewer consumers.

    exchange.py produce | consume

Each producing rank has PLANES planes of 100 × 100 grid points (uint64), cut along the first axis, and as many particles
(three float32). Consumers cut the grid along its second axis, so that each needs a part of every producer's block, and
the particles evenly. PLANES and STEPS are environment variables of the producer. WAY is one of both: `messages` sends
by MPI (the stream has one step then, at the end), `after` adds the time of writing to that of reading, `live` measures
the time from one consumed step to the next. Every value of the first and of the last step is checked.

Rank 0 of the consumers writes figures.json: transport_s, the median time per step in seconds, and bandwidth, all bytes
of a step divided by it, in B/s.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from workflow import stage

WAY = os.environ["WAY"]
SIDE = 100
WARM = 2  # steps that are not measured
ROLES = ("produce", "consume")
Box = tuple[tuple[int, ...], tuple[int, ...]]


def grid_of(step: int, box: Box) -> Any:
    """Grid points: the global index in C order, plus the step."""
    x, y, z = (np.arange(first, first + count, dtype=np.uint64) for first, count in zip(*box, strict=True))
    return (x[:, None, None] * SIDE + y[:, None]) * SIDE + z + np.uint64(step)


def particles_of(step: int, first: int, count: int) -> Any:
    """Particles: component c of particle i is i mod 2^20 + c + step, exact in float32."""
    return ((np.arange(first, first + count) % 2**20)[:, None] + np.arange(3) + step).astype(np.float32)


def sizes() -> tuple[int, int]:
    """Planes of each producer, and steps."""
    return int(os.environ["PLANES"]), int(os.environ["STEPS"])


def boxes_of(rank: int, consumers: int, planes: int) -> dict[str, Box]:
    """What a consumer reads of so many planes: (start, count) of grid and particles."""
    wide, many = SIDE // consumers, planes * SIDE * SIDE // consumers
    return {
        "grid": ((0, wide * rank, 0), (planes, wide, SIDE)),
        "particles": ((many * rank, 0), (many, 3)),
    }


def check(step: int, boxes: dict[str, Box], found: dict[str, Any]) -> None:
    """Raises when a value is not what was written."""
    (first, _), (many, _) = boxes["particles"]
    np.testing.assert_array_equal(found["grid"], grid_of(step, boxes["grid"]))
    np.testing.assert_array_equal(found["particles"], particles_of(step, first, many))


def contents(rank: int, planes: int, steps: int) -> list[tuple[Any, Any]]:
    """Grid and particles of a producer, made beforehand: of all steps but the last, and of the last."""
    box, many = ((planes * rank, 0, 0), (planes, SIDE, SIDE)), planes * SIDE * SIDE
    return [(grid_of(step, box), particles_of(step, many * rank, many)) for step in (0, steps - 1)]


def produce() -> None:
    """By stream or file; each step says how long the one before it took to write."""
    rank, producers, took = stage.rank(), stage.size(), 0.0
    planes, steps = sizes()
    many = planes * SIDE * SIDE
    made = contents(rank, planes, steps)
    with stage.open_writer("data") as out:
        for number in range(steps):
            grid, particles = made[number == steps - 1]
            begin = time.perf_counter()
            with out.step():
                out.write("took", took)
                out.write("last", int(number == steps - 1))
                out.write("grid", grid, shape=(planes * producers, SIDE, SIDE), start=(planes * rank, 0, 0))
                out.write("particles", particles, shape=(many * producers, 3), start=(many * rank, 0))
            took = time.perf_counter() - begin


def consume() -> None:
    """By stream or file."""
    ends, writing, reading = [], [], []
    with stage.open_reader("data") as data:
        for step in data:
            begin = time.perf_counter()
            planes = step.shape("grid")[0]
            boxes = boxes_of(stage.rank(), stage.size(), planes)
            found = step.read_many(boxes)
            ends.append(time.perf_counter())
            reading.append(ends[-1] - begin)
            writing.append(float(step.read("took")))
            if step.index == 0 or step.read("last"):
                check(step.index, boxes, found)
    between = [after - before for before, after in pairwise(ends)][WARM:]
    both = statistics.median(reading[WARM:]) + statistics.median(writing[WARM + 1 :])
    tell(both if WAY == "after" else statistics.median(between), planes)


def tell(transport_s: float, planes: int) -> None:
    """Write figures.json."""
    if stage.rank() == 0:
        total = planes * SIDE * SIDE * (8 + 12)
        Path("figures.json").write_text(json.dumps({"transport_s": transport_s, "bandwidth": total / transport_s}))


def shares(producers: int, consumers: int, planes: int) -> list[list[tuple[int, int]]]:
    """consumer → the particles that each producer, of so many planes, has for it: from one to before the other."""
    own = planes * SIDE * SIDE
    many = own * producers // consumers
    return [
        [(max(many * c, own * p), min(many * (c + 1), own * (p + 1))) for p in range(producers)]
        for c in range(consumers)
    ]


def send(consumers: list[int], parts: list[list[tuple[int, int]]], planes: int, steps: int) -> None:
    """By MPI: each producer packs and sends each consumer its part."""
    rank = stage.rank()
    wide, first = SIDE // len(consumers), planes * SIDE * SIDE * rank
    made = contents(rank, planes, steps)
    for number in range(steps):
        grid, particles = made[number == steps - 1]
        sent = []
        for index, consumer in enumerate(consumers):
            part = np.ascontiguousarray(grid[:, wide * index : wide * (index + 1)])
            sent.append((MPI.COMM_WORLD.Isend(part, consumer), part))
            low, high = parts[index][rank]
            if high > low:
                sent.append((MPI.COMM_WORLD.Isend(particles[low - first : high - first], consumer), particles))
        MPI.Request.Waitall([request for request, _ in sent])
    with stage.open_writer("data") as out, out.step():
        out.write("steps", steps)


def receive(producers: list[int], parts: list[list[tuple[int, int]]], planes: int, steps: int) -> None:
    """By MPI: whole planes of the consumer's own arrays, which are contiguous."""
    rank, ends = stage.rank(), []
    boxes = boxes_of(rank, stage.size(), planes * len(producers))
    (first, _), count = boxes["particles"]
    for number in range(steps):
        found = {"grid": np.empty(boxes["grid"][1], np.uint64), "particles": np.empty(count, np.float32)}
        for index, producer in enumerate(producers):
            MPI.COMM_WORLD.Recv(found["grid"][planes * index : planes * (index + 1)], producer)
            low, high = parts[rank][index]
            if high > low:
                MPI.COMM_WORLD.Recv(found["particles"][low - first : high - first], producer)
        ends.append(time.perf_counter())
        if number in (0, steps - 1):
            check(number, boxes, found)
    with stage.open_reader("data") as data:
        assert [int(step.read("steps")) for step in data] == [steps]
    tell(statistics.median([after - before for before, after in pairwise(ends)][WARM:]), planes * len(producers))


def main(role: str) -> None:
    """One of the two programs; by messages both are in one MPI_COMM_WORLD."""
    if WAY != "messages":
        {"produce": produce, "consume": consume}[role]()
        return
    told = MPI.COMM_WORLD.allgather((role, sizes() if role == "produce" else None))
    producers, consumers = ([rank for rank, (other, _) in enumerate(told) if other == each] for each in ROLES)
    planes, steps = told[producers[0]][1]
    parts = shares(len(producers), len(consumers), planes)
    if role == "produce":
        send(consumers, parts, planes, steps)
    else:
        receive(producers, parts, planes, steps)


if __name__ == "__main__":
    main(sys.argv[1])
