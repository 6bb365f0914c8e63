"""What is needed of a device, whatever library drives it.

| implementation | in |
|---|---|
| PyTorch | `torch_device` |
| CuPy | `cupy_device` |
| a fake one, whose copies arrive late | `tests/support/fake_device.py` |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from workflow.distribution.boxes import Shape
from workflow.stage.variables import Array


def pin_flags(memory: Array) -> tuple[int, ...]:
    """Flags of CUDA's cudaHostRegister, and of ROCm's, in the order in which they are tried.

    Memory that is mapped read-only needs cudaHostRegisterReadOnly, and not every device has it.
    """
    return (0,) if memory.flags.writeable else (8, 0)


class DeviceCopy(NamedTuple):
    """A copy to a device that may be under way: the new array there, and what returns when it has arrived."""

    array: Any
    wait: Callable[[], None]


class ArrayDevice(Protocol):
    """One device. Its arrays are those of its library, and exchange their memory by DLPack.

    `name`: e.g. `cuda:0`.
    """

    name: str

    def pinned(self, nbytes: int) -> Array:
        """Memory of the host that the device copies from and to by itself: so many bytes, uint8."""

    def pin(self, memory: Array) -> Callable[[], None] | None:
        """Let the device copy from this memory of others by itself: whole pages; and to it, unless it is read-only.

        Returns what undoes that, which must be called before the memory is unmapped; None where it cannot be done.
        """

    def synchronize_before_copy(self) -> None:
        """Wait for the kernels that a copy to the device would wait for."""

    def copy_to_device(self, values: Array) -> DeviceCopy:
        """Begin to copy a contiguous array to a new array of the device; best from pinned memory. It may be read-only.

        `values` must not change before the copy has arrived. Then the array may be used in any order of the device.
        Raises TypeError for a type that the library does not have.
        """

    def describe(self, array: Any) -> tuple[Shape, str]:
        """Shape, and NumPy's name of the type, of an array of this device. Raises TypeError where NumPy has none."""

    def synchronize(self) -> None:
        """Wait for the kernels that are queued: what computes the arrays that are to be copied."""

    def copy_to_host(self, array: Any, room: Array) -> None:
        """Copy an array of this device to memory, best pinned, of its shape and type; return when it is there."""
