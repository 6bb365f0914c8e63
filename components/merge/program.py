"""Send the steps of the members of an ensemble as one stream, as they come or the same step of all together.

`wf` inserts this component for streams with `collect:`. Members come and go; whoever reads the merged stream need not
know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workflow import stage
from workflow.component_program import arguments

# Variables that the merged stream has besides those of the members.
OWN = ("member", "member_step")


def checked_copy(step: stage.Step) -> stage.StepCopy:
    """The data of a step. Raises SystemExit where it has a variable with a name of ours."""
    copied = stage.StepCopy.of(step)
    if taken := [name for name in OWN if name in copied.known]:
        raise SystemExit(f"merge: the stream has a variable `{taken[0]}`, which this component writes: rename it")
    return copied


def write_one(number: int, step: stage.Step, out: stage.Writer) -> None:
    """Write the step of one member."""
    copied = checked_copy(step)
    with out.step():
        copied.write_to(out)
        out.write("member", np.int64(number))
        out.write("member_step", np.int64(step.index))


def write_together(steps: Mapping[int, stage.Step], out: stage.Writer, told: set[str]) -> None:
    """Write the same step of several members: the first dimension of each variable is the member.

    A text, an array in local blocks, and a variable that not all of them have in the same shape and type, is left out.
    That is said once of each; `told`: those of which it has been.
    """
    copies = [checked_copy(step) for step in steps.values()]
    with out.step():
        for name, info in {name: info for each in copies for name, info in each.known.items()}.items():
            if info.type == "string" or info.local or any(each.known.get(name) != info for each in copies):
                if name not in told:
                    told.add(name)
                    stage.note(f"{name} is left out in step {out.steps}: {why_left_out(info)}")
                continue
            whole = (len(copies), *info.shape)
            for place, copied in enumerate(copies):
                for piece in copied.pieces[name]:
                    start = (place, *(piece.start or (0,) * len(info.shape)))
                    out.write(name, np.asarray(piece.values)[np.newaxis], shape=whole, start=start)
        out.write("member", np.array(list(steps), np.int64), shape=(len(steps),), start=(0,))
        indices = np.array([step.index for step in steps.values()], np.int64)
        out.write("member_step", indices, shape=(len(steps),), start=(0,))


def why_left_out(info: stage.Info) -> str:
    """Why a variable has no place in an array with one more dimension."""
    if info.type == "string":
        return "it is text"
    return "it is in local blocks" if info.local else "not all members have it in one shape and type"


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
        first, state, told = FirstAttributes(out), stage.State(), set[str]()
        if args.together:
            for steps in members.steps_together():
                for step in steps.values():
                    step.copy_attributes_to(first)
                write_together({_name(args.members, number): step for number, step in steps.items()}, out, told)
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
