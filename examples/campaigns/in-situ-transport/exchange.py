"""The workload of LowFive's synthetic benchmark: a grid and particles from some producers to fewer consumers.

    exchange.py produce | consume

Each producing rank has PLANES planes of 100 × 100 grid points (uint64), cut along the first axis, and as many particles
(three float32). Consumers cut the grid along its second axis, so that each needs a part of every producer's block, and
the particles evenly. PLANES and STEPS are environment variables of the producer. WAY is one of both: `after` adds the
time of writing to that of reading, `live` measures the time from one consumed step to the next, `messages` does that by
MPI within the producing program, three quarters of whose ranks send to the others (the stream then tells the time).
Every value of the first and of the last step is checked.

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


def send(comm: Any, producers: int, parts: list[list[tuple[int, int]]], planes: int, steps: int) -> None:
    """By MPI: each producer packs and sends each consumer its part."""
    rank = comm.Get_rank()
    wide, first = SIDE // len(parts), planes * SIDE * SIDE * rank
    made = contents(rank, planes, steps)
    for number in range(steps):
        grid, particles = made[number == steps - 1]
        sent = []
        for consumer, part_of in enumerate(parts):
            part = np.ascontiguousarray(grid[:, wide * consumer : wide * (consumer + 1)])
            sent.append((comm.Isend(part, producers + consumer), part))
            low, high = part_of[rank]
            if high > low:
                sent.append((comm.Isend(particles[low - first : high - first], producers + consumer), particles))
        MPI.Request.Waitall([request for request, _ in sent])


def receive(comm: Any, producers: int, parts: list[list[tuple[int, int]]], planes: int, steps: int) -> float:
    """By MPI: whole planes of the consumer's own arrays, which are contiguous. Returns the median time per step."""
    consumer, ends = comm.Get_rank() - producers, []
    boxes = boxes_of(consumer, len(parts), planes * producers)
    (first, _), count = boxes["particles"]
    for number in range(steps):
        found = {"grid": np.empty(boxes["grid"][1], np.uint64), "particles": np.empty(count, np.float32)}
        for producer in range(producers):
            comm.Recv(found["grid"][planes * producer : planes * (producer + 1)], producer)
            low, high = parts[consumer][producer]
            if high > low:
                comm.Recv(found["particles"][low - first : high - first], producer)
        ends.append(time.perf_counter())
        if number in (0, steps - 1):
            check(number, boxes, found)
    return statistics.median([after - before for before, after in pairwise(ends)][WARM:])


def exchange() -> None:
    """By MPI, within one program: its last ranks, a quarter of all, consume what the others produce."""
    comm = stage.communicator()
    consumers = comm.Get_size() // 4
    producers = comm.Get_size() - consumers
    planes, steps = sizes()
    parts = shares(producers, consumers, planes)
    with stage.open_writer("data") as out:
        took = None
        if comm.Get_rank() < producers:
            send(comm, producers, parts, planes, steps)
        else:
            took = receive(comm, producers, parts, planes, steps)
        took = comm.bcast(took, producers)  # of the first consumer
        with out.step():
            out.write("transport_s", took)
            out.write("planes", planes * producers)


def tell_of_messages() -> None:
    """What the other program has measured."""
    with stage.open_reader("data") as data:
        for step in data:
            tell(float(step.read("transport_s")), int(step.read("planes")))


if __name__ == "__main__":
    produces = sys.argv[1] == "produce"
    if WAY == "messages":
        exchange() if produces else tell_of_messages()
    else:
        produce() if produces else consume()
