"""The q points at which intensities are computed: regular grids, as fine as the simulation box requires.

Lengths in Å, wave vectors in 1/Å (with the 2π: a Bragg reflection of spacing d lies at |q| = 2π/d).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class QGrid:
    """The points `first + Σ_d k_d · steps[d]`, k_d = 0 … shape[d]-1: a line, a plane or a volume of q.

    `first` is the corner [3], `steps` one vector [3] per dimension (1 to 3 of them), all in 1/Å.
    """

    first: tuple[float, float, float]
    steps: tuple[tuple[float, float, float], ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.steps) == len(self.shape) <= 3 or min(self.shape) < 1:
            raise ValueError(f"a q grid has 1 to 3 dimensions with at least one point each; got shape {self.shape}")
        if not all(any(step) for step in self.steps):
            raise ValueError("every step vector of a q grid must have a length above 0")

    def points(self, begin: int = 0, end: int | None = None) -> Floats:
        """All q vectors, `[*shape, 3]` in 1/Å; `begin:end` cuts the first dimension."""
        return np.stack(np.broadcast_arrays(*self._components(begin, end)), axis=-1)

    def moduli(self, begin: int = 0, end: int | None = None) -> Floats:
        """|q| of all points, `shape` in 1/Å; `begin:end` cuts the first dimension."""
        x, y, z = self._components(begin, end)
        squares: Floats = x**2 + y**2 + z**2
        return np.sqrt(squares, out=squares)

    def _components(self, begin: int, end: int | None) -> list[Floats]:
        """qx, qy and qz as arrays that broadcast to the grid's shape: small where a grid lies along the axes."""
        counts = [np.arange(n, dtype=np.float64) for n in self.shape]
        counts[0] = counts[0][begin:end]
        mesh = np.meshgrid(*counts, indexing="ij", sparse=True)
        components = []
        for axis in range(3):
            values: Floats = np.full((1,) * len(self.shape), self.first[axis])
            for number, step in zip(mesh, self.steps, strict=True):
                if step[axis] != 0.0:
                    values = values + number * step[axis]
            components.append(values)
        return components

    def coordinates(self, dimension: int) -> Floats:
        """Signed position along one dimension, [shape[dimension]] in 1/Å, 0 at the point closest to q = 0."""
        step = np.asarray(self.steps[dimension])
        length = float(np.linalg.norm(step))
        return float(np.dot(self.first, step / length)) + length * np.arange(self.shape[dimension], dtype=np.float64)


@dataclass(frozen=True)
class Box:
    """The simulation box of the first step: edge lengths in Å and which directions are periodic."""

    lengths: tuple[float, float, float]
    periodic: tuple[bool, bool, bool]

    def spacing(self, axis: int) -> float:
        """The coarsest spacing (1/Å) along an axis that does not miss Bragg peaks.

        In a periodic direction of length L intensity exists only at q = 2π n / L, so that is the spacing: the
        points are commensurate with the box and every reflection lies on one. A crystal that ends after L has
        peaks about 2π / L wide, which π / L samples twice (Nyquist).
        """
        return float((2.0 if self.periodic[axis] else 1.0) * np.pi / self.lengths[axis])


def centred(q_max: float, count: int, spacing: float) -> tuple[float, float, int]:
    """First value, spacing and number of points of an axis around q = 0, which is always a point.

    `count` points are spread over [-q_max, q_max); with `count` 0 the `spacing` is kept and as many points are
    taken as fit into [-q_max, q_max].
    """
    if count:
        spacing = 2.0 * q_max / count
    else:
        count = 2 * int(q_max / spacing * (1.0 + 1e-12)) + 1
    return -(count // 2) * spacing, spacing, count


def volume(box: Box, q_max: float, counts: tuple[int, int, int]) -> QGrid:
    """The 3-D grid over [-q_max, q_max]³, first index qx; with a count of 0 the box determines the spacing."""
    axes = [centred(q_max, counts[axis], box.spacing(axis)) for axis in range(3)]
    return QGrid(
        (axes[0][0], axes[1][0], axes[2][0]),
        tuple(_along(axis, axes[axis][1]) for axis in range(3)),
        tuple(axis[2] for axis in axes),
    )


def plane(box: Box, q_max: float, counts: tuple[int, int], axes: tuple[int, int], at: float) -> QGrid:
    """The detector plane through q = `at` on the third axis; rows along `axes[0]`, columns along `axes[1]`."""
    first = [at, at, at]
    steps, shape = [], []
    for axis, wanted in zip(axes, counts, strict=True):
        first[axis], spacing, count = centred(q_max, wanted, box.spacing(axis))
        steps.append(_along(axis, spacing))
        shape.append(count)
    return QGrid((first[0], first[1], first[2]), tuple(steps), tuple(shape))


def line(box: Box, begin: Floats, end: Floats, count: int) -> QGrid:
    """The straight line from `begin` [3] to `end` [3], both included; `count` 0: four points per peak width."""
    span = np.asarray(end, dtype=np.float64) - np.asarray(begin, dtype=np.float64)
    length = float(np.linalg.norm(span))
    if length == 0.0:
        raise ValueError("a line in q needs two different end points")
    if not count:
        count = 1 + int(np.ceil(2.0 * length * crossed(box, span) / np.pi))
    step = span / max(count - 1, 1)
    return QGrid((float(begin[0]), float(begin[1]), float(begin[2])), (_vector(step),), (count,))


def crossed(box: Box, direction: Floats) -> float:
    """Length (Å) of the box along a direction, which determines the width of peaks along it."""
    unit = np.abs(direction) / np.linalg.norm(direction)
    return float(unit @ np.asarray(box.lengths))


def too_coarse(grid: QGrid, box: Box) -> list[str]:
    """One sentence for each dimension whose spacing steps over Bragg peaks: wider than π / L and not 2π n / L."""
    sentences = []
    for step in grid.steps:
        vector = np.asarray(step)
        spacing, length = float(np.linalg.norm(vector)), crossed(box, vector)
        turns = spacing * length / (2.0 * np.pi)
        axis = int(np.argmax(np.abs(vector)))
        commensurate = box.periodic[axis] and abs(turns - 1.0) < 1e-9
        if turns > 0.5 * (1.0 + 1e-9) and not commensurate:
            sentences.append(
                f"q spacing {spacing:.4g} 1/Å is wider than π/L = {np.pi / length:.4g} 1/Å (L = {length:.4g} Å): "
                "peaks between the points are missed"
            )
    return sentences


def _along(axis: int, length: float) -> tuple[float, float, float]:
    return (length * (axis == 0), length * (axis == 1), length * (axis == 2))


def _vector(values: Floats) -> tuple[float, float, float]:
    return (float(values[0]), float(values[1]), float(values[2]))
