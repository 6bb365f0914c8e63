"""A CUDA device by CuPy. Only this module imports cupy.

A copy to the device is queued behind the kernels of the current stream, and is waited for together with them: CuPy's
memory belongs to one stream, and cannot tell when another one is done with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workflow.distribution.boxes import Shape
from workflow.stage.devices.device import ArrayDevice, DeviceCopy, pin_flags
from workflow.stage.stage_errors import StageError
from workflow.stage.variables import Array


class CupyDevice:
    """See `ArrayDevice`. Arrays are those of CuPy."""

    def __init__(self, cupy: Any, index: int) -> None:
        self._cupy, self._index = cupy, index
        self.name = f"cuda:{index}"

    def pinned(self, nbytes: int) -> Array:
        """See `ArrayDevice`."""
        memory = self._cupy.cuda.alloc_pinned_memory(nbytes)
        return np.frombuffer(memory, np.uint8, nbytes)

    def pin(self, memory: Array) -> Callable[[], None] | None:
        """See `ArrayDevice`."""
        address, runtime = memory.ctypes.data, self._cupy.cuda.runtime
        for flags in pin_flags(memory):
            try:
                with self._cupy.cuda.Device(self._index):
                    runtime.hostRegister(address, memory.nbytes, flags)
            except runtime.CUDARuntimeError:
                continue
            return lambda: runtime.hostUnregister(address)
        return None

    def synchronize_before_copy(self) -> None:
        """See `ArrayDevice`."""
        self.synchronize()

    def copy_to_device(self, values: Array) -> DeviceCopy:
        """See `ArrayDevice`."""
        with self._cupy.cuda.Device(self._index):
            stream = self._cupy.cuda.get_current_stream()
            target = self._cupy.empty(values.shape, values.dtype)
            target.set(values, stream=stream)
            return DeviceCopy(target, stream.record().synchronize)

    def describe(self, array: Any) -> tuple[Shape, str]:
        """See `ArrayDevice`."""
        return array.shape, array.dtype.name

    def synchronize(self) -> None:
        """See `ArrayDevice`."""
        with self._cupy.cuda.Device(self._index):
            self._cupy.cuda.get_current_stream().synchronize()

    def copy_to_host(self, array: Any, room: Array) -> None:
        """See `ArrayDevice`."""
        with self._cupy.cuda.Device(self._index):
            stream = self._cupy.cuda.get_current_stream()
            # That of a scalar would have one dimension more.
            whole = array if array.flags.c_contiguous else self._cupy.ascontiguousarray(array)
            whole.get(stream=stream, out=room)
            stream.synchronize()


_devices: dict[int, CupyDevice] = {}


def open_device(wanted: Any) -> ArrayDevice:
    """The device of a text (`cuda`, `cuda:1`) or a `cupy.cuda.Device`. Raises StageError where there is none."""
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise StageError(f"device {str(wanted)!r}: CuPy {cupy.__version__} finds no device here: {error}") from error
    index = _index(wanted) if isinstance(wanted, str) else int(wanted.id)
    if index is None:
        index = int(cupy.cuda.Device().id)
    if not 0 <= index < count:
        raise StageError(f"device 'cuda:{index}': there is cuda:0{f' to cuda:{count - 1}' if count > 1 else ' only'}")
    if index not in _devices:
        _devices[index] = CupyDevice(cupy, index)
    return _devices[index]


def from_dlpack(array: Any) -> Any:
    """An array of another library as one of CuPy, without a copy."""
    import cupy

    return cupy.from_dlpack(array)


def _index(text: str) -> int | None:
    """The number in `cuda:1`; None of `cuda`, which is the current device."""
    kind, colon, number = text.partition(":")
    if kind != "cuda" or (colon and not number.isdecimal()):
        raise StageError(f"device {text!r}: CuPy has no such device: they are called 'cuda', or 'cuda:1'")
    return int(number) if colon else None
