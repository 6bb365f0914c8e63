"""Stages that are started again after a failure, without processes."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from tests.support.chains import Way, chain, make_end, make_stage, make_stream
from tests.support.imagined_run import Run, end_all, verdict_of
from workflow.plan.plan_model import Plan, RestartPlan
from workflow.report.show.event_lines import restart_text
from workflow.run.attempts import to_attempt
from workflow.run.lifecycle import wake_at
from workflow.run.state.events import (
    Interrupted,
    StageExited,
    StagesRestarted,
    StageStarted,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTrouble,
)
from workflow.run.state.lifecycle_events import DeadlinePassed, RestartDecided, StageFailed, StageIgnored, StopRequested
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import Behind, EndKey, RunState, initial_state
from workflow.run.verdict.broken_streams import LEFT_S
from workflow.run.verdict.stall_detection import present_warnings


def restarted(way: Way, stages: list[str], *who: str, **rule: object) -> Plan:
    """The chain md → saxs → keep, of which `who`, by default the first of `stages`, is started again with `stages`."""
    given = {"times": 3, "within_s": None, "backoff_s": 10.0, "stages": stages, "from_start": False, **rule}
    plan, names = chain(way), who or stages[:1]
    changed = [
        stage.model_copy(update={"restart": RestartPlan.model_validate(given)}) if stage.name in names else stage
        for stage in plan.stages
    ]
    return plan.model_copy(update={"stages": changed})


def live(*who: str, **rule: object) -> Run:
    """All streams are BP5 files that are followed: saxs is alone."""
    return Run(restarted("live", ["saxs"], *who, **rule)).open_all()


def kill(run: Run, stage: str, t: float) -> Run:
    return run.feed(StageExited(t, stage, None, signal.SIGKILL))


def test_a_stage_is_started_again_at_its_step_and_the_run_succeeds() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=5, pattern_saxs=5, pattern_keep=5)
    kill(run, "saxs", 1.0)
    assert run.started == ["md", "saxs", "keep", "saxs"]
    assert run.state.stages["saxs"].attempt == 2
    assert run.status("saxs") == "starting"
    assert run.state.ends["atoms", "saxs", "read"].steps == 5
    assert run.state.ends["atoms", "saxs", "read"].opened is None
    assert run.state.failed == ()
    run.feed(*run.done("md", 9, 2.0), *run.done("saxs", 9, 3.0), *run.done("keep", 9, 3.0))
    assert verdict_of(run) == ("succeeded", "", "")


def test_two_that_fail_at_once_and_have_nothing_to_do_with_each_other_are_both_started_again() -> None:
    run = Run(restarted("live", ["keep"])).open_all()
    stages = [
        stage.model_copy(update={"restart": stage.restart or RestartPlan(
            times=3, within_s=None, backoff_s=10.0, stages=[stage.name], from_start=False,
        )}) for stage in run.state.plan.stages
    ]  # fmt: skip
    run = Run(run.state.plan.model_copy(update={"stages": stages})).open_all()
    run.steps(atoms_md=9, atoms_saxs=5, pattern_saxs=5, pattern_keep=5)
    run.feed(StageExited(1.0, "saxs", None, signal.SIGKILL), StageExited(1.0, "keep", None, signal.SIGKILL)).tick(1.5)
    assert {each.stage for each in run.decisions(RestartDecided)} == {"saxs", "keep"}
    assert run.state.stopping is None


def test_what_is_not_started_again_any_more_may_be_ignored() -> None:
    plan = restarted("live", ["keep"], times=1, backoff_s=0.0, then="ignore")
    stages = [each.model_copy(update={"optional": each.restart is not None}) for each in plan.stages]
    run = Run(plan.model_copy(update={"stages": stages})).open_all()
    kill(run, "keep", 1.0)
    assert [each.stage for each in run.decisions(RestartDecided)] == ["keep"]
    run.feed(StageStarted(1.1, "keep", 7))
    kill(run, "keep", 2.0).tick(2.5)
    (ignored,) = run.decisions(StageIgnored)
    assert (ignored.stage, ignored.why) == ("keep", "it was started again 1 time: `on_failure.times` is 1")
    assert run.state.stopping is None
    run.feed(*run.done("md", 9, 3.0), *run.done("saxs", 9, 3.0))
    assert verdict_of(run) == ("succeeded", "", "")


def test_without_a_rule_the_run_stops() -> None:
    run = Run(chain("live")).open_all()
    kill(run, "saxs", 1.0).tick(1.5)
    assert run.state.stopping is not None
    assert not run.decisions(RestartDecided)


def test_what_is_joined_to_it_is_ended_and_started_with_it() -> None:
    run = Run(restarted("sst", ["saxs", "keep"])).open_all().steps(atoms_md=5, pattern_saxs=4, pattern_keep=3)
    kill(run, "saxs", 1.0)
    assert run.ended == [(1.0, "saxs"), (1.0, "keep")], "a launcher may have left ranks"
    assert run.started == ["md", "saxs", "keep"], "keep has not ended yet"
    kill(run, "keep", 1.2)
    assert run.started[3:] == ["saxs", "keep"]
    assert {run.state.stages[name].attempt for name in ("saxs", "keep")} == {2}
    assert run.state.stages["md"].attempt == 1


def test_a_reader_that_fails_first_does_not_hide_its_writer() -> None:
    """keep notices that saxs is gone before the end of saxs is known; only saxs has a rule."""
    run = Run(restarted("sst", ["saxs", "keep"])).open_all().steps(atoms_md=5, pattern_saxs=4, pattern_keep=3)
    run.feed(StreamTrouble(1.0, "pattern", "keep", "failed", "the writer died"), StageExited(1.0, "keep", 1, None))
    assert not run.decisions(RestartDecided)
    kill(run, "saxs", 1.1)
    (decided,) = run.decisions(RestartDecided)
    assert isinstance(decided, RestartDecided)
    assert (decided.stage, decided.stages) == ("saxs", ["saxs", "keep"])


def test_another_failure_stops_the_run() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=5)
    run.feed_together(StageExited(1.0, "md", 1, None), StageExited(1.0, "saxs", 1, None))
    run.tick(3.0)
    end_all(run, 3.0)
    assert verdict_of(run)[:2] == ("failed", "md")


def test_the_second_restart_waits_and_the_fourth_is_none() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=1)
    kill(run, "saxs", 1.0)
    for number, t in ((2, 20.0), (3, 60.0)):
        run.feed(StreamProgress(t, "atoms", "saxs", "read", number, 0))
        kill(run, "saxs", t)
        assert run.status("saxs") == "restarting"
        assert wake_at(run.state) == t + 10.0
        run.tick(t + 9.9)
        assert run.status("saxs") == "restarting"
        run.tick(t + 10.0)
        assert run.status("saxs") == "starting"
    kill(run, "saxs", 90.0).tick(91.0)
    end_all(run, 91.0)
    assert "it was not started again: it was started again 3 times: `on_failure.times` is 3" in run.verdict.reason
    assert "skips" not in run.verdict.reason


def test_only_the_restarts_within_a_time_count() -> None:
    run = live(times=1, within_s=30.0).steps(atoms_md=9, atoms_saxs=1)
    kill(run, "saxs", 1.0)
    run.feed(StreamProgress(40.0, "atoms", "saxs", "read", 2, 0))
    kill(run, "saxs", 40.0).tick(50.0)
    assert run.state.stages["saxs"].attempt == 3
    run.feed(StreamProgress(51.0, "atoms", "saxs", "read", 3, 0))
    kill(run, "saxs", 52.0).tick(53.0)
    end_all(run, 53.0)
    assert "it was started again 1 time within 30.0 s" in run.verdict.reason


def test_a_crash_in_the_same_step_is_not_tried_a_third_time() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=4, pattern_saxs=4)
    run.feed(StageExited(1.0, "saxs", 1, None)).tick(1.5)
    assert run.state.stages["saxs"].attempt == 2
    run.feed(StageExited(2.0, "saxs", 1, None)).tick(3.0)
    end_all(run, 3.0)
    ended = "saxs ended with exit code 1; it was not started again: it failed twice at step 4; 5 of 9 steps"
    assert run.verdict.reason.startswith(ended)


def skipping(**rule: object) -> Run:
    """saxs has failed twice at step 4, and may skip it."""
    run = live(same_step="skip", **rule).steps(atoms_md=9, atoms_saxs=4, pattern_saxs=4)
    run.feed(StageExited(1.0, "saxs", 1, None)).tick(1.5)
    run.feed(StreamOpened(1.6, "atoms", "saxs", "read"))
    return run.feed(StageExited(2.0, "saxs", 1, None)).tick(3.0)


def test_a_step_that_ends_it_twice_can_be_skipped() -> None:
    run = skipping()
    first, second = run.decisions(RestartDecided)
    assert isinstance(first, RestartDecided)
    assert isinstance(second, RestartDecided)
    assert (first.skips, second.skips) == (None, 4)
    assert restart_text(second) == (
        "saxs: ended with exit code 1, a second time at step 4; it is started again in 10.0 s, without this step"
    )
    state = fold(run.state, [StagesRestarted(13.0, ["saxs"], 3, 5, {}, {"saxs": [4]})])
    assert state.skipped == {"saxs": [4]}
    assert present_warnings(state) == ["saxs: step 4 was skipped: ended with exit code 1 both times"]


def test_a_step_is_skipped_once() -> None:
    run = skipping().tick(13.0)
    run.feed(StreamOpened(14.0, "atoms", "saxs", "read"), StageExited(15.0, "saxs", 1, None)).tick(16.0)
    end_all(run, 16.0)
    assert "it failed at step 4, which it was to skip" in run.verdict.reason


def test_the_next_step_has_two_chances_of_its_own() -> None:
    run = skipping().tick(13.0)
    run.feed(StreamOpened(14.0, "atoms", "saxs", "read"), StreamProgress(14.0, "atoms", "saxs", "read", 5, 0))
    run.feed(StageExited(15.0, "saxs", 1, None)).tick(16.0)
    assert [each.skips for each in run.decisions(RestartDecided) if isinstance(each, RestartDecided)] == [None, 4, None]


def test_where_skipped_steps_have_used_up_the_restarts_more_of_them_are_named() -> None:
    run = skipping(times=2).tick(13.0)
    run.feed(StreamOpened(14.0, "atoms", "saxs", "read"), StreamProgress(14.0, "atoms", "saxs", "read", 7, 0))
    run.feed(StageExited(15.0, "saxs", 1, None)).tick(16.0)
    end_all(run, 16.0)
    hint = "each step that it skips takes two of them: `--set stages.saxs.on_failure.times=4` allows more"
    assert f"`on_failure.times` is 2; {hint}" in run.verdict.reason


def test_one_restart_is_too_few_to_skip_a_step() -> None:
    run = skipping(times=1).tick(4.0)
    end_all(run, 4.0)
    assert "`--set stages.saxs.on_failure.times=2` allows more" in run.verdict.reason


@pytest.mark.parametrize(("opened", "read"), [(False, 0), (True, 9)])
def test_what_fails_before_the_first_step_or_after_the_last_has_none_to_skip(opened: bool, read: int) -> None:
    run = live(same_step="skip").steps(atoms_md=9, atoms_saxs=read, pattern_saxs=read)
    for t in (1.0, 2.0):
        if opened:
            run.feed(StreamOpened(t - 0.1, "atoms", "saxs", "read"))
        run.feed(StageExited(t, "saxs", 1, None)).tick(t + 0.5)
    end_all(run, 3.0)
    assert f"it failed twice at step {read}" in run.verdict.reason


def test_a_signal_from_outside_has_nothing_to_do_with_the_step() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=4, pattern_saxs=4)
    kill(run, "saxs", 1.0)
    kill(run, "saxs", 2.0).tick(12.0)
    assert run.state.stages["saxs"].attempt == 3


def test_a_crash_after_a_signal_from_outside_is_tried_again() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=4, pattern_saxs=4)
    kill(run, "saxs", 1.0)
    run.feed(StageExited(2.0, "saxs", None, signal.SIGSEGV)).tick(2.5).tick(13.0)
    assert run.state.stages["saxs"].attempt == 3
    run.feed(StageExited(14.0, "saxs", 1, None)).tick(15.0)
    end_all(run, 15.0)
    assert "it failed twice at step 4; the time before, it was killed by signal 11" in run.verdict.reason


def test_the_step_deadline_ends_it_for_that() -> None:
    plan = restarted("live", ["saxs"])
    plan = plan.model_copy(update={"deadlines": plan.deadlines.model_copy(update={"step": 5.0})})
    run = Run(plan).open_all().steps(atoms_md=9, atoms_saxs=4, pattern_saxs=4, pattern_keep=4)
    run.feed(StreamProgress(5.5, "atoms", "md", "write", 20, 0)).tick(12.0).tick(12.5)
    assert run.decisions(DeadlinePassed)
    assert not run.decisions(StopRequested)
    assert run.ended == [(12.5, "saxs")]
    run.tick(13.0).tick(20.0)
    assert run.status("saxs") == "restarting", "it is ended once"
    kill(run, "saxs", 20.6)
    assert run.status("saxs") == "starting"


def test_who_waits_for_a_stage_that_was_started_again_gives_it_time() -> None:
    """saxs hangs before it opens its streams; keep has waited for it as long as that."""
    plan = restarted("live", ["saxs"])
    plan = plan.model_copy(update={"deadlines": plan.deadlines.model_copy(update={"start": 10.0})})
    run = Run(plan)
    run.feed(StreamOpening(0.1, "atoms", "md", "write"), StreamOpened(0.2, "atoms", "md", "write"))
    run.feed(StreamOpening(0.3, "pattern", "keep", "read")).tick(10.2)
    kill(run, "saxs", 10.5)
    assert run.status("saxs") == "starting"
    run.tick(11.0).tick(20.4)
    assert len(run.decisions(DeadlinePassed)) == 1
    run.tick(20.8)
    assert len(run.decisions(DeadlinePassed)) == 2, "its second attempt has had its time"


def test_ctrl_c_while_it_waits_ends_the_run() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=1)
    kill(run, "saxs", 1.0)
    run.feed(StreamProgress(2.0, "atoms", "saxs", "read", 2, 0))
    kill(run, "saxs", 2.0)
    run.feed(Interrupted(3.0, "SIGINT"))
    end_all(run, 4.0)
    assert run.verdict.state == "interrupted"
    assert run.status("saxs") == "stopped"
    assert run.started.count("saxs") == 2


def spooled() -> Run:
    """The chain by SST; atoms has a spool, of which saxs and keep are independent."""
    plan = restarted("sst", ["saxs", "keep"])
    atoms = plan.streams[0].model_copy(update={"spool": "atoms-spool", "readers": ["saxs", "atoms-spool"]})
    spool = make_stage(
        "atoms-spool", ["relay"], [make_end("atoms", "read"), make_end("atoms-spool", "write", "live")],
        added="spool", optional=True,
    )  # fmt: skip
    kept = make_stream("atoms-spool", "atoms-spool", [], "live")
    streams, stages = [atoms, plan.streams[1], kept], [*plan.stages, spool]
    run = Run(plan.model_copy(update={"streams": streams, "stages": stages})).open_all()
    return run.steps(atoms_md=5, atoms_saxs=4, **{"atoms_atoms-spool": 5}, pattern_saxs=4, pattern_keep=4)


def test_a_reader_of_the_spool_does_not_outlive_it() -> None:
    run = spooled()
    kill(run, "saxs", 1.0)
    kill(run, "keep", 1.1)
    assert run.state.ends["atoms", "saxs", "read"].from_spool
    assert run.state.stopping is None
    kill(run, "atoms-spool", 3.0)
    end_all(run, 3.5)
    assert run.verdict.stage == "atoms-spool"
    assert "and saxs reads its steps from there" in run.verdict.reason


def test_a_writer_that_has_ended_before_its_reader_failed_at_the_last_step_has_lost_nothing() -> None:
    """Both exits are found together: what saxs had not taken is in the spool."""
    run = spooled()
    written = StreamProgress(0.9, "atoms", "atoms-spool", "read", 9, 0)
    opened = [StreamOpened(0.5, "atoms", name, "read") for name in ("saxs", "atoms-spool")]
    run.feed_together(*opened, written, *run.done("md", 9, 1.0), StageExited(1.0, "saxs", 1, None))
    run.feed(StageExited(1.1, "keep", 1, None)).tick(2.0)
    assert run.status("md") == "succeeded"
    assert [each.stage for each in run.decisions(RestartDecided) if isinstance(each, RestartDecided)] == ["saxs"]


def test_a_reader_whose_writer_has_given_it_up_is_started_again_from_the_spool() -> None:
    """By the counts alone: a queue of 2 would not have let the writer so far ahead."""
    run = spooled()
    opened = [StreamOpened(0.5, "atoms", name, "read") for name in ("saxs", "atoms-spool")]
    run.feed(*opened, StreamProgress(2.0, "atoms", "md", "write", 20, 0)).tick(2.1 + LEFT_S)
    failed = run.decisions(StageFailed)
    assert [(each.stage, each.reason) for each in failed] == [
        ("saxs", "was lost: 16 of 20 steps of atoms never arrived at saxs; md went on without it")
    ]
    run.tick(20.0)
    assert [each.stage for each in run.decisions(RestartDecided)] == ["saxs"]
    assert run.state.stopping is None, "it is being ended"
    kill(run, "saxs", 21.0)
    kill(run, "keep", 21.0)
    assert run.state.ends["atoms", "saxs", "read"].from_spool


def test_without_restarts_nobody_needs_the_spool() -> None:
    run = spooled()
    kill(run, "atoms-spool", 3.0).tick(10.0)
    assert run.state.stopping is None
    kill(run, "saxs", 11.0).tick(12.0)
    assert "it was not started again: atoms-spool, which kept its steps, has failed" in run.state.reason


def test_a_writer_that_ends_meanwhile_has_lost_nothing() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=1)
    kill(run, "saxs", 1.0)
    run.feed(StreamProgress(2.0, "atoms", "saxs", "read", 2, 0))
    kill(run, "saxs", 2.0)
    run.feed(*run.done("md", 9, 3.0))
    assert run.status("md") == "succeeded"
    assert run.state.stopping is None


@pytest.mark.parametrize("exited", [False, True])
def test_a_stage_that_follows_and_has_begun_forbids_it(exited: bool) -> None:
    plan = restarted("live", ["saxs"])
    keep = plan.stage("keep").model_copy(update={"starts_after": ["saxs"]})
    plan = plan.model_copy(update={"stages": [*plan.stages[:2], keep]})
    run = Run(plan).open_all().steps(atoms_md=9, atoms_saxs=1)
    if exited:
        begun = replace(run.state.stages["keep"], started=0.5)
        run.state = replace(run.state, stages={**run.state.stages, "keep": begun})
    kill(run, "saxs", 1.0).tick(2.0)
    assert (run.state.stopping is not None) is exited
    assert ("keep reads its output, and has already begun" in run.state.reason) is exited


def test_the_records_alone_lead_to_the_same_state() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=5)
    facts = [event for event in run.decided if not isinstance(event, RestartDecided)]
    kill(run, "saxs", 1.0)
    decided = run.decisions(RestartDecided)
    events = [*facts, *decided, StagesRestarted(1.0, ["saxs"], 2, 5)]
    state = fold(initial_state(run.state.plan), events)
    assert state.stages["saxs"].attempt == 2
    assert state.restarting == ()
    assert state.ends["atoms", "saxs", "read"].steps == 5
    assert [each.first_step for each in state.attempts] == [5]


def begun(run: Run, stages: list[str], first: int, t: float = 5.0, attempt: int = 2) -> RunState:
    """The state when the next attempt of these stages has begun."""
    decided = RestartDecided(4.0, stages[0], stages, "failed", first, 4.0)
    return fold(run.state, [decided, StagesRestarted(t, stages, attempt, first)])


def test_an_attempt_begins_as_before_the_start_but_for_what_was_finished() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=5, pattern_saxs=5)
    run.feed(StreamOpening(0.5, "atoms", "saxs", "read"))
    state = begun(run, ["saxs"], 4)
    stage, read = state.stages["saxs"], state.ends["atoms", "saxs", "read"]
    assert (stage.name, stage.status, stage.attempt, stage.began) == ("saxs", "starting", 2, 0.0)
    assert (stage.started, stage.pid, stage.killed) == (None, None, False)
    assert (read.steps, read.bytes, read.next_written, read.reported) == (4, 32, 5.0, True)
    written = state.ends["pattern", "saxs", "write"]
    assert (written.next_written, written.bytes) == (None, 32)
    assert [each.attempt for each in state.attempts] == [2]
    again = fold(state, [StageStarted(6.0, "saxs", 1), RestartDecided(7.0, "saxs", ["saxs"], "failed", 4, 7.0)])
    assert again.stages["saxs"].killed, "it runs, and is ended"
    again = fold(again, [StagesRestarted(8.0, ["saxs"], 3, 4)])
    assert again.stages["saxs"].began == 0.0, "the start of the first attempt"
    assert [each.attempt for each in again.attempts] == [2, 3]


def test_an_end_may_begin_at_a_step_of_its_own() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=5, pattern_saxs=5)
    decided = RestartDecided(4.0, "saxs", ["saxs"], "failed", 2, 4.0)
    begun = StagesRestarted(5.0, ["saxs"], 2, 2, {"saxs": {"pattern": 5}, "keep": {"atoms": 1}})
    ends = fold(run.state, [decided, begun]).ends
    assert (ends["atoms", "saxs", "read"].steps, ends["pattern", "saxs", "write"].steps) == (2, 5)


def test_nothing_was_finished() -> None:
    state = begun(live().steps(atoms_md=2), ["saxs"], 0)
    read = state.ends["atoms", "saxs", "read"]
    assert (read.steps, read.bytes, read.next_written) == (0, 0, 5.0)


def test_a_reader_that_has_taken_all_waits_for_nothing() -> None:
    state = begun(live().steps(atoms_md=4, atoms_saxs=4, pattern_saxs=4), ["saxs"], 4)
    assert state.ends["atoms", "saxs", "read"].next_written is None


def test_a_stage_that_was_done_belongs_to_the_run_again() -> None:
    run = Run(restarted("sst", ["saxs", "keep"], "keep")).open_all()
    run.feed(*run.done("md", 3, 1.0), *run.done("saxs", 3, 1.0))
    before = replace(run.state.stages["saxs"], status="succeeded")
    run.state = replace(run.state, stages={**run.state.stages, "saxs": before}, going=frozenset({"keep"}))
    state = fold(run.state, [RestartDecided(4.0, "keep", ["saxs", "keep"], "failed", 2, 4.0)])
    assert state.going == {"saxs", "keep"}
    assert not state.stages["saxs"].killed, "it has ended"


def test_what_was_found_of_its_streams_is_forgotten() -> None:
    run = live().steps(atoms_md=9, atoms_saxs=5)
    key: EndKey = ("atoms", "saxs", "read")
    other: EndKey = ("pattern", "keep", "read")
    known = {each: Behind(1, 1.0) for each in (key, other)}
    run.state = replace(run.state, behind=known, timeouts=(key, other))
    state = begun(run, ["saxs"], 4)
    assert set(state.behind) == {other}
    assert state.timeouts == (other,)


@pytest.mark.parametrize(
    ("writer", "reader", "together", "late"),
    [(True, True, False, True), (True, False, False, True), (False, True, False, True), (False, False, False, False),
     (True, True, True, False)],
)  # fmt: skip
def test_a_spool_is_read_by_who_comes_late(writer: bool, reader: bool, together: bool, late: bool) -> None:
    run = spooled()
    ends = dict(run.state.ends)
    openings: dict[EndKey, bool] = {("atoms", "md", "write"): writer, ("atoms", "saxs", "read"): reader}
    for key, opened in openings.items():
        ends[key] = replace(ends[key], opened=1.0 if opened else None)
    run.state = replace(run.state, ends=ends)
    stages = ["md", "saxs", "keep"] if together else ["saxs", "keep"]
    state = begun(run, stages, 2)
    assert state.ends["atoms", "saxs", "read"].from_spool is late
    assert not state.ends["pattern", "keep", "read"].from_spool
    if late:
        state = fold(state, [StagesRestarted(9.0, stages, 3, 2)])
        assert state.ends["atoms", "saxs", "read"].from_spool, "nor does it come earlier the next time"


@pytest.mark.parametrize(("came_to", "checked"), [(5, 6), (6, 6), (8, None)])
def test_a_step_that_no_attempt_has_left_out_yet_is_checked_again(came_to: int, checked: int | None) -> None:
    """An attempt that is killed before it comes to the step has not found out whether its output is there already."""
    state = initial_state(restarted("live", ["saxs"]))
    decided = [
        RestartDecided(1.0, "saxs", ["saxs"], "exit 1", 6, 1.0),
        RestartDecided(2.0, "saxs", ["saxs"], "exit 1", 6, 2.0, False, 6),
        RestartDecided(3.0, "saxs", ["saxs"], "killed", came_to, 3.0, True),
    ]
    state = replace(state, restarts=tuple(decided), skipped={"saxs": [6]})
    read = to_attempt(state.plan.stage("saxs"), state, {}).ends[0]
    assert (read.side, read.skipped, read.skips_now) == ("read", [6], checked)
