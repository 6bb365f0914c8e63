"""What each setting of a stream does: transport by size of a step, queue limit with a slow reader, axis that is cut.

Transport: as in `bench_transports`, one writer and one reader; `shm` by `workflow.stage`, the others by adios2 alone.
Queue: 4 MB steps by SST; the writer sleeps 10 ms before each, the reader after each: "now and then slow" 3 ms, but
50 ms every tenth time, so that it is the faster one in the mean; "always slower" 20 ms. What is shown is how long the
writer is held in a step. Cut: two ranks write a grid of 200³ float64, 64 MB, each half of its first axis; two ranks
read half of one axis each.
`make pictures` draws what is measured here (docs/explanation/what-each-setting-does.md).
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from tests.bench import bench_transports, streams
from tests.bench.streams import Row

MB = 1_000_000
SIZES = {10_000: 400, 200_000: 200, 4 * MB: 40, 64 * MB: 20}  # bytes → steps
LIMITS = (1, 2, 4, 8)
EDGE, WARM = 200, 5
FULL = 30  # steps after which the longest queue is full, and the heap has grown
QUEUE_STEPS, QUEUE_BYTES, PAUSE_S = 100, 4 * MB, 0.01
READERS = {"now and then slow": (0.003, 0.05), "always slower": (0.02, 0.02)}
PIPELINE = """
wf: 1
name: bench
oversubscribe: true
stages:
  make: {component: synthetic, ranks: %d, with: {bytes: 4 MB}}
  drop: {component: "null", ranks: %d}
streams:
  data: {from: make, to: drop, %s}
"""


# the programs


def feed(settings: dict[str, Any]) -> dict[str, float]:
    """Sleeps and writes, in turn. {held_s: mean time in a step when the queue has filled, peak_mb}"""
    import numpy as np

    from workflow import stage

    data, held = np.ones(settings["bytes"] // 8), []
    with stage.open_writer(path=settings["path"], engine="SST", parameters=settings["parameters"]) as out:
        for _ in range(settings["steps"]):
            time.sleep(PAUSE_S)
            begin = time.perf_counter()
            with out.step():
                out.write("x", data, shape=data.shape, start=(0,))
            held.append(time.perf_counter() - begin)
    return {"held_s": statistics.mean(held[FULL:]), "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}


def eat(settings: dict[str, Any]) -> int:
    """Reads and sleeps, in turn, every tenth time longer. The number of steps that came."""
    from workflow import stage

    usual_s, longer_s = settings["sleeps"]
    more = {"engine": "SST", "parameters": settings["parameters"], "open_timeout_s": 60}
    with stage.open_reader(path=settings["path"], **more) as data:
        for step in data:
            step.read("x")
            time.sleep(longer_s if step.index % 10 == 9 else usual_s)
            count = step.index + 1
    return count


def write_grid(settings: dict[str, Any]) -> None:
    """Writes half of the grid, cut along its first axis."""
    import numpy as np
    from mpi4py import MPI

    from workflow import stage

    comm = MPI.COMM_WORLD
    data = np.ones((EDGE // comm.size, EDGE, EDGE))
    with stage.open_writer(path=settings["path"], engine=settings["engine"], parameters=settings["parameters"]) as out:
        for _ in range(settings["steps"]):
            with out.step():
                out.write("x", data, shape=(EDGE,) * 3, start=(len(data) * comm.rank, 0, 0))


def read_grid(settings: dict[str, Any]) -> list[float] | None:
    """Reads half of the grid, cut along some axis; seconds from one step to the next."""
    from mpi4py import MPI

    from workflow import stage

    comm, ends = MPI.COMM_WORLD, []
    count = tuple(EDGE // comm.size if axis == settings["axis"] else EDGE for axis in range(3))
    start = tuple(count[axis] * comm.rank if axis == settings["axis"] else 0 for axis in range(3))
    more = {"engine": settings["engine"], "parameters": settings["parameters"], "open_timeout_s": 60}
    with stage.open_reader(path=settings["path"], **more) as data:
        for step in data:
            step.read("x", start, count)
            ends.append(time.perf_counter())
    between = [after - before for before, after in pairwise(ends)][WARM:]
    return between if comm.rank == 0 else None


PROGRAMS: dict[str, streams.Program] = {
    "feed": feed, "eat": eat, "write-grid": write_grid, "read-grid": read_grid,
}  # fmt: skip


# starting them


def coupled(names: tuple[str, str], ranks: int, wiring: str, settings: dict[str, Any]) -> list[Any]:
    """What both programs found, with the plan's parameters and environment; a file is read after it was written."""
    stages = streams.plan_of(PIPELINE % (ranks, ranks, wiring))["stages"]
    with streams.folder() as folder:
        found = []
        for name, stage in zip(names, stages, strict=True):
            end = stage["ends"][0]
            told = {"path": f"{folder}/data.bp", "engine": end["engine"], "parameters": end["parameters"], **settings}
            found.append(streams.launch(__file__, name, ranks, told, streams.told(stage)))
            if stages[1]["starts_after"] and name == names[0]:
                streams.results(found.pop())
        return streams.results(*found)


# the page


def measure() -> list[Row]:
    """All rows; without an ADIOS2 with MPI those of one rank."""
    return by_size() + queues() + (cuts() if "mpi" in streams.planes() else [])


def by_size() -> list[Row]:
    """Throughput of each transport by the size of a step."""
    rows: list[Row] = []
    for nbytes, steps in SIZES.items():
        if streams.QUICK and nbytes not in (10_000, 64 * MB):
            continue
        step_s = partial(bench_transports.stream_s, (1, 1), nbytes, steps=steps)
        ways: dict[str, Callable[[], float]] = {"tcp by default": partial(step_s, "tcp", planned=False)}
        ways |= {each: partial(step_s, each) for each in bench_transports.TRANSPORTS if each in streams.planes()}
        ways["shm"] = partial(step_s, "shm", api="stage")
        if "mpi" in streams.planes():
            ways["plain MPI"] = partial(bench_transports.messages_s, (1, 1), nbytes, steps=steps)
        for way, times in streams.take_turns(ways, streams.repetitions(3)).items():
            values = [nbytes / each / 1e9 for each in times]
            more: dict[str, Any] = {"picture": "sizes", "curve": way, "x": nbytes}
            rows.append(streams.measured(f"transport: {way}, {nbytes:,} bytes", values, "GB/s", **more))
    return rows


def queues() -> list[Row]:
    """How long the writer is held, and what is lost, by the limit."""
    rows, ways, seen = [], {}, {}

    def held_ms(reader: str, policy: str, limit: int) -> float:
        wiring = f"via: sst, queue: {{limit: {limit}, when_full: {policy}}}"
        settings = {"bytes": QUEUE_BYTES, "steps": QUEUE_STEPS, "sleeps": READERS[reader]}
        fed, count = coupled(("feed", "eat"), 1, wiring, settings)
        seen[reader, policy, limit] = 100 * (1 - count / QUEUE_STEPS), fed["peak_mb"]
        return 1e3 * float(fed["held_s"])

    wanted = [("now and then slow", "block"), ("always slower", "block"), ("always slower", "discard")]
    for reader, policy in wanted:
        for steps in (1, 4) if streams.QUICK else LIMITS:
            ways[f"{reader}/{policy}/{steps}"] = partial(held_ms, reader, policy, steps)
    for way, values in streams.take_turns(ways, streams.repetitions(3)).items():
        reader, policy, limit = way.split("/")
        lost, peak_mb = seen[reader, policy, int(limit)]
        more: dict[str, Any] = {
            "picture": "queue",
            "curve": f"reader {reader}, {policy}",
            "x": int(limit),
            "lost": lost,
        }
        more["detail"] = f"{lost:.0f} % of the steps dropped, writer {peak_mb:.0f} MB at its peak"
        rows.append(streams.measured(f"queue: reader {reader}, {policy}, limit {limit}", values, "ms/step", **more))
    return rows


def cuts() -> list[Row]:
    """Time of a step by the axis along which the readers cut."""

    def ms(wiring: str, axis: int) -> float:
        settings = {"steps": 20, "axis": axis}
        found = coupled(("write-grid", "read-grid"), 2, wiring, settings)
        return 1e3 * streams.median(found[-1])

    wirings = {"stream (sst)": "via: sst", "file (bp5), reading": "via: bp5, coupling: after"}
    ways = {f"{name}/{axis}": partial(ms, wiring, axis) for name, wiring in wirings.items() for axis in range(3)}
    rows = []
    for way, values in streams.take_turns(ways, streams.repetitions(3)).items():
        name, _, axis = way.partition("/")
        more: dict[str, Any] = {"picture": "cut", "curve": name, "x": int(axis)}
        rows.append(streams.measured(f"cut: {name}, along axis {axis}", values, "ms/step", **more))
    return rows


if __name__ == "__main__":
    streams.serve(PROGRAMS, measure)
