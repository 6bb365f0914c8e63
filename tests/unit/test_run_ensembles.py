"""Members of an ensemble that are slow, fail or lose their node, without processes."""

from __future__ import annotations

import signal

import pytest

from tests.support.imagined_run import Run, verdict_of
from tests.support.planner import SITE, Planner
from workflow.formats.sides import Side
from workflow.plan.plan_model import Plan
from workflow.run.cut import Cut, Reached, find_cut
from workflow.run.restart_positions import Member
from workflow.run.state.events import (
    NodeLost,
    NodeSilent,
    Requested,
    StageExited,
    StreamClosed,
    StreamOpened,
    StreamProgress,
)
from workflow.run.state.lifecycle_events import DeadlinePassed, StageIgnored, StageStopped, StopRequested
from workflow.run.verdict.failed_stages import failure_warnings

TEXT = """
deadlines: {start: 120 s, step: 600 s, stop: 5 s, node: 10 s}
stages:
  sim: {command: [sim, "${{ streams.field.path }}"], members: MEMBERS, on_failure: RULE, writes: {field: {}}}
  read: {command: [read], reads: {field: {}}, place: {cores_per_rank: 0}}
streams:
  field: {from: sim, to: read, collect: any}
"""
AGAIN = "{do: restart, times: 1, backoff: 0.1 s, then: ignore}"


def plan_for(plan_of: Planner, members: str, rule: str, nodes: int = 1) -> Plan:
    site = SITE.model_copy(update={"nodes": nodes, "cores_per_node": 1 if nodes > 1 else 4})
    return plan_of(TEXT.replace("MEMBERS", members).replace("RULE", rule), site=site)


def opened(run: Run, *members: int) -> Run:
    """These members, what merges their streams, and its reader have opened all that is there."""
    run.feed(StreamOpened(run.t, "field", "field-merge", "write"), StreamOpened(run.t, "field", "read", "read"))
    for member in members:
        run.feed(StreamOpened(run.t, f"field-{member}", f"sim-{member}", "write"))
    return run


def kill(run: Run, stage: str, t: float) -> Run:
    return run.feed(StageExited(t, stage, None, signal.SIGKILL)).tick(t + 1.0)


def end(run: Run, member: int, steps: int, t: float) -> Run:
    """A member has sent all, and the merging stage has read it."""
    name, stream = f"sim-{member}", f"field-{member}"
    run.feed(StreamOpened(t, stream, name, "write"))
    run.feed(StreamProgress(t, stream, name, "write", steps, 8), StreamOpened(t, stream, "field-merge", "read"))
    run.feed(StreamProgress(t, stream, "field-merge", "read", steps, 8))
    run.feed(
        StreamClosed(t, stream, name, "write", steps, True), StreamClosed(t, stream, "field-merge", "read", steps, True)
    )
    return run.feed(StageExited(t, name, 0, None))


def end_readers(run: Run, steps: int, t: float) -> Run:
    ends: list[tuple[str, Side]] = [("field-merge", "write"), ("read", "read")]
    for stage, side in ends:
        run.feed(StreamProgress(t, "field", stage, side, steps, 8), StreamClosed(t, "field", stage, side, steps, True))
    return run.feed(StageExited(t, "field-merge", 0, None), StageExited(t, "read", 0, None))


def test_members_may_compute_for_long_before_their_first_step(plan_of: Planner) -> None:
    run = opened(Run(plan_for(plan_of, "2", "stop")), 0, 1)
    assert run.status("field-merge") == "running"
    run.tick(300.0)
    assert not run.decisions(StopRequested)


@pytest.mark.parametrize("rule", ["ignore", AGAIN])
def test_the_next_one_starts_when_one_that_is_ignored_has_ended(plan_of: Planner, rule: str) -> None:
    run = opened(Run(plan_for(plan_of, "{count: 3, at_once: 1}", rule)))
    assert run.started.count("sim-0") == 1 and "sim-1" not in run.started
    run.tick(121.0).tick(125.0)  # it opens nothing
    assert run.decisions(DeadlinePassed)
    if rule == AGAIN:
        kill(run, "sim-0", 126.0)
        run.tick(128.0).tick(250.0)  # nor does the next attempt
    assert not run.decisions(StageIgnored), "what it writes until its end counts"
    kill(run, "sim-0", run.t + 1.0)
    assert [each.stage for each in run.decisions(StageIgnored)] == ["sim-0"]
    assert "sim-1" in run.started
    assert not run.decisions(StopRequested)
    for member in (1, 2):
        opened(run, member)
        end(run, member, 4, run.t + 1.0)
    end_readers(run, 8, run.t + 1.0)
    assert verdict_of(run) == ("succeeded", "", "")


@pytest.mark.parametrize("rule", ["ignore", AGAIN])
def test_a_lost_node_takes_its_members_and_those_that_wait_for_it_and_no_others(plan_of: Planner, rule: str) -> None:
    plan = plan_for(plan_of, "{count: 4, at_once: 2}", rule, nodes=2)
    assert [plan.stage(f"sim-{member}").placement.nodes for member in range(4)] == [[(0, 1)], [(1, 2)]] * 2
    run = opened(Run(plan), 0, 1)
    run.feed(NodeSilent(1.0, 1, "n1"), NodeLost(12.0, 1, "n1", 11.0, ""))
    run.tick(13.0).tick(20.0)
    kill(run, "sim-1", 21.0)  # its launcher
    run.tick(40.0)
    assert not run.decisions(StopRequested), run.decisions(StopRequested)
    assert {each.stage for each in run.decisions(StageIgnored)} == {"sim-1", "sim-3"}
    end(run, 0, 4, 50.0)
    assert "sim-2" in run.started and "sim-3" not in run.started
    opened(run, 2)
    end(run, 2, 4, 60.0)
    end_readers(run, 8, 61.0)
    assert verdict_of(run) == ("succeeded", "", "")


def test_a_stop_says_at_once_which_members_do_not_begin(plan_of: Planner) -> None:
    run = opened(Run(plan_for(plan_of, "{count: 3, at_once: 1}", "stop")), 0)
    run.feed(Requested(1.0, "stop", "somebody"))
    assert [(each.stage, each.streams) for each in run.decisions(StageStopped)] == [
        ("sim-1", ["field-1"]),
        ("sim-2", ["field-2"]),
    ]
    end(run, 0, 4, 1.5)  # it had no more to do
    end_readers(run, 4, 2.0)
    assert {name: run.status(name) for name in ("sim-0", "field-merge", "read")} == {
        "sim-0": "succeeded",
        "field-merge": "stopped",
        "read": "stopped",
    }, "a next part would not go on with them"
    assert run.verdict.state == "interrupted"


def test_a_stop_says_so_of_a_member_between_two_attempts(plan_of: Planner) -> None:
    run = opened(Run(plan_for(plan_of, "2", "{do: restart, times: 2, backoff: 60 s, then: ignore}")), 0, 1)
    kill(run, "sim-0", 1.0)  # the first restart follows at once
    kill(opened(run, 0), "sim-0", 3.0)
    assert run.status("sim-0") == "restarting"
    run.feed(Requested(5.0, "stop", "somebody"))
    assert [(each.stage, each.streams) for each in run.decisions(StageStopped)] == [("sim-0", ["field-0"])]
    end(run, 1, 4, 5.5)
    end_readers(run, 4, 6.0)
    assert run.started.count("sim-0") == 2 and run.verdict.state == "interrupted"
    assert {name: run.status(name) for name in ("sim-0", "sim-1", "field-merge", "read")} == {
        "sim-0": "stopped", "sim-1": "succeeded", "field-merge": "stopped", "read": "stopped",
    }  # fmt: skip


def test_a_member_that_is_ignored_is_lacking_and_the_next_part_begins_with_it(plan_of: Planner) -> None:
    plan = plan_for(plan_of, "2", "ignore")
    run = opened(Run(plan), 0, 1)
    kill(run, "sim-0", 5.0)
    (ignored,) = run.decisions(StageIgnored)
    assert (ignored.stage, ignored.streams) == ("sim-0", ["field-0"])
    end(run, 1, 4, 10.0)
    assert failure_warnings(run.state)[-1].endswith("the others went on without it (`on_failure: ignore`)")
    assert set(cut_of(plan, run, "field-1").finished) == {"sim-1"}
    end_readers(run, 4, 11.0)
    assert verdict_of(run) == ("succeeded", "", "") and run.verdict.lacks == "1 of 2 members"


def test_nothing_of_an_ensemble_that_was_whole_runs_again(plan_of: Planner) -> None:
    plan = plan_for(plan_of, "2", "ignore")
    run = opened(Run(plan), 0, 1)
    for member in (0, 1):
        end(run, member, 4, 10.0)
    end_readers(run, 8, 20.0)
    assert {*cut_of(plan, run, "field-0", "field-1").finished} == {each.name for each in plan.stages}


def cut_of(plan: Plan, run: Run, *kept: str) -> Cut:
    reached = {each.name: Reached(Member(each.name, [], [], {}, 0, None)) for each in plan.stages}
    return find_cut(plan, run.state, reached, kept)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_run_without_any_member_that_has_done_its_work_has_failed(plan_of: Planner, lost: int) -> None:
    run = opened(Run(plan_for(plan_of, "2", "ignore")), 0, 1)
    for member in range(lost):
        kill(run, f"sim-{member}", 1.0 + 2 * member)
    for member in range(lost, 2):
        end(run, member, 3, 10.0)
    end_readers(run, 3 * (2 - lost), 11.0)
    verdict = run.verdict
    if lost == 1:
        assert verdict.state == "succeeded"
    else:
        assert (verdict.state, verdict.stage) == ("failed", "sim-0")
        assert verdict.reason.startswith("none of the 2 members has done its work; sim-0 ")
