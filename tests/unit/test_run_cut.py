"""Where the next part of a run begins: a pure decision on how far its stages have come."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from tests.support.chains import Way, make_end, make_plan, make_stage, make_stream
from workflow.plan.plan_model import Plan
from workflow.run.cut import Cut, Position, find_cut, live_groups
from workflow.run.lifecycle import step
from workflow.run.state.events import RunStarted, StageExited, StageStarted, StreamClosed, StreamOpened
from workflow.run.state.run_state import RunState, initial_state


def line(first: Way, second: Way = "sst") -> Plan:
    """sim → xrd → keep."""
    stages = [
        make_stage("sim", ["x"], [make_end("field", "write", first)]),
        make_stage("xrd", ["x"], [make_end("field", "read", first), make_end("pattern", "write", second)]),
        make_stage("keep", ["x"], [make_end("pattern", "read", second)]),
    ]
    streams = [make_stream("field", "sim", ["xrd"], first), make_stream("pattern", "xrd", ["keep"], second)]
    return make_plan(stages, streams)


def after(plan: Plan, *succeeded: str, steps: int = 20) -> RunState:
    """The state in which these stages have done their work."""
    state, _ = step(initial_state(plan), RunStarted(0.0, "run", 1, 1, "here"))
    for name in succeeded:
        events = [StageStarted(1.0, name, 1)]
        for end in plan.stage(name).ends:
            opened = StreamOpened(2.0, end.stream, name, end.side)
            events += [opened, StreamClosed(3.0, end.stream, name, end.side, steps, True)]  # type: ignore[list-item]
        state, _ = step(state, *events, StageExited(4.0, name, 0, None))
    return state


def cut(plan: Plan, state: RunState, kept: set[str] | None = None, **positions: Position) -> Cut:
    return find_cut(plan, state, {name: positions.get(name, Position(0)) for name in state.stages}, kept or set())


def test_stages_that_live_streams_join_begin_at_the_newest_saved_state_that_none_is_behind() -> None:
    plan = line("sst")
    sim = Position(None, (0, 10, 20, 30))
    found = cut(plan, after(plan), sim=sim, xrd=Position(27), keep=Position(25))
    assert found.first_steps == {"sim": 20, "xrd": 20, "keep": 20}
    assert found.finished == ()
    assert found.reasons["xrd"] == "keep was at step 25"


def test_simulation_without_a_saved_state_begins_anew_with_all_that_it_feeds() -> None:
    plan = line("sst")
    found = cut(plan, after(plan), sim=Position(None, (0,), "has saved no state"), xrd=Position(9), keep=Position(9))
    assert found.is_empty
    assert set(found.reasons.values()) == {"has saved no state"}


def test_simulation_that_has_written_its_file_is_not_run_again() -> None:
    plan = line("after")
    found = cut(plan, after(plan, "sim"), {"field"}, xrd=Position(12), keep=Position(11))
    assert found.finished == ("sim",)
    assert found.first_steps == {"xrd": 11, "keep": 11}, "they are joined by SST"
    assert not found.is_empty


def test_file_between_two_stages_lets_them_begin_at_different_steps() -> None:
    plan = line("after", "after")
    found = cut(plan, after(plan, "sim", "xrd"), {"field", "pattern"}, keep=Position(4))
    assert (found.finished, found.first_steps) == (("sim", "xrd"), {"keep": 4})


def test_writer_that_is_done_runs_again_when_its_steps_are_gone_and_somebody_needs_them() -> None:
    plan = line("sst")
    found = cut(plan, after(plan, "sim"), xrd=Position(7), keep=Position(7), sim=Position(None, (0, 5)))
    assert found.finished == ()
    assert found.first_steps == {"sim": 5, "xrd": 5, "keep": 5}


def test_kept_steps_of_a_stream_let_its_readers_go_on_without_the_writer() -> None:
    plan = line("sst")
    found = cut(plan, after(plan, "sim"), {"field"}, xrd=Position(7), keep=Position(6))
    assert (found.finished, found.first_steps) == (("sim",), {"xrd": 6, "keep": 6})


def test_reader_that_has_left_early_runs_again_with_its_writer() -> None:
    plan = line("live")
    found = cut(plan, after(plan, "xrd", "keep"), {"field", "pattern"}, sim=Position(30, (0, 8)), xrd=Position(20))
    assert found.finished == ()


def test_stage_that_needs_all_steps_takes_those_joined_to_it_along() -> None:
    plan = line("after")
    xrd = Position(None, (0,), "needs all steps")
    found = cut(plan, after(plan, "sim"), {"field"}, xrd=xrd, keep=Position(3))
    assert found.first_steps == {"xrd": 0, "keep": 0}
    assert found.finished == ("sim",)


def test_two_simulations_that_are_joined_begin_at_a_step_where_both_have_saved_their_states() -> None:
    stages = [
        make_stage("a", ["x"], [make_end("p", "write"), make_end("q", "read")]),
        make_stage("b", ["x"], [make_end("q", "write"), make_end("p", "read")]),
    ]
    plan = make_plan(stages, [make_stream("p", "a", ["b"]), make_stream("q", "b", ["a"])])
    found = cut(plan, after(plan), a=Position(31, (0, 10, 20, 30)), b=Position(31, (0, 15, 20, 29)))
    assert found.first_steps == {"a": 20, "b": 20}


@pytest.mark.parametrize("seed", range(200))
def test_no_stage_begins_after_what_it_has_done_and_joined_ones_begin_together(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"s{index}" for index in range(draw.randint(2, 7))]
    ways: list[Way] = ["sst", "live", "after"]
    joined = [(draw.randrange(index), index, draw.choice(ways)) for index in range(1, len(names))]
    stages = []
    for index, name in enumerate(names):
        ends = [make_end(f"x{b}", "write", way) for a, b, way in joined if a == index]
        ends += [make_end(f"x{b}", "read", way) for _, b, way in joined if b == index]
        stages.append(make_stage(name, ["x"], ends))
    streams = [make_stream(f"x{b}", names[a], [names[b]], way) for a, b, way in joined]
    plan = make_plan(stages, streams)
    positions: Mapping[str, Position] = {
        name: Position(
            draw.randint(0, 9), tuple(sorted({0, *draw.choices(range(10), k=3)})) if draw.random() < 0.4 else None
        )
        for name in names
    }
    kept = {stream.name for stream in streams if stream.is_kept and draw.random() < 0.7}
    state = after(plan, *[name for name in names if draw.random() < 0.5])
    found = find_cut(plan, state, positions, kept)
    assert {*found.finished} | {*found.first_steps} == {*names} and not {*found.finished} & {*found.first_steps}
    for name, first in found.first_steps.items():
        position = positions[name]
        assert first <= (position.done or 0)
        assert position.starts is None or first in position.starts
    for stream in streams:
        (reader,) = stream.readers
        if stream.writer in found.finished and reader not in found.finished:
            assert stream.name in kept, "its steps are there"
        if stream.writer not in found.finished:
            assert reader not in found.finished
            if stream.coupling == "live":
                assert found.first_steps[stream.writer] == found.first_steps[reader]
    groups = live_groups(plan, list(found.first_steps))
    assert sorted(name for group in groups for name in group) == sorted(found.first_steps)
