"""Send the steps of the members of an ensemble as one stream, as they come or the same step of all together.

`wf` inserts this component for streams with `collect:`. Members come and go; whoever reads the merged stream need not
know.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

# This file is started by path: make the modules beside it importable by their full names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from components.relay.program import StepShare, read_share, write_share
from workflow import stage
from workflow.component_program import arguments

# Variables that the merged stream has besides those of the members.
OWN = ("member", "member_step")


def checked_share(step: stage.Step) -> StepShare:
    """The data of a step. Raises SystemExit where it has a variable with a name of ours."""
    share = read_share(step)
    if taken := [name for name in OWN if name in share.shapes]:
        raise SystemExit(f"merge: the stream has a variable `{taken[0]}`, which this component writes: rename it")
    return share


def write_one(number: int, step: stage.Step, out: stage.Writer) -> None:
    """Write the step of one member."""
    share = checked_share(step)
    share.pieces["member"] = [stage.Piece(np.array(number, np.int64), ())]
    share.pieces["member_step"] = [stage.Piece(np.array(step.index, np.int64), ())]
    write_share(StepShare(share.pieces, {**share.shapes, **dict.fromkeys(OWN, ())}), out)


def write_together(steps: Mapping[int, stage.Step], out: stage.Writer) -> None:
    """Write the same step of several members: the first dimension of each variable is the member.

    A text, and a variable that not all of them have in the same shape and type, is left out.
    """
    shares = [checked_share(step) for step in steps.values()]
    kinds = [kinds_of(share) for share in shares]
    with out.step():
        for name, (shape, kind) in kinds[0].items():
            if kind in ("U", "S", "O") or any(each.get(name) != (shape, kind) for each in kinds):
                continue
            whole = (len(shares), *shape)
            for place, share in enumerate(shares):
                for piece in share.pieces[name]:
                    start = (place, *(piece.start or (0,) * len(shape)))
                    out.write(name, np.asarray(piece.values)[np.newaxis], shape=whole, start=start)
        out.write("member", np.array(list(steps), np.int64), shape=(len(steps),), start=(0,))
        indices = np.array([step.index for step in steps.values()], np.int64)
        out.write("member_step", indices, shape=(len(steps),), start=(0,))


def kinds_of(share: StepShare) -> dict[str, tuple[stage.Shape, str]]:
    """Variable → its shape and type, `U` for a text."""
    found = {}
    for name, shape in share.shapes.items():
        kind = np.asarray(share.pieces[name][0].values).dtype if share.pieces[name] else np.dtype("O")
        found[name] = shape, kind.kind if kind.kind in "USO" else kind.str
    return found


class FirstAttributes:
    """Gives a writer each attribute once: that of the member which comes first, where they differ."""

    def __init__(self, out: stage.Writer) -> None:
        self._out, self._known = out, set[str]()

    def attribute(self, name: str, value: Any) -> None:
        """As `Writer.attribute`."""
        if name not in self._known:
            self._known.add(name)
            self._out.attribute(name, value)


def main() -> None:
    """Send what comes."""
    args = arguments(__file__)
    with stage.open_writer("merged") as out, stage.open_members("members") as members:
        first, state = FirstAttributes(out), stage.State()
        if args.together:
            for steps in members.steps_together():
                for step in steps.values():
                    step.copy_attributes_to(first)
                write_together({_name(args.members, number): step for number, step in steps.items()}, out)
                state.save()
        else:
            for number, step in members.steps():
                step.copy_attributes_to(first)
                write_one(_name(args.members, number), step, out)
                state.save()


def _name(names: list[int], number: int) -> int:
    return names[number] if names else number


if __name__ == "__main__":
    main()
