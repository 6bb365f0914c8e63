"""The lifecycle without processes: nodes that are lost, steps that never arrive, and what the scheduler says."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Sequence

import pytest

from tests.support.chains import chain
from tests.support.imagined_run import Run, end_all, verdict_of
from workflow.launch.rank_ends import EndCause
from workflow.plan.plan_model import LaunchPlan, Plan
from workflow.run.state.events import (
    Event,
    Interrupted,
    NodeLost,
    NodeSeen,
    NodeSilent,
    RanksEnded,
    SchedulerSaid,
    StageExited,
    StreamClosed,
    StreamOpened,
    StreamProgress,
    StreamTrouble,
)
from workflow.run.verdict.broken_streams import LEFT_S
from workflow.spec.models.pipeline import Queue


def spread(plan: Plan, launcher: str = "srun") -> Plan:
    """Each stage on a node of its own, in the plan's order."""
    stages = []
    for index, stage in enumerate(plan.stages):
        placement = stage.placement.model_copy(update={"nodes": [(index, index + 1)]})
        launch = LaunchPlan(launcher=launcher, executable=launcher)
        stages.append(stage.model_copy(update={"placement": placement, "launch": launch}))
    return plan.model_copy(update={"stages": stages})


def going(steps: int = 10, taken: int = 8, job: str = "") -> Run:
    """md → saxs → keep, each on its own node, some steps on their way."""
    run = Run(spread(chain("sst", stop=20)), job=job).open_all()
    return run.steps(atoms_md=steps, atoms_saxs=taken, pattern_saxs=taken, pattern_keep=taken)


def lost(t: float, node: int, silence_s: float = 10.0) -> NodeLost:
    return NodeLost(t, node, f"n{node + 1}", silence_s, "")


def test_lost_node_is_named_with_its_stages_and_the_steps_that_never_arrived() -> None:
    run = going().feed(lost(20, 1))
    assert run.state.culprit == "saxs"
    reason = (
        "node n2 was lost (no sign of life for 10 s); stage on it: saxs; 2 of 10 steps of atoms never arrived at saxs"
    )
    assert run.state.reason == reason
    end_all(run, 22)
    assert verdict_of(run) == ("failed", "saxs", reason)
    assert run.verdict.cause == "node_lost"
    assert {name: run.status(name) for name in ("md", "saxs", "keep")} == {
        "md": "stopped", "saxs": "failed", "keep": "stopped",
    }  # fmt: skip


def test_writer_that_ended_well_has_failed_when_the_node_of_its_reader_was_lost() -> None:
    run = going().feed(*run_done("md", 10, 15))
    assert run.status("md") == "running", "its reader has not taken all steps"
    run.feed(lost(20, 1))
    assert run.status("md") == "failed"
    assert run.state.stages["md"].reason == "ended with exit code 0, but 2 of 10 steps of atoms never arrived at saxs"
    assert run.state.culprit == "saxs"


def run_done(stage: str, steps: int, t: float) -> list[Event]:
    return [StreamClosed(t, "atoms", stage, "write", steps, True), StageExited(t, stage, 0, None)]


def test_launchers_of_a_lost_node_do_not_hold_up_the_end() -> None:
    """srun waits for ranks on such a node until the scheduler gives the node up, after minutes."""
    run = going().feed(lost(20, 1))
    assert run.signals == [(20, ("md", "keep"), signal.SIGINT), (20, ("saxs",), signal.SIGTERM)]
    run.feed(StageExited(20.5, "md", None, 2), StageExited(20.6, "keep", None, 2)).tick(22.9)
    assert run.ended == []
    run.tick(23.1)
    assert run.ended == [(23.1, "saxs")]
    run.feed(StageExited(23.2, "saxs", None, 9))
    assert run.verdict.t <= 23.3


def test_failure_beside_a_silent_node_waits_for_what_becomes_of_the_node() -> None:
    run = going().feed(NodeSilent(15, 1, "n2"), StageExited(16, "md", 1, None)).tick(20)
    assert run.state.stopping is None
    run.feed(lost(20.5, 1))
    assert (run.state.culprit, run.state.cause) == ("saxs", "node_lost")


def test_failure_beside_a_node_that_was_silent_for_a_moment_is_the_stage_s_own() -> None:
    run = going().feed(NodeSilent(15, 1, "n2"), StageExited(16, "md", 1, None), NodeSeen(17, 1, "n2")).tick(20)
    assert (run.state.culprit, run.state.cause) == ("md", "")


def test_silent_node_of_nobody_delays_nothing() -> None:
    run = going().feed(NodeSilent(15, 3, "n4"), StageExited(16, "md", 1, None)).tick(16.1)
    assert run.state.culprit == "md"


def test_lost_spare_node_ends_nothing() -> None:
    run = going().feed(lost(20, 3)).tick(21)
    assert run.state.stopping is None


def test_node_whose_stages_have_ended_before_it_fell_silent_ends_nothing() -> None:
    run = Run(spread(chain("after"))).feed(StageExited(5, "md", 0, None))
    run.feed(lost(20, 0)).tick(21)
    assert run.state.cause == ""


def lone() -> Run:
    """md, which has no streams, on the first node."""
    plan = spread(chain("after"))
    stage = plan.stages[0].model_copy(update={"ends": []})
    return Run(plan.model_copy(update={"stages": [stage], "streams": []}))


def test_exit_code_0_of_a_stage_on_a_silent_node_proves_nothing_until_the_node_is_lost() -> None:
    """`srun` was seen to return 0 six seconds after the node of its ranks was killed."""
    run = lone().feed(NodeSilent(15, 0, "n1"), StageExited(16, "md", 0, None)).tick(18)
    assert run.status("md") not in ("succeeded", "failed")
    run.feed(lost(20.5, 0))
    assert (run.status("md"), run.state.cause) == ("failed", "node_lost")
    reason = "ended with exit code 0, but node n1 was lost (no sign of life for 10 s)"
    assert run.state.stages["md"].reason == reason


def test_exit_code_0_of_a_stage_on_a_node_that_is_seen_again_counts() -> None:
    run = lone().feed(NodeSilent(15, 0, "n1"), StageExited(16, "md", 0, None), NodeSeen(17, 0, "n1"))
    assert run.status("md") == "succeeded"
    assert run.verdict.state == "succeeded"


def test_exit_code_0_on_a_silent_node_counts_where_the_steps_were_counted() -> None:
    run = Run(spread(chain("after"))).feed(NodeSilent(4, 0, "n1"))
    assert run.state.stages["md"].is_over is False
    run.feed(StreamOpened(4.1, "atoms", "md", "write"), StreamClosed(4.5, "atoms", "md", "write", 10, True))
    assert run.feed(StageExited(5, "md", 0, None)).status("md") == "succeeded"


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_lost_node_is_the_cause_in_whatever_order_its_consequences_are_found(order: Sequence[int]) -> None:
    """The supervisor is told late: others may have failed, and the scheduler may be ending the job."""
    events: list[list[Event]] = [
        [lost(20, 1)],
        [StreamTrouble(19.9, "pattern", "keep", "failed", "its writer died"), StageExited(19.9, "keep", 1, None)],
        [Interrupted(20.1, "SIGTERM")],
        [SchedulerSaid(20.2, "12", "NODE_FAIL", "JobState=NODE_FAIL Reason=NodeDown")],
    ]
    run = going(job="12").feed(NodeSilent(15, 1, "n2"))
    for index in order:
        run.feed(*events[index])
    end_all(run, 23)
    if run.state.finished is None:
        run.tick(40)
    assert (run.verdict.state, run.verdict.stage, run.verdict.cause) == ("failed", "saxs", "node_lost")


def test_counts_prove_that_a_reader_is_gone() -> None:
    """SST has given the reader up: the queue of 2 would not have let the writer so far ahead."""
    run = going(10, 8).feed(StreamProgress(11, "atoms", "md", "write", 11, 0)).tick(30)
    assert run.state.stopping is None, "a step may be in the reader's hands"
    run.feed(StreamProgress(31, "atoms", "md", "write", 12, 0)).tick(31 + LEFT_S)
    assert run.state.stopping is None
    run.feed(StreamProgress(33, "atoms", "md", "write", 30, 0)).tick(31.1 + LEFT_S)
    assert run.state.culprit == "saxs"
    assert run.state.reason == "saxs was lost: 22 of 30 steps of atoms never arrived at saxs; md went on without it"
    # What the writer does until it stops is lost, too: the verdict says what the table of the report says.
    run.feed(StreamProgress(34, "atoms", "md", "write", 67, 0))
    verdict = end_all(run, 36).verdict
    assert verdict.cause == "lost_steps" and run.state.untaken("atoms", "saxs") == 59
    assert verdict.reason == "saxs was lost: 59 of 67 steps of atoms never arrived at saxs; md went on without it"


def test_reader_that_steps_again_was_only_slow_to_be_seen() -> None:
    run = going(10, 8).feed(StreamProgress(31, "atoms", "md", "write", 12, 0))
    run.feed(StreamProgress(33, "atoms", "saxs", "read", 11, 0)).tick(60)
    assert run.state.stopping is None


def test_records_on_a_shared_file_system_may_be_old() -> None:
    run = Run(spread(chain("sst")), visibility_s=35.0).open_all().steps(atoms_md=12, atoms_saxs=3)
    run.tick(35 + LEFT_S - 0.1)
    assert run.state.stopping is None
    run.tick(35 + LEFT_S + 0.1)
    assert run.state.culprit == "saxs"


def test_queue_that_discards_proves_nothing() -> None:
    plan = chain("sst", sink=False)
    queue = Queue.model_validate({"limit": 2, "when_full": "discard"})
    plan = plan.model_copy(update={"streams": [plan.streams[0].model_copy(update={"queue": queue})]})
    run = Run(plan).open_all().steps(atoms_md=50, atoms_saxs=2).tick(60)
    assert run.state.stopping is None


def said(t: float, stage: str, cause: EndCause, words: str = "words", **more: object) -> RanksEnded:
    return RanksEnded(t, stage, cause, words, **more)  # type: ignore[arg-type]


def killed_rank() -> list[list[Event]]:
    """A rank of md was killed on another node: what is found, in the order of each file."""
    return [
        [said(1.0, "md", "killed", "srun: error: n1: task 1: Killed", host="n1", ranks="1", number=9)],
        [said(1.1, "md", "cancelled"), StageExited(1.4, "md", 143, 9, "one of its ranks")],
        [StreamTrouble(1.1, "atoms", "saxs", "failed", "its writer died"), StageExited(1.1, "saxs", 1, None)],
        [StageExited(1.05, "keep", 1, None)],
    ]


@pytest.mark.parametrize(
    "order", [order for order in itertools.permutations(range(4)) if order.index(0) < order.index(1)]
)
def test_killed_rank_of_another_node_is_the_cause_whichever_end_is_found_first(order: Sequence[int]) -> None:
    run = going()
    for index in order:
        run.feed(*killed_rank()[index])
    run.tick(2)
    assert run.state.culprit == "md"
    text = "md was killed by signal 9 (SIGKILL) (rank 1 on n1)"
    assert run.state.reason.startswith(text), run.state.reason
    assert end_all(run, 3).verdict.cause == "killed"


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        ("out_of_memory", "saxs ran out of memory (on n2): `words`"),
        ("cancelled", "saxs was cancelled from outside this run (on n2): `words`"),
        ("time_limit", "saxs was ended by the scheduler at its time limit (on n2): `words`"),
        ("preempted", "saxs was preempted by the scheduler (on n2): `words`"),
        ("node_lost", "saxs lost a node (on n2): `words`"),
    ],
)
def test_what_ended_a_step_is_named_in_its_own_words(cause: EndCause, text: str) -> None:
    run = going(8, 8).feed(
        said(1, "saxs", cause, host="n2"), StageExited(1.2, "saxs", 143, 15), StageExited(1.2, "md", 1, None)
    )
    assert (run.state.culprit, run.state.reason) == ("saxs", text)
    assert end_all(run, 2).verdict.cause == cause


def test_rank_that_was_killed_comes_before_one_that_failed_because_of_it() -> None:
    """The node of rank 0 is nearer to srun than that of rank 1."""
    run = going(8, 8).feed(said(1, "md", "killed", ranks="0", host="n1", number=11))
    run.feed(said(1.2, "md", "killed", ranks="1", host="n2", number=9), StageExited(1.4, "md", 139, 11))
    assert run.state.reason.startswith("md was killed by signal 9 (SIGKILL) (rank 1 on n2)")


def test_rank_that_its_launcher_has_killed_does_not_come_before_the_one_that_failed() -> None:
    run = going(8, 8).feed(said(1, "md", "exited", ranks="0", host="n1", number=3))
    run.feed(said(6.2, "md", "killed", ranks="1", host="n2", number=9), StageExited(6.4, "md", 137, 9)).tick(10)
    assert run.state.reason.startswith("md ended with exit code 3 (rank 0 on n1)")


def test_out_of_memory_is_told_after_the_rank_has_been_killed() -> None:
    run = going(8, 8).feed(said(1, "saxs", "killed", number=9), said(1.1, "saxs", "out_of_memory", "oom"))
    run.feed(StageExited(1.2, "saxs", 137, 9))
    assert run.state.reason == "saxs ran out of memory: `oom`"


@pytest.mark.parametrize(
    ("state", "verdict", "exit_code", "text"),
    [
        ("CANCELLED", "interrupted", 130, "job 12 was cancelled: the scheduler says `raw`"),
        ("COMPLETING, TimeLimit", "failed", 1, "job 12 reached its time limit: the scheduler says `raw`"),
        ("PREEMPTED", "failed", 1, "job 12 was preempted: the scheduler says `raw`"),
        ("OUT_OF_MEMORY", "failed", 1, "job 12 ran out of memory: the scheduler says `raw`"),
        ("RUNNING", "interrupted", 130, "interrupted by SIGTERM"),
        ("unknown", "interrupted", 130, "interrupted by SIGTERM"),
    ],
)
def test_end_of_the_job_is_named_as_what_it_is(state: str, verdict: str, exit_code: int, text: str) -> None:
    run = going(8, 8, job="12").feed(Interrupted(5, "SIGTERM"))
    assert run.asked == [5]
    end_all(run, 5.2)
    assert run.state.finished is None, "the scheduler has not answered"
    run.feed(SchedulerSaid(5.4, "12", state, "raw"))
    assert (run.verdict.state, run.verdict.exit_code, run.verdict.reason) == (verdict, exit_code, text)


COMPLETING = SchedulerSaid(5.4, "12", "COMPLETING", "JobState=COMPLETING Reason=None")


@pytest.mark.parametrize("order", ["steps first", "signal first"])
@pytest.mark.parametrize(
    ("cause", "verdict", "text"),
    [
        ("cancelled", "interrupted", "job 12 was cancelled"),
        ("time_limit", "failed", "job 12 reached its time limit"),
        ("preempted", "failed", "job 12 was preempted"),
    ],
)
def test_words_about_steps_say_why_a_job_is_being_ended(cause: EndCause, verdict: str, text: str, order: str) -> None:
    """Slurm says only COMPLETING until the supervisor has ended, too."""
    end: list[Event] = [said(5.1, "keep", cause, "slurmstepd says"), StageExited(5.2, "keep", 143, 15)]
    signals: list[Event] = [Interrupted(5.15, "SIGTERM")]
    run = going(8, 8, job="12").feed(*(end + signals if order == "steps first" else signals + end), COMPLETING)
    end_all(run, 5.6)
    reason = f"{text}: `slurmstepd says`, the scheduler says `JobState=COMPLETING Reason=None`"
    assert (run.verdict.state, run.verdict.cause, run.verdict.reason) == (verdict, cause, reason)


def test_steps_that_the_stop_has_cancelled_do_not_say_that_somebody_has() -> None:
    run = going(8, 8, job="12").feed(Interrupted(5, "SIGTERM"), said(8, "keep", "cancelled"))
    run.feed(SchedulerSaid(5.4, "12", "unknown", "down"))
    assert end_all(run, 8.2).verdict.reason == "interrupted by SIGTERM"


def test_cancelled_step_of_a_job_that_goes_on_is_the_step_s_own_end() -> None:
    run = going(8, 8, job="12").feed(said(5, "saxs", "cancelled"), StageExited(5.1, "saxs", 143, 15))
    run.feed(SchedulerSaid(5.4, "12", "RUNNING", "JobState=RUNNING Reason=None"))
    assert end_all(run, 8.2).verdict.stage == "saxs"


def test_scheduler_that_does_not_answer_delays_the_verdict_by_seconds() -> None:
    run = end_all(going(8, 8, job="12").feed(Interrupted(5, "SIGTERM")), 5.2).tick(8.4)
    assert run.state.finished is None
    assert verdict_of(run.tick(8.6)) == ("interrupted", "", "interrupted by SIGTERM")


def test_scheduler_is_asked_once_and_only_inside_a_job() -> None:
    assert end_all(going(8, 8).feed(Interrupted(5, "SIGTERM")), 5.2).asked == []
    run = going(8, 8, job="12").feed(said(4, "saxs", "cancelled"), StageExited(4.1, "saxs", 143, 15))
    assert run.feed(Interrupted(5, "SIGTERM")).asked == [4.1]


def test_job_that_is_ended_by_its_scheduler_stops_in_seconds() -> None:
    """The scheduler sends SIGKILL soon after."""
    run = going(8, 8, job="12").feed(Interrupted(5, "SIGTERM"))
    for t in range(6, 20):
        run.tick(t)
    numbers = [(t, number) for t, _, number in run.signals]
    assert numbers == [(5, signal.SIGINT), (8, signal.SIGTERM), (13, signal.SIGKILL)]


BEFORE_SAXS = "node n2 was lost (no sign of life for 10 s) before saxs was started"


def test_a_node_that_is_lost_while_the_placement_is_proved_ends_the_run_at_once() -> None:
    run = Run(spread(chain("sst")), proves=True).feed(lost(12, 7))
    assert run.state.stopping is None, "nothing is to run there"
    run.feed(lost(13, 1))
    assert run.started == []
    assert verdict_of(run) == ("failed", "saxs", BEFORE_SAXS)
    assert (run.verdict.cause, run.verdict.t) == ("node_lost", 13)


def test_no_stage_is_started_on_a_node_that_was_lost_before() -> None:
    run = Run(spread(chain("after"))).feed(lost(12, 1))
    assert run.state.stopping is None, "md does not need it"
    run.feed(StreamClosed(20, "atoms", "md", "write", 5, True), StageExited(20, "md", 0, None))
    assert run.status("md") == "succeeded"
    assert run.started == ["md"]
    assert verdict_of(run) == ("failed", "saxs", f"{BEFORE_SAXS}; there is no spare node")
    assert run.verdict.cause == "node_lost"
