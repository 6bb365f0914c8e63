"""Reading to a device and writing from one, with a device whose copies arrive late, and whose memory the host lacks."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import fake_device
from tests.support.fake_device import FakeArray, FakeDevice
from workflow import stage
from workflow.stage.devices import find_device as finding
from workflow.stage.devices.find_device import LIBRARIES, DeviceLibrary, find_device, is_on_device
from workflow.stage.devices.staging import Staging
from workflow.stage.shared_memory.step_memory import MappedMemory, StepMemory


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    monkeypatch.setattr(fake_device, "DEVICE", FakeDevice())
    monkeypatch.setattr(finding, "LIBRARIES", dict(LIBRARIES))
    monkeypatch.setattr(fake_device, "LIBRARIES", finding.LIBRARIES)
    fake_device.install()
    return fake_device.DEVICE


def write(path: Path, variables: dict[str, Any], steps: int = 1) -> Path:
    with stage.open_writer(path=path) as out:
        for step in range(steps):
            with out.step():
                for name, values in variables.items():
                    out.write(name, values if isinstance(values, str) else values + values.dtype.type(step))
    return path


def steps_of(path: Path) -> Iterator[stage.Step]:
    with stage.open_reader(path=path) as data:
        yield from data


@pytest.mark.parametrize("suffix", ["bp", "h5"])
def test_types_shapes_and_boxes(suffix: str, device: FakeDevice, tmp_path: Path) -> None:
    wanted: dict[str, Any] = {
        f"of_{kind}": np.arange(1001).astype(kind)
        for kind in ("int8", "uint8", "int32", "uint64", "float32", "float64", "complex64", "complex128")
    }
    wanted |= {"cube": np.arange(60.0).reshape(3, 4, 5), "none": np.empty((0, 2)), "time": np.asarray(0.5)}
    for step in steps_of(write(tmp_path / f"data.{suffix}", wanted)):
        for name, values in wanted.items():
            array = step.read(name, device=device)
            assert isinstance(array, FakeArray)
            assert (array.values.dtype, array.values.shape) == (values.dtype, values.shape)
            assert array.values.tobytes() == values.tobytes()
        part = step.read("cube", (1, 0, 2), (2, 3, 2), device=device)
        np.testing.assert_array_equal(part.values, wanted["cube"][1:3, :3, 2:4])
        rest = step.read_many({"cube": ((1, 0, 0), None), "time": None}, device=device)
        np.testing.assert_array_equal(rest["cube"].values, wanted["cube"][1:])
        assert rest["time"].values == 0.5


def test_one_array_is_copied_while_the_next_one_is_read(device: FakeDevice, tmp_path: Path) -> None:
    wanted = {name: np.full(100_000, float(number)) for number, name in enumerate("abc")}
    for step in steps_of(write(tmp_path / "data.bp", wanted, steps=2)):
        found = step.read_many([*wanted], device=device)
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name].values, values + step.index)
    once = [
        "pinned",
        "synchronize before copy",
        "copy to device",
        "pinned",
        "copy to device",
        "arrived",
        "copy to device",
        "arrived",
        "arrived",
    ]
    # The third one needs the first buffer: its copy is waited for before it is read, and no other one.
    assert device.log == [*once, *(each for each in once if each != "pinned")]
    assert [each.nbytes for each in device.memory] == [800_000, 800_000]


def test_an_array_has_arrived_when_it_is_returned(device: FakeDevice, tmp_path: Path) -> None:
    for step in steps_of(write(tmp_path / "data.bp", {"x": np.arange(9.0)}, steps=3)):
        assert step.read("x", device=device).values[8] == 8 + step.index
        assert device.log[-1] == "arrived"


def test_buffers_grow_and_stay(device: FakeDevice) -> None:
    staging = Staging(device)
    sizes = []
    for number in (10, 10, 100_000, 20_000, 30_000):
        room = staging.room((number,), "float64")
        room[...] = number
        assert room.shape == (number,)
        array = staging.copy_to_device(room)
        staging.synchronize()
        assert array.values[-1] == number
        sizes.append([each.nbytes for each in device.memory])
    assert sizes[-1] == [1 << 16, 1 << 16, 800_000, 160_000]


@pytest.mark.parametrize("end", ["gone", "clear", "dropped"])
def test_memory_of_a_writer_is_pinned_once_and_unpinned_before_it_is_unmapped(end: str, device: FakeDevice) -> None:
    numbers = count()
    steps = [StepMemory(numbers), StepMemory(numbers)]
    places = [step.take((100_000,), "float64").place for step in steps]
    mapped = MappedMemory("data")
    for step in steps:
        mapped.note(os.getpid(), step.names, [])
    # So little of it: what lies beside it is not pinned.
    mapped.segment(os.getpid(), places[0]).will_copy(8, device.pin)
    assert device.log == []
    for _ in range(3):
        for place in places:
            mapped.segment(os.getpid(), place).will_copy(800_000, device.pin)
    assert device.log == ["pin"] * 2
    if end == "gone":
        mapped.note(os.getpid(), [], [places[0].segment])
        assert (device.log[2:], len(device.pins)) == (["unpin"], 1)
    if end == "dropped":
        cycle: list[Any] = [mapped]
        cycle.append(cycle)
        del mapped, cycle
        gc.collect()
    else:
        mapped.clear()
    assert (device.log[2:], device.pins) == (["unpin"] * 2, {})
    for step in steps:
        step.free()


def test_what_an_array_of_the_user_keeps_mapped_is_unpinned_all_the_same(device: FakeDevice) -> None:
    memory = StepMemory(count())
    values, place, _ = memory.take((100_000,), "float64")
    values[:] = 7
    mapped = MappedMemory("data")
    mapped.note(os.getpid(), memory.names, [])
    kept = mapped.array(os.getpid(), place, (100_000,), "float64")
    mapped.segment(os.getpid(), place).will_copy(kept.nbytes, device.pin)
    mapped.clear()
    assert (device.log, device.pins) == (["pin", "unpin"], {})
    memory.free()
    assert kept.min() == 7


def test_what_a_device_does_not_have(device: FakeDevice, tmp_path: Path) -> None:
    path = write(tmp_path / "data.bp", {"label": "text", "short": np.arange(3, dtype=np.uint16), "x": np.arange(3.0)})
    for step in steps_of(path):
        with pytest.raises(stage.StageError, match="label is text: it cannot be copied to a device"):
            step.read("label", device=device)
        with pytest.raises(
            stage.StageError, match=r"fake:0 cannot have short: there is no uint16 here; read it without"
        ):
            step.read("short", device=device)
        with pytest.raises(stage.StageError, match="no variable 'y'"):
            step.read("y", device=device)
        with pytest.raises(IndexError, match="does not lie inside"):
            step.read("x", (2,), (2,), device=device)
        # The step goes on.
        assert step.read("x", device=device).values[2] == 2.0
        assert step.read("short").tolist() == [0, 1, 2]


@pytest.mark.parametrize("suffix", ["bp", "h5"])
def test_arrays_of_a_device_are_written(suffix: str, device: FakeDevice, tmp_path: Path) -> None:
    # BP5 copies smaller arrays at once, also those that are lent.
    values = [np.arange(700_000.0) + number for number in range(5)]
    with stage.open_writer(path=tmp_path / f"data.{suffix}") as out:
        for factor in (1, 2):
            with out.step():
                for number, each in enumerate(values):
                    # Lent or not: its place in the buffer is taken by the next but one.
                    out.write(f"x{number}", FakeArray(device, each * factor), lend=True)
                out.write("part", FakeArray(device, np.ones((2, 3))), shape=(4, 3), start=(2, 0))
                out.write("truth", FakeArray(device, np.array([True, False])))
                out.write("time", FakeArray(device, np.asarray(0.5)))
    assert device.log.count("pinned") == 2
    assert [each for each in device.log if each != "pinned"][:4] == ["synchronize", "copy to host"] * 2
    for step in steps_of(tmp_path / f"data.{suffix}"):
        for number, each in enumerate(values):
            np.testing.assert_array_equal(step.read(f"x{number}"), each * (step.index + 1))
        np.testing.assert_array_equal(step.read("part", (2, 0)), np.ones((2, 3)))
        assert step.read("truth").tolist() == [1, 0]
        assert step.read("time") == 0.5


def test_what_cannot_be_written_from_a_device(device: FakeDevice, tmp_path: Path) -> None:
    array = FakeArray(device, np.zeros(3))
    with stage.open_writer(path=tmp_path / "data.bp") as out:
        with pytest.raises(stage.StageError, match="inside `with writer"):
            out.write("x", array)
        with out.step():
            with pytest.raises(TypeError, match="x: type float16 cannot be streamed"):
                out.write("x", FakeArray(device, np.zeros(3, np.float16)))
            with pytest.raises(stage.StageError, match=r"a block of shape \(3,\)"):
                out.write("x", array, shape=(2,))
            out.write("x", array)


def test_what_is_derived_from_an_array_is_one_of_its_library(device: FakeDevice) -> None:
    class OfAUser(FakeArray):
        pass

    OfAUser.__module__ = "model"
    assert finding.find_array_device(OfAUser(device, np.zeros(3)))[0] is device


class Elsewhere:
    """An array of a library that nobody here knows."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self) -> None:
        raise BufferError


def test_without_a_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing = {"no_such_library": LIBRARIES["torch"]}
    monkeypatch.setattr(finding, "LIBRARIES", nothing)
    for step in steps_of(write(tmp_path / "data.bp", {"x": np.arange(3.0)})):
        with pytest.raises(
            stage.StageError, match="device 'cuda' needs PyTorch or CuPy, and this Python has neither: inst"
        ):
            step.read("x", device="cuda")
        with pytest.raises(stage.StageError, match="there is no device 'gpu': write 'cuda' or 'cuda:1'"):
            step.read("x", device="gpu")
        with pytest.raises(stage.StageError, match="device has type int: give a text"):
            step.read("x", device=0)
    with stage.open_writer(path=tmp_path / "other.bp") as out, out.step():
        with pytest.raises(
            stage.StageError, match="x: an array of type Elsewhere, in the memory of a device, needs PyTorch or CuPy"
        ):
            out.write("x", Elsewhere())
        out.write("x", 1.0)


def test_an_array_that_no_library_here_can_take_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_: Any) -> Any:
        raise BufferError("it needs a gradient")

    monkeypatch.setattr(finding, "LIBRARIES", {"sys": DeviceLibrary(lambda _: FakeDevice(), refuse)})
    with stage.open_writer(path=tmp_path / "data.bp") as out, out.step():
        with pytest.raises(stage.StageError, match="x: sys cannot take over an array of type Elsewhere: it needs a gr"):
            out.write("x", Elsewhere())
        out.write("x", 1.0)


def test_a_text_means_the_imported_library_the_first_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = {name: FakeDevice() for name in ("first_library", "second_library")}
    libraries = {
        name: DeviceLibrary(lambda _, name=name: devices[name], lambda array: array)  # type: ignore[misc]
        for name in devices
    }
    monkeypatch.setattr(finding, "LIBRARIES", libraries)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)  # both are installed
    assert find_device("cuda") is devices["first_library"]
    monkeypatch.setitem(sys.modules, "second_library", sys)
    assert find_device("cuda:1") is devices["second_library"]
    monkeypatch.setitem(sys.modules, "first_library", sys)
    assert find_device("cuda") is devices["first_library"]
    monkeypatch.setattr(Elsewhere, "__module__", "second_library.arrays")
    assert find_device(Elsewhere()) is devices["second_library"]


@pytest.mark.parametrize(("kind", "expected"), [(1, False), (3, False), (11, False), (2, True), (10, True), (13, True)])
def test_only_memory_that_the_host_cannot_read_is_a_device(kind: int, expected: bool) -> None:
    class Array(Elsewhere):
        def __dlpack_device__(self) -> tuple[int, int]:
            return kind, 0

    assert is_on_device(Array()) is expected
    assert not is_on_device(np.zeros(3))
    assert not is_on_device(1.0)
