"""Steps to a GPU and from it: `step.read(…, device="cuda")` against what a program can write itself.

A program of `wf run` reads each step in another of these ways, in turn: by `device=`; by `step.read`, then PyTorch's
copy of pageable memory; the same through `pin_memory()`. Of `via: shm` it first reads some steps by `step.view`,
without a copy on the host, then some by that from pages of the writer that this program pins when it sees them first,
where the driver lets it: each of these for itself, since all are fast from memory that one of them has pinned.
A time ends when the data are on the GPU. Raw adios2 with PyTorch reads the same steps by SST, into memory of NumPy and
into memory that was pinned before. The same for writing. Ratios are those of the medians of one run; runs are repeated,
all sizes and streams in turn. Needs PyTorch and a GPU.
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
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tests.bench import streams  # noqa: E402
from tests.bench.streams import Row  # noqa: E402

SIZES_MB = (16, 64)
VIAS = ("shm", "sst")
ROUNDS, WARM = 10, 2  # of steps read in each way; those that do not count
TIMEOUT_S = 300
READ_ONLY = 8  # cudaHostRegisterReadOnly
OURS = "device"
NAMES = {
    "pageable": "torch.from_numpy(step.read(…)).to(…)", "pinned": "the same with pin_memory()",
    "view": "torch.from_numpy(step.view(…)).to(…)",
    "registered": "by step.view and cudaHostRegister",
}  # fmt: skip
WRITING = {"pageable": "out.write(name, tensor.cpu().numpy())"}
PIPELINE = """
wf: 1
name: device
oversubscribe: true
deadlines: {start: 120 s, step: 120 s, run: 280 s}
stages:
  make: {command: %s, env: %s, writes: {data: {}}}
  take: {command: %s, env: %s, reads: {data: {}}}
streams:
  data: {from: make, to: take, via: %s, queue: {limit: 2}}
"""
Times = dict[str, float]  # way → median seconds


def measure() -> list[Row]:
    """A row for each size, stream and alternative; then the times themselves."""
    asks = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"
    asked = subprocess.run([streams.PYTHON, "-c", asks], capture_output=True, text=True, check=False)
    gpu = asked.stdout.strip()
    if asked.returncode or not gpu:
        raise streams.NotMeasured(asked.stderr.strip().splitlines()[-1] if asked.returncode else "PyTorch finds no GPU")
    cases: dict[str, Callable[[], Times]] = {}
    for mb in SIZES_MB:
        for via in VIAS:
            cases[f"read {mb} {via}"] = partial(staged, mb, via, "write", "read")
            cases[f"write {mb} {via}"] = partial(staged, mb, via, "write-device", "take")
        cases[f"raw {mb} sst"] = partial(raw, mb)
    found = streams.take_turns(cases, streams.repetitions(3))
    rows = [row for mb in SIZES_MB for via in VIAS for row in rows_of(found, mb, via)]
    return [{**row, "detail": f"{row['detail']}; {gpu}"} if place == 0 else row for place, row in enumerate(rows)]


def rows_of(found: dict[str, list[Times]], mb: int, via: str) -> list[Row]:
    """Of one size and stream: the ratios to each alternative, then the times."""
    read, written, beside = found[f"read {mb} {via}"], found[f"write {mb} {via}"], found.get(f"raw {mb} {via}", [])
    ours, to_host = [each[OURS] for each in read], [each[OURS] for each in written]
    what = f"{mb} MB by {via}"
    rows = [
        streams.against(
            f"{what}: step.read(…, device=…) ÷ {text}", ours, [each[way] for each in read],
            1.0 if way in ("pageable", "view") else None, better="lower",
        )
        for way, text in NAMES.items() if way in read[0]
    ]  # fmt: skip
    for way in beside[0] if beside else ():
        name = f"{what}: step.read(…, device=…) ÷ adios2 and PyTorch, {way}"
        rows.append(streams.against(name, ours, [each[way] for each in beside], better="lower"))
    name = f"{what}: out.write(name, tensor) ÷ {WRITING['pageable']}"
    rows.append(streams.against(name, to_host, [each["pageable"] for each in written], 1.0, better="lower"))
    times = {
        "step.read(…, device=…)": ours, "of that the copy to the GPU, by the report": [each["copies"] for each in read],
        "out.write(name, tensor)": to_host,
    }  # fmt: skip
    rows += [
        streams.measured(f"{what}: {name}", [1e3 * each for each in seconds], "ms", better="lower")
        for name, seconds in times.items()
    ]
    return rows


def staged(mb: int, via: str, write: str, read: str) -> Times:
    """One run of `wf`: the times of its ways, and of `copies` in the report, a step that is read by `device=`."""
    from workflow.report.read.stage_metrics import read_metrics

    # Some machines have the driver's libraries there.
    env = json.dumps({key: value for key, value in os.environ.items() if key == "LD_LIBRARY_PATH"})
    argv = [json.dumps([streams.PYTHON, __file__, role, str(mb), via]) for role in (write, read)]
    measured_at = "take" if read == "read" else "make"
    with streams.folder() as folder:
        pipeline = PIPELINE % (argv[0], env, argv[1], env, via)
        (Path(folder) / "pipeline.yaml").write_text(pipeline)
        command = [streams.PYTHON, "-m", "workflow.cli", "run", "pipeline.yaml", "-q", "--run-dir", "run"]
        command += streams.by_name(pipeline)
        done = subprocess.run(
            command, cwd=folder, env=with_root(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{write}, {read}, {mb} MB by {via}: {done.stdout}{done.stderr}")
        (stream,) = json.loads((Path(folder) / "run/report.json").read_text())["streams"]
        if stream["engine"].lower() != via:
            raise RuntimeError(f"{write}, {read}, {mb} MB by {via}: the engine was {stream['engine']}")
        stage_dir = Path(folder) / "run/stages" / measured_at
        times: Times = streams.result_in((stage_dir / "stdout.log").read_text())
        copies = [step.device_s for step in read_metrics(stage_dir / "metrics.jsonl").steps if step.device_s]
    return {**times, "copies": statistics.median(copies[WARM:])}


def raw(mb: int) -> Times:
    """Two adios2 programs."""
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [streams.PYTHON, __file__, role, str(mb), f"{folder}/data"], env=with_root(), text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for role in ("raw-write", "raw-read")
        ]  # fmt: skip
        _, times = streams.results(*started)
    found: Times = times
    return found


def with_root() -> dict[str, str]:
    """This environment, in which programs find this checkout."""
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{before}" if before else str(ROOT)}


# The programs.


def ways_of(via: str) -> list[str]:
    """The way of reading each step."""
    each = steps_of(1)
    before = ["view"] * each + ["registered"] * each if via == "shm" else []
    return before + [OURS, "pageable", "pinned"] * each


def shape_of(mb: int) -> tuple[int, int, int]:
    """Of float64."""
    return (mb * 10**6 // 8 // (100 * 125), 100, 125)


def steps_of(ways: int) -> int:
    """How many steps there are."""
    return ways * (WARM + (3 if streams.QUICK else ROUNDS))


def medians(times: dict[str, list[float]]) -> Times:
    """Without the first ones, in which memory is allocated."""
    return {way: statistics.median(each[WARM:]) for way, each in times.items()}


def say(times: dict[str, list[float]]) -> None:
    """As `streams.result_in` reads it."""
    print("measured: " + json.dumps(medians(times)), flush=True)


def read(mb: int, via: str) -> None:
    """Read to the GPU, each step in the next way."""
    import warnings

    import torch

    from workflow import stage

    warnings.simplefilter("ignore")  # a view cannot be changed
    ways, times = ways_of(via), dict[str, list[float]]()
    torch.zeros(1, device="cuda")
    with stage.open_reader("data") as data:
        for step in data:
            way = ways[step.index]
            if way == OURS:
                unregister(torch)
            torch.cuda.synchronize()
            begin = time.perf_counter()
            if way == OURS:
                array = step.read("V", device="cuda")
            elif way == "pageable":
                array = torch.from_numpy(step.read("V")).to("cuda")
            elif way == "pinned":
                array = torch.from_numpy(step.read("V")).pin_memory().to("cuda", non_blocking=True)
            elif way == "view":
                array = torch.from_numpy(step.view("V")).to("cuda")
            else:
                values = step.view("V")
                if not register(torch, values):
                    continue
                array = torch.from_numpy(values).to("cuda", non_blocking=True)
            torch.cuda.synchronize()
            times.setdefault(way, []).append(time.perf_counter() - begin)
            check(array, step.index)
    del mb
    say(times)


_registered: dict[tuple[int, int], bool] = {}


def register(torch: Any, values: Any) -> bool:
    """Pin the pages of this array, until `unregister`; whether they are."""
    page = os.sysconf("SC_PAGE_SIZE")
    first = values.ctypes.data // page * page
    length = -(-(values.ctypes.data + values.nbytes - first) // page) * page
    if (first, length) not in _registered:
        answers = [int(torch.cuda.cudart().cudaHostRegister(first, length, READ_ONLY))]
        if answers[0]:
            answers.append(int(torch.cuda.cudart().cudaHostRegister(first, length, 0)))
        _registered[first, length] = answers[-1] == 0
        if answers[-1]:
            print(f"cudaHostRegister answers {answers}", file=sys.stderr, flush=True)
    return _registered[first, length]


def unregister(torch: Any) -> None:
    """Unpin all of them."""
    for (first, _), is_pinned in _registered.items():
        if is_pinned:
            torch.cuda.cudart().cudaHostUnregister(first)
    _registered.clear()


def check(array: Any, step: int) -> None:
    """Raises where the data are not those of this step: a first and a last value are, and their sum is."""
    if float(array.reshape(-1)[0]) != step or float(array.mean()) != step:
        raise RuntimeError(f"step {step} has other values than were written")


def write(mb: int, via: str) -> None:
    """Write from the host, for those that read to the GPU."""
    import numpy as np

    from workflow import stage

    values = np.zeros(shape_of(mb))
    with stage.open_writer("data") as out:
        for index in range(len(ways_of(via))):
            values[...] = index
            with out.step():
                out.write("V", values)


def write_device(mb: int, via: str) -> None:
    """Write from the GPU, each step in the next way."""
    import torch

    from workflow import stage

    ways, times = [OURS, *WRITING], dict[str, list[float]]()
    del via
    values = torch.zeros(shape_of(mb), dtype=torch.float64, device="cuda")
    with stage.open_writer("data") as out:
        for index in range(steps_of(len(ways))):
            way = ways[index % len(ways)]
            values.fill_(index)
            torch.cuda.synchronize()
            with out.step():
                begin = time.perf_counter()
                out.write("V", values if way == OURS else values.cpu().numpy())
                times.setdefault(way, []).append(time.perf_counter() - begin)
    say(times)


def take(mb: int, via: str) -> None:
    """Read on the host what was written from the GPU."""
    from workflow import stage

    del mb, via
    with stage.open_reader("data") as data:
        for step in data:
            check(step.read("V"), step.index)


RAW_WAYS = ("into NumPy's memory", "into memory pinned before")


def raw_write(mb: int, path: str) -> None:
    """With adios2 alone."""
    import adios2.bindings as adios2
    import numpy as np

    engine, io, _adios = raw_engine(path, "Write")
    values, shape = np.zeros(shape_of(mb)), list(shape_of(mb))
    variable = io.DefineVariable("V", values, shape, [0, 0, 0], shape)
    for index in range(steps_of(len(RAW_WAYS))):
        values[...] = index
        engine.BeginStep()
        engine.Put(variable, values, adios2.Mode.Sync)
        engine.EndStep()
    engine.Close()


def raw_read(mb: int, path: str) -> None:
    """With adios2 and PyTorch, each step in the next way."""
    import adios2.bindings as adios2
    import numpy as np
    import torch

    engine, io, _adios = raw_engine(path, "Read")
    before = torch.empty(shape_of(mb), dtype=torch.float64, pin_memory=True)
    times, index = dict[str, list[float]](), 0
    torch.zeros(1, device="cuda")
    while engine.BeginStep() == adios2.StepStatus.OK:
        way = RAW_WAYS[index % 2]
        torch.cuda.synchronize()
        begin = time.perf_counter()
        values = before.numpy() if index % 2 else np.empty(shape_of(mb))
        engine.Get(io.InquireVariable("V"), values, adios2.Mode.Sync)
        array = before.to("cuda", non_blocking=True) if index % 2 else torch.from_numpy(values).to("cuda")
        torch.cuda.synchronize()
        times.setdefault(way, []).append(time.perf_counter() - begin)
        engine.EndStep()
        check(array, index)
        index += 1
    engine.Close()
    say(times)


def raw_engine(path: str, mode: str) -> tuple[Any, Any, Any]:
    """An engine of SST, as a plan sets it."""
    import adios2.bindings as adios2

    adios = adios2.ADIOS()
    io = adios.DeclareIO("data")
    io.SetEngine("SST")
    io.SetParameters({"QueueLimit": "2", "SpeculativePreloadMode": "Off", "RendezvousReaderCount": "1"})
    return io.Open(path, getattr(adios2.Mode, mode)), io, adios


PROGRAMS = {
    "read": read, "write": write, "write-device": write_device, "take": take,
    "raw-write": raw_write, "raw-read": raw_read,
}  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 3:
        PROGRAMS[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
    else:
        try:
            streams.serve({}, measure)
        except streams.NotMeasured as missing:
            print(f"not measured: {missing}", file=sys.stderr)
