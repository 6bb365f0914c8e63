"""A CUDA device by PyTorch. Only this module imports torch.

Copies to the device run beside its kernels: on a stream of their own, whose memory PyTorch's allocator gives away only
when the stream that uses the array has come so far.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from workflow.distribution.boxes import Shape
from workflow.stage.devices.device import ArrayDevice, DeviceCopy, pin_flags
from workflow.stage.stage_errors import StageError
from workflow.stage.variables import Array


class TorchDevice:
    """See `ArrayDevice`. Arrays are tensors."""

    def __init__(self, torch: Any, index: int) -> None:
        self._torch, self._cuda = torch, torch.cuda
        self._device = torch.device("cuda", index)
        self.name = str(self._device)
        self._stream = self._cuda.Stream(self._device)

    def pinned(self, nbytes: int) -> Array:
        """See `ArrayDevice`."""
        with self._cuda.device(self._device):
            found: Array = self._torch.empty(nbytes, dtype=self._torch.uint8, pin_memory=True).numpy()
        return found

    def pin(self, memory: Array) -> Callable[[], None] | None:
        """See `ArrayDevice`."""
        address, runtime = memory.ctypes.data, self._cuda.cudart()
        for flags in pin_flags(memory):
            with self._cuda.device(self._device):
                if not int(runtime.cudaHostRegister(address, memory.nbytes, flags)):
                    return lambda: runtime.cudaHostUnregister(address)
                # CUDA keeps the error, and PyTorch would raise it at the next kernel of the program: this is that one.
                with suppress(RuntimeError):
                    self._torch.ones(1, device=self._device)
        return None

    def synchronize_before_copy(self) -> None:
        """See `ArrayDevice`. Copies overtake kernels."""

    def copy_to_device(self, values: Array) -> DeviceCopy:
        """See `ArrayDevice`."""
        source = self._torch.from_numpy(_changeable(values))
        with self._cuda.stream(self._stream):
            target = self._torch.empty(source.shape, dtype=source.dtype, device=self._device)
            target.copy_(source, non_blocking=True)
            arrived = self._stream.record_event()
        target.record_stream(self._cuda.current_stream(self._device))
        return DeviceCopy(target, arrived.synchronize)

    def describe(self, array: Any) -> tuple[Shape, str]:
        """See `ArrayDevice`."""
        try:
            kind = self._torch.empty(0, dtype=array.dtype).numpy().dtype.name
        except TypeError:
            raise TypeError(f"type {array.dtype} cannot be streamed; convert it first, e.g. `.float()`") from None
        return tuple(array.shape), kind

    def synchronize(self) -> None:
        """See `ArrayDevice`."""
        self._cuda.current_stream(self._device).synchronize()

    def copy_to_host(self, array: Any, room: Array) -> None:
        """See `ArrayDevice`."""
        with self._cuda.device(self._device):
            self._torch.from_numpy(room).copy_(array.detach(), non_blocking=True)
            self._cuda.current_stream(self._device).synchronize()


def _changeable(values: Array) -> Array:
    """The same memory, as an array that PyTorch takes without a warning. It is only read."""
    if values.flags.writeable:
        return values
    memory = (ctypes.c_ubyte * values.nbytes).from_address(values.ctypes.data)
    found: Array = np.frombuffer(memoryview(memory), np.uint8).view(values.dtype).reshape(values.shape)
    return found


_devices: dict[int, TorchDevice] = {}


def open_device(wanted: Any) -> ArrayDevice:
    """The device of a text (`cuda`, `cuda:1`) or a `torch.device`. Raises StageError where there is none."""
    import torch

    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        text = "PyTorch has no such device: they are called 'cuda', or 'cuda:1'"
        raise StageError(f"device {str(wanted)!r}: {text}") from error
    if device.type != "cuda":
        without = "; leave `device` out for the memory of the host" if device.type == "cpu" else ""
        raise StageError(f"device {str(device)!r}: only devices of type cuda are copied to{without}")
    if not torch.cuda.is_available():
        built = "" if torch.version.cuda or torch.version.hip else ", a build for CPUs only"
        raise StageError(f"device {str(device)!r}: PyTorch {torch.__version__}{built} finds no device here")
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= (count := torch.cuda.device_count()):
        raise StageError(f"device {str(device)!r}: there is cuda:0{f' to cuda:{count - 1}' if count > 1 else ' only'}")
    if index not in _devices:
        _devices[index] = TorchDevice(torch, index)
    return _devices[index]


def from_dlpack(array: Any) -> Any:
    """An array of another library as a tensor, without a copy."""
    import torch

    return torch.from_dlpack(array)
