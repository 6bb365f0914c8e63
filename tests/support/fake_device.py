"""A device without a GPU: its memory cannot be read by the host, and its copies arrive when they are waited for.

A stage program says `fake_device.install()`, then `step.read(name, device=fake_device.DEVICE)`. What is wrong in the
use of a device shows: values that come neither from pinned memory nor from memory that a writer shares are refused, a
buffer that is overwritten before its copy has arrived gives wrong data, and so does an array that is used before.
Memory that is unmapped while it is pinned is in the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow.stage.devices.device import ArrayDevice, DeviceCopy
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
    """See `ArrayDevice`. `log`: what happened, in order.

    `pins`: address of memory of others → its bytes, and what is mapped there.
    """

    name = "fake:0"

    def __init__(self, can_pin: bool = True) -> None:
        self.log: list[str] = []
        self.memory: list[NDArray[Any]] = []
        self.pins: dict[int, tuple[int, str]] = {}
        self.can_pin = can_pin

    def pinned(self, nbytes: int) -> NDArray[Any]:
        self.log.append("pinned")
        self.memory.append(np.full(nbytes, GARBAGE, np.uint8))
        return self.memory[-1]

    def pin(self, memory: NDArray[Any]) -> Callable[[], None] | None:
        if not self.can_pin:
            self.log.append("refused")
            return None
        address = memory.ctypes.data
        self.log.append("pin twice" if address in self.pins else "pin")
        self.pins[address] = memory.nbytes, _mapped_at(address)

        def unpin() -> None:
            is_mapped = _mapped_at(address) == self.pins.pop(address)[1]
            self.log.append("unpin" if is_mapped else "unpin too late")

        return unpin

    def synchronize_before_copy(self) -> None:
        self.log.append("synchronize before copy")

    def copy_to_device(self, values: NDArray[Any]) -> DeviceCopy:
        is_fast = self._is_pinned(values)
        if values.dtype == np.uint16:
            raise TypeError("there is no uint16 here")
        array = np.empty_like(values)
        array.reshape(-1).view(np.uint8)[:] = GARBAGE
        self.log.append("copy to device" if is_fast else "copy to device slowly")

        def arrive() -> None:
            time.sleep(COPY_S)
            array[...] = values
            self.log.append("arrived")

        return DeviceCopy(FakeArray(self, array), arrive)

    def describe(self, array: FakeArray) -> tuple[tuple[int, ...], str]:
        if array.values.dtype == np.float16:
            raise TypeError("type float16 cannot be streamed")
        return array.values.shape, array.values.dtype.name

    def synchronize(self) -> None:
        self.log.append("synchronize")

    def copy_to_host(self, array: FakeArray, room: NDArray[Any]) -> None:
        is_fast = self._is_pinned(room)
        time.sleep(COPY_S)
        room[...] = array.values
        self.log.append("copy to host" if is_fast else "copy to host slowly")

    def _is_pinned(self, values: NDArray[Any]) -> bool:
        """Else it is in memory that a writer shares. Raises RuntimeError for any other memory."""
        if not values.size or any(np.shares_memory(values, each) for each in self.memory):
            return True
        address = values.ctypes.data
        if any(first <= address < first + nbytes for first, (nbytes, _) in self.pins.items()):
            return True
        if "memfd:" not in _mapped_at(address):
            raise RuntimeError("this is no pinned memory")
        return False


def _mapped_at(address: int) -> str:
    """Inode and name of what is mapped there; empty where nothing is."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        places, _, _, _, *what = line.split(maxsplit=5)
        first, end = (int(each, 16) for each in places.split("-"))
        if first <= address < end:
            return " ".join(what)
    return ""


DEVICE = FakeDevice()


def install() -> None:
    """Let `workflow.stage` know the device."""

    def open_device(wanted: Any) -> ArrayDevice:
        del wanted
        return DEVICE

    LIBRARIES[__name__.partition(".")[0]] = DeviceLibrary(open_device, lambda array: array)
