"""A device without a GPU: its memory cannot be read by the host, and its copies arrive when they are waited for.

A stage program says `fake_device.install()`, then `step.read(name, device=fake_device.DEVICE)`. What is wrong in the
use of a device shows: values that do not come from pinned memory are refused, a buffer that is overwritten before its
copy has arrived gives wrong data, and so does an array that is used before.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow.stage.devices.device import ArrayDevice, Sent
from workflow.stage.devices.find_device import LIBRARIES, DeviceLibrary

EXTERNAL = 12  # DLPack's number of a device of another kind
COPY_S = 2e-3
GARBAGE = 0xA5


class FakeArray:
    """An array in the memory of the device."""

    def __init__(self, device: FakeDevice, values: NDArray[Any]) -> None:
        self.device, self.values = device, values

    def __dlpack_device__(self) -> tuple[int, int]:
        return EXTERNAL, 0

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("no other library has this device")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("the host cannot read this memory")


class FakeDevice:
    """See `ArrayDevice`. `log`: what happened, in order."""

    name = "fake:0"

    def __init__(self) -> None:
        self.log: list[str] = []
        self.memory: list[NDArray[Any]] = []

    def pinned(self, nbytes: int) -> NDArray[Any]:
        self.log.append("pinned")
        self.memory.append(np.full(nbytes, GARBAGE, np.uint8))
        return self.memory[-1]

    def make_way(self) -> None:
        self.log.append("make way")

    def send(self, values: NDArray[Any]) -> Sent:
        self._check_pinned(values)
        if values.dtype == np.uint16:
            raise TypeError("there is no uint16 here")
        array = np.empty_like(values)
        array.reshape(-1).view(np.uint8)[:] = GARBAGE
        self.log.append("send")

        def arrive() -> None:
            time.sleep(COPY_S)
            array[...] = values
            self.log.append("arrived")

        return Sent(FakeArray(self, array), arrive)

    def describe(self, array: FakeArray) -> tuple[tuple[int, ...], str]:
        if array.values.dtype == np.float16:
            raise TypeError("type float16 cannot be streamed")
        return array.values.shape, array.values.dtype.name

    def settle(self, array: FakeArray) -> None:
        del array
        self.log.append("settle")

    def fetch(self, array: FakeArray, room: NDArray[Any]) -> None:
        self._check_pinned(room)
        time.sleep(COPY_S)
        room[...] = array.values
        self.log.append("fetch")

    def _check_pinned(self, values: NDArray[Any]) -> None:
        if values.size and not any(np.shares_memory(values, each) for each in self.memory):
            raise RuntimeError("this is no pinned memory")


DEVICE = FakeDevice()


def install() -> None:
    """Let `workflow.stage` know the device."""

    def open_device(wanted: Any) -> ArrayDevice:
        del wanted
        return DEVICE

    LIBRARIES[__name__.partition(".")[0]] = DeviceLibrary(open_device, lambda array: array)
