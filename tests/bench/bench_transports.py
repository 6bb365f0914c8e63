"""SST's transports between programs on one node, and what the memory policy gains.

Raw adios2 programs, started with the engine parameters and the environment that `wf plan` makes for the same ranks;
"by default" is the same program with none of both but `DataTransport`. Throughput is the bytes of a step ÷ the median
time from one step to the next, seen by the first reader after ten steps of warming up. `memcpy` is numpy's copy of
one array, "plain MPI" messages between the same ranks of one MPI job.
Takes the Python that WF_MPI_PYTHON names, else this one; transports that its ADIOS2 lacks are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("WF_MPI_PYTHON") or sys.executable
REPEAT = int(os.environ.get("WF_BENCH_REPEAT", "3"))
SHAPES = [(1, 1), (2, 1), (2, 2)]
SIZES = {"16 MB": 16_000_000, "64 MB": 64_000_000}
TRANSPORTS = ["tcp", "ucx", "rdma"]
WARM, STEPS, SMALL_STEPS = 10, 40, 1000
TIMEOUT_S = 180
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


def comm() -> Any:
    """The ranks of this program; None with a serial adios2."""
    import adios2

    if not adios2.is_built_with_mpi:
        return None
    from mpi4py import MPI

    return MPI.COMM_WORLD


def open_io(settings: dict[str, Any]) -> tuple[Any, Any]:
    """(communicator, io) with the engine and its parameters."""
    import adios2

    ranks = comm()
    io = (adios2.Adios(ranks) if ranks is not None else adios2.Adios()).declare_io("data")
    io.set_engine(settings["engine"])
    io.set_parameters(settings["parameters"])
    return ranks, io


def write(settings: dict[str, Any]) -> list[float]:
    """Writes the steps; times from the begin of each to its end."""
    import adios2
    import numpy as np

    ranks, io = open_io(settings)
    rank, size = (ranks.rank, ranks.size) if ranks is not None else (0, 1)
    data = np.full(settings["bytes"] // 8, 1.0 + rank)
    times = []
    args = (io, settings["path"], "w", ranks) if ranks is not None else (io, settings["path"], "w")
    with adios2.Stream(*args) as stream:
        for step in stream.steps(settings["steps"]):
            begin = time.perf_counter()
            step.write("x", data, [data.size * size], [data.size * rank], [data.size])
            times.append(time.perf_counter() - begin)
    return times if rank == 0 else []


def read(settings: dict[str, Any]) -> list[float]:
    """Reads this rank's share of each step; times from one step's end to the next one's."""
    import adios2

    ranks, io = open_io(settings)
    rank, size = (ranks.rank, ranks.size) if ranks is not None else (0, 1)
    times, last = [], 0.0
    args = (io, settings["path"], "r", ranks) if ranks is not None else (io, settings["path"], "r")
    with adios2.Stream(*args) as stream:
        for step in stream.steps():
            share = step.inquire_variable("x").shape()[0] // size
            step.read("x", [share * rank], [share])
            now = time.perf_counter()
            if last:
                times.append(now - last)
            last = now
    return times if rank == 0 else []


def write_file(settings: dict[str, Any]) -> list[float]:
    """Writes a file; times of whole steps, begin to end."""
    import adios2
    import numpy as np

    _, io = open_io(settings)
    data, times = np.ones(settings["bytes"] // 8), []
    variable = io.define_variable("x", data, [data.size], [0], [data.size], True)
    engine = io.open(settings["path"], adios2.bindings.Mode.Write)
    for _ in range(settings["steps"]):
        begin = time.perf_counter()
        engine.begin_step()
        engine.put(variable, data)
        engine.end_step()
        times.append(time.perf_counter() - begin)
    engine.close()
    return times


def messages(settings: dict[str, Any]) -> list[float]:
    """The same data between the same ranks by MPI_Send and MPI_Recv; times as in `read`."""
    import numpy as np
    from mpi4py import MPI

    world, writers = MPI.COMM_WORLD, settings["writers"]
    readers, count = world.size - writers, settings["bytes"] // 8
    data = np.ones(count)
    times, last = [], 0.0
    for _ in range(settings["steps"]):
        if world.rank < writers:
            world.Send(data, dest=writers + world.rank % readers)
            continue
        own = [rank for rank in range(writers) if rank % readers == world.rank - writers]
        for rank in own:
            world.Recv(data, source=rank)
        now = time.perf_counter()
        if last:
            times.append(now - last)
        last = now
    # the first reader alone prints
    return times if world.rank == writers else []


PROGRAMS = {"write": write, "read": read, "file": write_file, "messages": messages}


# starting them


def launch(program: str, ranks: int, settings: dict[str, Any], env: dict[str, str]) -> subprocess.Popen[str]:
    """One of the programs in its own process, or under mpiexec."""
    beside = Path(PYTHON).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec"
    argv = [PYTHON, __file__, program, json.dumps(settings)]
    clean = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    return subprocess.Popen(
        [mpiexec, "-n", str(ranks), *argv] if ranks > 1 else argv, env={**clean, **env}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def times_of(process: subprocess.Popen[str]) -> list[float]:
    """What it measured, without the warming up."""
    said = process.communicate(timeout=TIMEOUT_S)[0]
    if process.returncode:
        raise RuntimeError(f"{process.args!r}: exit code {process.returncode}")
    line = next(line for line in said.splitlines() if line.startswith("[") and len(line) > 2)
    found: list[float] = json.loads(line)
    return found[WARM:]


def plan_of(writers: int, readers: int, nbytes: int, via: str, wiring: str) -> dict[str, Any]:
    """The plan that `wf plan --json` makes under the Python that is measured."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(PIPELINE % (writers, nbytes, STEPS, readers, via, wiring))
        argv = [PYTHON, "-m", "workflow.cli", "plan", str(file), "--json"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(argv, env=env, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def stream_s(shape: tuple[int, int], nbytes: int, transport: str, *, planned: bool, steps: int = STEPS) -> float:
    """Median seconds per step through SST: as the plan has it, or as ADIOS2 gives it by default."""
    plan = plan_of(*shape, nbytes, "sst", f"transport: {transport}")
    ends = [stage["ends"][0] for stage in plan["stages"]]
    tell = [
        {key: stage["env"][key] for key in stage["env"] if key.startswith(("GLIBC", "MALLOC"))}
        for stage in plan["stages"]
    ]
    if not planned:
        word, tell = ends[0]["parameters"]["DataTransport"], [{}, {}]
        # but for a bound on the queue: without one all steps would be held in memory
        parameters = [{"DataTransport": word, "QueueLimit": "2"}, {}]
    else:
        parameters = [end["parameters"] for end in ends]
    with tempfile.TemporaryDirectory() as folder:
        settings = {"engine": "SST", "path": f"{folder}/data", "bytes": nbytes, "steps": steps}
        writer = launch("write", shape[0], {**settings, "parameters": parameters[0]}, tell[0])
        reader = launch("read", shape[1], {**settings, "parameters": parameters[1]}, tell[1])
        try:
            return statistics.median(times_of(reader))
        finally:
            reader.kill()
            writer.wait(TIMEOUT_S)


def file_s(nbytes: int, *, planned: bool) -> float:
    """Median seconds per step of BP5 writing into the page cache."""
    stage = plan_of(1, 1, nbytes, "bp5", "keep: false")["stages"][0]
    env = {key: stage["env"][key] for key in stage["env"] if planned and key.startswith(("GLIBC", "MALLOC"))}
    with tempfile.TemporaryDirectory() as folder:
        settings = {"engine": "BP5", "path": f"{folder}/x.bp", "bytes": nbytes, "steps": 25, "parameters": {}}
        return statistics.median(times_of(launch("file", 1, settings, env)))


def messages_s(shape: tuple[int, int], nbytes: int) -> float:
    """Median seconds per step by plain messages."""
    settings = {"bytes": nbytes, "steps": STEPS, "writers": shape[0]}
    return statistics.median(times_of(launch("messages", sum(shape), settings, {})))


def memcpy_s(nbytes: int) -> float:
    """Median seconds of copying one array."""
    import numpy as np

    source, target, times = np.ones(nbytes // 8), np.ones(nbytes // 8), []
    for _ in range(20):
        begin = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


# the page


def measure() -> list[dict[str, Any]]:
    """All rows."""
    planes = subprocess.run(
        [PYTHON, "-c", "from workflow.spec.machine import adios2_planes as a; print(*a()[0])"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    have = [name for name in TRANSPORTS if name in planes]
    shapes = SHAPES if "mpi" in planes else SHAPES[:1]
    rows = [row(f"memcpy, {size}", rate(nbytes, memcpy_s(nbytes)), "GB/s") for size, nbytes in SIZES.items()]
    for shape in shapes:
        for size, nbytes in SIZES.items():
            rows += throughput(shape, size, nbytes, have, "mpi" in planes)
    rows += files() + latencies(have) + [whole_run()]
    return rows


def throughput(shape: tuple[int, int], size: str, nbytes: int, have: list[str], with_mpi: bool) -> list[dict[str, Any]]:
    """One shape and size: all transports and what they are held against, taking turns."""
    moved, name = nbytes * shape[0], f"{shape[0]}→{shape[1]}, {size}"
    ways: dict[str, list[float]] = {}
    for _ in range(REPEAT):
        ways.setdefault("tcp by default", []).append(stream_s(shape, nbytes, "tcp", planned=False))
        for transport in have:
            if transport != "tcp":
                ways.setdefault(f"{transport} by default", []).append(stream_s(shape, nbytes, transport, planned=False))
            ways.setdefault(transport, []).append(stream_s(shape, nbytes, transport, planned=True))
        if with_mpi:
            ways.setdefault("plain MPI", []).append(messages_s(shape, nbytes))
    found = {way: rate(moved, statistics.median(times)) for way, times in ways.items()}
    spread = {way: f"{rate(moved, max(times)):.2g} to {rate(moved, min(times)):.2g}" for way, times in ways.items()}
    rows = [row(f"{name}: {way}", value, "GB/s", detail=spread[way]) for way, value in found.items()]
    best = max(have, key=lambda way: found[way])
    rows.append(row(f"{name}: {best} ÷ tcp by default", found[best] / found["tcp by default"], "", 3))
    if with_mpi:
        rows.append(row(f"{name}: {best} ÷ plain MPI", found[best] / found["plain MPI"], "", 0.5))
    return rows


def files() -> list[dict[str, Any]]:
    """BP5 with and without the memory policy, taking turns."""
    nbytes = SIZES["64 MB"]
    plain, planned = [], []
    for _ in range(REPEAT):
        plain.append(file_s(nbytes, planned=False))
        planned.append(file_s(nbytes, planned=True))
    rates = [rate(nbytes, statistics.median(times)) for times in (plain, planned)]
    return [
        row("BP5 writing, 64 MB: by default", rates[0], "GB/s"),
        row("BP5 writing, 64 MB: with the memory policy", rates[1], "GB/s"),
        row("BP5 writing: with ÷ without", rates[1] / rates[0], "", 1.5),
    ]


def latencies(have: list[str]) -> list[dict[str, Any]]:
    """Time of a 10 kB step."""
    rows = []
    for transport in have:
        times = [stream_s((1, 1), 10_000, transport, planned=True, steps=SMALL_STEPS) for _ in range(REPEAT)]
        rows.append(row(f"1→1, 10 kB: {transport}", statistics.median(times) * 1e6, "µs", better="lower"))
    return rows


def whole_run() -> dict[str, Any]:
    """`wf run` of synthetic → null, once, as the plan has it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(PIPELINE % (1, SIZES["16 MB"], 100, 1, "sst", "transport: auto"))
        argv = [PYTHON, "-m", "workflow.cli", "run", str(file), "--run-dir", f"{folder}/run", "-q"]
        subprocess.run(
            argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S
        )
        report = json.loads((Path(folder) / "run/report.json").read_text())
    stream = report["streams"][0]
    seconds = stream["last_step"] - stream["first_step"]
    detail = f"transport {stream['transport']}, {stream['steps']} steps, synthetic makes its data anew for each"
    return row("wf run synthetic → null, 16 MB", rate(stream["bytes"], seconds), "GB/s", detail=detail)


def rate(nbytes: float, seconds: float) -> float:
    """GB/s."""
    return nbytes / seconds / 1e9


def row(
    name: str, value: float, unit: str, target: float | None = None, better: str = "higher", detail: str = ""
) -> dict[str, Any]:
    """One line of the page."""
    return {"name": name, "value": value, "unit": unit, "target": target, "better": better, "detail": detail}


def main() -> None:
    """`PROGRAM SETTINGS`: be one of the programs; nothing: measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="?", choices=PROGRAMS)
    parser.add_argument("settings", nargs="?", type=json.loads)
    args = parser.parse_args()
    if args.program is None:
        for each in measure():
            print(f"{each['name']:50} {each['value']:8.3g} {each['unit']:5} {each['detail']}", flush=True)
        return
    times = PROGRAMS[args.program](args.settings)
    if times:
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
