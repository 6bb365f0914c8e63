"""Tracers that drift in a flow given by its stream function: work for one process, whatever the number of ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
SUBSTEPS = 4  # of a step of the field
SEED = 7


class Tracers:
    """Points on a periodic grid of n × n cells. `position`, in cells, is float64 [count, 2]: y, then x."""

    def __init__(self, count: int, n: int) -> None:
        self.position: Floats = np.random.default_rng(SEED).uniform(0.0, n, (count, 2))
        self._n = n

    def advance(self, psi: Floats, time: float) -> None:
        """Drift for `time` in the flow u = (∂ψ/∂x, -∂ψ/∂y) along y and x, by Heun's method; `psi` is float64 [n, n]."""
        flow = np.stack([_slope(psi, 1), -_slope(psi, 0)])  # along y, along x
        step = time / SUBSTEPS
        for _ in range(SUBSTEPS):
            first = self._at(flow, self.position)
            second = self._at(flow, self.position + step * first)
            self.position = (self.position + 0.5 * step * (first + second)) % self._n

    def sample(self, theta: Floats) -> Floats:
        """The values of a field at the tracers, float64 [count]."""
        return self._at(theta[None], self.position)[:, 0]

    def _at(self, fields: Floats, position: Floats) -> Floats:
        """Fields [k, n, n] at the positions, interpolated linearly: [count, k]."""
        whole = np.floor(position)
        y, x = (position - whole).T
        (row, column), n = whole.astype(np.int64).T % self._n, self._n
        below, right = (row + 1) % n, (column + 1) % n
        found = (1 - y) * ((1 - x) * fields[:, row, column] + x * fields[:, row, right])
        found += y * ((1 - x) * fields[:, below, column] + x * fields[:, below, right])
        return np.ascontiguousarray(found.T)


def _slope(field: Floats, axis: int) -> Floats:
    slope: Floats = 0.5 * (np.roll(field, -1, axis) - np.roll(field, 1, axis))
    return slope
