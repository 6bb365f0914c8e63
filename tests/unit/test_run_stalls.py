"""The lifecycle without processes: seconds in which the supervisor saw nothing, silent nodes, guards that act."""

from __future__ import annotations

import signal

import pytest

from tests.support.chains import chain, make_plan, make_stage
from tests.support.imagined_run import Run, end_all, verdict_of
from tests.unit.test_run_lost_nodes import going, lost, spread
from workflow.plan.plan_model import LaunchPlan, Plan
from workflow.run.state.events import (
    GuardActed,
    LoopPaused,
    NodeSeen,
    NodeSilent,
    RanksEnded,
    Requested,
    StageExited,
    StageKilled,
    StreamOffered,
    StreamProgress,
)
from workflow.run.state.lifecycle_events import StageSilent, StopRequested
from workflow.run.state.node_loss import node_limit
from workflow.run.verdict.failure_origin import doubted_nodes
from workflow.run.verdict.stall_detection import present_warnings

WAITED = (
    "the supervisor saw nothing for 200 s: it waited for a file system, copied large files, or had no CPU; nothing was "
    "ended because of that"
)


def test_a_pause_of_the_supervisor_counts_for_no_step_deadline_and_a_stage_that_hangs_is_still_found() -> None:
    run = Run(chain("sst", step=300, warn=250, run=1e6)).open_all()
    run.t = 100
    run.steps(atoms_md=40, atoms_saxs=40, pattern_saxs=40, pattern_keep=40).tick(300)
    run.feed(LoopPaused(500, 200.0)).tick(500.5).tick(540)
    assert run.state.stopping is None
    assert not run.decisions(StageSilent), "no warning before its 250 s have passed, too"
    run.tick(560)
    assert run.decisions(StageSilent)
    run.tick(599)
    assert run.state.stopping is None
    run.tick(601)
    assert run.state.culprit == "md"
    assert [each.text for each in run.state.warnings if isinstance(each, LoopPaused)] == [WAITED]


def test_steps_that_come_to_light_after_a_pause_count_as_always() -> None:
    run = Run(chain("sst", step=300, run=1e6)).open_all()
    run.t = 100
    run.steps(atoms_md=40, atoms_saxs=40, pattern_saxs=40, pattern_keep=40).tick(300)
    run.feed(LoopPaused(1000, 700.0), StreamProgress(1000, "atoms", "md", "write", 41, 41)).tick(1000.5).tick(1290)
    assert run.state.stopping is None


def test_a_pause_counts_for_no_start_deadline() -> None:
    run = Run(chain("sst", start=10, run=1000)).feed(StreamOffered(1, "atoms", "md"))
    run.feed(LoopPaused(65, 60.0)).tick(69)
    assert run.state.stopping is None
    run.tick(75)
    assert run.state.stopping is not None


def test_a_reader_that_seems_left_behind_right_after_a_pause_is_not_given_up() -> None:
    """The records of the writer came to light first."""
    run = going(steps=10, taken=8)
    run.feed(StreamProgress(20, "atoms", "md", "write", 14, 14))
    assert run.state.behind
    run.feed(LoopPaused(90, 69.0)).tick(90.1)
    assert run.state.stopping is None
    run.tick(95)
    assert run.state.cause == "lost_steps"


def test_a_pause_during_a_stop_kills_nobody_sooner() -> None:
    """What is to end waits for the same file system, and may write its last step then."""
    run = going().feed(Requested(20, "stop", "ada@here"))
    run.tick(21).feed(LoopPaused(90, 69.0)).tick(90.1)
    assert signal.SIGKILL not in {number for _, _, number in run.signals}
    run.tick(109.5)
    assert run.signals[-1][2] == signal.SIGKILL


def test_silence_of_a_node_is_said_after_10_s_with_the_limit() -> None:
    run = going().feed(NodeSilent(25, 1, "n2", 5.0)).tick(29)
    assert present_warnings(run.state) == []
    run.tick(32)
    assert present_warnings(run.state) == ["node n2 is silent since 12 s; it is lost after 10 s (deadlines: node)"]
    run.feed(NodeSeen(51, 1, "n2", 31.0))
    assert present_warnings(run.state) == []
    said = "node n2 gave no sign of life for 31 s; nothing was ended because of that"
    assert [each.text for each in run.state.warnings] == [said]
    assert run.state.stopping is None


def test_a_failure_beside_a_silent_node_is_a_second_sign() -> None:
    run = going().feed(NodeSilent(15, 1, "n2", 5.0), NodeSilent(15, 5, "n6", 5.0)).tick(15.5)
    assert doubted_nodes(run.state) == frozenset()
    run.feed(StageExited(16, "md", 1, None)).tick(16.5)
    assert doubted_nodes(run.state) == {1}, "nothing that has failed has to do with n6"
    run.feed(lost(20.5, 1))
    assert run.state.cause == "node_lost"


def test_steps_that_never_arrive_at_a_silent_node_are_a_second_sign() -> None:
    """SST drops a reader whose connection was closed, and its writer goes on."""
    run = going(steps=10, taken=8).feed(NodeSilent(18, 1, "n2", 5.0))
    run.feed(StreamProgress(20, "atoms", "md", "write", 14, 14)).tick(24)
    assert (run.state.cause, doubted_nodes(run.state)) == ("lost_steps", frozenset({1}))
    run.feed(lost(24.5, 1, 11.5))
    end_all(run, 26)
    assert run.verdict.cause == "node_lost"


def limited(nodes: int, launcher: str, node: float | None = None) -> Plan:
    launch = LaunchPlan(launcher=launcher, executable=launcher)
    plan = make_plan([make_stage("md", ["md"], launch=launch)])
    deadlines = plan.deadlines.model_copy(update={"node": node})
    return plan.model_copy(update={"nodes": nodes, "deadlines": deadlines})


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (limited(4, "srun"), "60 s (by default)"),
        (limited(64, "srun"), "64 s (by default for 64 nodes)"),
        (limited(9000, "srun"), "300 s (by default for 9000 nodes)"),
        (
            limited(4, "mpiexec"),
            "300 s (by default with mpiexec, which passes the signs of life of the supervisor on to no other node)",
        ),
        (limited(4, "mpiexec", node=20), "20 s (deadlines: node)"),
    ],
)
def test_the_limit_of_the_silence_has_a_reason(plan: Plan, text: str) -> None:
    assert node_limit(plan).text == text


def test_a_guard_that_has_killed_is_in_the_verdict_and_memory_is_not() -> None:
    run = Run(spread(chain("sst", stop=20))).open_all()
    why = "no heartbeat of the supervisor through the launcher for 60 s, and the run directory has shown none for 61 s"
    by = f"the guard on n2: {why}"
    run.feed(
        GuardActed(20, "n2", why),
        RanksEnded(20.5, "saxs", "killed", "srun: error: n2: task 0: Killed", "n2", "0", signal.SIGKILL),
        StageKilled(21, "saxs", is_here=False, peak_bytes=2**30, guard=by),
        StageExited(21, "saxs", 137, signal.SIGKILL),
    ).tick(26)
    end_all(run, 27)
    state, culprit, reason = verdict_of(run)
    assert (state, culprit, run.verdict.cause) == ("failed", "saxs", "node_lost")
    assert reason.startswith(f"saxs was killed by signal 9 (SIGKILL) (rank 0 on n2) by {by}")
    assert "memory" not in reason
    assert run.decisions(StopRequested)
