"""Arrays of a GPU through real streams: bit for bit, through pinned memory, beside the kernels, and in the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gpu import gpu_programs
from tests.gpu.gpu_programs import CUDA_HOST, CUDA_UNREGISTERED, memory_kind
from tests.support.pipelines import ROOT, run
from workflow import stage
from workflow.stage.devices.find_device import find_device
from workflow.stage.shared_memory.step_memory import MappedMemory, StepMemory

pytestmark = pytest.mark.filterwarnings("default")  # those of the libraries

PIPELINE = """
stages:
  make: {command: ["${{ wf.python }}", "PROGRAM", "WRITE", "LIBRARY"], env: ENV, writes: {data: {}}}
  take: {command: ["${{ wf.python }}", "PROGRAM", "READ", "LIBRARY"], env: ENV, reads: {data: {}}}
streams:
  data: {from: make, to: take, via: VIA}
"""
ENGINES = {"sst, transport: tcp": "SST", "shm": "SHM", "bp5": "BP5"}
# Some machines have the driver's libraries there; `run` leaves it away. JAX would take most of the GPU's memory.
ENV = {key: value for key, value in os.environ.items() if key == "LD_LIBRARY_PATH"}
ENV |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def pipeline(library: str, via: str, write: str, read: str) -> str:
    text = PIPELINE.replace("PROGRAM", gpu_programs.__file__).replace("LIBRARY", library)
    return text.replace("WRITE", write).replace("READ", read).replace("VIA", via).replace("ENV", json.dumps(ENV))


@pytest.mark.parametrize("via", ENGINES)
def test_what_is_read_to_the_gpu_is_what_was_written(via: str, library: str, tmp_path: Path) -> None:
    done = run(tmp_path, pipeline(library, via, "write", "read-device"))
    assert done.code == 0, done.said
    assert done.printed("take") == ["right"]
    take = next(each for each in done.report.stages if each.name == "take")
    (stream,) = done.report.streams
    (reader,) = stream.readers
    assert stream.engine == ENGINES[via]
    assert take.device_s and reader.device_s == take.device_s
    assert reader.device_times is not None
    assert stream.device_s is None


@pytest.mark.parametrize("via", ENGINES)
def test_what_is_written_from_the_gpu_arrives(via: str, library: str, tmp_path: Path) -> None:
    done = run(tmp_path, pipeline(library, via, "write-device", "read-written"))
    assert done.code == 0, done.said
    assert done.printed("take") == ["right"]
    make = next(each for each in done.report.stages if each.name == "make")
    (stream,) = done.report.streams
    assert stream.engine == ENGINES[via]
    assert make.device_s and stream.device_s == make.device_s
    said = subprocess.run(
        [sys.executable, "-m", "workflow.cli", "report", str(done.folder)],
        capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert "device copies" in said.stdout


@pytest.mark.parametrize("read", ["read-shared", "read-some-shared"])
def test_shared_memory_is_pinned_and_copied_from_there(read: str, library: str, tmp_path: Path) -> None:
    """Segments are used again, and new ones are made for larger steps; to the end, or until the reader leaves."""
    done = run(tmp_path, pipeline(library, "shm, queue: {limit: 2}", "write-growing", read))
    assert done.printed("make") == done.printed("take") == ["right"], done.said
    is_all = read == "read-shared"
    assert (done.code == 0) == is_all, done.said
    left = f"take ended with exit code 0, but read only {gpu_programs.LEFT_AT + 1} "
    assert is_all or left in done.said


def test_memory_of_a_writer_is_pinned_once(library: str) -> None:
    """Memory that is mapped read-only is still copied right when its writer changes it, and unpinned at the end.

    What the driver refuses is no error of the next kernel. The writer pins its own mapping, and the GPU writes there.
    """
    device = find_device(gpu_programs.device_of(library))
    memory, mapped = StepMemory(count()), MappedMemory("data")
    values, place, own = memory.take((500_000,), "float64")
    mapped.note(os.getpid(), memory.names, [])
    view = mapped.array(os.getpid(), place, values.shape, "float64")
    segment = mapped.segment(os.getpid(), place)

    def copied(number: int) -> None:
        values[:] = np.arange(500_000.0) + number
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sent = device.copy_to_device(view)
        sent.wait()
        gpu_programs.check("view", gpu_programs.to_host(library, sent.array), values)

    copied(0)
    assert memory_kind(library, view) == CUDA_UNREGISTERED
    segment.will_copy(view.nbytes, device.pin)
    assert memory_kind(library, view) == CUDA_HOST
    copied(1)
    assert device.pin(np.frombuffer(segment.memory, np.uint8)) is None
    own.will_copy(view.nbytes, device.pin)
    assert memory_kind(library, values) == CUDA_HOST
    device.copy_to_host(gpu_programs.to_device(library, np.full(500_000, 7.0)), values)
    assert view.min() == view.max() == 7.0
    kernel = gpu_programs.to_device(library, np.ones(1000)) * 3.0
    assert float(kernel.sum()) == 3000.0
    copied(2)
    del segment
    mapped.clear()
    assert memory_kind(library, view) == CUDA_UNREGISTERED
    copied(3)
    del own
    memory.free()
    assert memory_kind(library, values) == CUDA_UNREGISTERED


def test_what_jax_has_on_the_gpu_arrives(torch: Any, tmp_path: Path) -> None:
    del torch  # which takes the arrays over
    pytest.importorskip("jax")
    done = run(tmp_path, pipeline("jax", "shm", "write-jax", "read"))
    assert done.code == 0, done.said
    assert done.printed("take") == ["right"]


def a_file(folder: Path, variables: dict[str, Any], steps: int = 1) -> Path:
    path = folder / "data.bp"
    with stage.open_writer(path=path) as out:
        for _ in range(steps):
            with out.step():
                for name, values in variables.items():
                    out.write(name, values)
    return path


def test_the_buffers_are_pinned_and_used_again(library: str, tmp_path: Path) -> None:
    device = gpu_programs.device_of(library)
    path = a_file(tmp_path, {"a": np.arange(100_000.0), "b": np.arange(50_000.0)}, steps=3)
    seen = set()
    with stage.open_reader(path=path) as data:
        for step in data:
            step.read_many(["a", "b"], device=device)
            (staging,) = data._stagings
            assert [memory_kind(library, each) for each in staging._memory] == [CUDA_HOST] * 2
            seen.add(tuple(each.ctypes.data for each in staging._memory))
    assert len(seen) == 1
    # What this test would see of other memory.
    assert memory_kind(library, np.zeros(1000)) == CUDA_UNREGISTERED


def test_many_large_variables_do_not_overwrite_each_other(library: str, tmp_path: Path) -> None:
    device = gpu_programs.device_of(library)
    wanted = {f"x{number}": np.full(2_000_000, float(number)) for number in range(10)}
    with stage.open_reader(path=a_file(tmp_path, wanted)) as data:
        for step in data:
            found = step.read_many([*wanted], device=device)
            one_by_one = {name: step.read(name, device=device) for name in wanted}
            for name, values in wanted.items():
                gpu_programs.check(name, gpu_programs.to_host(library, found[name]), values)
                gpu_programs.check(name, gpu_programs.to_host(library, one_by_one[name]), values)


def test_a_copy_by_torch_does_not_wait_for_kernels(torch: Any, tmp_path: Path) -> None:
    values = np.random.default_rng(1).random(1_000_000)
    with stage.open_reader(path=a_file(tmp_path, {"x": values}, steps=2)) as data:
        next(data).read("x", device="cuda")  # the start of CUDA, and the allocation of the buffers
        step = next(data)
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)  # about a second
        queued = torch.cuda.current_stream().record_event()
        array = step.read("x", device="cuda")
        assert not queued.query(), "the kernel had ended before"
        gpu_programs.check("x", array.cpu().numpy(), values)


def write_numbers(path: Path) -> None:
    """Six steps of 32 MB, each full of its number."""
    with stage.open_writer(path=path) as out:
        for number in range(6):
            with out.step():
                out.write("x", np.full(4_000_000, float(number)))


def test_memory_of_torch_is_not_used_again_before_its_kernels_have_run(torch: Any, tmp_path: Path) -> None:
    """The array of one step is freed while a kernel that reads it is still queued, and the next step is read."""
    write_numbers(tmp_path / "data.bp")
    sums = []
    with stage.open_reader(path=tmp_path / "data.bp") as data:
        for step in data:
            array = step.read("x", device="cuda")
            torch.cuda._sleep(200_000_000)
            sums.append(array.sum())
            del array
    assert [each.item() for each in sums] == [4_000_000.0 * number for number in range(6)]


def test_the_memory_of_cupy_likewise(cupy: Any, tmp_path: Path) -> None:
    write_numbers(tmp_path / "data.bp")
    sums = []
    with stage.open_reader(path=tmp_path / "data.bp") as data:
        for step in data:
            array = step.read("x", device=cupy.cuda.Device(0))
            for _ in range(50):
                cupy.sqrt(array)
            sums.append(array.sum())
            del array
    assert [float(each) for each in sums] == [4_000_000.0 * number for number in range(6)]


def test_a_text_means_the_library_that_is_imported(torch: Any) -> None:
    """Both may be imported here: PyTorch comes first."""
    assert find_device("cuda") is find_device(torch.device("cuda:0"))
    assert find_device("cuda:0").name == "cuda:0"


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("cuda:99", "there is cuda:0"),
        ("cpu", "only devices of type cuda are copied to; leave `device` out"),
        ("gpu", "PyTorch has no such device: they are called"),
    ],
)
def test_a_device_that_is_not_there(wanted: str, says: str, torch: Any, tmp_path: Path) -> None:
    del torch
    with stage.open_reader(path=a_file(tmp_path, {"x": np.zeros(3)})) as data:
        for step in data:
            with pytest.raises(stage.StageError, match=says):
                step.read("x", device=wanted)


def test_a_device_of_cupy_that_is_not_there(cupy: Any, tmp_path: Path) -> None:
    with stage.open_reader(path=a_file(tmp_path, {"x": np.zeros(3)})) as data:
        for step in data:
            with pytest.raises((stage.StageError, cupy.cuda.runtime.CUDARuntimeError)):
                step.read("x", device=cupy.cuda.Device(99))


def test_types_that_cannot_be_streamed(torch: Any, tmp_path: Path) -> None:
    array = torch.zeros(3, device="cuda", dtype=torch.bfloat16)
    with stage.open_writer(path=tmp_path / "data.bp") as out, out.step():
        with pytest.raises(TypeError, match=r"x: type torch\.bfloat16 cannot be streamed"):
            out.write("x", array)
        out.write("x", array.float().requires_grad_())
    with stage.open_reader(path=tmp_path / "data.bp") as data:
        for step in data:
            assert step.read("x").dtype == np.float32


def test_text_stays_on_the_host(library: str, tmp_path: Path) -> None:
    with stage.open_reader(path=a_file(tmp_path, {"label": "µ"})) as data:
        for step in data:
            with pytest.raises(stage.StageError, match="label is text"):
                step.read("label", device=gpu_programs.device_of(library))
