"""Real runs, recorded: who is to blame, whatever the order in which events of nearly the same time are found."""

from __future__ import annotations

import pytest

from tests.support.recorded_runs import START, load, names, replay, shuffled
from workflow.run.state.events import StreamWaiting
from workflow.run.state.lifecycle_events import DeadlinePassed, DeadlockFound, StageSilent, StopRequested

# The run → the stage that is the cause, and what is said of it.
CAUSES = {
    "opens-one-of-two": (
        "corr",
        "deadlock: corr waits for step 1 of field (queue 0/2); wave waits in open for corr to open forcing: "
        "corr and wave wait for each other; corr has not opened forcing",
    ),
    "reads-one-of-two": (
        "corr",
        "deadlock: corr waits for step 4 of field (queue 0/2); wave waits for corr to take step 1 of forcing "
        "(queue 2/2): corr and wave wait for each other; corr has not read forcing",
    ),
    "circle": (
        "one",
        "deadlock: one waits for step 1 of ba (queue 0/2); two waits for step 1 of ab (queue 0/2): "
        "one and two wait for each other",
    ),
    "stopped-last": ("keep", "c waits for keep to take step 4 of x3 (queue 2/2); keep has been computing for"),
    "killed-rank": ("md", "md was killed by signal 9 (SIGKILL) (rank 1 on n2)"),
    "killed-writer": ("md", "md was killed by signal 9 (SIGKILL)"),
    "reported-timeouts": ("md", "saxs waits for step 6 of atoms (queue 0/2); md has been computing for"),
}
HEALTHY = ["slow-exchange", "slow-reader"]


def test_the_answer_to_each_recorded_run_is_stated() -> None:
    assert sorted([*CAUSES, *HEALTHY]) == names()


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_named(name: str) -> None:
    stage, text = CAUSES[name]
    state, decided = replay(*load(name))
    assert state.culprit == stage, state.reason
    assert text in state.reason
    assert [event.stage for event in decided if isinstance(event, StopRequested)] == [stage]


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_the_same_in_whatever_order_events_are_found(name: str) -> None:
    plan, batches = load(name)
    blamed = {seed: replay(plan, shuffled(batches, seed))[0].culprit for seed in range(60)}
    assert set(blamed.values()) == {CAUSES[name][0]}, blamed


@pytest.mark.parametrize("name", ["opens-one-of-two", "reads-one-of-two", "circle"])
def test_a_deadlock_is_named_without_a_deadline(name: str) -> None:
    plan, batches = load(name)
    assert min(limit for limit in (plan.deadlines.start, plan.deadlines.step) if limit) == 60
    state, decided = replay(plan, batches)
    assert state.t < START + 15
    assert [event.diagnosis for event in decided if isinstance(event, DeadlockFound)] == [state.reason]


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("seed", [None, *range(20)])
def test_nobody_is_blamed_for_being_slow(name: str, seed: int | None) -> None:
    plan, batches = load(name)
    waits = [event for batch in batches for event in batch if isinstance(event, StreamWaiting)]
    assert len([event for event in waits if event.waits]) > 2, "in this run stages wait for a long time"
    state, decided = replay(plan, batches if seed is None else shuffled(batches, seed))
    assert state.finished is not None or all(stage.status == "succeeded" for stage in state.stages.values())
    assert not [event for event in decided if isinstance(event, DeadlockFound | DeadlinePassed | StageSilent)]


@pytest.mark.parametrize("name", names())
def test_supervisor_sleeps_between_its_looks(name: str) -> None:
    """It looks four times a second, and when something ends: a descriptor that stays readable keeps it awake."""
    _, batches = load(name)
    seconds = batches[-1][-1].t - START
    assert len(batches) < 20 + 12 * seconds
