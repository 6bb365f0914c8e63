"""Stages that are started again while one of their unit is left out: without processes."""

from __future__ import annotations

import signal

import pytest

from tests.support.imagined_run import Run, verdict_of
from tests.support.planner import Planner
from workflow.plan.plan_model import Placement, Plan
from workflow.report.build.report_notes import attempts_of
from workflow.run.attempts import to_attempt
from workflow.run.lifecycle import wake_at
from workflow.run.state.events import (
    NodeLost,
    NodeSilent,
    StageExited,
    StagesRestarted,
    StreamOpened,
    StreamTrouble,
)
from workflow.run.state.lifecycle_events import RestartDecided, StageFailed, StageIgnored, StopRequested
from workflow.run.state.reducer import fold
from workflow.run.verdict.failure_origin import DYING_S

TEXT = """
deadlines: {start: 60 s, step: 60 s, run: 1 h, stop: 2 s, node: 10 s}
stages:
  sim: {command: ["${{ wf.python }}", sim], writes: {field: {}}}
  work:
    command: ["${{ wf.python }}", work]
    reads: {field: {}}
    writes: {sum: {}}
    on_failure: {do: restart, times: 2, backoff: BACKOFF}
  keep: {command: ["${{ wf.python }}", keep], reads: {sum: {}}, on_failure: restart}
  look: {command: ["${{ wf.python }}", look], reads: {sum: {}}, on_failure: RULE}
streams:
  field: {from: sim, to: work, via: VIA, keep: true}
  sum: {from: work, to: READERS, via: VIA}
"""
# sim → keep and look, look → last
CHAIN = """
deadlines: {start: 60 s, step: 60 s, run: 1 h, stop: 2 s, node: 10 s}
stages:
  sim: {command: ["${{ wf.python }}", sim], writes: {field: {}}, on_failure: SIM}
  keep: {command: ["${{ wf.python }}", keep], reads: {field: {}}, on_failure: SIM}
  look: {command: ["${{ wf.python }}", look], reads: {field: {}}, writes: {seen: {}}, on_failure: ignore}
  last: {command: ["${{ wf.python }}", last], reads: {seen: {}}, on_failure: ignore}
streams:
  field: {from: sim, to: [keep, look], via: sst, SPOOL}
  seen: {from: look, to: last, VIA}
"""
IGNORE = "ignore"
THEN_IGNORE = "{do: restart, times: 1, backoff: 0.1 s, then: ignore}"


def plan_for(plan_of: Planner, rule: str = IGNORE, via: str = "sst", backoff: str = "5 s") -> Plan:
    text = TEXT.replace("RULE", rule).replace("VIA", via).replace("BACKOFF", backoff)
    return plan_of(text.replace("READERS", "[keep, look]"))


def chained(plan_of: Planner, via: str, spool: bool = False) -> Plan:
    text = CHAIN.replace("VIA", f"via: {via}").replace("SPOOL", "keep: true" if spool else "keep: false")
    return plan_of(text.replace("SIM", "restart" if spool else "stop"))


def kill(run: Run, stage: str, t: float) -> Run:
    return run.feed(StageExited(t, stage, None, signal.SIGKILL))


def fail(run: Run, stage: str, t: float, *alive: str) -> Run:
    return run.feed(StageExited(t, stage, 1, None, "", list(alive)))


def end_killed(run: Run, t: float) -> Run:
    """What the supervisor has killed exits."""
    for name, stage in list(run.state.stages.items()):
        if stage.killed and stage.runs:
            kill(run, name, t)
    return run


def opened(run: Run, *stages: str) -> Run:
    for stream, stage, side in run.state.ends:
        if stage in stages:
            run.feed(StreamOpened(run.t, stream, stage, side))
    return run


def awaited(run: Run, stage: str, stream: str) -> int:
    """For how many readers the present attempt of a writer waits in open."""
    plan = to_attempt(run.state.plan.stage(stage), run.state, {})
    return int(plan.end(stream, "write").parameters["RendezvousReaderCount"])


def finish(run: Run, *stages: str) -> Run:
    """These stages do all that they should."""
    for name in stages:
        run.feed(*run.done(name, 9)[:-1])
    for name in stages:
        run.feed(StageExited(run.t, name, 0, None))
    return run


@pytest.mark.parametrize("via", ["sst", "shm"])
@pytest.mark.parametrize("has_opened", [False, True])
def test_a_unit_is_started_again_without_the_one_that_is_ignored(plan_of: Planner, via: str, has_opened: bool) -> None:
    run = opened(Run(plan_for(plan_of, via=via)), "sim", "field-spool", *(["work", "keep", "look"] * has_opened))
    fail(run, "look", 1.0, "work").tick(2.0)
    assert run.replaced == ([] if has_opened else [("look", ("sum",))])
    opened(run, "work", "keep")
    kill(run, "work", 3.0)
    end_killed(run, 3.1).tick(4.0)
    (decided,) = run.decisions(RestartDecided)
    assert decided.stages == ["work", "keep"]
    assert run.started[5:] == ["work", "keep"]
    assert run.status("look") == "failed"
    assert awaited(run, "work", "sum") == 1, "its writer does not wait for the one that will not come"
    assert run.replaced == ([] if has_opened else [("look", ("sum",))]), "nor for one in its place"
    opened(run, "work", "keep")
    finish(run, "sim", "field-spool", "work", "keep")
    assert verdict_of(run) == ("succeeded", "", "") and run.verdict.lacks == "without look"


def test_who_loses_the_writer_of_its_unit_is_started_again_with_it(plan_of: Planner) -> None:
    """Its end is seen before that of `work`, whose launcher needs a while."""
    run = opened(Run(plan_for(plan_of)), "sim", "field-spool", "work", "keep", "look")
    run.feed(StreamTrouble(1.0, "sum", "look", "failed", "the writer died"))
    fail(run, "look", 1.0)
    assert not run.decisions(StageIgnored)
    assert wake_at(run.state) == 1.0 + DYING_S
    kill(run, "work", 1.5)
    end_killed(run, 1.6).tick(2.0)
    (decided,) = run.decisions(RestartDecided)
    assert decided.stages == ["work", "keep", "look"]
    assert run.status("look") == "starting"
    assert awaited(run, "work", "sum") == 2


def test_who_says_so_and_whose_writer_goes_on_is_ignored_in_the_end(plan_of: Planner) -> None:
    run = opened(Run(plan_for(plan_of)), "sim", "field-spool", "work", "keep", "look")
    run.feed(StreamTrouble(1.0, "sum", "look", "failed", "the writer died"))
    fail(run, "look", 1.0).tick(1.0 + DYING_S)
    assert [each.stage for each in run.decisions(StageIgnored)] == ["look"]


def test_one_that_is_ignored_in_its_second_attempt_is_left_out_of_the_third(plan_of: Planner) -> None:
    run = opened(Run(plan_for(plan_of, THEN_IGNORE)), "sim", "field-spool", "work", "keep", "look")
    for t in (1.0, 3.0):
        fail(run, "look", t, "work").tick(t + 0.1)
        end_killed(run, t + 0.2).tick(t + 1.0)
        opened(run, "work", "keep")
    assert [each.stages for each in run.decisions(RestartDecided)] == [["work", "keep", "look"]]
    assert [each.stage for each in run.decisions(StageIgnored)] == ["look"]
    assert run.replaced == [("look", ("sum",))], "its writer has waited for it"
    kill(run, "work", 5.0)
    end_killed(run, 5.1).tick(20.0)
    assert run.decisions(RestartDecided)[-1].stages == ["work", "keep"]
    assert (run.status("work"), run.state.stages["work"].attempt) == ("starting", 3)
    assert run.replaced == [("look", ("sum",))]


def test_it_counts_as_the_same_unit_without_the_one_that_is_ignored(plan_of: Planner) -> None:
    """Two restarts are allowed; `keep` takes `work` along once, `work` itself fails twice."""
    run = opened(Run(plan_for(plan_of)), "sim", "field-spool", "work", "keep", "look")
    kill(run, "keep", 1.0)
    end_killed(run, 1.1).tick(2.0)
    opened(run, "work", "keep", "look")
    fail(run, "look", 3.0, "work").tick(4.0)
    for t in (5.0, 20.0):
        kill(run, "work", t)
        end_killed(run, t + 0.1).tick(t + 10.0)
        opened(run, "work", "keep")
    assert "it was started again 2 times: `on_failure.times` is 2" in run.state.reason


def test_the_others_are_started_when_one_of_them_cannot_be_because_of_its_node(plan_of: Planner) -> None:
    """The node of `look` is lost in the pause before the next attempt, and nothing takes its place."""
    plan = plan_for(plan_of)
    there = Placement(nodes=[(1, 2)], ranks_per_node=1, cores=[], cores_per_rank=0)
    stages = [each.model_copy(update={"placement": there} if each.name == "look" else {}) for each in plan.stages]
    run = opened(Run(plan.model_copy(update={"stages": stages})), "sim", "field-spool", "work", "keep", "look")
    for t in (1.0, 3.0):  # the second restart has a pause
        kill(run, "work", t)
        end_killed(run, t + 0.1)
    assert run.status("work") == "restarting"
    run.feed(NodeSilent(3.5, 1, "n1"), NodeLost(4.0, 1, "n1", 3.5, ""))
    assert run.state.stopping is None
    run.tick(60.0)
    assert [each.stage for each in run.decisions(StageIgnored)] == ["look"]
    assert {name: run.status(name) for name in ("work", "keep", "look")} == {
        "work": "starting", "keep": "starting", "look": "failed",
    }  # fmt: skip
    assert awaited(run, "work", "sum") == 1


def test_who_waits_in_open_for_one_that_is_left_out_is_ended(plan_of: Planner) -> None:
    run = opened(Run(chained(plan_of, "sst")), "sim")
    fail(run, "look", 1.0, "sim").tick(2.0)
    assert run.signals == [(1.0, ("last",), signal.SIGTERM)]
    fail(run, "last", 2.5, "sim").tick(3.0)
    assert run.state.stages["last"].reason == "was ended: look, from which it reads, was left out"
    opened(run, "sim", "keep")
    finish(run, "sim", "keep")
    assert verdict_of(run) == ("succeeded", "", "")


def test_who_follows_the_file_of_one_that_is_left_out_reads_it_to_its_end(plan_of: Planner) -> None:
    run = opened(Run(chained(plan_of, "bp5, coupling: live")), "sim", "keep", "look", "last")
    run.steps(seen_look=4, seen_last=3)
    fail(run, "look", 1.0, "sim").tick(2.0)
    assert not run.signals
    run.steps(seen_last=4)
    assert [names for _, names, _ in run.signals] == [("last",)]


def test_what_a_killed_one_has_written_is_all_for_those_that_read_it_whole(plan_of: Planner) -> None:
    run = opened(Run(chained(plan_of, "bp5")), "sim", "keep", "look")
    run.steps(seen_look=4)
    kill(run, "look", 1.0).tick(2.0)
    assert run.started[-1] == "last"
    opened(run, "last").feed(*run.done("last", 4))
    assert run.status("last") == "succeeded"


def test_a_report_of_one_that_is_ignored_does_not_stop_the_run(plan_of: Planner) -> None:
    run = opened(Run(chained(plan_of, "bp5")), "sim", "keep", "look")
    run.steps(seen_look=4)
    kill(run, "look", 1.0).tick(2.0)
    opened(run, "last").steps(seen_last=4)
    run.feed(StreamTrouble(50.0, "seen", "last", "timeout", "no new step within 40 s"))
    assert not run.decisions(StopRequested)


def test_a_simulation_that_sends_all_again_needs_no_spool(plan_of: Planner) -> None:
    run = opened(Run(chained(plan_of, "sst", spool=True)), "sim", "keep", "look", "last", "field-spool")
    fail(run, "field-spool", 1.0, "sim").tick(2.0)
    kill(run, "sim", 3.0)
    end_killed(run, 3.1).tick(4.0)
    (decided,) = run.decisions(RestartDecided)
    assert decided.stages == ["sim", "keep", "look", "last"]
    assert awaited(run, "sim", "field") == 2
    kill(run, "keep", 5.0).tick(6.0)
    assert "keep was killed" in run.state.reason and "field-spool, which kept its steps, has failed" in run.state.reason


def test_a_spool_that_loses_its_writer_does_not_stop_the_run_before_that(plan_of: Planner) -> None:
    run = opened(Run(chained(plan_of, "sst", spool=True)), "sim", "keep", "look", "last", "field-spool")
    kill(run, "keep", 1.0)
    end_killed(run, 1.1).tick(2.0)
    opened(run, "keep")
    assert run.state.ends["field", "keep", "read"].from_spool
    run.feed(StreamTrouble(3.0, "field", "field-spool", "failed", "the writer died"))
    fail(run, "field-spool", 3.0).tick(3.5)
    assert run.state.stopping is None
    kill(run, "sim", 4.0)
    end_killed(run, 4.1).tick(10.0)
    assert run.decisions(RestartDecided)[-1].stages == ["sim", "keep", "look", "last", "field-spool"]
    assert run.status("field-spool") == "starting"
    assert not run.state.ends["field", "keep", "read"].from_spool, "it gets all from the simulation"


def test_a_restart_is_decided_for_more_stages_than_are_started_in_the_end(plan_of: Planner) -> None:
    run = opened(Run(plan_for(plan_of)), "sim", "field-spool", "work", "keep", "look")
    decided = RestartDecided(2.0, "work", ["work", "keep", "look"], "failed", 4, 5.0, False, 4)
    state = fold(run.state, [decided, StageFailed(3.0, "work", "was not started"), StageIgnored(3.0, "work")])
    (left,) = state.restarting
    assert (left.stages, left.skips) == (["keep", "look"], None)
    begun = StagesRestarted(5.0, ["keep", "look"], 2, 4)
    second = RestartDecided(6.0, "keep", ["keep", "look"], "failed", 5, 6.0)
    state = fold(state, [begun, second])
    assert attempts_of(state) == [(decided, begun), (second, None)]
    state = fold(state, [StageIgnored(7.0, "keep"), StageIgnored(7.0, "look")])
    assert state.restarting == ()
