"""The cost of a small step: 10 kB from one writer to one reader, through SST's transports and shared memory.

Raw adios2 programs, and the same by `wf run` through `workflow.stage`, one array a step. A step's time is the median
from one step to the next, seen by the reader after the first hundred; all ways are measured in turn, and the ratios
are taken within one run of all. Takes the Python that WF_MPI_PYTHON names; without it nothing is measured.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("WF_MPI_PYTHON", "")
VALUES, STEPS, WARM = 1250, 1000, 100
TIMEOUT_S = 180
# `via` → what an adios2 program is told; "": it cannot.
WAYS = {"shm": "", "sst-tcp": "WAN", "sst-ucx": "UCX", "sst-rdma": "RDMA"}
PIPELINE = """
wf: 1
name: small
oversubscribe: true
stages:
  make: {command: %s, writes: {data: {}}}
  take: {command: %s, reads: {data: {}}}
streams:
  data: {from: make, to: take, via: %s}
"""


def measure() -> list[dict[str, Any]]:
    """A row per way, raw and through `workflow.stage`."""
    from tests.bench import streams  # not where this file is one of the programs

    if not PYTHON:
        return []
    seen: dict[tuple[str, str], list[float]] = {}
    for _ in range(streams.repetitions(3)):
        for via, word in WAYS.items():
            for how, run in (("raw", raw), ("workflow.stage", staged)):
                with tempfile.TemporaryDirectory() as folder:
                    times = run(Path(folder), via, word)
                if times is not None:
                    seen.setdefault((via, how), []).append(1e6 * times)
    base = {how: statistics.median(seen["sst-tcp", how]) for how in ("raw", "workflow.stage")}
    return [
        {
            "name": f"10 kB step, {via}, {how}", "value": statistics.median(values), "unit": "µs",
            "target": 150 if via == "shm" else None,
            "better": "lower", "picture": "latency", "group": via, "curve": how,
            "low": min(values), "high": max(values),
            "detail": f"{min(values):.0f} to {max(values):.0f} in {len(values)} runs; "
            f"{statistics.median(values) / base[how]:.2f} of sst-tcp the same way",
        }
        for (via, how), values in sorted(seen.items(), key=lambda pair: pair[0][1])
    ]  # fmt: skip


def raw(folder: Path, _via: str, word: str) -> float | None:
    """Seconds a step of two adios2 programs; None where this ADIOS2 cannot."""
    if not word:
        return None
    ends = ([PYTHON, __file__, side, word, str(folder / "data")] for side in ("write", "read"))
    env = {**os.environ, "FABRIC_IFACE": "shm"} if word == "RDMA" else dict(os.environ)
    pipe = subprocess.PIPE
    started = [subprocess.Popen(argv, env=env, stdout=pipe, stderr=pipe, text=True) for argv in ends]
    try:
        said = [process.communicate(timeout=TIMEOUT_S) for process in started]
    finally:
        for process in started:
            process.kill()
    found = [line for out, _ in said for line in out.splitlines() if line.startswith("step ")]
    return float(found[0].split()[1]) if found and not any(process.returncode for process in started) else None


def staged(folder: Path, via: str, _word: str) -> float | None:
    """Seconds a step of the same by `wf run`; None where the plan refuses it."""
    (folder / "pipeline.yaml").write_text(
        PIPELINE % (*(json.dumps([PYTHON, __file__, side]) for side in ("stage-write", "stage-read")), via)
    )
    argv = [PYTHON, "-m", "workflow.cli", "run", "pipeline.yaml", "-q", "--run-dir", "run"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        return None
    return float((folder / "run/stages/take/stdout.log").read_text().split()[1])


def middle(times: list[float]) -> float:
    """The median distance of times, without those of the beginning."""
    return statistics.median(after - before for before, after in zip(times[WARM:], times[WARM + 1 :], strict=False))


def program(side: str, word: str, path: str) -> None:
    """One end, with adios2 alone."""
    import adios2.bindings as adios2
    import numpy as np

    adios = adios2.ADIOS()
    io = adios.DeclareIO("data")
    io.SetEngine("SST")
    io.SetParameters({"DataTransport": word, "QueueLimit": "2", "SpeculativePreloadMode": "Off"})
    engine = io.Open(path, adios2.Mode.Write if side == "write" else adios2.Mode.Read)
    values = np.zeros(VALUES)
    times: list[float] = []
    if side == "write":
        variable = io.DefineVariable("x", values, [VALUES], [0], [VALUES])
        for step in range(STEPS + WARM):
            values[:] = step
            engine.BeginStep()
            engine.Put(variable, values, adios2.Mode.Sync)
            engine.EndStep()
    while side == "read" and engine.BeginStep() == adios2.StepStatus.OK:
        engine.Get(io.InquireVariable("x"), values, adios2.Mode.Sync)
        if not np.array_equal(values, np.full(VALUES, len(times))):
            raise RuntimeError(f"step {len(times)} is {values}")
        engine.EndStep()
        times.append(time.perf_counter())
    engine.Close()
    if times:
        print("step", middle(times))


def stage_program(side: str) -> None:
    """One end, with `workflow.stage`."""
    import numpy as np

    from workflow import stage

    times = []
    if side == "stage-write":
        values = np.zeros(VALUES)
        with stage.open_writer("data") as out:
            for index in range(STEPS + WARM):
                values[:] = index
                with out.step():
                    out.write("x", values)
    else:
        with stage.open_reader("data") as data:
            for step in data:
                if not np.array_equal(step.read("x"), np.full(VALUES, step.index)):
                    raise RuntimeError(f"step {step.index} is not as it was written")
                times.append(time.perf_counter())
        print("step", middle(times))


if __name__ == "__main__":
    if sys.argv[1:2] in (["write"], ["read"]):
        program(*sys.argv[1:])
    elif len(sys.argv) > 1:
        stage_program(sys.argv[1])
    else:
        for row in measure():
            print(f"{row['name']:32} {row['value']:8.0f} {row['unit']}  {row['detail']}")
