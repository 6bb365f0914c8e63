"""Histogram of a field, step by step, in parallel over the ranks."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workflow import stage
from workflow.component_program import arguments
from workflow.physical_units import inverse

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

PASSED_ON = ("step", "timestep", "time")  # scalars that identify a step
OPENPMD_TIME = "/data/time"  # openPMD programs have it as an attribute
MOMENTS = ("min", "max", "mean", "std")

Floats = npt.NDArray[np.float64]


class Moments(NamedTuple):
    """Number of values, smallest, largest, mean and sum of squared differences from the mean."""

    number: int
    min: float
    max: float
    mean: float
    squares: float

    @property
    def std(self) -> float:
        """Standard deviation of these values (divided by n, not by n - 1)."""
        return math.sqrt(self.squares / self.number) if self.number else math.nan


def moments(values: Floats) -> Moments:
    """Moments of one block; of an empty block (0, inf, -inf, 0, 0)."""
    if values.size == 0:
        return Moments(0, math.inf, -math.inf, 0.0, 0.0)
    mean = float(values.mean())
    return Moments(values.size, float(values.min()), float(values.max()), mean, float(((values - mean) ** 2).sum()))


def combined(parts: list[Moments]) -> Moments:
    """Moments of all blocks together, without cancellation.

    T. F. Chan, G. H. Golub, R. J. LeVeque, The American Statistician 37 (1983) 242–247.
    """
    number, mean, squares = 0, 0.0, 0.0
    for part in parts:
        if not part.number:
            continue
        delta = part.mean - mean
        squares += part.squares + delta * delta * number * part.number / (number + part.number)
        number += part.number
        mean += delta * part.number / number
    return Moments(number, min(p.min for p in parts), max(p.max for p in parts), mean if number else math.nan, squares)


def make_edges(fixed: list[float] | None, found: Moments, bins: int) -> Floats:
    """Edges of the bins, float64 [bins + 1]. If all values are (nearly) equal, a range of at least 1 around them."""
    low, high = fixed if fixed else (found.min, found.max)
    if not found.number and not fixed:
        low, high = 0.0, 1.0
    least = bins * float(np.spacing(max(abs(low), abs(high))))
    if high - low < 2 * least:
        low, high = low - max(0.5, least), high + max(0.5, least)
    return np.linspace(low, high, bins + 1)


def read_share(step: stage.Step, name: str) -> Floats:
    """This rank's share of the field, float64 [n], one piece after the other; nothing where the step lacks it."""
    if name not in step:
        return np.empty(0)
    info = step.info(name)
    if not info.shape and not info.local:
        raise SystemExit(f"histogram: {name} is a scalar; a histogram needs an array")
    return np.concatenate([np.asarray(piece.values, dtype=np.float64).ravel() for piece in step.share(name)])


def write_attributes(out: stage.Writer, step: stage.Step, variable: str) -> None:
    """Set attributes: the name of the field, labels, and the units of the field and of the time if they have one."""
    out.attribute("of", variable)
    label, unit = step.label(variable), step.unit(variable)
    out.attribute("long_name", label, variable="edges")
    out.attribute("long_name", "probability density", variable="pdf")
    for name in MOMENTS:
        out.attribute("long_name", f"{name} of {label}", variable=name)
    if unit:
        out.attribute("unit", inverse(unit), variable="pdf")
        for name in ("edges", *MOMENTS):
            out.attribute("unit", unit, variable=name)
    for name in PASSED_ON:
        if known := step.unit(name) or (step.unit(OPENPMD_TIME) if name == "time" else ""):
            out.attribute("unit", known, variable=name)


def count_values(values: Floats, args: SimpleNamespace, comm: Intracomm | None) -> dict[str, Any]:
    """The variables of one step of `histogram`, from the values of all ranks. Collective."""
    finite = values[np.isfinite(values)]
    mine, invalid = moments(finite), values.size - finite.size
    parts = comm.allgather((mine, invalid)) if comm is not None else [(mine, invalid)]
    found = combined([part for part, _ in parts])
    edges = make_edges(args.range, found, args.bins)
    counts = np.histogram(finite, bins=args.bins, range=(edges[0], edges[-1]))[0].astype(np.int64)
    if comm is not None:
        total = np.empty_like(counts)
        comm.Allreduce(counts, total)
        counts = total
    inside = int(counts.sum())
    return {
        "counts": counts,
        "edges": edges,
        "pdf": counts / (max(inside, 1) * np.diff(edges)),
        **{name: float(getattr(found, name)) for name in MOMENTS},
        "outside": np.int64(found.number - inside),
        "invalid": np.int64(sum(number for _, number in parts)),
    }


def step_scalars(step: stage.Step) -> dict[str, Any]:
    """Scalars that identify this step."""
    found: dict[str, Any] = {name: step.read(name) for name in PASSED_ON if name in step}
    time = step.attributes().get(OPENPMD_TIME)
    if time is not None:
        found.setdefault("time", np.float64(time))
    return found


def main() -> None:
    """Count this rank's share of each step, and write the sum over the ranks."""
    args = arguments(__file__)
    if args.range and not args.range[0] < args.range[1]:
        raise SystemExit(f"histogram: range needs low < high, got {args.range}")
    with stage.open_reader("input", may_lack=[args.variable]) as stream, stage.open_writer("histogram") as out:
        for step in stream:
            write_attributes(out, step, args.variable)
            variables = count_values(read_share(step, args.variable), args, stage.communicator())
            with out.step():
                for name, value in variables.items():
                    out.write(name, value)
                for name, value in step_scalars(step).items():
                    out.write(name, value)


if __name__ == "__main__":
    main()
