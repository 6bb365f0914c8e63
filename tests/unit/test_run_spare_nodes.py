"""Stages of a lost node that go on at a spare one, without processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.chains import Way, chain
from tests.support.imagined_run import Run
from workflow.plan.launch_requests import GrantedNodes
from workflow.plan.plan_model import LaunchPlan, Plan, RestartPlan, StagePlan
from workflow.run.attempts import find_beginning
from workflow.run.lifecycle import wake_at
from workflow.run.state.events import (
    NodeLost,
    NodeSeen,
    NodeSilent,
    RanksEnded,
    StageExited,
    StreamOpened,
    StreamProgress,
)
from workflow.run.state.lifecycle_events import NodeReplaced, RestartDecided


def plan_of(way: Way, units: Sequence[Sequence[str]], nodes: Sequence[int] = (0, 1, 2)) -> Plan:
    """md → saxs → keep on these nodes; of each unit the first is started again with the others."""
    rules = {
        unit[0]: RestartPlan(times=3, within_s=None, backoff_s=10, stages=list(unit), from_start=False)
        for unit in units
    }
    plan = chain(way, stop=20)
    stages = []
    for stage, node in zip(plan.stages, nodes, strict=True):
        placement = stage.placement.model_copy(update={"nodes": [(node, node + 1)]})
        launch = LaunchPlan(launcher="srun", executable="srun")
        changes = {"placement": placement, "launch": launch, "restart": rules.get(stage.name)}
        stages.append(stage.model_copy(update=changes))
    return plan.model_copy(update={"stages": stages})


def going(plan: Plan, hosts: int = 4) -> Run:
    """Each node has been heard, and some steps are on their way."""
    run = Run(plan).open_all().feed(*(NodeSeen(1, index, f"n{index + 1}") for index in range(hosts)))
    return run.steps(atoms_md=10, atoms_saxs=8, pattern_saxs=8, pattern_keep=8)


def lost(t: float, node: int) -> NodeLost:
    return NodeLost(t, node, f"n{node + 1}", 10.0, "")


def test_a_stage_of_a_lost_node_goes_on_at_the_spare_one() -> None:
    run = going(plan_of("live", [["saxs"]])).feed(lost(20, 1))
    assert run.state.stopping is None
    (moved,) = run.decisions(NodeReplaced)
    assert (moved.node, moved.host, moved.by, moved.by_host) == (1, "n2", 3, "n4")
    (decided,) = run.decisions(RestartDecided)
    assert decided.reason == "was lost: node n2 was lost (no sign of life for 10 s)"
    assert decided.from_outside, "the step has nothing to do with it"
    # Its ranks may live, and write, until the guard there has missed the supervisor for long enough.
    assert decided.at == 10 + 16
    assert run.ended == [(20, "saxs")]
    run.feed(StageExited(20.2, "saxs", None, signal.SIGKILL))
    assert run.started.count("saxs") == 1
    assert wake_at(run.state) == decided.at
    run.tick(decided.at)
    assert run.started.count("saxs") == 2
    assert run.state.runs_on("saxs", 3) and not run.state.runs_on("saxs", 1)
    assert not run.state.is_gone("saxs")
    assert run.state.spares == {}


def test_what_a_stage_has_written_on_its_own_node_counts_as_far_as_it_has_said(tmp_path: Path) -> None:
    """The supervisor's node sees a link that leads nowhere. When the node is lost, the steps are."""
    link = tmp_path / "pattern-spool.bp"
    link.symlink_to("/dev/shm/wf-of-another-node/pattern-spool.bp")
    plan = plan_of("live", [["saxs"]])
    md, saxs, keep = plan.stages
    atoms, pattern = saxs.ends
    ends = [atoms, pattern.model_copy(update={"on_node": "/dev/shm", "path": str(link)})]
    run = going(plan.model_copy(update={"stages": [md, saxs.model_copy(update={"ends": ends}), keep]}))
    assert find_beginning(tmp_path, run.state, ["saxs"]).first_step == 8
    run.feed(lost(20, 1), StageExited(20.2, "saxs", None, signal.SIGKILL))
    assert run.state.moves
    assert find_beginning(tmp_path, run.state, ["saxs"]).first_step == 0
    # On the spare node there are those of the attempt there.
    run.tick(30).feed(
        StreamOpened(31, "pattern", "saxs", "write"), StreamProgress(32, "pattern", "saxs", "write", 9, 0)
    )
    assert find_beginning(tmp_path, run.state, ["saxs"]).first_step == 9


def test_hosts_take_the_places_of_others() -> None:
    placed = GrantedNodes(["n1", "n2", "n3", "n4"])
    assert placed.with_replaced({1: 3}).hosts == ["n1", "n4", "n3", "n4"]
    assert placed.with_replaced({}) is placed


def test_a_spare_node_that_is_lost_too_is_replaced_by_the_next_one() -> None:
    run = going(plan_of("live", [["saxs"]]), hosts=5).feed(lost(20, 1), StageExited(20.2, "saxs", None, 9)).tick(30)
    run.feed(lost(60, 3))
    assert run.state.replaced == {1: 4}
    assert [(each.node, each.by) for each in run.decisions(NodeReplaced)] == [(1, 3), (1, 4)]
    run.feed(StageExited(60.2, "saxs", None, 9)).tick(70)
    assert run.state.stages["saxs"].attempt == 3
    assert run.state.runs_on("saxs", 4) and not run.state.runs_on("saxs", 3)


def test_all_stages_of_a_node_go_on_together_or_each_for_itself() -> None:
    run = going(plan_of("live", [["saxs"], ["keep"]], nodes=(0, 1, 1))).feed(lost(20, 1))
    assert [each.stages for each in run.decisions(RestartDecided)] == [["saxs"], ["keep"]]
    assert [each.by for each in run.decisions(NodeReplaced)] == [2], "one node takes the place of one"
    run = going(plan_of("sst", [["saxs", "keep"]], nodes=(0, 1, 2))).feed(lost(20, 1))
    assert [each.stages for each in run.decisions(RestartDecided)] == [["saxs", "keep"]]


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (going(plan_of("live", [["saxs"]]), hosts=3), "it was not started again: there is no spare node"),
        (going(plan_of("live", [["saxs"]])).feed(lost(15, 3)), "it was not started again: there is no spare node"),
        (
            going(plan_of("live", [["saxs"]])).feed(NodeSilent(19, 3, "n4")),
            "it was not started again: there is no spare node",
        ),
        (going(plan_of("live", [["keep"]])), ""),
        (going(plan_of("live", [["saxs"]], nodes=(0, 1, 1))), ""),
    ],
    ids=["none", "lost too", "silent too", "no rule", "no rule of another one there"],
)
def test_the_run_stops_where_they_cannot_go_on(run: Run, why: str) -> None:
    run.feed(lost(20, 1))
    assert run.state.cause == "node_lost"
    assert not run.decisions(NodeReplaced)
    assert why in run.state.reason
    assert ("started again" in run.state.reason) == bool(why)


def test_a_stage_that_waits_is_started_on_the_spare_node() -> None:
    """Without a rule: nothing of it has failed."""
    run = Run(plan_of("after", [])).feed(*(NodeSeen(1, index, f"n{index + 1}") for index in range(4)))
    run.feed(lost(20, 1))
    assert run.state.stopping is None
    run.feed(*run.done("md", 9, 25.0))
    assert [(each.node, each.by) for each in run.decisions(NodeReplaced)] == [(1, 3)]
    assert run.started[:2] == ["md", "saxs"]


def test_a_node_that_is_lost_before_the_next_attempt_is_replaced_too() -> None:
    run = going(plan_of("live", [["saxs"]])).feed(StageExited(5.0, "saxs", None, signal.SIGKILL)).tick(6.0)
    run.feed(StageExited(7.0, "saxs", None, signal.SIGKILL))
    assert [each.at for each in run.decisions(RestartDecided)][-1] == 17.0, "backoff"
    run.feed(lost(16.9, 1)).tick(17.1)
    assert run.started.count("saxs") == 2, "what its launcher has left may still run there"
    assert wake_at(run.state) == pytest.approx(6.9 + 16)
    run.tick(6.9 + 16)
    assert [(each.node, each.by) for each in run.decisions(NodeReplaced)] == [(1, 3)]
    assert run.state.stages["saxs"].attempt == 3
    assert run.state.stopping is None


@pytest.mark.parametrize("order", [("saxs", "keep"), ("keep", "saxs")])
def test_units_that_share_a_stage_are_started_again_once(order: tuple[str, str]) -> None:
    """keep is also started again when saxs is: never twice at a time."""
    run = going(plan_of("sst", [["saxs", "keep"], ["keep"]], nodes=(0, 1, 1)))
    run = Run(run.state.plan.model_copy(update={"stages": sorted(run.state.plan.stages, key=order_of(order))}))
    run.open_all().feed(*(NodeSeen(1, index, f"n{index + 1}") for index in range(4))).feed(lost(20, 1))
    assert sorted(run.state.restarting[0].stages) == ["keep", "saxs"]
    assert len(run.state.restarting) == 1
    run.feed(StageExited(20.1, "saxs", None, 9), StageExited(20.1, "keep", None, 9)).tick(40)
    assert run.started.count("keep") == 2 and run.state.stages["keep"].attempt == 2


def order_of(names: tuple[str, str]) -> Callable[[StagePlan], int]:
    return lambda stage: names.index(stage.name) if stage.name in names else -1


def test_a_tap_that_is_lost_with_its_node_stops_nothing() -> None:
    plan = plan_of("live", [])
    stages = [stage.model_copy(update={"optional": stage.name == "keep"}) for stage in plan.stages]
    run = going(plan.model_copy(update={"stages": stages}), hosts=3).feed(lost(20, 2))
    assert run.status("keep") == "failed"
    assert run.state.stopping is None
    run.feed(*run.done("md", 10, 25.0), *run.done("saxs", 10, 26.0), StageExited(27, "keep", None, 9))
    assert run.verdict.state == "succeeded"


def test_a_stage_that_had_succeeded_is_not_started_again() -> None:
    run = going(plan_of("live", [["saxs"], ["keep"]], nodes=(0, 1, 1)))
    run.feed(*run.done("md", 10, 11.0), *run.done("saxs", 10, 12.0))
    assert run.status("saxs") == "succeeded"
    run.feed(lost(20, 1))
    assert [each.stages for each in run.decisions(RestartDecided)] == [["keep"]]
    assert run.status("saxs") == "succeeded"


def test_two_lost_nodes_need_two_spare_ones() -> None:
    run = going(plan_of("live", [["saxs"], ["keep"]]))
    run.feed_together(lost(20, 1), lost(20, 2))
    assert run.state.reason.endswith("it was not started again: it needs 2 spare nodes, and there is 1")


def test_a_node_that_comes_back_is_no_spare_one() -> None:
    run = going(plan_of("live", [["saxs"]])).feed(lost(20, 1), NodeSeen(25, 1, "n2"))
    assert run.state.spares == {}


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        ("node_lost", "no guard has said which node was lost"),
        ("preempted", "its scheduler has ended it"),
        ("time_limit", "its scheduler has ended it"),
        ("cancelled", "its scheduler has ended it"),
    ],
)
def test_what_the_scheduler_ends_is_not_started_again(cause: str, why: str) -> None:
    run = going(plan_of("live", [["saxs"]]))
    said = RanksEnded(20, "saxs", cause, "srun: error", "n2", "", None)  # type: ignore[arg-type]
    run.feed(said, StageExited(20.1, "saxs", 1, None)).tick(40)
    assert not run.decisions(RestartDecided)
    assert f"it was not started again: {why}" in run.state.reason
