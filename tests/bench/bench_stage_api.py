"""What `workflow.stage` costs against adios2's own Python API.

Writers and readers, programs of their own, move the same array for many steps, once through `adios2.Stream` and once
through `workflow.stage` with a run's settings (metrics, contract), all with a run's memory policy; with two ranks on
each side also through adios2's bindings, the thinnest way there is, into one array that is used again and again. They
take turns, so that all meet the same weather; the figure is the median, over the turns, of the ratio of the median
times from step to step. Below 1 is possible: `adios2.Stream.read` fills its arrays with zeros first. By SST
the ranges are wider than the distance to the target. Two ranks need the Python that WF_MPI_PYTHON names.
"""

from __future__ import annotations

import json
import statistics
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.bench import streams
from tests.bench.streams import Row

REPETITIONS = 9
PIPELINE = """
wf: 1
name: bench
oversubscribe: true
stages:
  make: {component: synthetic, ranks: %d, with: {bytes: %d, steps: 1}}
  drop: {component: "null", ranks: %d}
streams:
  data: {from: make, to: drop, via: sst}
"""
# size → bytes per rank, steps, target
CASES = {"16 MB": (16_000_000, 40, 1.03), "10 kB": (10_000, 2000, 1.25)}
SST = {"RendezvousReaderCount": "1", "QueueLimit": "2", "SpeculativePreloadMode": "Off"}
CONTRACT = {"field": {"type": "float64", "shape": ["N"]}, "time": {"type": "float64", "shape": []}}


# the programs: each gives the times at which its first rank had a step


def write_stream(settings: dict[str, Any]) -> float | None:
    """By adios2.Stream."""
    import adios2

    comm, rank, size = _ranks(settings)
    data, box = _data(settings, rank, size)
    io = _declare(adios2.Adios(*comm), settings)
    times = []
    with adios2.Stream(io, settings["path"], "w", *comm) as stream:
        for step in stream.steps(settings["steps"]):
            times.append(time.perf_counter())
            step.write("field", data, *box)
            step.write("time", 0.5)
    return _median(times, rank)


def read_stream(settings: dict[str, Any]) -> float | None:
    """By adios2.Stream."""
    import adios2

    comm, rank, size = _ranks(settings)
    io = _declare(adios2.Adios(*comm), settings)
    times = []
    with adios2.Stream(io, settings["path"], "r", *comm) as stream:
        for step in stream.steps():
            times.append(time.perf_counter())
            share = step.inquire_variable("field").shape()[0] // size
            step.read("field", [share * rank], [share])
            step.read("time")
    return _median(times, rank)


def write_bindings(settings: dict[str, Any]) -> float | None:
    """By adios2's bindings."""
    import adios2.bindings as a
    import numpy as np

    comm, rank, size = _ranks(settings)
    data, box = _data(settings, rank, size)
    adios = a.ADIOS(*comm)
    io = adios.DeclareIO("out")
    io.SetEngine(settings["engine"])
    io.SetParameters(settings["parameters"])
    field = io.DefineVariable("field", data, *box, True)
    moment = io.DefineVariable("time", np.array(0.5))
    engine = io.Open(settings["path"], a.Mode.Write)
    times = []
    for _ in range(settings["steps"]):
        times.append(time.perf_counter())
        engine.BeginStep()
        engine.Put(field, data, a.Mode.Sync)
        engine.Put(moment, np.array(0.5), a.Mode.Sync)
        engine.EndStep()
    engine.Close()
    return _median(times, rank)


def read_bindings(settings: dict[str, Any]) -> float | None:
    """By adios2's bindings, into the same array each time."""
    import adios2.bindings as a
    import numpy as np

    comm, rank, _ = _ranks(settings)
    adios = a.ADIOS(*comm)
    io = adios.DeclareIO("in")
    io.SetEngine(settings["engine"])
    io.SetParameters(settings["parameters"])
    engine = io.Open(settings["path"], a.Mode.Read)
    times, share = [], settings["bytes"] // 8
    values, moment = np.empty(share), np.empty(1)
    while engine.BeginStep() == a.StepStatus.OK:
        times.append(time.perf_counter())
        field = io.InquireVariable("field")
        field.SetSelection(([share * rank], [share]))
        engine.Get(field, values, a.Mode.Sync)
        engine.Get(io.InquireVariable("time"), moment, a.Mode.Sync)
        engine.EndStep()
    engine.Close()
    return _median(times, rank)


def write_stage(settings: dict[str, Any]) -> float | None:
    """By workflow.stage."""
    from workflow import stage

    _, rank, size = _ranks(settings)
    data, (shape, start, _) = _data(settings, rank, size)
    times = []
    with stage.open_writer("field") as out:
        for _ in range(settings["steps"]):
            with out.step():
                times.append(time.perf_counter())
                out.write("field", data, shape=tuple(shape), start=tuple(start))
                out.write("time", 0.5)
    return _median(times, rank)


def read_stage(settings: dict[str, Any]) -> float | None:
    """By workflow.stage."""
    from workflow import stage

    _, rank, size = _ranks(settings)
    times = []
    with stage.open_reader("field") as stream:
        for step in stream:
            times.append(time.perf_counter())
            share = step.shape("field")[0] // size
            step.read("field", (share * rank,), (share,))
            step.read("time")
    return _median(times, rank)


def _ranks(settings: dict[str, Any]) -> tuple[list[Any], int, int]:
    if settings["ranks"] == 1:
        return [], 0, 1
    from mpi4py import MPI

    return [MPI.COMM_WORLD], MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size


def _data(settings: dict[str, Any], rank: int, size: int) -> tuple[Any, tuple[list[int], list[int], list[int]]]:
    import numpy as np

    data = np.random.default_rng(rank).random(settings["bytes"] // 8)
    return data, ([data.size * size], [data.size * rank], [data.size])


def _declare(adios: Any, settings: dict[str, Any]) -> Any:
    io = adios.declare_io("field")
    io.set_engine(settings["engine"])
    io.set_parameters(settings["parameters"])
    return io


def _median(times: list[float], rank: int) -> float | None:
    # Deaf to a busy disk, and to the first step, which opens connections.
    between = [after - before for before, after in pairwise(times)][1:]
    return statistics.median(between) if rank == 0 else None


PROGRAMS: dict[str, streams.Program] = {
    "write-stream": write_stream, "read-stream": read_stream, "write-bindings": write_bindings,
    "read-bindings": read_bindings, "write-stage": write_stage, "read-stage": read_stage,
}  # fmt: skip


# starting them


def pair_s(api: str, engine: str, ranks: int, nbytes: int, steps: int) -> dict[str, float]:
    """Seconds per step of a fresh pair of programs: {write, read}; over SST the two are coupled."""
    with streams.folder() as folder:
        path = Path(folder) / ("field" if engine == "SST" else "field.bp")
        settings = {
            "path": str(path), "engine": engine, "ranks": ranks, "bytes": nbytes, "steps": steps,
            "parameters": SST if engine == "SST" else {},
        }  # fmt: skip
        roles = ("write", "read")
        plan = streams.plan_of(PIPELINE % (ranks, nbytes, ranks))
        env = {
            role: {**streams.told(stage), "WF_STAGE": str(write_settings(role, path, engine, ranks))}
            for role, stage in zip(roles, plan["stages"], strict=True)
        }
        if engine == "SST":
            both = [streams.launch(__file__, f"{role}-{api}", ranks, settings, env[role]) for role in roles]
            return dict(zip(roles, streams.results(*both), strict=True))
        return {role: streams.alone(__file__, f"{role}-{api}", settings, ranks=ranks, env=env[role]) for role in roles}


def write_settings(role: str, path: Path, engine: str, ranks: int) -> Path:
    """The stage.json that a run would give this process."""
    end: dict[str, Any] = {
        "stream": "field", "port": "field", "side": role, "engine": engine, "path": str(path),
        "parameters": SST if engine == "SST" else {}, "open_timeout_s": 60, "step_timeout_s": 60, "io": "field",
        "config": None, "variables": CONTRACT,
    }  # fmt: skip
    metrics = path.with_name(f"{role}.jsonl")
    text = {"stage": role, "component": role, "ranks": ranks, "run_dir": str(path.parent), "parameters": {},
            "stage_file_version": 2, "metrics": str(metrics), "ends": [end]}  # fmt: skip
    file = path.with_name(f"{role}.json")
    file.write_text(json.dumps(text))
    return file


# the page


def measure() -> list[Row]:
    """One row for every engine, size and side; with two ranks on each side where there is an ADIOS2 with MPI."""
    rows = []
    for size, (nbytes, steps, target) in CASES.items():
        for engine in ("SST", "BP5"):
            rows += compare(engine, 1, size, nbytes, steps, target)
    if "mpi" in streams.planes():
        for engine in ("SST", "BP5"):
            rows += compare(engine, 2, "16 MB", *CASES["16 MB"])
    return rows


def compare(engine: str, ranks: int, size: str, nbytes: int, steps: int, target: float) -> list[Row]:
    """The stage API against the others."""
    apis = ["stream", "stage"] + (["bindings"] if ranks > 1 else [])
    ways = {api: partial(pair_s, api, engine, ranks, nbytes, steps) for api in apis}
    samples = streams.take_turns(ways, streams.repetitions(REPETITIONS))
    rows = []
    # Over SST the writer waits for the reader: one figure for both.
    for what in ("read",) if engine == "SST" else ("write", "read"):
        found = {api: [sample[what] for sample in samples[api]] for api in apis}
        name = f"{engine}, {ranks}→{ranks}, {size} a step and rank, {'write and read' if engine == 'SST' else what}"
        for api in (each for each in apis if each != "stage"):
            other = "adios2.Stream" if api == "stream" else "the bindings"
            ours, theirs = (1e6 * statistics.median(found[each]) for each in ("stage", api))
            detail = f"{ours:.0f} µs a step against {theirs:.0f} µs"
            row = streams.against(f"{name}, against {other}", found["stage"], found[api], target, better="lower")
            rows.append({**row, "detail": ". ".join(filter(None, [row["detail"], detail]))})
    return rows


if __name__ == "__main__":
    streams.serve(PROGRAMS, measure)
