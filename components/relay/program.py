"""Pass a stream on: every variable with its type, shape and values, every attribute, to all that is written.

It takes each step as soon as it is there. A stream that discards what its reader has no room for never holds it up;
one that blocks does, and so does a file that is written slowly. `wf` adds it for pipes and taps.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

from workflow import stage
from workflow.component_program import arguments


class Held(NamedTuple):
    """This rank's share of a step."""

    pieces: dict[str, list[stage.Piece]]
    shapes: dict[str, stage.Shape]


def hold(step: stage.Step) -> Held:
    """Read this rank's share of every variable."""
    shapes = {name: info.shape for name, info in step.variables().items()}
    return Held(step.shares(shapes), shapes)


def pass_on(held: Held, out: stage.Writer) -> None:
    """Write it. Nobody changes the arrays meanwhile."""
    with out.step():
        for name, pieces in held.pieces.items():
            shape = held.shapes[name] or None
            for piece in pieces:
                out.write(name, piece.values, shape=shape, start=piece.start if shape else None, lend=True)


def main() -> None:
    """Read a step, write it wherever it is due."""
    args = arguments(__file__)
    with ExitStack() as closing:
        stream = closing.enter_context(stage.open_reader("input"))
        outs = [closing.enter_context(out) for out in stage.open_writers("output")]
        every = args.every or [1] * len(outs)
        if len(every) != len(outs):
            raise SystemExit(f"relay: every has {len(every)} numbers, for {len(outs)} streams that are written")
        for step in stream:
            due = [out for out, each in zip(outs, every, strict=True) if step.index % each == 0]
            if due:
                held = hold(step)
                for out in due:
                    step.copy_attributes_to(out)
                    pass_on(held, out)


if __name__ == "__main__":
    main()
