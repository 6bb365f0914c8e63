"""memcpy of one core, in this process."""

from __future__ import annotations

import ctypes
import time

from workflow.forecast.quartiles import Quartiles, quartiles

BYTES = 64_000_000
REPETITIONS = 12
WARM = 2


def measure_memory() -> Quartiles:
    """Bytes per second from one block to another, both larger than caches and touched before."""
    source, target = ctypes.create_string_buffer(BYTES), ctypes.create_string_buffer(BYTES)
    ctypes.memset(source, 1, BYTES)
    rates = []
    for _ in range(WARM + REPETITIONS):
        begin = time.perf_counter()
        ctypes.memmove(target, source, BYTES)
        rates.append(BYTES / (time.perf_counter() - begin))
    return quartiles(rates[WARM:])
