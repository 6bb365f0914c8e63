"""Arrays to read into."""

from __future__ import annotations

import numpy as np

from workflow.stage.data.variables import Array, Shape, product

# A cache line. NumPy's own arrays begin at any multiple of 16 bytes, and the kernel, which copies a file's data or
# another process's, took a fifth longer for those (16 MB, AMD EPYC, Linux 6.18).
ALIGNED = 64
_LARGE = 1 << 20


def fresh_array(shape: Shape, kind: str) -> Array:
    """An array of any values; if it is large, it begins at a multiple of 64 bytes."""
    dtype = np.dtype(kind)
    nbytes = product(shape) * dtype.itemsize
    if nbytes < _LARGE:
        return np.empty(shape, dtype)
    room = np.empty(nbytes + ALIGNED, np.uint8)
    first = -int(room.__array_interface__["data"][0]) % ALIGNED
    return room[first : first + nbytes].view(dtype).reshape(shape)
