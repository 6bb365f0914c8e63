"""Statistics of a field over its steps, element by element, in one pass: each rank has a block of the first axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workflow import stage
from workflow.component_program import arguments

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from types import SimpleNamespace

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_NONE = np.empty(0)


def first_state() -> dict[str, Any]:
    """Before the first step. The arrays get their shape with it."""
    names = ("mean", "squares", "min", "max", "other_mean", "products")
    return {"number": 0, "shape": [], **dict.fromkeys(names, _NONE)}


def add(state: MutableMapping[str, Any], values: Floats, other: Floats | None = None) -> None:
    """Add a step to the statistics. Welford's recurrence: no difference of large sums.

    B. P. Welford, Technometrics 4 (1962) 419–420; for products T. F. Chan, G. H. Golub, R. J. LeVeque,
    The American Statistician 37 (1983) 242–247.
    """
    if state["number"] == 0:
        # None is changed in place. Without `other` its two stay empty: each step may save the state.
        zero = np.zeros_like(values)
        state.update(mean=zero, squares=zero, min=values, max=values)
        if other is not None:
            state.update(other_mean=zero, products=zero)
    state["number"] += 1
    from_old = values - state["mean"]
    state["mean"] = state["mean"] + from_old / state["number"]
    state["squares"] = state["squares"] + from_old * (values - state["mean"])
    # Unlike fmin and fmax these keep what is not a number.
    state["min"], state["max"] = np.minimum(state["min"], values), np.maximum(state["max"], values)
    if other is not None:
        state["other_mean"] = state["other_mean"] + (other - state["other_mean"]) / state["number"]
        state["products"] = state["products"] + from_old * (other - state["other_mean"])


def read_block(step: stage.Step, name: str) -> tuple[tuple[int, ...], tuple[int, ...], Floats]:
    """(shape of the whole variable, where this rank's block of it begins, its values)."""
    shape = step.shape(name)
    if not shape:
        return shape, (), np.asarray(step.read(name), dtype=np.float64)
    begin, count = stage.block(shape[0])
    start = (begin, *(0 for _ in shape[1:]))
    return shape, start, np.asarray(step.read(name, start, (count, *shape[1:])), dtype=np.float64)


def write(
    state: MutableMapping[str, Any], shape: tuple[int, ...], start: tuple[int, ...], both: bool, out: stage.Writer
) -> None:
    """Write the statistics of this rank's block as one step; of `both` variables, where there are two."""
    number = state["number"]
    values = {"mean": state["mean"], "variance": state["squares"] / number, "min": state["min"], "max": state["max"]}
    if both:
        values["covariance"] = state["products"] / number
    with out.step():
        out.write("number", np.int64(number))
        for name, each in values.items():
            out.write(name, each, shape=shape or None, start=start if shape else None)


def read_across(step: stage.Step, name: str) -> tuple[tuple[int, ...], tuple[int, ...], Floats]:
    """(shape without the first axis, where this rank's block of it begins, values of all its elements)."""
    count, *rest = step.shape(name)
    if not rest:
        return (), (), np.asarray(step.read(name), dtype=np.float64)
    begin, share = stage.block(rest[0])
    start = (begin, *(0 for _ in rest[1:]))
    box = ((0, *start), (count, share, *rest[1:]))
    return tuple(rest), start, np.asarray(step.read(name, *box), dtype=np.float64)


def of_each_step(args: SimpleNamespace, stream: stage.Reader, out: stage.Writer) -> None:
    """Write the statistics of the first axis of each step."""
    for step in stream:
        if (step.index + 1) % args.every or lacks(step, args):
            continue
        shape, start, values = read_across(step, args.variable)
        others = read_across(step, args.other)[2] if args.other else [None] * len(values)
        state = first_state()
        with np.errstate(invalid="ignore"):
            for value, other in zip(values, others, strict=True):
                add(state, np.asarray(value), None if other is None else np.asarray(other))
        copy_unit(step, args.variable, out)
        write(state, shape, start, bool(args.other), out)


def lacks(step: stage.Step, args: SimpleNamespace) -> bool:
    """Whether the step has not all that is wanted: it then counts for nothing."""
    return any(name and name not in step for name in (args.variable, args.other))


def copy_unit(step: stage.Step, name: str, out: stage.Writer) -> None:
    """The mean and the extremes have the unit of the field."""
    if unit := step.unit(name):
        for each in ("mean", "min", "max"):
            out.attribute("unit", unit, variable=each)


def main() -> None:
    """Add each step, and write what is known by then."""
    args = arguments(__file__)
    may_lack = [args.variable, args.other]
    if args.across:
        with stage.open_reader("input", may_lack=may_lack) as stream, stage.open_writer("statistics") as out:
            of_each_step(args, stream, out)
        return
    with stage.open_reader("input", may_lack=may_lack) as stream, stage.open_writer("statistics") as out:
        state = stage.State(**first_state())
        for step in stream:
            if lacks(step, args):
                state.save()
                continue
            shape, start, values = read_block(step, args.variable)
            other = read_block(step, args.other)[2] if args.other else None
            # The whole shape, so that all ranks see it.
            if state["number"] and state["shape"] != [*shape]:
                changed = f"its shape has changed from {tuple(state['shape'])} to {shape}"
                raise SystemExit(f"statistics: step {step.index}: {args.variable}: {changed}")
            state["shape"] = [*shape]
            with np.errstate(invalid="ignore"):
                add(state, values, other)
            copy_unit(step, args.variable, out)
            if state["number"] % args.every == 0:
                write(state, shape, start, other is not None, out)
            state.save()


if __name__ == "__main__":
    main()
