"""What each setting of a file does: aggregators, asynchronous writing, compression.

Raw adios2 programs with BP5, into memory (/dev/shm, where there is one). Aggregation: all ranks write 16 MB a step; the
time of a step is that of the slowest rank, begin to end. Asynchronous: one rank writes 64 MB a step and sleeps 0.1 s
between, into memory, and past the page cache to the disk of temporary files (BP5's DirectIO); what it waits is what
the run lasts, from open to close, more than the sleeping. Compression: 8 MB of a smooth 3-D float32 field with noise
of 1e-5 of its largest value; the speed is that of writing, in bytes before compression.
`make pictures` draws what is measured here (docs/explanation/what-each-setting-does.md).
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import streams
from tests.bench.streams import Row

MB = 1_000_000
STRATEGIES = ("TwoLevelShm", "EveryoneWrites")
PAUSE_S = 0.1
# name → operator, parameters
OPERATORS: dict[str, tuple[str, dict[str, str]]] = {
    "none": ("", {}),
    "blosc lz4": ("blosc", {"compressor": "lz4", "clevel": "5", "doshuffle": "BLOSC_BITSHUFFLE"}),
    "blosc zstd": ("blosc", {"compressor": "zstd", "clevel": "5", "doshuffle": "BLOSC_BITSHUFFLE"}),
    "bzip2": ("bzip2", {}),
    "zfp 1e-2": ("zfp", {"accuracy": "1e-2"}),
    "zfp 1e-3": ("zfp", {"accuracy": "1e-3"}),
    "zfp 1e-4": ("zfp", {"accuracy": "1e-4"}),
}


# the program


def write(settings: dict[str, Any]) -> dict[str, Any] | None:
    """Writes a file. {step_s: median of the slowest rank's steps, whole_s: open to close, data_bytes, files}"""
    import adios2.bindings as a
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    data = smooth(settings["bytes"]) if "operator" in settings else np.full(settings["bytes"] // 8, 1.0 + comm.rank)
    adios = a.ADIOS(comm)
    io = adios.DeclareIO("data")
    io.SetEngine("BP5")
    io.SetParameters(settings["parameters"])
    inner = data.shape[1:]
    box = [data.shape[0] * comm.size, *inner], [data.shape[0] * comm.rank, *(0 for _ in inner)], list(data.shape)
    variable = io.DefineVariable("x", data, *box, True)
    if settings.get("operator"):
        variable.AddOperation(*settings["operator"])
    comm.Barrier()
    opened, times = time.perf_counter(), []
    engine = io.Open(settings["path"], a.Mode.Write)
    for _ in range(settings["steps"]):
        comm.Barrier()
        begin = time.perf_counter()
        engine.BeginStep()
        engine.Put(variable, data, a.Mode.Deferred)
        engine.EndStep()
        times.append(comm.allreduce(time.perf_counter() - begin, MPI.MAX))
        time.sleep(settings.get("pause_s", 0))
    engine.Close()
    whole_s = time.perf_counter() - opened
    if comm.rank:
        return None
    files = [file.stat().st_size for file in Path(settings["path"]).glob("data.*")]
    error = _error(settings["path"], data) if settings.get("operator") else 0.0
    # the first steps grow the buffers
    return {
        "step_s": statistics.median(times[2:]), "whole_s": whole_s, "data_bytes": sum(files), "files": len(files),
        "error": error,
    }  # fmt: skip


def smooth(nbytes: int) -> Any:
    """A field of about this size, largest value about 1."""
    import numpy as np

    edge = round((nbytes / 4) ** (1 / 3))
    x = np.linspace(0, 4 * np.pi, edge)
    field = np.sin(x)[:, None, None] * np.cos(x)[:, None] * np.sin(x / 2)
    return (field + 1e-5 * np.random.default_rng(1).standard_normal(field.shape)).astype(np.float32)


def _error(path: str, data: Any) -> float:
    """Largest error of what arrived."""
    import adios2
    import numpy as np

    with adios2.FileReader(path) as file:
        return float(np.abs(file.read("x", step_selection=[0, 1]).reshape(data.shape) - data).max())


PROGRAMS: dict[str, streams.Program] = {"write": write}


# starting it


def written(
    nbytes: int, parameters: dict[str, str], steps: int = 8, ranks: int = 1, *, disk: bool = False, **more: Any
) -> dict[str, Any]:
    """What the program found, in a folder of its own: in memory, or on the disk that temporary files lie on."""
    with tempfile.TemporaryDirectory() if disk else streams.folder() as folder:
        settings = {"path": f"{folder}/x.bp", "bytes": nbytes, "steps": steps, "parameters": parameters, **more}
        found: dict[str, Any] = streams.alone(__file__, "write", settings, ranks=ranks)
    return found


# the page


def measure() -> list[Row]:
    """All rows; none without an ADIOS2 with MPI and its operators."""
    return aggregation() + asynchronous() + compression() if "mpi" in streams.planes() else []


def aggregation() -> list[Row]:
    """Time of a step, and number of files, by the number of aggregators."""
    ranks, files = min(4, len(os.sched_getaffinity(0))), {}

    def ms(strategy: str, count: int) -> float:
        parameters = {"AggregationType": strategy, "NumAggregators": str(count)}
        found = written(16 * MB, parameters, ranks=ranks)
        files[strategy, count] = found["files"]
        return 1e3 * float(found["step_s"])

    counts = [count for count in (1, 2, 4) if count <= ranks]
    ways = {f"{each} {count}": partial(ms, each, count) for each in STRATEGIES for count in counts}
    times = streams.take_turns(ways, streams.repetitions(3))
    return [
        streams.measured(
            f"aggregators: {count} of {ranks} ranks, {each}", times[f"{each} {count}"], "ms/step",
            detail=f"{files[each, count]} data files", picture="aggregation", curve=each, x=count,
            files=files[each, count],
        )
        for each in STRATEGIES for count in counts
    ]  # fmt: skip


def asynchronous() -> list[Row]:
    """What the writer waits per step, into memory and past the page cache to the disk."""
    steps = 12

    def ms(word: str, where: str) -> float:
        disk = where == "to the disk"
        parameters = {"AsyncWrite": word, "DirectIO": str(disk).lower()}
        whole_s = written(64 * MB, parameters, steps, pause_s=PAUSE_S, disk=disk)["whole_s"]
        return 1e3 * (float(whole_s) / steps - PAUSE_S)

    rows = []
    for where in ("into memory", "to the disk"):
        ways = {word: partial(ms, word, where) for word in ("off", "guided", "naive")}
        for word, values in streams.take_turns(ways, streams.repetitions(5)).items():
            name = f"async: {word}, {where}"
            rows.append(streams.measured(name, values, "ms/step", picture="async", group=where, curve=word))
    return rows


def compression() -> list[Row]:
    """Speed, size and error by operator."""
    last: dict[str, dict[str, Any]] = {}

    def speed(name: str) -> float:
        last[name] = found = written(8 * MB, {}, 3, operator=OPERATORS[name] if name != "none" else None)
        return 8 * MB / float(found["step_s"]) / 1e9

    found = streams.take_turns({name: partial(speed, name) for name in OPERATORS}, streams.repetitions(3))
    rows = []
    for name, values in found.items():
        ratio = last[name]["data_bytes"] / last["none"]["data_bytes"]
        detail = f"{ratio:.2f} of the size, largest error {last[name]['error']:.2g}"
        more: dict[str, Any] = {"picture": "compression", "curve": name, "x": ratio, "detail": detail}
        rows.append(streams.measured(f"compression: {name}", values, "GB/s", **more))
    return rows


if __name__ == "__main__":
    streams.serve(PROGRAMS, measure)
