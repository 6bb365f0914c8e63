"""Two buffers of pinned memory through which the arrays of one end of a stream go to a device, or come from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workflow.distribution.boxes import Shape, volume
from workflow.stage.devices.device import ArrayDevice
from workflow.stage.variables import Array

_LEAST = 1 << 16


class Staging:
    """They are used in turn, and again in each step: while one is copied from, the next array is read into the other.

    Each grows to the largest array that has gone through it. `device`: the one that copies.
    """

    def __init__(self, device: ArrayDevice) -> None:
        self.device = device
        self._memory: list[Array] = [np.empty(0, np.uint8), np.empty(0, np.uint8)]
        self._waits: list[list[Callable[[], None]]] = [[], []]
        self._now = 0

    def room(self, shape: Shape, kind: str) -> Array:
        """Pinned memory for an array, in the other buffer. Waits until what was sent from it has arrived."""
        self._now = 1 - self._now
        self._wait(self._now)
        dtype = np.dtype(kind)
        nbytes = dtype.itemsize * volume(shape)
        if nbytes > self._memory[self._now].size:
            self._memory[self._now] = self.device.pinned(max(nbytes, _LEAST))
        return self._memory[self._now][:nbytes].view(dtype).reshape(shape)

    def copy_to_device(self, values: Array) -> Any:
        """Begin to copy what is in the newest room, or elsewhere in memory that stays, to a new array of the device.

        `synchronize` before it is used.
        """
        copy = self.device.copy_to_device(values)
        self._waits[self._now].append(copy.wait)
        return copy.array

    def synchronize(self) -> None:
        """Wait until all copies have arrived."""
        self._wait(0)
        self._wait(1)

    def _wait(self, number: int) -> None:
        waits, self._waits[number] = self._waits[number], []
        for wait in waits:
            wait()


def staging_of(device: ArrayDevice, known: list[Staging]) -> Staging:
    """That of a device among those of one end of a stream, which gets a new one where there is none."""
    found = next((each for each in known if each.device is device), None)
    if found is None:
        found = Staging(device)
        known.append(found)
    return found
