"""One event more: what changes in the state, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from tests.support.chains import chain, make_end, make_plan, make_stage, make_stream
from workflow.plan.plan_model import FOLLOW, FROM_FILE, Plan
from workflow.run.state.events import (
    AllocationReceived,
    Cleaned,
    Event,
    Interrupted,
    NodeLost,
    NodeRanks,
    NodeSeen,
    NodeSilent,
    ProofTaken,
    RanksEnded,
    RecordsLost,
    Requested,
    RunStarted,
    SchedulerSaid,
    StageCut,
    StageExited,
    StagesRestarted,
    StageStarted,
    StageSteered,
    StageSuspended,
    StageWorked,
    StopPlanned,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTransport,
    StreamTrouble,
    StreamWaiting,
    Tick,
    TransportFault,
    Trouble,
)
from workflow.run.state.lifecycle_events import (
    RestartDecided,
    RunFinished,
    StageFailed,
    StageIgnored,
    StageOpen,
    StageSilent,
    StageStopped,
    StageSucceeded,
    StopRequested,
)
from workflow.run.state.reducer import CANCELS_S, apply, fold, with_stage
from workflow.run.state.run_state import KEPT_WARNINGS, Behind, EndKey, EndState, RunState, initial_state
from workflow.run.verdict.failed_stages import failing_since
from workflow.spec.models.deadlines import Deadlines
from workflow.spec.models.pipeline import Queue

BEGIN: list[Event] = [RunStarted(0.5, "run-1", 1, 77, "here")]


def chained(*events: Event) -> RunState:
    """md → saxs → keep."""
    return fold(initial_state(chain("sst")), [*BEGIN, *events])


def tapped() -> Plan:
    """sim → keep and relay, relay → tap."""
    stages = [
        make_stage("sim", ["x"], [make_end("data", "write", readers=2)]),
        make_stage("keep", ["x"], [make_end("data", "read")]),
        make_stage("relay", ["x"], [make_end("data", "read"), make_end("tap", "write")], added="relay"),
        make_stage("tap", ["x"], [make_end("tap", "read")], added="tap"),
    ]
    return make_plan(stages, [make_stream("data", "sim", ["keep", "relay"]), make_stream("tap", "relay", ["tap"])])


def with_hung_tap(*events: Event) -> RunState:
    """All run; the tap has failed and its process is still there."""
    state = initial_state(tapped())
    started: list[Event] = [event for name in state.stages for event in (StageStarted(1, name, 9), StageOpen(2, name))]
    return fold(state, [*BEGIN, *started, StageFailed(5, "tap", "was ended"), *events])


def end(state: RunState, stream: str, stage: str) -> EndState:
    return next(each for key, each in state.ends.items() if key[:2] == (stream, stage))


def progress(t: float, steps: int, count: int, stage: str = "md") -> StreamProgress:
    return StreamProgress(t, "atoms", stage, "write" if stage == "md" else "read", steps, count)


def test_the_start_of_a_run() -> None:
    state = chained()
    assert (state.run, state.pid, state.host, state.started, state.t) == ("run-1", 77, "here", 0.5, 0.5)


def test_the_time_does_not_go_back() -> None:
    state = chained(Tick(9), Tick(3))
    assert state.t == 9


def test_the_life_of_a_stage() -> None:
    state = chained(StageStarted(1, "md", 42))
    md = state.stages["md"]
    assert (md.status, md.started, md.pid) == ("starting", 1, 42)
    md = apply(state, StageOpen(2, "md")).stages["md"]
    assert (md.status, md.opened) == ("running", 2)
    state = apply(state, StageExited(3, "md", None, 9, "by a signal"))
    md = state.stages["md"]
    assert (md.exited, md.code, md.signal, md.note, md.status) == (3, None, 9, "by a signal", "starting")
    assert apply(state, StageSucceeded(4, "md")).stages["md"].status == "succeeded"
    assert apply(state, StageStopped(4, "md")).stages["md"].status == "stopped"
    assert state.stages["saxs"].status == "waiting"


def test_a_stage_that_starts_while_the_run_stops_is_stopping() -> None:
    state = chained(StopRequested(1, "enough", ""), StageStarted(2, "md", 42))
    assert state.stages["md"].status == "stopping"


def test_the_first_failure_stays_the_first() -> None:
    state = chained(StageFailed(3, "saxs", "exit code 1"), StageFailed(4, "md", "exit code 2"))
    assert failing_since(state) == 3
    assert [(stage.status, stage.reason, stage.failed) for stage in state.stages.values()] == [
        ("failed", "exit code 2", 4), ("failed", "exit code 1", 3), ("waiting", "", None),
    ]  # fmt: skip


def test_failed_stages_are_named_once_and_in_the_order_of_their_failures() -> None:
    events = [StageFailed(3, "saxs", "a"), StageSucceeded(4, "keep"), StageFailed(5, "md", "b")]
    assert chained(*events, StageFailed(6, "saxs", "c")).failed == ("saxs", "md")


def test_a_stage_is_unjudged_between_its_exit_and_its_verdict() -> None:
    state = chained(*(StageStarted(1, name, 9) for name in ("md", "saxs", "keep")), StageExited(2, "saxs", 0, None))
    assert state.unjudged == ("saxs",)
    state = fold(state, [StageExited(3, "keep", 0, None), StageExited(3, "md", 0, None)])
    assert state.unjudged == ("saxs", "keep", "md"), "in the order of the exits"
    assert apply(state, StageFailed(4, "keep", "x")).unjudged == ("saxs", "md")


def test_a_field_of_one_stage_can_be_changed_without_an_event() -> None:
    state = chained()
    assert with_stage(state, "saxs", killed=True).stages == {
        **state.stages, "saxs": replace(state.stages["saxs"], killed=True)
    }  # fmt: skip


def test_events_that_are_found_together_all_count() -> None:
    """One of them does not undo what those before it changed."""
    verdict = RunFinished(9, "failed", 1, "md was killed", "md")
    events = [Interrupted(0.2, "SIGINT"), *BEGIN, Cleaned(8, ["a"]), verdict]
    state = fold(initial_state(chain("sst")), events)
    assert (state.interrupted, state.run, state.cleaned) == ("SIGINT", "run-1", ("a",))
    assert (state.finished, state.reason, state.culprit) == (verdict, "md was killed", "md")


def test_a_tap_that_fails_while_it_hangs_is_no_failure_of_the_run() -> None:
    state = with_hung_tap()
    assert (state.stages["tap"].status, state.stages["tap"].failed, failing_since(state)) == ("failed", 5, None)
    assert failing_since(fold(state, [StageFailed(6, "sim", "exit code 1")])) == 6


def test_a_tap_that_hangs_stays_failed_when_the_run_stops() -> None:
    """It still runs, and all that runs is stopping from then on; its verdict does not change."""
    state = with_hung_tap(StageExited(5, "keep", 0, None), StopRequested(7, "interrupted", "sim"))
    assert {name: stage.status for name, stage in state.stages.items()} == {
        "sim": "stopping", "keep": "running", "relay": "stopping", "tap": "failed",
    }  # fmt: skip
    assert (state.stopping, state.reason, state.culprit, state.rung) == (7, "interrupted", "sim", 0)


def test_a_stop_begins_at_the_first_rung() -> None:
    assert apply(replace(chained(), rung=2), StopRequested(1, "enough", "")).rung == 0


def test_an_interruption_during_a_stop_is_not_its_reason() -> None:
    assert chained(Interrupted(1, "SIGINT")).interrupted == "SIGINT"
    assert chained(StopRequested(1, "enough", ""), Interrupted(2, "SIGINT")).interrupted == ""


def test_what_was_cleaned_is_kept() -> None:
    assert chained(Cleaned(1, ["a", "b"])).cleaned == ("a", "b")


def test_an_end_that_reports_is_seen_from_then_on() -> None:
    hidden = initial_state(chain("sst", plain=True))
    key: EndKey = ("atoms", "md", "write")
    hidden = replace(hidden, ends={**hidden.ends, key: replace(hidden.ends[key], live=False, counted=False)})
    seen = apply(hidden, StreamOpening(1, "atoms", "md", "write")).ends[key]
    assert (seen.opening, seen.live, seen.counted, seen.reported) == (1, True, True, True)


def test_an_end_is_offered_and_opened() -> None:
    state = chained(StreamOffered(1, "atoms", "md"), StreamOpened(2, "atoms", "md", "write"))
    md = end(state, "atoms", "md")
    assert (md.offered, md.opened) == (1, 2)
    assert (end(state, "atoms", "saxs").offered, end(state, "atoms", "saxs").opened) == (None, None)
    state = chained(StreamTransport(3, "atoms", "md", "evpath", "no rdma"))
    assert (end(state, "atoms", "md").plane, end(state, "atoms", "md").plane_why) == ("evpath", "no rdma")


def test_the_first_fault_of_a_stage_is_kept() -> None:
    """Of stages that the plan does not have, nothing is kept."""
    first = TransportFault(1, "md", "misdirected", "one")
    later = [TransportFault(2, "md", "unreachable", "two"), TransportFault(3, "gone", "unreachable", "three")]
    state = chained(first, *later)
    assert {name: stage.fault for name, stage in state.stages.items()} == {"md": first, "saxs": None, "keep": None}


def test_a_second_trouble_does_not_replace_the_first() -> None:
    state = chained(
        StreamTrouble(1, "atoms", "saxs", "timeout", "no step"), StreamTrouble(2, "atoms", "saxs", "failed", "lost")
    )
    assert (end(state, "atoms", "saxs").trouble, end(state, "atoms", "saxs").trouble_text) == ("timeout", "no step")
    others = [each for each in state.ends.values() if (each.stream, each.stage) != ("atoms", "saxs")]
    assert {each.trouble for each in others} == {None}


@pytest.mark.parametrize(
    ("stage", "trouble", "expected"),
    [
        ("saxs", "timeout", (("atoms", "saxs", "read"),)),
        ("saxs", "failed", ()),
        ("md", "timeout", ()),
    ],
)  # fmt: skip
def test_only_readers_that_waited_too_long_are_timeouts(
    stage: str, trouble: Trouble, expected: tuple[EndKey, ...]
) -> None:
    assert chained(StreamTrouble(1, "atoms", stage, trouble, "x")).timeouts == expected


def test_timeouts_of_several_readers_are_all_kept() -> None:
    state = chained(*(StreamTrouble(1, *end, "timeout", "x") for end in (("atoms", "saxs"), ("pattern", "keep"))))
    assert state.timeouts == (("atoms", "saxs", "read"), ("pattern", "keep", "read"))


def waits(t: float, steps: int = 0, waits: bool = True) -> StreamWaiting:
    return StreamWaiting(t, "atoms", "saxs", "read", steps, waits)


@pytest.mark.parametrize(
    ("events", "since"),
    [
        ([waits(4)], 4),
        ([waits(4), waits(5, waits=False)], None),
        ([waits(4), StreamOpened(5, "atoms", "saxs", "read")], None),
        ([waits(4), progress(5, 1, 8, "saxs")], None),
        ([progress(3, 1, 8, "saxs"), waits(4, 1), progress(5, 1, 9, "saxs")], 4),  # bytes of the same step
        ([progress(3, 1, 8, "saxs"), waits(4, 0)], None),  # an old report: the end has moved since
        ([progress(3, 1, 8, "saxs"), waits(4, 1), waits(5, 0, waits=False)], 4),
    ],
)
def test_an_end_waits_from_the_report_of_a_call_until_it_returns(events: list[Event], since: float | None) -> None:
    state = chained(*events)
    assert end(state, "atoms", "saxs").waiting == since
    assert {each.waiting for key, each in state.ends.items() if key[:2] != ("atoms", "saxs")} == {None}


def test_the_first_wait_sets_the_time_to_look_for_a_deadlock() -> None:
    assert chained(waits(4, waits=False)).deadlock_check is None
    assert chained(waits(4), waits(9)).deadlock_check == 4
    assert apply(replace(chained(), deadlock_check=7), waits(4)).deadlock_check == 7


def test_a_silent_stage_is_silent_until_its_next_step() -> None:
    """More bytes of the same step are no sign that it goes on."""
    silence = StageSilent(9, "md", 1.0, "md computes")
    state = chained(progress(1, 3, 24), silence, progress(10, 3, 30), progress(11, 1, 8, "saxs"))
    assert (state.stages["md"].silence, state.stages["saxs"].silence) == (silence, None)
    state = apply(state, progress(12, 4, 40))
    assert (state.stages["md"].silence, state.warnings) == (None, (silence,))


def test_the_newest_warnings_are_kept() -> None:
    warnings: list[StageSilent | RecordsLost] = []
    for t in range(KEPT_WARNINGS):
        warnings += [StageSilent(t, "md", 0.0, "md computes"), RecordsLost(t, "saxs", "disk full")]
    assert chained(*warnings[:3]).warnings == tuple(warnings[:3])
    assert chained(*warnings[:-1]).warnings == tuple(warnings[KEPT_WARNINGS - 1 : -1])
    assert chained(*warnings).warnings == tuple(warnings[KEPT_WARNINGS:])


def test_a_stage_that_loses_its_records_is_not_expected_to_report_what_it_opens() -> None:
    """What it has begun to open is still watched, and so are all other stages."""
    state = chained(StreamOpening(1, "atoms", "saxs", "read"), RecordsLost(2, "saxs", "disk full"))
    seen = {(end.stream, end.stage): (end.live, end.counted) for end in state.ends.values()}
    assert seen == {
        ("atoms", "md"): (True, True), ("atoms", "saxs"): (True, True),
        ("pattern", "saxs"): (False, False), ("pattern", "keep"): (True, True),
    }  # fmt: skip


def test_a_stage_that_is_seen_by_its_log_stays_seen_without_records() -> None:
    state = fold(initial_state(chain("sst", plain=True)), [*BEGIN, RecordsLost(2, "md", "disk full")])
    assert (end(state, "atoms", "md").live, end(state, "atoms", "md").counted) == (True, True)


def test_records_that_the_supervisor_loses_change_no_stage() -> None:
    before, lost = chained(), RecordsLost(2, "", "disk full")
    assert apply(before, lost) == replace(before, t=2, warnings=(lost,))


@pytest.mark.parametrize("limits", [{"start": 40.0}, {"warn": 40.0}, {"step": 40.0}])
def test_deadlines_are_checked_soon_after_a_change(limits: dict[str, float]) -> None:
    """After a twentieth of the shortest limit: a stage that opens a stream may have got another deadline."""
    deadlines = Deadlines.model_validate({"start": 100.0, "warn": 100.0, "step": 100.0} | limits)
    plan = chain("sst").model_copy(update={"deadlines": deadlines})
    state = replace(initial_state(plan), checked=50.0, next_deadline=90.0)
    assert apply(state, StageStarted(51, "md", 9)).next_deadline == 52.0
    assert apply(state, StreamOpened(51, "atoms", "md", "write")).next_deadline == 52.0
    assert apply(replace(state, next_deadline=51.5), StageStarted(51, "md", 9)).next_deadline == 51.5
    assert apply(state, progress(51, 3, 24)).next_deadline == 90.0, "a step only puts deadlines off"


def test_steps_and_bytes_never_shrink() -> None:
    state = chained(progress(3, 4, 400), progress(4, 5, 100), progress(5, 2, 900))
    md = end(state, "atoms", "md")
    assert (md.steps, md.bytes, md.last_step) == (5, 900, 4)


def test_bytes_that_grow_without_a_step_are_no_step() -> None:
    """Ranks that read in parallel add up their bytes in the end."""
    state = chained(progress(3, 4, 400), progress(4, 4, 400, "saxs"), progress(8, 4, 900), progress(9, 4, 950, "saxs"))
    md, saxs = end(state, "atoms", "md"), end(state, "atoms", "saxs")
    assert (md.steps, md.bytes, md.last_step) == (4, 900, 3)
    assert (saxs.bytes, saxs.last_step, saxs.next_written) == (950, 4, 3)


def test_progress_that_is_none_changes_nothing() -> None:
    state = chained(progress(3, 4, 400))
    assert apply(state, progress(9, 4, 400)) == replace(state, t=9)
    assert apply(state, progress(9, 3, 300)) == replace(state, t=9)


def test_a_reader_is_due_from_the_first_step_that_is_written_after_its_last_one() -> None:
    state = chained(progress(3, 1, 8), progress(4, 2, 16))
    assert end(state, "atoms", "saxs").next_written == 3
    state = fold(state, [progress(5, 1, 8, "saxs"), progress(6, 3, 24), progress(7, 4, 32)])
    assert end(state, "atoms", "saxs").next_written == 6
    assert end(state, "atoms", "md").next_written is None
    same = fold(state, [progress(8, 2, 16, "saxs"), progress(8, 5, 40), progress(9, 6, 48)])
    assert end(same, "atoms", "saxs").next_written == 9, (
        "what was written at the time of its last step may be that step"
    )


def test_a_reader_makes_nobody_due() -> None:
    state = chained(progress(3, 1, 8, "saxs"))
    assert {each.next_written for each in state.ends.values()} == {None}


def test_a_close_counts_what_was_not_reported_before() -> None:
    state = chained(progress(3, 4, 400), StreamClosed(7, "atoms", "md", "write", 6, True, 600))
    md = end(state, "atoms", "md")
    assert (md.closed, md.complete, md.steps, md.bytes, md.last_step) == (7, True, 6, 600, 7)
    assert end(state, "atoms", "saxs").next_written == 3
    assert not end(chained(StreamClosed(7, "atoms", "md", "write", 0, False)), "atoms", "md").complete


@pytest.mark.parametrize(
    "event",
    [
        StageStarted(9, "other", 1), StageOpen(9, "other"), StreamOpened(9, "other", "md", "write"),
        StreamOpened(9, "atoms", "keep", "read"), StreamProgress(9, "other", "md", "write", 3, 3),
        StreamTrouble(9, "other", "md", "failed", "x"), StreamClosed(9, "other", "md", "write", 3, True),
        StreamWaiting(9, "other", "md", "write", 0, True),
    ],
)  # fmt: skip
def test_what_the_plan_does_not_have_changes_only_the_time(event: Event) -> None:
    state = chained()
    assert apply(state, event) == replace(state, t=9)


def test_since_when_the_run_fails_follows_from_the_stages_that_failed() -> None:
    """Nothing has to note it: the state says it of the first failure without which the others do not go on."""
    state = with_hung_tap()
    failed = replace(state.stages["sim"], status="failed", failed=6)
    assert failing_since(replace(state, stages={**state.stages, "sim": failed}, failed=("tap", "sim"))) == 6


STOP = StopRequested(6.0, "saxs failed", "saxs")


def test_what_the_run_was_given_and_when_it_is_to_stop() -> None:
    received, said = AllocationReceived(1, "slurm", "17", 2, 100.0), SchedulerSaid(2, "17", "RUNNING")
    state = chained(received, StopPlanned(1, 90.0, 100.0), said)
    assert (state.allocation, state.stop_at, state.ends_at, state.scheduler) == (received, 90.0, 100.0, said)


def test_a_run_is_proving_until_the_proof_is_taken() -> None:
    proof = ProofTaken(3, "proved", 2, 4, 0.5)
    proving = fold(initial_state(chain("sst")), [RunStarted(0.5, "run-1", 1, 77, "here", proves=True)])
    assert (proving.proving, proving.proof) == (True, None)
    proved = apply(proving, proof)
    assert (proved.proving, proved.proof) == (False, proof)
    assert chained(proof).run == "run-1", "what was taken together with it counts too"


def test_nodes_are_silent_until_they_are_seen_or_lost() -> None:
    silent = chained(NodeSilent(2, 0, "a"), NodeSilent(3, 1, "b"))
    assert {*silent.silent} == {0, 1}
    assert {*apply(silent, NodeSeen(4, 0, "a")).silent} == {1}
    lost = NodeLost(5, 1, "b", 10.0, "md")
    later = fold(silent, [lost, NodeLost(6, 0, "a", 10.0, "saxs")])
    assert (later.silent, later.lost[0], len(later.lost)) == ({}, lost, 2)
    assert chained(lost).run == "run-1"


@pytest.mark.parametrize(("request_", "cancelled"), [("stop", True), ("kill", False)])
def test_a_request_is_the_reason_of_a_stop_unless_the_run_stops_already(
    request_: Literal["stop", "kill"], cancelled: bool
) -> None:
    asked = Requested(7, request_, "me on here")
    state = chained(asked)
    assert (state.run, state.interrupted, state.cancelled) == ("run-1", "`wf cancel` (me on here)", cancelled)
    late = chained(STOP, asked)
    assert (late.interrupted, late.cancelled) == ("", False)


@pytest.mark.parametrize(
    ("job", "signal", "cancelled"),
    [("", "SIGINT", True), ("", "SIGTERM", True), ("7", "SIGINT", True), ("7", "SIGTERM", False)],
)
def test_who_ends_what_is_attached_has_seen_enough_but_a_batch_job_is_in_a_hurry(
    job: str, signal: str, cancelled: bool
) -> None:
    plan = chain("sst")
    follow = plan.stages[-1].model_copy(update={"component": FOLLOW})
    attached = initial_state(plan.model_copy(update={"stages": [*plan.stages[:-1], follow]}))
    given = AllocationReceived(1, "slurm" if job else "local", job, 1)
    assert fold(attached, [given, Interrupted(2, signal)]).cancelled is cancelled
    assert apply(attached, Interrupted(2, "SIGTERM")).cancelled is True, "before it is known what it has"
    assert apply(attached, Requested(2, "stop", "me on here")).interrupted == "`wf detach` (me on here)"
    assert chained(Interrupted(2, signal)).cancelled is False


def test_a_stage_is_suspended_until_it_goes_on() -> None:
    seen = chained(StageStarted(1, "md", 9), StageSuspended(5, "md", suspended=True))
    assert (seen.stages["md"].suspended, seen.stages["saxs"].suspended) == (5, None)
    assert apply(seen, StageSuspended(7, "md", suspended=False)).stages["md"].suspended is None


def test_new_values_add_up_and_those_of_the_file_are_no_news() -> None:
    def steered(stage: str, by: str = "me on here", **new: float) -> StageSteered:
        return StageSteered(3, "1", stage, 4, {}, dict(new), by)

    changed = chained(steered("md", a=1), steered("saxs", a=2), steered("md", b=3), steered("md", FROM_FILE, b=4))
    assert changed.steered == {"md": {"a": 1, "b": 3}, "saxs": {"a": 2}}
    assert chained(steered("other", a=1), steered("other", FROM_FILE, a=1)).steered == {}


def test_only_readers_of_a_stage_that_begins_anew_are_not_awaited() -> None:
    """keep reads what saxs writes; saxs goes on, or begins without keep."""
    alone = chained(StagesRestarted(3, ["keep"], 1, 0))
    assert not any(end.not_awaited for end in alone.ends.values())
    without = chained(StagesRestarted(3, ["md", "saxs"], 1, 0))
    assert [key for key, end in without.ends.items() if end.not_awaited] == [("pattern", "keep", "read")]
    files = fold(initial_state(chain("after")), [*BEGIN, StagesRestarted(3, ["md", "saxs"], 1, 0)])
    assert not any(end.not_awaited for end in files.ends.values()), "a file waits for nobody"


def test_a_restart_goes_on_without_a_stage_that_is_ignored() -> None:
    decided = RestartDecided(3, "saxs", ["md", "saxs"], "why", 5, 4.0, skips=5)
    left = chained(decided, StageIgnored(4, "md")).restarting
    assert left == (replace(decided, stages=["saxs"]),), "what failed at the step skips it all the same"
    assert chained(decided, StageIgnored(4, "saxs")).restarting == (replace(decided, stages=["md"], skips=None),)
    assert chained(decided, StageIgnored(4, "keep")).restarting == (decided,)
    assert chained(decided, StageIgnored(4, "saxs"), StageIgnored(4, "md")).restarting == ()
    again = replace(decided, t=6)
    assert chained(decided, again).restarting == (again,)


def test_after_the_verdict_only_lost_records_count() -> None:
    verdict = RunFinished(9, "succeeded", 0, "", "")
    lost = RecordsLost(10, "", "no space")
    state = chained(verdict, lost, progress(11, 3, 300), Cleaned(12, ["a"]))
    assert (state.t, state.finished, state.cleaned, state.warnings) == (10, verdict, (), (lost,))
    assert end(state, "atoms", "md").steps == 0
    assert apply(state, progress(11, 3, 300)) == state, "also when the state is taken up again"


def test_what_a_stage_does_without_a_step() -> None:
    silence = StageSilent(4, "md", 3.0, "no step")
    state = chained(StageStarted(1, "md", 9), silence, StageWorked(5, "md"), StageCut(6, "md"))
    assert (state.stages["md"].worked, state.stages["md"].silence, state.stages["md"].cut) == (5, None, True)
    assert not state.stages["saxs"].cut
    assert state.warnings == (silence,)


def test_warnings_about_nodes_are_kept_in_their_order() -> None:
    first, second = (NodeRanks(t, 0, "n1", "md", [(0, 7, "0-3")], "rank 0 of md is on n1") for t in (2.0, 3.0))
    assert chained(first, second).warnings == (first, second)


def test_what_a_launcher_says_of_its_ranks_is_kept_until_the_run_stops() -> None:
    first, second = (
        RanksEnded(3, "md", "killed", "rank 0 was killed"),
        RanksEnded(7, "md", "killed", "rank 1 was killed"),
    )
    state = chained(StageStarted(1, "md", 9), first, STOP, second)
    assert state.stages["md"].said == (first,)
    assert chained(RanksEnded(3, "nobody", "killed", "x")).stages == chained().stages
    assert state.ended_steps == (), "a rank that is killed is not the scheduler's end"


@pytest.mark.parametrize(
    ("t", "kept"), [(5.0, True), (6.0 + CANCELS_S, True), (6.1 + CANCELS_S, False)], ids=["before", "soon", "late"]
)
def test_steps_that_are_cancelled_long_after_a_stop_are_its_consequence(t: float, kept: bool) -> None:
    other = RanksEnded(1, "saxs", "time_limit", "DUE TO TIME LIMIT")
    ended = RanksEnded(t, "md", "cancelled", "CANCELLED AT")
    events = sorted([other, STOP, ended], key=lambda event: event.t)
    assert chained(*events).ended_steps == ((other, ended) if kept else (other,))
    late = RanksEnded(t, "md", "time_limit", "DUE TO TIME LIMIT")
    assert chained(*sorted([STOP, late], key=lambda event: event.t)).ended_steps == (late,)


def test_a_reader_is_behind_while_its_writer_is_further_than_the_queue() -> None:
    queue = chain("sst").stream("atoms").queue
    assert queue is not None
    most, key = queue.limit + 1, ("atoms", "saxs", "read")
    assert chained(progress(3, most, 8)).behind == {}
    behind = chained(progress(3, most, 8), progress(4, most + 1, 9))
    assert behind.behind == {key: Behind(0, 4)}
    assert apply(behind, progress(5, most + 2, 10)).behind == {key: Behind(0, 4)}, "since the first such step"
    assert apply(behind, progress(6, 1, 1, "saxs")).behind == {}, "within its queue again"
    still = fold(behind, [progress(5, most + 4, 10), progress(6, 1, 1, "saxs")])
    assert still.behind == {key: Behind(1, 6)}, "anew since its last step"


@pytest.mark.parametrize("queue", [None, Queue(limit=2, when_full="discard")])
def test_no_reader_is_behind_a_queue_that_does_not_block(queue: Queue | None) -> None:
    plan = chain("sst")
    streams = [each.model_copy(update={"queue": queue}) for each in plan.streams]
    free = initial_state(plan.model_copy(update={"streams": streams}))
    assert fold(free, [*BEGIN, progress(3, 99, 8)]).behind == {}
