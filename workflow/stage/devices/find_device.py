"""Which device a program means, and of which device an array is. Only here the libraries are told apart.

A library is known by the module that the type of a device, or of an array, comes from, or one that it is derived from.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from workflow.stage.devices import cupy_device, torch_device
from workflow.stage.devices.device import ArrayDevice
from workflow.stage.stage_errors import StageError

# DLPack's numbers of memory that the host reads as its own: the CPU's, and what CUDA or ROCm has pinned.
_OF_THE_HOST = (1, 3, 11)
_MISSING = "needs PyTorch or CuPy, and this Python has neither: install the one that fits the device"


class DeviceLibrary(NamedTuple):
    """One library that drives devices. `from_dlpack`: an array of another library as its own, without a copy."""

    open_device: Callable[[Any], ArrayDevice]
    from_dlpack: Callable[[Any], Any]


# The first one is taken where both would do.
LIBRARIES = {
    "torch": DeviceLibrary(torch_device.open_device, torch_device.from_dlpack),
    "cupy": DeviceLibrary(cupy_device.open_device, cupy_device.from_dlpack),
}


def find_device(wanted: Any) -> ArrayDevice:
    """The device that a text (`cuda`, `cuda:1`), a `torch.device` or a `cupy.cuda.Device` means.

    A text means one of the library that the program has imported, PyTorch first; else of the one that is installed.
    Raises StageError where there is no such device or library.
    """
    if isinstance(wanted, str):
        name = _library_here()
        if name is None and wanted.partition(":")[0] != "cuda":
            raise StageError(f"there is no device {wanted!r}: write 'cuda' or 'cuda:1', also for ROCm")
        if name is None:
            raise StageError(f"device {wanted!r} {_MISSING} ({sys.executable})")
        return LIBRARIES[name].open_device(wanted)
    library = _library_of(wanted)
    if library is None:
        kind = type(wanted).__name__
        raise StageError(f"device has type {kind}: give a text, e.g. 'cuda:0', a torch.device, or a cupy.cuda.Device")
    return library.open_device(wanted)


def is_on_device(value: Any) -> bool:
    """Whether this is an array in memory that the host cannot read, by what it says of itself for DLPack."""
    ask = getattr(value, "__dlpack_device__", None)
    return ask is not None and hasattr(value, "__dlpack__") and int(ask()[0]) not in _OF_THE_HOST


def find_array_device(value: Any) -> tuple[ArrayDevice, Any]:
    """The device of such an array, and the array as one of the library that drives it.

    Raises StageError where no library here knows it.
    """
    library = _library_of(value)
    if library is None:
        name = _library_here()
        if name is None:
            raise StageError(f"an array of type {type(value).__name__}, in the memory of a device, {_MISSING}")
        library = LIBRARIES[name]
        try:
            value = library.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise StageError(f"{name} cannot take over an array of type {type(value).__name__}: {error}") from error
    return library.open_device(value.device), value


def _library_of(thing: Any) -> DeviceLibrary | None:
    homes = (kind.__module__.partition(".")[0] for kind in type(thing).__mro__)
    return next((LIBRARIES[home] for home in homes if home in LIBRARIES), None)


def _library_here() -> str | None:
    """The first library that the program has imported, else the first one that is installed."""
    imported = (name for name in LIBRARIES if name in sys.modules)
    installed = (name for name in LIBRARIES if importlib.util.find_spec(name) is not None)
    return next(imported, None) or next(installed, None)
