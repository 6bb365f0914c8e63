"""What `workflow.stage` costs against adios2's own Python API.

A writer and a reader, two processes, move the same array for many steps, once through adios2.Stream and once through
`workflow.stage` with a run's settings (metrics, contract). The two take turns, so that both meet the same weather;
the figure is the ratio of the medians, over the repetitions, of the median time from step to step.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

REPETITIONS = 7
# size → bytes, steps, target
CASES = {"16 MB": (16_000_000, 40, 1.03), "10 kB": (10_000, 2000, 1.25)}
SST = {"RendezvousReaderCount": "1", "QueueLimit": "2", "SpeculativePreloadMode": "Off"}
CONTRACT = {"field": {"type": "float64", "shape": ["N"]}, "time": {"type": "float64", "shape": []}}


def write_raw(path: str, engine: str, nbytes: int, steps: int) -> list[float]:
    """The times at which the steps were written."""
    import adios2
    import numpy as np

    data = np.random.default_rng(1).random(nbytes // 8)
    io = adios2.Adios().declare_io("out")
    io.set_engine(engine)
    io.set_parameters(SST if engine == "SST" else {})
    times = []
    with adios2.Stream(io, path, "w") as stream:
        for step in stream.steps(steps):
            times.append(time.perf_counter())
            step.write("field", data, [data.size], [0], [data.size])
            step.write("time", 0.5)
    return times


def read_raw(path: str, engine: str) -> list[float]:
    """The times at which the steps were read."""
    import adios2

    io = adios2.Adios().declare_io("in")
    io.set_engine(engine)
    io.set_parameters(SST if engine == "SST" else {})
    times = []
    with adios2.Stream(io, path, "r") as stream:
        for step in stream.steps():
            times.append(time.perf_counter())
            step.read("field")
            step.read("time")
    return times


def write_stage(nbytes: int, steps: int) -> list[float]:
    """The same through workflow.stage."""
    import numpy as np

    from workflow import stage

    data = np.random.default_rng(1).random(nbytes // 8)
    times = []
    with stage.open_writer("field") as out:
        for _ in range(steps):
            with out.step():
                times.append(time.perf_counter())
                out.write("field", data, shape=data.shape, start=(0,))
                out.write("time", 0.5)
    return times


def read_stage() -> list[float]:
    """The same through workflow.stage."""
    from workflow import stage

    times = []
    with stage.open_reader("field") as stream:
        for step in stream:
            times.append(time.perf_counter())
            step.read("field")
            step.read("time")
    return times


def start(role: str, api: str, path: Path, engine: str, nbytes: int, steps: int) -> subprocess.Popen[str]:
    """One of the two processes."""
    env = dict(os.environ)
    if api == "stage":
        env["WF_STAGE"] = str(write_settings(role, path, engine))
    command = [sys.executable, __file__, f"{role}-{api}", str(path), engine, str(nbytes), str(steps)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def write_settings(role: str, path: Path, engine: str) -> Path:
    """The stage.json that a run would give this process."""
    end: dict[str, Any] = {
        "stream": "field", "port": "field", "side": role, "engine": engine, "path": str(path),
        "parameters": SST if engine == "SST" else {}, "open_timeout_s": 60, "step_timeout_s": 60, "io": "field",
        "config": None, "variables": CONTRACT,
    }  # fmt: skip
    metrics = path.with_name(f"{role}.jsonl")
    text = {"stage": role, "component": role, "ranks": 1, "run_dir": str(path.parent), "parameters": {},
            "metrics": str(metrics), "ends": [end]}  # fmt: skip
    file = path.with_name(f"{role}.json")
    file.write_text(json.dumps(text))
    return file


def time_pair(api: str, engine: str, nbytes: int, steps: int) -> dict[str, float]:
    """Microseconds per step of a fresh pair of processes: {write, read}; over SST the two are coupled."""
    # In memory where the system has a place for it: a disk that is written back would be all there is to see.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        path = Path(folder) / ("field" if engine == "SST" else "field.bp")
        writer = start("write", api, path, engine, nbytes, steps)
        if engine != "SST":
            writer.wait()
        reader = start("read", api, path, engine, nbytes, steps)
        seconds = {}
        for role, process in (("write", writer), ("read", reader)):
            out, _ = process.communicate(timeout=300)
            if process.returncode:
                raise SystemExit(f"the {role} process failed with code {process.returncode}")
            seconds[role] = float(out.split()[-1])
        return {role: 1e6 * value for role, value in seconds.items()}


def measure() -> list[dict[str, Any]]:
    """One row for every engine, size and side."""
    rows = []
    for size, (nbytes, steps, target) in CASES.items():
        for engine in ("SST", "BP5"):
            samples: dict[str, list[dict[str, float]]] = {"raw": [], "stage": []}
            for turn in range(REPETITIONS):
                for api in ("raw", "stage") if turn % 2 else ("stage", "raw"):
                    samples[api].append(time_pair(api, engine, nbytes, steps))
            # Over SST the writer waits for the reader: one figure for both.
            for what in ("read",) if engine == "SST" else ("write", "read"):
                raw, ours = (statistics.median(sample[what] for sample in samples[api]) for api in ("raw", "stage"))
                rows.append(
                    {
                        "name": f"{engine}, {size} a step, {'write and read' if engine == 'SST' else what}",
                        "value": ours / raw,
                        "unit": "×",
                        "target": target,
                        "detail": f"{ours:.0f} µs a step against {raw:.0f} µs",
                    }
                )
    return rows


def main() -> None:
    """One of the two processes: prints the median of its seconds from step to step, deaf to a busy disk."""
    role, path, engine, nbytes, steps = sys.argv[1:]
    programs: dict[str, Callable[[], list[float]]] = {
        "write-raw": lambda: write_raw(path, engine, int(nbytes), int(steps)),
        "read-raw": lambda: read_raw(path, engine),
        "write-stage": lambda: write_stage(int(nbytes), int(steps)),
        "read-stage": read_stage,
    }
    times = programs[role]()
    print(statistics.median(after - before for before, after in pairwise(times)))


if __name__ == "__main__":
    main()
