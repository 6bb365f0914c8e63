"""A sink that keeps nothing: for benchmarks, and to let a simulation run without its consumers."""

from __future__ import annotations

from workflow import stage
from workflow.program import arguments


def main() -> None:
    """Read this rank's share of every variable, along its slowest axis, and drop it."""
    args = arguments(__file__)
    steps, dropped = 0, 0
    with stage.open_reader("input") as stream:
        for step in stream:
            steps += 1
            if args.read_data:
                known = step.variables()
                step.read_many({name: share(info.shape) for name, info in known.items()})
                dropped += sum(info.nbytes for info in known.values())
    if stage.rank() == 0:
        print(f"null: {steps} steps, {dropped} bytes read and dropped")


def share(shape: stage.Shape) -> tuple[stage.Shape, stage.Shape] | None:
    """(start, count) of this rank's slab along the slowest axis; None for a scalar."""
    if not shape:
        return None
    first, count = stage.block(shape[0])
    return (first, *(0 for _ in shape[1:])), (count, *shape[1:])


if __name__ == "__main__":
    main()
