"""Scattering amplitudes by finufft against the direct sum.

100,000 atoms, a 64³ q grid, one thread, double precision, finufft's eps = 1e-6 as by default. The direct sum is its
definition, cosine and sine of every phase, vectorised in blocks; it is measured on 2,048 of the 262,144 points and
scaled up, as its time is proportional to their number (measured twice, with half of them, to show it). On a regular
grid the exponentials factorise, so that a matrix product can do the direct sum: also measured (on 8 of 64 planes),
because it is the fastest direct sum that we know of.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from components.scattering.amplitude import direct_sum, phase_sum
from components.scattering.qgrid import Box, Floats, QGrid, volume

ATOMS, POINTS, EDGE, Q_MAX = 100_000, 64, 104.0, 8.0
SAMPLE, PLANES = 2048, 8


def measure() -> list[dict[str, Any]]:
    """All rows, from a process of its own that is held to one thread."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    answer = subprocess.run([sys.executable, __file__], env={**os.environ, **threads}, capture_output=True, check=True)
    rows: list[dict[str, Any]] = json.loads(answer.stdout)
    return rows


def measure_here() -> list[dict[str, Any]]:
    """The rows, measured in this process."""
    positions = np.random.default_rng(1).uniform(0.0, EDGE, size=(ATOMS, 3))
    grid = volume(Box((EDGE, EDGE, EDGE), (True, True, True)), Q_MAX, (POINTS, POINTS, POINTS))
    q = grid.points().reshape(-1, 3)
    chosen = np.random.default_rng(2).choice(len(q), SAMPLE, replace=False)
    fast_s, fast = timed(lambda: phase_sum(positions, grid), 5)
    half_s, _ = timed(lambda: direct_sum(positions, q[chosen[: SAMPLE // 2]]), 1)
    some_s, exact = timed(lambda: direct_sum(positions, q[chosen]), 1)
    planes_s, planes = timed(lambda: factorised(positions, grid, PLANES), 1)
    direct_s, matrix_s = some_s * len(q) / SAMPLE, planes_s * POINTS / PLANES
    found = fast.ravel()[chosen]
    error = np.abs(found - exact).max() / np.abs(exact).max()
    intensity_error = np.abs(np.abs(found) ** 2 - np.abs(exact) ** 2).max() / np.max(np.abs(exact) ** 2)
    assert np.abs(planes - fast[:PLANES]).max() < 1e-4 * np.abs(planes).max()
    sample = f"direct {some_s:.1f} s for {SAMPLE} points ({half_s:.1f} s for half)"
    direct = f"finufft {fast_s:.3f} s; {sample}, so {direct_s:.0f} s"
    matrix = f"finufft {fast_s:.3f} s; {planes_s:.2f} s for {PLANES} of {POINTS} planes, so {matrix_s:.1f} s"
    return [
        {"name": "direct sum ÷ finufft", "value": direct_s / fast_s, "unit": "×", "target": 100, "better": "higher",
         "detail": direct},
        {"name": "direct sum as a matrix product ÷ finufft", "value": matrix_s / fast_s, "unit": "×", "target": None,
         "detail": matrix},
        {"name": "largest error of A(q)", "value": error, "unit": "of the largest", "target": 1e-4,
         "detail": f"at the {SAMPLE} points"},
        {"name": "largest error of I(q)", "value": intensity_error, "unit": "of the largest", "target": 1e-4,
         "detail": f"at the {SAMPLE} points"},
    ]  # fmt: skip


def factorised(positions: Floats, grid: QGrid, planes: int) -> Any:
    """The first planes of the direct sum, exp(-i q·r) = exp(-i qx x) exp(-i qy y) exp(-i qz z), by matrix products."""
    waves = [np.exp(-1j * np.outer(positions[:, axis], grid.coordinates(axis))) for axis in range(3)]
    return np.array([(waves[1] * waves[0][:, [plane]]).T @ waves[2] for plane in range(planes)])


def timed(act: Callable[[], Any], repetitions: int) -> tuple[float, Any]:
    """Median seconds, and the last result; one unmeasured call first when there are several."""
    result = act() if repetitions > 1 else None
    seconds = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        result = act()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), result


if __name__ == "__main__":
    print(json.dumps(measure_here()))
