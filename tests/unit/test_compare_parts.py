"""Which steps of a record the files of a part of a run, or of a replay, hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_run import make_end, make_plan, make_stage
from workflow.compare.parts_of_files import CommonPart, FilePart, common_part, find_parts

FILE = "${{ run.dir }}/kept.bp"


def parts(run: Path, name: str = "kept.bp", **stages: Any) -> FilePart | None:
    """Of a file, in a run with these stages more: component → (first step of the part, parameters)."""
    plan = make_plan()
    ends = {part: make_end("pattern", "read").model_copy(update={"part_step": part}) for part, _ in stages.values()}
    added = [
        make_stage(f"more-{component}", "sink", [ends[part]], component=component, parameters=given)
        for component, (part, given) in stages.items()
    ]
    run.mkdir(exist_ok=True)
    (run / "plan.json").write_text(plan.model_copy(update={"stages": [*plan.stages, *added]}).to_json())
    return find_parts(run, {name: run / name})[name]


def test_a_part_that_goes_on_begins_where_it_does(tmp_path: Path) -> None:
    assert parts(tmp_path / "a", archive=(0, {"path": FILE, "every": 1})) == FilePart(0)
    assert parts(tmp_path / "b", archive=(12, {"path": FILE, "every": 1})) == FilePart(12)
    assert parts(tmp_path / "c", archive=(12, {"path": FILE, "every": 4})) == FilePart(3)
    assert parts(tmp_path / "d", archive=(12, {"path": FILE, "every": 5})) is None
    assert parts(tmp_path / "e", "other.bp", archive=(12, {"path": FILE, "every": 1})) == FilePart(0)


def test_a_replay_has_the_steps_that_were_asked_for(tmp_path: Path) -> None:
    assert parts(tmp_path / "a", replay=(0, {"first": 10, "last": 20})) == FilePart(10, 20)
    assert parts(tmp_path / "b", replay=(0, {"first": 0, "last": 0})) == FilePart(0)


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        (None, None, CommonPart((0, 0), 0, None)),
        (FilePart(0), FilePart(10, 20), CommonPart((10, 0), 10, 20)),
        (FilePart(12), FilePart(10, 20), CommonPart((0, 2), 12, 20)),
    ],
)
def test_two_files_are_compared_where_both_have_steps(
    a: FilePart | None, b: FilePart | None, common: CommonPart
) -> None:
    assert common_part(a, b) == common
