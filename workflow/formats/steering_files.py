"""The files by which a stage is steered, in its folder, for all of its attempts: one change a line.

`steering.jsonl`: what the supervisor passes on to the program. `steered.jsonl`: what became of it: the program appends
a change before it uses the values, at the step at which it does, or with the reason why it refuses it. So an attempt
that begins earlier, and a later part of the run, take the same values at the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from workflow.formats.json_lines import append_to_disk, read_json_lines
from workflow.formats.typed_fields import from_fields

ASKED_FILE = "steering.jsonl"
TAKEN_FILE = "steered.jsonl"
Value = bool | int | float | str


@dataclass(frozen=True)
class ValueChange:
    """New values of a stage, by name. `step`: the first one that is computed with them, None: the next one; `by`: who
    has asked; `refused`: why the program does not take them."""

    id: str
    values: Mapping[str, Value]
    step: int | None
    by: str
    refused: str = ""


def to_change(record: Mapping[str, Any]) -> ValueChange:
    """The change of a record. Raises TypeError for one that is damaged."""
    return from_fields(ValueChange, record)


def append_change(path: Path, change: ValueChange) -> None:
    """Append a line, which is on the disk then. Raises OSError; the file is as it was."""
    append_to_disk(path, asdict(change))


def read_changes(path: Path) -> list[ValueChange]:
    """The changes in a file, in order; none where there is no file. Damaged lines are left out."""
    return list(_changes(read_json_lines(path).records))


def _changes(records: Iterable[Mapping[str, Any]]) -> Iterable[ValueChange]:
    for record in records:
        try:
            yield to_change(record)
        except TypeError:
            continue


def known_changes(folder: Path) -> list[ValueChange]:
    """What an attempt that begins now will take: what the program in this folder has taken, and what it was asked for a
    step that it had not reached. In the order of the steps."""
    answers = read_changes(folder / TAKEN_FILE)
    done = {each.id for each in answers}
    asked = [each for each in read_changes(folder / ASKED_FILE) if each.step is not None and each.id not in done]
    return in_order([*(each for each in answers if not each.refused), *asked])


def in_order(changes: Iterable[ValueChange]) -> list[ValueChange]:
    """By their steps; of those of one step the later ones stay later."""
    return sorted(changes, key=lambda each: -1 if each.step is None else each.step)


def shifted(changes: Sequence[ValueChange], first: int) -> list[ValueChange]:
    """The changes of a stage whose first step is that of this number. Their ids are others, too: that of a
    request names a place that now is another one."""
    return [
        replace(each, id=f"{each.id}-from-{first}", step=None if each.step is None else max(0, each.step - first))
        for each in changes
    ]
