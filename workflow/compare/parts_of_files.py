"""Which steps of a record the files of a run hold, where these are not all: a replay of some, a part that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from workflow.errors import WfError
from workflow.formats.joined_bp import is_joined
from workflow.plan.plan_model import Plan
from workflow.plan.topology.replayed_pipeline import REPLAY
from workflow.run.records.run_directory import read_filled_plan

_ARCHIVE = "archive"


class FilePart(NamedTuple):
    """The numbers that the steps of a file have in the record: from `first` to before `last`; None: to the end."""

    first: int
    last: int | None = None

    def __bool__(self) -> bool:
        return self != (0, None)


class CommonPart(NamedTuple):
    """The steps that two files both should have: how many come before them in each; their numbers."""

    skipped: tuple[int, int]
    first: int
    last: int | None


ALL_STEPS = CommonPart((0, 0), 0, None)


def common_part(a: FilePart | None, b: FilePart | None) -> CommonPart:
    """The steps that two files both should have; None: a file has all."""
    one, other = a or FilePart(0), b or FilePart(0)
    first = max(one.first, other.first)
    last = min((part.last for part in (one, other) if part.last is not None), default=None)
    return CommonPart((first - one.first, first - other.first), first, last)


def find_parts(run: Path, files: Mapping[str, Path]) -> dict[str, FilePart | None]:
    """File, by its path in the run → the steps that it has of the record; None: steps that the record does not have."""
    try:
        plan = read_filled_plan(run)
    except WfError:
        return {}
    replayed = _replayed(plan)
    known: dict[str, FilePart | None] = {}
    every: dict[str, int] = {}
    for stream in plan.streams:
        known[stream.path] = FilePart(plan.stage(stream.writer).end(stream.name, "write").before)
    for stage in plan.stages:
        for end in stage.ends if stage.component == _ARCHIVE else ():
            path = str(stage.parameters.get("path"))
            known[path], every[path] = FilePart(end.part_step), int(stage.parameters.get("every", 1))
    found: dict[str, FilePart | None] = {}
    for name, file in files.items():
        path = str(file)
        part = replayed or (None if is_joined(file) else known.get(path)) or FilePart(0)
        # Such a sink counts from the first step that it gets.
        step = every.get(path, 1)
        if part.first % step:
            found[name] = None
        else:
            found[name] = FilePart(part.first // step, None if part.last is None else -(-part.last // step))
    return found


def _replayed(plan: Plan) -> FilePart:
    """The steps that a replay has of its record; all of a run that is none."""
    stands_in = [stage.parameters for stage in plan.stages if stage.component == REPLAY]
    first = max((int(each.get("first", 0)) for each in stands_in), default=0)
    last = max((int(each.get("last", 0)) for each in stands_in), default=0)
    return FilePart(first, last or None)
