"""Arrays to read into."""

from __future__ import annotations

import numpy as np
import pytest

from workflow.stage.variables import ALIGNED, fresh_array


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7,), (1 << 20,), (129, 1025, 3)])
@pytest.mark.parametrize("kind", ["float64", "uint8", "complex64", "int16"])
def test_arrays_are_whole_and_can_be_written(shape: tuple[int, ...], kind: str) -> None:
    array = fresh_array(shape, kind)
    assert (array.shape, array.dtype) == (shape, np.dtype(kind))
    assert array.flags.c_contiguous
    assert array.flags.writeable
    array[...] = 3
    assert (array == 3).all()


def test_large_arrays_begin_at_a_cache_line() -> None:
    arrays = [fresh_array((1 << 17, 9 + odd), "float32") for odd in range(5)]
    assert [array.ctypes.data % ALIGNED for array in arrays] == [0] * 5
