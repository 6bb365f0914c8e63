"""A reservoir of steps: each one that has come is in it with the same probability. Each rank has a block of the first
axis, and all ranks choose the same steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow import stage
from workflow.component_program import arguments

NUMBERS = "sample_steps"
# A state has all steps that are kept, so it is written again when an eighth of them is new: in all no more than eight
# times the data. One for a stop is the last.
SHARE = 8


def own_box(step: stage.Step, name: str) -> tuple[Any, Any] | None:
    """(start, count) of this rank's block of the first axis; None for a number."""
    shape = step.shape(name)
    if not shape:
        return None
    begin, count = stage.block(shape[0])
    return (begin, *(0 for _ in shape[1:])), (count, *shape[1:])


def write(batch: dict[str, stage.Array], step: stage.Step, out: stage.Writer) -> None:
    """Write a batch as one step, with the attributes of the newest one."""
    step.copy_attributes_to(out)
    with out.step():
        for name, values in batch.items():
            box = None if name == NUMBERS else own_box(step, name)
            if box is None:
                out.write(name, values)
            else:
                out.write(name, values, shape=(len(values), *step.shape(name)), start=(0, *box[0]))


def main() -> None:
    """Put each step, and write a batch when there are enough."""
    args = arguments(__file__)
    if not args.batch <= args.watermark <= args.size:
        raise SystemExit(
            f"reservoir: batch ≤ watermark ≤ size is needed, but these are {args.batch}, {args.watermark}, {args.size}"
        )
    if NUMBERS in args.variables:
        raise SystemExit(f"reservoir: a variable cannot be called {NUMBERS}: these are the numbers of the steps")
    reservoir = stage.Reservoir(args.size, args.watermark, args.seed)
    with stage.open_reader("input") as stream, stage.open_writer("batches") as out:
        state = stage.State(reservoir=reservoir.pack())
        reservoir.unpack(state["reservoir"])
        new, shapes = 0, dict[str, stage.Shape]()
        for step in stream:
            for name in args.variables:  # the whole shapes, so that all ranks see it
                if shapes.setdefault(name, step.shape(name)) != step.shape(name):
                    changed = f"its shape has changed from {shapes[name]} to {step.shape(name)}"
                    raise SystemExit(f"reservoir: step {step.index}: {name}: {changed}")
            values = step.read_many({name: own_box(step, name) for name in args.variables})
            try:
                reservoir.put(**values, **{NUMBERS: np.int64(step.index)})
            except ValueError as error:
                raise SystemExit(f"reservoir: step {step.index}: {error}") from None
            if reservoir.is_ready:
                write(reservoir.draw(args.batch), step, out)
            new += 1
            if state.is_due() and (new * SHARE >= len(reservoir) or stage.stop_requested()):
                state.save(reservoir=reservoir.pack())
                new = 0


if __name__ == "__main__":
    main()
