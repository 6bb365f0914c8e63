"""The differences between two arrays, box by box."""

from __future__ import annotations

import numpy as np

from workflow.compare.comparison import Difference
from workflow.stage import Array, Shape


class Spread:
    """The differences between two arrays, which come in boxes. `tolerance`: relative to the larger magnitude."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._count = self._total = 0
        self._max_abs: float | None = None
        self._max_rel: float | None = None
        self._where: list[int] = []
        self._message = ""

    def add(self, a: Array, b: Array, start: Shape) -> int:
        """Compare one box that begins at `start`. Returns its bytes."""
        a, b = np.asarray(a), np.asarray(b)
        self._total += a.size
        numbers = a.dtype.kind in "biufc" and b.dtype.kind in "biufc"
        # Equal arrays are the common case: one pass, almost without temporary memory.
        if np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
            return a.nbytes
        if numbers:
            self._add_numbers(a, b, start)
        else:
            self._add_others(a, b, start)
        return a.nbytes

    def difference(self, name: str, step: int) -> Difference | None:
        """What was found; None: equal."""
        if not self._count:
            return None
        return Difference(
            what="values", name=name, step=step, message=self._message, values=self._count, of=self._total,
            max_abs=self._max_abs, max_rel=self._max_rel, where=self._where,
        )  # fmt: skip

    def _add_numbers(self, a: Array, b: Array, start: Shape) -> None:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            apart = _apart(a, b)
            size = np.maximum(np.abs(_wide(a)), np.abs(_wide(b)))
            relative = apart / size  # NaN where both are 0: they do not differ
            differs = (a != b) & ~((a != a) & (b != b))
            if self._tolerance:
                # Different infinities differ by infinity; no tolerance makes NaN equal to a number.
                differs &= ~(relative <= self._tolerance)
        if not differs.any():
            return
        self._count += int(differs.sum())
        finite = differs & ~np.isnan(apart)
        if not finite.any():
            place = np.unravel_index(int(np.argmax(differs)), a.shape)
            self._keep(a[place], b[place], place, start, first=not self._message)
            return
        place = np.unravel_index(int(np.argmax(np.where(finite, apart, -1.0))), a.shape)
        largest = float(apart[place])
        self._keep(a[place], b[place], place, start, first=self._max_abs is None or largest > self._max_abs)
        self._max_abs = max(largest, self._max_abs or 0.0)
        self._max_rel = max(float(np.max(np.where(finite & ~np.isnan(relative), relative, 0.0))), self._max_rel or 0.0)

    def _add_others(self, a: Array, b: Array, start: Shape) -> None:
        differs = np.asarray(a != b)
        self._count += int(differs.sum())
        place = np.unravel_index(int(np.argmax(differs)), a.shape)
        self._keep(a[place], b[place], place, start, first=not self._message)

    def _keep(self, a: object, b: object, place: tuple[np.intp, ...], start: Shape, first: bool) -> None:
        if first:
            self._where = [int(offset) + int(index) for offset, index in zip(start, place, strict=True)]
            self._message = " and ".join(_in_few_digits(a, b))


def _in_few_digits(a: object, b: object) -> tuple[str, str]:
    """Both as text; of floating-point numbers with six digits, or as many as show that they differ."""
    if isinstance(a, np.floating) and isinstance(b, np.floating):
        for digits in range(6, 17):
            texts = f"{a:.{digits}g}", f"{b:.{digits}g}"
            if texts[0] != texts[1]:
                return texts
    return f"{a}", f"{b}"


def _apart(a: Array, b: Array) -> Array:
    """|a - b| as float64, exact for integers of any size and sign."""
    if a.dtype.kind in "iu" and a.dtype == b.dtype:
        # The true difference always fits the unsigned type of the same size.
        unsigned = np.dtype(f"u{a.dtype.itemsize}")
        exact: Array = np.maximum(a, b).astype(unsigned) - np.minimum(a, b).astype(unsigned)
        return exact.astype(np.float64)
    apart: Array = np.abs(_wide(a) - _wide(b))
    return apart


def _wide(a: Array) -> Array:
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
