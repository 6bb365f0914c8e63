"""LowFive's workload: by file, by memory and by plain MPI messages.

Each producing rank has 10^6 grid points (uint64, a block of 100³ of a 3-D grid, cut along its first axis) and 10^6
particles (three float32), 20 MB a step; three producers for each consumer. Consumers cut the grid along its second
axis, so that each needs a part of every producer's block, and the particles evenly. Programs of `workflow.stage`, with
what `wf plan` gives them, against hand-written messages of mpi4py between the same ranks, which LowFive is held against
too. The time is that from one consumed step to the next; by file, one after the other, that of writing and of reading
in sum. Every value of the first and of the last step is checked, outside of what is measured. Files lie in memory, too
(/dev/shm, where there is one). By stream is slower than plain MPI because ADIOS2 (2.12.1) fetches arrays of more than
one dimension into a buffer and copies them from there: `perf` saw the consumer copy as much there as it fetched (24 %
and 25 % of its samples), and 48 MB from three writers took 11 ms of its CPU time as 3-D blocks, but 6 ms as a 1-D
array.
Beside it MUSCLE3, where it is installed: three producers and a consumer that exchange its own messages (msgpack over
TCP), a process each, whose model has no part of an array for each of several consumers.
Workload: T. Peterka et al., "LowFive: In Situ Data Transport for High-Performance Workflows", IPDPS 2023.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.bench import streams
from tests.bench.streams import Row

SHAPES = [(3, 1), (6, 2)]
PEERS = os.environ.get("WF_PEERS_PYTHON", "")
MUSCLE3 = "messages of MUSCLE3"
EDGE, PARTICLES = 100, 1_000_000
WARM, STEPS = 4, 20
PIPELINE = """
wf: 1
name: bench
oversubscribe: true
stages:
  make: {component: synthetic, ranks: %d, with: {steps: %d}}
  drop: {component: "null", ranks: %d}
streams:
  data: {from: make, to: drop, %s}
"""


# what is moved


def grid_of(step: int, producers: int, start: tuple[int, int, int], count: tuple[int, int, int]) -> Any:
    """A box of the grid of one step: its global index in C order, plus the step."""
    import numpy as np

    axes = [np.arange(first, first + extent, dtype=np.uint64) for first, extent in zip(start, count, strict=True)]
    assert start[0] + count[0] <= EDGE * producers
    return (axes[0][:, None, None] * EDGE + axes[1][:, None]) * EDGE + axes[2] + np.uint64(step)


def particles_of(step: int, start: int, count: int) -> Any:
    """Some particles of one step: component c of particle i is i mod 2^20 + c + step, exact in float32."""
    import numpy as np

    return ((np.arange(start, start + count) % 2**20)[:, None] + np.arange(3) + step).astype(np.float32)


def boxes(rank: int, consumers: int, producers: int) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """What a consumer reads: (start, count) of grid and particles."""
    wide, many = EDGE // consumers, PARTICLES * producers // consumers
    return {
        "grid": ((0, wide * rank, 0), (EDGE * producers, wide, EDGE)),
        "particles": ((many * rank, 0), (many, 3)),
    }


def check(settings: dict[str, Any], rank: int, step: int, found: dict[str, Any]) -> None:
    """Raises when one value of the first or last step is not what was written."""
    import numpy as np

    if step not in (0, settings["steps"] - 1):
        return
    (start, count), (first, many) = boxes(rank, settings["consumers"], settings["producers"]).values()
    np.testing.assert_array_equal(found["grid"], grid_of(step, settings["producers"], start, count))  # type: ignore[arg-type]
    np.testing.assert_array_equal(found["particles"], particles_of(step, first[0], many[0]))


def contents(settings: dict[str, Any], rank: int) -> Callable[[int], tuple[Any, Any]]:
    """step → (grid, particles) of a producer, made beforehand: the last step differs from all others."""
    producers = settings["producers"]
    made = [
        (grid_of(step, producers, (EDGE * rank, 0, 0), (EDGE,) * 3), particles_of(step, PARTICLES * rank, PARTICLES))
        for step in (0, settings["steps"] - 1)
    ]
    return lambda step: made[step == settings["steps"] - 1]


# the programs


def produce(settings: dict[str, Any]) -> list[float] | None:
    """Writes the steps by workflow.stage; seconds of each."""
    from mpi4py import MPI

    from workflow import stage

    comm, times = MPI.COMM_WORLD, []
    content = contents(settings, comm.rank)
    with stage.open_writer(path=settings["path"], engine=settings["engine"], parameters=settings["parameters"]) as out:
        for number in range(settings["steps"]):
            grid, particles = content(number)
            begin = time.perf_counter()
            with out.step():
                out.write("grid", grid, shape=(EDGE * comm.size, EDGE, EDGE), start=(EDGE * comm.rank, 0, 0))
                out.write("particles", particles, shape=(PARTICLES * comm.size, 3), start=(PARTICLES * comm.rank, 0))
            times.append(time.perf_counter() - begin)
    return times[WARM:] if comm.rank == 0 else None


def consume(settings: dict[str, Any]) -> list[float] | None:
    """Reads the steps by workflow.stage; seconds from one to the next."""
    from mpi4py import MPI

    from workflow import stage

    comm, ends = MPI.COMM_WORLD, []
    wanted = boxes(comm.rank, comm.size, settings["producers"])
    more = {"engine": settings["engine"], "parameters": settings["parameters"]}
    with stage.open_reader(path=settings["path"], open_timeout_s=60, step_timeout_s=60, **more) as data:
        for step in data:
            found = step.read_many(wanted)
            ends.append(time.perf_counter())
            check(settings, comm.rank, step.index, found)
    return _between(ends) if comm.rank == 0 else None


def messages(settings: dict[str, Any]) -> list[float] | None:
    """The same by MPI: each producer packs and sends each consumer its part; seconds from one step to the next."""
    import numpy as np
    from mpi4py import MPI

    world, producers, consumers = MPI.COMM_WORLD, settings["producers"], settings["consumers"]
    wide, many = EDGE // consumers, PARTICLES * producers // consumers
    # consumer → the particles that each producer has for it
    shares = [
        [(max(many * c, PARTICLES * p), min(many * (c + 1), PARTICLES * (p + 1))) for p in range(producers)]
        for c in range(consumers)
    ]
    if world.rank < producers:
        content, first = contents(settings, world.rank), PARTICLES * world.rank
        for number in range(settings["steps"]):
            grid, particles = content(number)
            sent = []
            for c in range(consumers):
                part = np.ascontiguousarray(grid[:, wide * c : wide * (c + 1)])
                sent.append((world.Isend(part, producers + c), part))
                low, high = shares[c][world.rank]
                if high > low:
                    sent.append((world.Isend(particles[low - first : high - first], producers + c), particles))
            MPI.Request.Waitall([request for request, _ in sent])
        return None
    me, ends = world.rank - producers, []
    for number in range(settings["steps"]):
        grid = np.empty((EDGE * producers, wide, EDGE), np.uint64)
        particles = np.empty((many, 3), np.float32)
        for p in range(producers):
            # whole planes of the consumer's own array: contiguous
            world.Recv(grid[EDGE * p : EDGE * (p + 1)], p)
            low, high = shares[me][p]
            if high > low:
                world.Recv(particles[low - many * me : high - many * me], p)
        ends.append(time.perf_counter())
        check(settings, me, number, {"grid": grid, "particles": particles})
    return _between(ends) if me == 0 else None


def _between(ends: list[float]) -> list[float]:
    # The check of the first step lies in the warming up, that of the last one behind all of it.
    return [after - before for before, after in pairwise(ends)][WARM:]


PROGRAMS: dict[str, streams.Program] = {"produce": produce, "consume": consume, "messages": messages}


# starting them


def coupled_s(shape: tuple[int, int], wiring: str) -> float:
    """Median seconds per step through a stream, or a file that is read after it was written."""
    plan = streams.plan_of(PIPELINE % (shape[0], STEPS, shape[1], wiring))
    with streams.folder() as folder:
        path = Path(folder) / Path(plan["stages"][0]["ends"][0]["path"]).name
        ends = [
            {"path": str(path), "steps": STEPS, "producers": shape[0], "consumers": shape[1]}
            | {key: stage["ends"][0][key] for key in ("engine", "parameters")}
            for stage in plan["stages"]
        ]
        programs = list(zip(("produce", "consume"), shape, ends, map(streams.told, plan["stages"]), strict=True))
        if plan["stages"][1]["starts_after"]:
            one_by_one = [streams.results(streams.launch(__file__, *program))[0] for program in programs]
            return sum(streams.median(times) for times in one_by_one)
        return streams.median(streams.results(*[streams.launch(__file__, *program) for program in programs])[1])


def messages_s(shape: tuple[int, int]) -> float:
    """Median seconds per step by plain messages, told about memory what the plan tells the stages."""
    plan = streams.plan_of(PIPELINE % (shape[0], STEPS, shape[1], "via: sst"))
    settings = {"steps": STEPS, "producers": shape[0], "consumers": shape[1]}
    env = streams.told(plan["stages"][0])
    return streams.median(streams.alone(__file__, "messages", settings, ranks=sum(shape), env=env))


def muscle3_s() -> float:
    """Median seconds per step by MUSCLE3's messages from three producers to a consumer."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [PEERS, str(Path(__file__).with_name("muscle3_messages.py")), str(STEPS)]
        subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=streams.TIMEOUT_S)
        return streams.median(json.loads((Path(folder) / "times.json").read_text()))


def has_muscle3() -> bool:
    """Whether the peers' Python has it."""
    return bool(PEERS) and subprocess.run([PEERS, "-c", "import libmuscle"], capture_output=True).returncode == 0


# the page


def measure() -> list[Row]:
    """All rows, for as many ranks as there are cores."""
    if "mpi" not in streams.planes():
        return []
    cores = len(os.sched_getaffinity(0))
    shapes = [shape for shape in SHAPES if sum(shape) <= cores] or SHAPES[:1]
    return [row for shape in shapes for row in compare(shape, cores)]


def compare(shape: tuple[int, int], cores: int) -> list[Row]:
    """One number of producers and consumers."""
    ways: dict[str, Callable[[], float]] = {
        "memory (sst)": lambda: coupled_s(shape, "via: sst"),
        "file, live (bp5)": lambda: coupled_s(shape, "via: bp5, coupling: live"),
        "file, after (bp5)": lambda: coupled_s(shape, "via: bp5"),
        "plain MPI": lambda: messages_s(shape),
    }
    if shape == (3, 1) and has_muscle3():
        ways[MUSCLE3] = muscle3_s
    seconds = streams.take_turns(ways, streams.repetitions(5))
    name = f"{shape[0]}→{shape[1]}"
    crowd = f"{sum(shape)} ranks on {cores} cores" if sum(shape) > cores else ""
    rows = [
        streams.measured(f"{name}: {way}", [1e3 * each for each in times], "ms/step", detail=crowd)
        for way, times in seconds.items()
    ]
    memory = seconds["memory (sst)"]
    for way, times in seconds.items():
        if way != "memory (sst)":
            rows.append(streams.against(f"{name}: throughput by memory ÷ {way}", times, memory))
    return rows


if __name__ == "__main__":
    streams.serve(PROGRAMS, measure)
