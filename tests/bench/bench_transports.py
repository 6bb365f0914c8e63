"""SST's transports between programs on one node: as wf plans them, and with ADIOS2's defaults.

Raw adios2 programs, started with the engine parameters and the environment that `wf plan` makes for the same ranks;
"by default" is the same program with none of both but `DataTransport` and a bound on the queue, so that a ratio of the
two is the gain of parameters and memory policy together; of BP5, which has the same parameters in both, it is that of
the environment, the memory policy, alone; "by workflow.stage" is as planned, but written with `workflow.stage`: it
reads into fresh memory as it is, where `adios2.Stream.read` fills it with zeros first; this one is held against the
targets. Throughput is the bytes of a step ÷ the median time from step to step, seen by the first reader, after some
steps of warming up. All ways take turns; a value is the median over the turns, a ratio is taken within each turn.
`memcpy` is numpy's copy of one array. "plain MPI" is messages between the same ranks of one MPI job, from one array
into one array again and again, so that small ones stay in the processor's cache; "plain MPI, copied" copies first,
which no stream can save whose writer goes on computing meanwhile. Where a cache holds all that plain MPI moves (2→2,
16 MB) SST can fall below half of it: its queue is larger than that. `perf` of SST's reader there: 21 % of the samples
in fetching the data, a quarter in waiting for the other rank, 10 % in `adios2.Stream.read`'s zeros; page faults did not
grow with the number of steps.
BP5 writes into memory (/dev/shm, where there is one), by Put with Mode.Sync, as `adios2.Stream.write` does, and
`workflow.stage` with arrays that it was not lent; "deferred" is Put with Mode.Deferred: then BP5 does not copy big
arrays, and there is nothing to gain.
"shm" is `via: shm`, by workflow.stage: one copy into shared memory, one out of it; "shm, views" leaves out the second.
Where it is slower than plain MPI, this is why: MPI copies once. Samples of `perf` in copies (499 Hz, all processes, 60
steps of 64 MB a writer; shm, views, plain MPI, plain MPI copied): 1→1 200, 98, 88, 205; 2→2 556, 259, 201, 462; 2→1
546, 519, 156, 451, because a view of the blocks of two writers is a copy, and three processes share two cores.
Takes the Python that WF_MPI_PYTHON names, else this one; transports that its ADIOS2 lacks are left out.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.bench import streams
from tests.bench.streams import Row

SHAPES = [(1, 1), (2, 1), (2, 2)]
SIZES = {"16 MB": 16_000_000, "64 MB": 64_000_000}
TRANSPORTS = ["tcp", "ucx", "rdma"]
WARM, STEPS = 6, 22
PIPELINE = """
wf: 1
name: bench
oversubscribe: true
stages:
  make: {component: synthetic, ranks: %d, with: {bytes: %d, steps: %d}}
  drop: {component: "null", ranks: %d}
streams:
  data: {from: make, to: drop, via: %s, %s}
"""


# the programs


def write(settings: dict[str, Any]) -> None:
    """Writes the steps."""
    import adios2
    import numpy as np

    ranks, io = open_io(settings)
    rank, size = (ranks.rank, ranks.size) if ranks is not None else (0, 1)
    data = np.full(settings["bytes"] // 8, 1.0 + rank)
    box = [data.size * size], [data.size * rank], [data.size]
    if settings["api"] == "stage":
        from workflow import stage

        with stage.open_writer(
            path=settings["path"], engine=settings["engine"], parameters=settings["parameters"]
        ) as out:
            for _ in range(settings["steps"]):
                with out.step():
                    out.write("x", data, shape=tuple(box[0]), start=tuple(box[1]))
        return
    with adios2.Stream(*([io, settings["path"], "w"] + ([ranks] if ranks is not None else []))) as stream:
        for step in stream.steps(settings["steps"]):
            step.write("x", data, *box)


def read(settings: dict[str, Any]) -> list[float] | None:
    """Reads this rank's share of each step; seconds from one step's end to the next one's."""
    import adios2

    ranks, io = open_io(settings)
    rank, size = (ranks.rank, ranks.size) if ranks is not None else (0, 1)
    ends = []
    if settings["api"] == "stage":
        from workflow import stage

        engine, parameters = settings["engine"], settings["parameters"]
        with stage.open_reader(path=settings["path"], engine=engine, parameters=parameters, open_timeout_s=60) as data:
            for step in data:
                share = step.shape("x")[0] // size
                (step.view if settings["views"] else step.read)("x", (share * rank,), (share,))
                ends.append(time.perf_counter())
    else:
        with adios2.Stream(*([io, settings["path"], "r"] + ([ranks] if ranks is not None else []))) as stream:
            for step in stream.steps():
                share = step.inquire_variable("x").shape()[0] // size
                step.read("x", [share * rank], [share])
                ends.append(time.perf_counter())
    return _between(ends) if rank == 0 else None


def write_file(settings: dict[str, Any]) -> list[float]:
    """Writes a file; seconds of whole steps, begin to end."""
    import adios2
    import numpy as np

    _, io = open_io(settings)
    data, times = np.ones(settings["bytes"] // 8), []
    variable = io.define_variable("x", data, [data.size], [0], [data.size], True)
    engine = io.open(settings["path"], adios2.bindings.Mode.Write)
    mode = getattr(adios2.bindings.Mode, settings["mode"])
    for _ in range(settings["steps"]):
        begin = time.perf_counter()
        engine.begin_step()
        engine.put(variable, data, mode)
        engine.end_step()
        times.append(time.perf_counter() - begin)
    engine.close()
    return times[WARM:]


def messages(settings: dict[str, Any]) -> list[float] | None:
    """The same data between the same ranks by MPI_Send and MPI_Recv; times as in `read`."""
    import numpy as np
    from mpi4py import MPI

    world, writers = MPI.COMM_WORLD, settings["writers"]
    readers = world.size - writers
    data, send = np.ones((2, settings["bytes"] // 8))
    ends = []
    for _ in range(settings["steps"]):
        if world.rank < writers:
            if settings["copied"]:
                np.copyto(send, data)
            world.Send(send, dest=writers + world.rank % readers)
            continue
        for rank in range(world.rank - writers, writers, readers):
            world.Recv(data, source=rank)
        ends.append(time.perf_counter())
    return _between(ends) if world.rank == writers else None


def open_io(settings: dict[str, Any]) -> tuple[Any, Any]:
    """(communicator, None with a serial adios2; io with the engine and its parameters)"""
    import adios2

    ranks = None
    if adios2.is_built_with_mpi:
        from mpi4py import MPI

        ranks = MPI.COMM_WORLD
    io = (adios2.Adios(ranks) if ranks is not None else adios2.Adios()).declare_io("data")
    io.set_engine(settings["engine"])
    io.set_parameters(settings["parameters"])
    return ranks, io


def _between(ends: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(ends)][WARM:]


PROGRAMS: dict[str, streams.Program] = {"write": write, "read": read, "file": write_file, "messages": messages}


# starting them


def stream_s(
    shape: tuple[int, int],
    nbytes: int,
    transport: str,
    *,
    planned: bool = True,
    api: str = "raw",
    steps: int = 0,
    views: bool = False,
) -> float:
    """Median seconds per step through SST: as the plan has it, or as ADIOS2 gives it by default; by transport `shm`
    through common memory."""
    how = ("shm", "keep: false") if transport == "shm" else ("sst", f"transport: {transport}")
    plan = streams.plan_of(PIPELINE % (shape[0], nbytes, STEPS, shape[1], *how))
    ends = [stage["ends"][0] for stage in plan["stages"]]
    env = [streams.told(stage) if planned else {} for stage in plan["stages"]]
    parameters = [end["parameters"] for end in ends]
    if not planned:
        # but for a bound on the queue: without one all steps would be held in memory
        parameters = [{"DataTransport": parameters[0]["DataTransport"], "QueueLimit": "2"}, {}]
        # ADIOS2 has no shared-memory provider without being told
        parameters[1] = parameters[0] = {**parameters[0], **_interface(ends[0]["parameters"])}
    with tempfile.TemporaryDirectory() as folder:
        settings = {"path": f"{folder}/data", "bytes": nbytes, "steps": steps or _steps(), "api": api}
        settings |= {"engine": ends[0]["engine"], "views": views}
        writer = streams.launch(__file__, "write", shape[0], {**settings, "parameters": parameters[0]}, env[0])
        reader = streams.launch(__file__, "read", shape[1], {**settings, "parameters": parameters[1]}, env[1])
        return streams.median(streams.results(reader, writer)[0])


def _interface(parameters: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key == "DataInterface"}


def _steps() -> int:
    return 14 if streams.QUICK else STEPS


def file_s(nbytes: int, *, planned: bool, mode: str) -> float:
    """Median seconds per step of BP5 writing into memory."""
    stage = streams.plan_of(PIPELINE % (1, nbytes, STEPS, 1, "bp5", "keep: false"))["stages"][0]
    with streams.folder() as folder:
        settings = {"engine": "BP5", "path": f"{folder}/x.bp", "bytes": nbytes, "steps": _steps(), "mode": mode}
        settings["parameters"] = {}
        return streams.median(streams.alone(__file__, "file", settings, env=streams.told(stage) if planned else {}))


def messages_s(shape: tuple[int, int], nbytes: int, *, copied: bool = False, steps: int = 0) -> float:
    """Median seconds per step by plain messages."""
    settings = {"bytes": nbytes, "steps": steps or _steps(), "writers": shape[0], "copied": copied}
    return streams.median(streams.alone(__file__, "messages", settings, ranks=sum(shape)))


def memcpy_s(nbytes: int) -> float:
    """Median seconds of copying one array."""
    import numpy as np

    source, target, times = np.ones(nbytes // 8), np.ones(nbytes // 8), []
    for _ in range(20):
        begin = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - begin)
    return streams.median(times)


# the page


def measure() -> list[Row]:
    """All rows."""
    rows = []
    for shape in SHAPES if "mpi" in streams.planes() else SHAPES[:1]:
        for size, nbytes in SIZES.items():
            if not streams.QUICK or (shape, size) in (((1, 1), "64 MB"), ((2, 2), "16 MB")):
                rows += throughput(shape, size, nbytes)
    return rows + files() + [whole_run()]


def throughput(shape: tuple[int, int], size: str, nbytes: int) -> list[Row]:
    """One shape and size: all transports and what they are held against."""
    name = f"{shape[0]}→{shape[1]}, {size}"
    have = [transport for transport in TRANSPORTS if transport in streams.planes()]
    ways: dict[str, Callable[[], float]] = {"tcp by default": lambda: stream_s(shape, nbytes, "tcp", planned=False)}
    for each in have:
        if each != "tcp" and shape == (1, 1):
            ways[f"{each} by default"] = lambda each=each: stream_s(shape, nbytes, each, planned=False)  # type: ignore[misc]
        ways[each] = lambda each=each: stream_s(shape, nbytes, each)  # type: ignore[misc]
    fastest = have[-1] if "ucx" not in have else "ucx"
    ours = f"{fastest} by workflow.stage"
    ways[ours] = lambda: stream_s(shape, nbytes, fastest, api="stage")
    ways["shm"] = lambda: stream_s(shape, nbytes, "shm", api="stage")
    ways["shm, views"] = lambda: stream_s(shape, nbytes, "shm", api="stage", views=True)
    if "mpi" in streams.planes():
        ways["plain MPI"] = lambda: messages_s(shape, nbytes)
        ways["plain MPI, copied"] = lambda: messages_s(shape, nbytes, copied=True)
    ways["memcpy"] = lambda: memcpy_s(nbytes)
    moved = {way: nbytes if way == "memcpy" else nbytes * shape[0] for way in ways}
    seconds = streams.take_turns(ways, streams.repetitions(5))
    found = {way: [moved[way] / each / 1e9 for each in times] for way, times in seconds.items()}
    rows = [
        streams.measured(f"{name}: {way}", values, "GB/s", picture="transports", group=name, curve=way)
        for way, values in found.items()
    ]
    best = ours  # what a pipeline gets that says nothing; not what happened to be fastest here
    rows.append(streams.against(f"{name}: {best} ÷ tcp by default", found[best], found["tcp by default"], 3))
    if "plain MPI" in found:
        rows.append(streams.against(f"{name}: {best} ÷ plain MPI", found[best], found["plain MPI"], 0.5))
        rows.append(streams.against(f"{name}: {best} ÷ plain MPI, copied", found[best], found["plain MPI, copied"]))
        for way in ("shm", "shm, views"):
            rows.append(streams.against(f"{name}: {way} ÷ plain MPI", found[way], found["plain MPI"], 0.8))
            copied = found["plain MPI, copied"]
            rows.append(streams.against(f"{name}: {way} ÷ plain MPI, copied", found[way], copied, 1.3))
    rows.append(streams.against(f"{name}: {best} ÷ memcpy", found[best], found["memcpy"]))
    return rows


def files() -> list[Row]:
    """BP5 with and without the memory policy."""
    nbytes = SIZES["64 MB"]
    ways = {
        "by default": lambda: file_s(nbytes, planned=False, mode="Sync"),
        "as planned": lambda: file_s(nbytes, planned=True, mode="Sync"),
        "by default, deferred": lambda: file_s(nbytes, planned=False, mode="Deferred"),
        "as planned, deferred": lambda: file_s(nbytes, planned=True, mode="Deferred"),
    }
    seconds = streams.take_turns(ways, streams.repetitions(7))
    found = {way: [nbytes / each / 1e9 for each in times] for way, times in seconds.items()}
    name = "BP5 writing, 64 MB"
    rows = [
        streams.measured(f"{name}: {way}", values, "GB/s", picture="transports", group=name, curve=way)
        for way, values in found.items()
    ]
    rows.append(streams.against(f"{name}: as planned ÷ by default", found["as planned"], found["by default"], 1.5))
    deferred = found["as planned, deferred"], found["by default, deferred"]
    return [*rows, streams.against(f"{name}: as planned ÷ by default, deferred", *deferred)]


def whole_run() -> Row:
    """`wf run` of synthetic → null, once, as the plan has it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(PIPELINE % (1, SIZES["16 MB"], 100, 1, "sst", "transport: auto"))
        argv = [streams.PYTHON, "-m", "workflow.cli", "run", str(file), "--run-dir", f"{folder}/run", "-q"]
        subprocess.run(
            argv, env=streams.environment({}), check=True, stdout=subprocess.DEVNULL, timeout=streams.TIMEOUT_S
        )
        report = json.loads((Path(folder) / "run/report.json").read_text())
    stream = report["streams"][0]
    seconds = stream["last_step"] - stream["first_step"]
    detail = (
        f"{stream['engine']} {stream['transport']}, {stream['steps']} steps, synthetic makes its data anew for each"
    )
    return streams.row("wf run synthetic → null, 16 MB", stream["bytes"] / seconds / 1e9, "GB/s", detail=detail)


if __name__ == "__main__":
    streams.serve(PROGRAMS, measure)
