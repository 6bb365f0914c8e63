"""Spools that keep the newest steps of a stream only."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import adios2
import numpy as np
import pytest

from tests.support.chains import make_end, make_plan, make_stage, make_stream
from workflow.formats.bp_holes import drop_data
from workflow.formats.bp_index import data_begins
from workflow.plan.plan_model import RestartPlan
from workflow.run.attempts import to_attempt
from workflow.run.spool_limit import droppable, units_behind
from workflow.run.state.events import StepsDropped
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import EndKey, RunState, initial_state

STEPS, COUNT = 6, 1 << 18


def write(path: Path) -> Path:
    """A BP5 file of six steps of 2 MB."""
    with adios2.Stream(str(path), "w") as stream:
        for step in stream.steps(STEPS):
            number = step.current_step()
            step.write("V", np.full(COUNT, number, dtype=float), [COUNT], [0], [COUNT])
    return path


def test_the_data_of_old_steps_are_freed_and_the_others_are_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bp")
    before = (path / "data.0").stat()
    drop_data(path, 4)
    after = (path / "data.0").stat()
    assert after.st_size == before.st_size
    assert after.st_blocks * 512 <= 3 * COUNT * 8, "two of six steps are left"
    with adios2.Stream(str(path), "r") as stream:
        for step in stream.steps():
            number = step.current_step()
            if number >= 4:
                assert np.array_equal(step.read("V"), np.full(COUNT, number, dtype=float))
    drop_data(path, 5)
    assert (path / "data.0").stat().st_blocks < after.st_blocks


def test_where_data_begin(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bp")
    begins = [data_begins(path, step)["data.0"] for step in range(STEPS)]
    assert begins[0] == 0 and begins == sorted(begins)
    assert all(later - earlier >= COUNT * 8 for earlier, later in pairwise(begins))
    assert data_begins(path, STEPS) == {}, "it is not there yet"


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bp")
    (path / "data.0").rename(path / "elsewhere")
    with pytest.raises(OSError, match=r"data\.0"):
        drop_data(path, 3)


def spooled(written: int, kept: dict[str, Any]) -> RunState:
    """sim → xrd, with a spool that has received so many steps."""
    rule = RestartPlan(times=3, within_s=None, backoff_s=1.0, stages=["xrd"], from_start=False)
    stages = [
        make_stage("sim", ["x"], [make_end("field", "write")]),
        make_stage("xrd", ["x"], [make_end("field", "read")], restart=rule),
        make_stage("kept", ["x"], [make_end("field", "read"), make_end("kept", "write", "live")], added="spool"),
    ]
    streams = [
        make_stream("field", "sim", ["xrd", "kept"], spool="kept", **kept),
        make_stream("kept", "kept", [], "live"),
    ]
    state = initial_state(make_plan(stages, streams))
    key: EndKey = ("kept", "kept", "write")
    return replace(state, ends={**state.ends, key: replace(state.ends[key], steps=written)})


@pytest.mark.parametrize(
    ("written", "kept", "first", "end"),
    [
        (5, {"spool_steps": 8}, 0, 0),
        (9, {"spool_steps": 8}, 0, 0),  # one step more: not worth a look
        (10, {"spool_steps": 8}, 0, 2),
        (30, {"spool_steps": 8}, 20, 22),
        (30, {"spool_steps": 8}, 21, 0),
        (30, {}, 0, 0),
    ],
)
def test_what_is_more_than_it_is_to_keep(written: int, kept: dict[str, Any], first: int, end: int) -> None:
    state = spooled(written, kept)
    state = fold(state, [StepsDropped(1.0, "field", first)])
    assert droppable(state, state.plan.stream("field")) == end


def test_only_stages_that_are_started_again_are_waited_for() -> None:
    state = spooled(9, {"spool_steps": 8})
    field = state.plan.stream("field")
    assert units_behind(state, field) == [["xrd"]]
    # The rule of another stage takes the reader along, which has none of its own.
    xrd, keep = state.plan.stage("xrd"), make_stage("keep", ["x"], [make_end("pattern", "read")])
    rule = xrd.restart
    assert rule is not None
    keep = keep.model_copy(update={"restart": rule.model_copy(update={"stages": ["xrd", "keep"]})})
    plain = xrd.model_copy(update={"restart": None})
    others = [stage for stage in state.plan.stages if stage.name != "xrd"]
    plan = state.plan.model_copy(update={"stages": [*others, plain, keep]})
    assert units_behind(replace(state, plan=plan), field) == [["xrd", "keep"]]


def test_a_reader_of_the_spool_is_not_robbed_of_its_next_step() -> None:
    state = spooled(30, {"spool_steps": 8})
    key: EndKey = ("field", "xrd", "read")
    behind = replace(state.ends[key], from_spool=True, steps=11)
    assert droppable(replace(state, ends={**state.ends, key: behind}), state.plan.stream("field")) == 11


def test_an_attempt_that_would_need_a_dropped_step_is_refused() -> None:
    state = fold(spooled(9, {"spool_steps": 2}), [StepsDropped(1.0, "field", 5)])
    key: EndKey = ("field", "xrd", "read")
    for steps, is_there in ((5, True), (4, False)):
        now = replace(state, ends={**state.ends, key: replace(state.ends[key], steps=steps, from_spool=True)})
        if is_there:
            (end,) = to_attempt(state.plan.stage("xrd"), now, {}).ends
            assert (end.first_step, Path(end.path).name) == (5, "kept.bp")
        else:
            with pytest.raises(ValueError, match="step 4 of field is not in its spool any more"):
                to_attempt(state.plan.stage("xrd"), now, {})
