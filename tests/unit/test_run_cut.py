"""Where the next part of a run begins: a pure decision on how far its stages have come."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.chains import Way, make_end, make_plan, make_stage, make_stream
from workflow.api.resumes import _check_same
from workflow.errors import RunError
from workflow.plan.plan_model import PartPlan, Plan
from workflow.report.show.part_table import planned_part_text
from workflow.run.cut import Cut, Reached, SavedState, find_cut, joined_stages
from workflow.run.lifecycle import step
from workflow.run.restart_positions import Member
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


def at(name: str, plan: Plan, done: int | None, *states: int, why: str = "", suppresses: bool = True) -> Reached:
    """How far a stage has come: so many steps of its kept streams or of what it reads; it saved a state at these."""
    ends = plan.stage(name).ends
    written = [end.stream for end in ends if end.side == "write"]
    kept = {each: done for each in written if plan.stream(each).is_kept and done is not None}
    saved = [SavedState({end.stream: step for end in ends}, f"{name}/{step}") for step in states]
    reads = [end.stream for end in ends if end.side == "read"]
    positions = [each.steps for each in saved] if states or why else None
    return Reached(
        Member(name, reads, [each for each in written if each not in kept], kept, done or 0, positions, suppresses),
        why,
        saved,
    )


def cut(plan: Plan, state: RunState, kept: set[str] | None = None, **reached: Reached) -> Cut:
    return find_cut(plan, state, {name: reached.get(name, at(name, plan, 0)) for name in state.stages}, kept or set())


def begins(found: Cut) -> dict[str, int]:
    return {name: found.first_step(name) for name in found.positions.begins}


def test_a_stage_begins_at_its_newest_state_and_suppresses_what_its_readers_have() -> None:
    plan = line("sst")
    sim = at("sim", plan, None, 30, 20, 10)
    found = cut(plan, after(plan), sim=sim, xrd=at("xrd", plan, 27), keep=at("keep", plan, 25))
    assert begins(found) == {"sim": 20, "xrd": 25, "keep": 25}
    assert found.positions.ends["sim"] == {"field": 25}
    assert found.positions.repeated("sim") == {"field": 5}
    assert found.states == {"sim": "sim/20"}
    assert found.finished == ()
    assert found.reasons == {
        "sim": "keep can go on from step 25 only",
        "xrd": "keep can go on from step 25 only",
        "keep": "",
    }


def test_a_simulation_without_a_state_that_sends_nothing_again_holds_nobody() -> None:
    plan = line("sst")
    found = cut(plan, after(plan), sim=at("sim", plan, None, why="has saved no state"),
                xrd=at("xrd", plan, 18), keep=at("keep", plan, 17))  # fmt: skip
    assert begins(found) == {"sim": 0, "xrd": 17, "keep": 17}
    assert found.reasons == {"sim": "has saved no state", "xrd": "keep can go on from step 17 only", "keep": ""}
    reached = {"sim": 18, "xrd": 18, "keep": 17}
    text = planned_part_text(PartPlan(number=2, run="runs/a", finished={}, pieces={}), found, reached, [])
    assert text.splitlines()[1:] == [
        "  sim   step 0   has saved no state; 18 steps done again",
        "  xrd   step 17  keep can go on from step 17 only; 1 step done again",
        "  keep  step 17",
    ]


def test_a_program_that_writes_all_its_steps_takes_its_readers_along() -> None:
    plan = line("sst")
    sim = at("sim", plan, None, 30, 20, 10, suppresses=False)
    found = cut(plan, after(plan), sim=sim, xrd=at("xrd", plan, 27), keep=at("keep", plan, 25))
    assert begins(found) == {"sim": 20, "xrd": 20, "keep": 25}, "xrd sends keep only what it lacks"
    assert found.positions.ends["sim"] == {"field": 20}
    assert found.positions.repeated("xrd") == {"pattern": 5}


def test_a_file_that_is_read_while_it_is_written_has_no_gap() -> None:
    """After a power cut a reader may have had steps that are not in the file."""
    plan = line("live")
    sim = at("sim", plan, 22, 30, 20, 10)
    found = cut(plan, after(plan), sim=sim, xrd=at("xrd", plan, 27), keep=at("keep", plan, 25))
    assert begins(found) == {"sim": 20, "xrd": 22, "keep": 25}
    assert found.positions.ends["sim"] == {"field": 20}, "the file of the next part begins where the simulation does"


@pytest.mark.parametrize("suppresses", [True, False])
def test_an_analysis_that_is_behind_a_file_does_not_take_the_simulation_back(suppresses: bool) -> None:
    plan = line("live")
    sim = at("sim", plan, 95, 100, 90, 10, suppresses=suppresses)
    found = cut(plan, after(plan), sim=sim, xrd=at("xrd", plan, 12), keep=at("keep", plan, 12))
    assert begins(found) == {"sim": 90, "xrd": 12, "keep": 12}
    assert found.positions.ends["sim"] == {"field": 90}


def test_simulation_without_a_saved_state_begins_anew_with_all_that_it_feeds() -> None:
    plan = line("sst")
    sim = at("sim", plan, None, why="has saved no state", suppresses=False)
    found = cut(plan, after(plan), sim=sim, xrd=at("xrd", plan, 9), keep=at("keep", plan, 0))
    assert found.is_empty
    assert found.reasons["sim"] == "has saved no state"


def test_simulation_that_has_written_its_file_is_not_run_again() -> None:
    plan = line("after")
    found = cut(plan, after(plan, "sim"), {"field"}, xrd=at("xrd", plan, 12), keep=at("keep", plan, 11))
    assert found.finished == ("sim",)
    assert begins(found) == {"xrd": 11, "keep": 11}, "they are joined by SST"
    assert not found.is_empty


def test_file_between_two_stages_lets_them_begin_at_different_steps() -> None:
    plan = line("after", "after")
    found = cut(plan, after(plan, "sim", "xrd"), {"field", "pattern"}, keep=at("keep", plan, 4))
    assert (found.finished, begins(found)) == (("sim", "xrd"), {"keep": 4})


def test_writer_that_is_done_runs_again_when_its_steps_are_gone_and_somebody_needs_them() -> None:
    plan = line("sst")
    sim = at("sim", plan, None, 5)
    found = cut(plan, after(plan, "sim"), xrd=at("xrd", plan, 7), keep=at("keep", plan, 7), sim=sim)
    assert found.finished == ()
    assert begins(found) == {"sim": 5, "xrd": 7, "keep": 7}


def test_kept_steps_of_a_stream_let_its_readers_go_on_without_the_writer() -> None:
    plan = line("sst")
    found = cut(plan, after(plan, "sim"), {"field"}, xrd=at("xrd", plan, 7), keep=at("keep", plan, 6))
    assert (found.finished, begins(found)) == (("sim",), {"xrd": 6, "keep": 6})


def test_reader_that_has_left_early_runs_again_with_its_writer() -> None:
    plan = line("live")
    kept = {"field", "pattern"}
    found = cut(plan, after(plan, "xrd", "keep"), kept, sim=at("sim", plan, 30, 8), xrd=at("xrd", plan, 20))
    assert found.finished == ()


def test_stage_that_needs_all_steps_takes_those_joined_to_it_along() -> None:
    plan = line("after")
    xrd = at("xrd", plan, None, why="needs all steps", suppresses=False)
    found = cut(plan, after(plan, "sim"), {"field"}, xrd=xrd, keep=at("keep", plan, 3))
    assert begins(found)["xrd"] == 0
    assert found.finished == ("sim",)


def test_two_simulations_that_are_joined_begin_at_states_that_fit() -> None:
    stages = [
        make_stage("a", ["x"], [make_end("p", "write"), make_end("q", "read")]),
        make_stage("b", ["x"], [make_end("q", "write"), make_end("p", "read")]),
    ]
    plan = make_plan(stages, [make_stream("p", "a", ["b"]), make_stream("q", "b", ["a"])])
    one, other = at("a", plan, 31, 30, 20, 10), at("b", plan, 31, 29, 20, 15)
    found = cut(plan, after(plan), a=one, b=other)
    assert begins(found) == {"a": 20, "b": 20}


def tapped(**changed: object) -> Plan:
    """sim → xrd, and a tap that draws the same stream."""
    stages = [
        make_stage("sim", ["x"], [make_end("field", "write")]),
        make_stage("xrd", ["x"], [make_end("field", "read")]),
        make_stage("plot", ["x"], [make_end("field", "read")]).model_copy(update={"optional": True, **changed}),
    ]
    return make_plan(stages, [make_stream("field", "sim", ["xrd", "plot"])])


def test_a_tap_takes_nobody_back() -> None:
    plan = tapped(added="tap", from_start="needs all steps")
    plot = at("plot", plan, None, why="needs all steps")
    found = cut(plan, after(plan), sim=at("sim", plan, None, 20, 10), xrd=at("xrd", plan, 25), plot=plot)
    assert begins(found) == {"sim": 20, "xrd": 25, "plot": 25}
    assert found.reasons["plot"] == "keeps only what follows"


def test_a_stage_that_may_fail_and_has_saved_nothing_takes_nobody_back() -> None:
    plan = tapped()
    plot = at("plot", plan, None, why="has saved no state")
    found = cut(plan, after(plan), sim=at("sim", plan, None, 20, 10), xrd=at("xrd", plan, 25), plot=plot)
    assert begins(found) == {"sim": 20, "xrd": 25, "plot": 25}


def test_a_stage_that_may_fail_does_not_let_a_finished_simulation_run_again() -> None:
    plan = tapped()
    found = cut(plan, after(plan, "sim", "xrd"), plot=at("plot", plan, 3))
    assert set(found.finished) == {"sim", "xrd", "plot"}


def test_a_spool_that_holds_all_steps_has_done_its_work() -> None:
    stages = [
        make_stage("sim", ["x"], [make_end("field", "write")]),
        make_stage("xrd", ["x"], [make_end("field", "read")]),
        make_stage("kept", ["x"], [make_end("field", "read"), make_end("field-spool", "write", "live")]),
    ]
    streams = [make_stream("field", "sim", ["xrd", "kept"]), make_stream("field-spool", "kept", [], "live")]
    plan = make_plan(stages, [streams[0].model_copy(update={"spool": "field-spool"}), streams[1]])
    found = cut(plan, after(plan, "sim"), {"field", "field-spool"}, xrd=at("xrd", plan, 7))
    assert (set(found.finished), begins(found)) == ({"sim", "kept"}, {"xrd": 7})


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
    reached: Mapping[str, Reached] = {
        name: at(
            name, plan, draw.randint(0, 9), *sorted({*draw.choices(range(10), k=draw.choice([0, 3]))}, reverse=True),
            suppresses=draw.random() < 0.7,
        )
        for name in names
    }  # fmt: skip
    kept = {stream.name for stream in streams if stream.is_kept and draw.random() < 0.7}
    state = after(plan, *[name for name in names if draw.random() < 0.5])
    found = find_cut(plan, state, reached, kept)
    positions = found.positions
    assert {*found.finished} | {*positions.begins} == {*names} and not {*found.finished} & {*positions.begins}
    for name, first in positions.begins.items():
        member = reached[name].member
        assert member.states is None or first in [*member.states, dict.fromkeys(first, 0)]
        assert all(first[stream] <= steps for stream, steps in member.kept.items())
    for stream in streams:
        (reader,) = stream.readers
        if stream.writer in found.finished and reader not in found.finished:
            assert stream.name in kept, "its steps are there"
        if stream.writer not in found.finished:
            assert reader not in found.finished
            begins_at, goes_on = (each[stream.writer][stream.name] for each in (positions.begins, positions.ends))
            assert begins_at <= goes_on, "what is written again is dropped"
            assert goes_on <= reached[stream.writer].member.kept.get(stream.name, 9), "no step is missing in the file"
            reads = positions.begins[reader][stream.name]
            if stream.coupling == "live" and stream.name in reached[stream.writer].member.kept:
                assert reads <= reached[stream.writer].member.kept[stream.name], "the steps before are in the file"
            elif stream.coupling == "live":
                assert goes_on == reads, "the reader gets the next step that it lacks"
            assert reached[stream.writer].member.suppresses or begins_at == goes_on
    groups = joined_stages(plan, list(positions.begins))
    assert sorted(name for group in groups for name in group) == sorted(positions.begins)


def test_a_pipeline_with_other_readers_is_refused() -> None:
    before = line("sst")
    stages = [
        stage.model_copy(update={"ends": stage.ends[:1]}) if stage.name == "xrd" else stage for stage in before.stages
    ]
    with pytest.raises(RunError, match="has other readers or writers than run: xrd writes pattern"):
        _check_same(before, before.model_copy(update={"stages": stages}), Path("run"))
