"""The records of several attempts of a stage, as one."""

from __future__ import annotations

from workflow.report.read.stage_metrics import (
    CloseRecord,
    FirstStep,
    StageMetrics,
    StepRecord,
    join_attempts,
    number_of_steps,
)


def attempt(steps: int, begin: float, closed: bool = False) -> StageMetrics:
    """So many steps of `data`, one each second."""
    records = [StepRecord("data", "read", n, begin + n, 10, 0.1, 0.2, 0.3) for n in range(steps)]
    part = StageMetrics(steps=records, steps_of={("data", "read"): records}, opened={("data", "read"): (begin, 0.5)})
    if closed:
        part.closed["data", "read"] = CloseRecord(begin + steps, steps, True, "")
    return part


def at(step: int) -> FirstStep:
    return lambda _: step


def test_steps_are_counted_on_and_none_is_there_twice() -> None:
    joined = join_attempts([(at(0), attempt(5, 100.0)), (at(3), attempt(4, 200.0, closed=True))])
    assert [record.step for record in joined.of("data", "read")] == [0, 1, 2, 3, 4, 5, 6]
    assert [record.t for record in joined.of("data", "read")] == [100, 101, 102, 200, 201, 202, 203]
    assert number_of_steps(joined.steps) == 7
    assert joined.opened == {("data", "read"): (100.0, 0.5)}
    assert joined.closed["data", "read"].steps == 7


def test_an_attempt_that_recorded_nothing_changes_nothing() -> None:
    joined = join_attempts(
        [(at(0), attempt(5, 100.0)), (at(5), StageMetrics(exists=False)), (at(5), attempt(2, 300.0))]
    )
    assert [record.step for record in joined.of("data", "read")] == [0, 1, 2, 3, 4, 5, 6]
    assert joined.exists


def test_from_the_start_all_is_of_the_last_attempt() -> None:
    joined = join_attempts([(at(0), attempt(5, 100.0)), (at(0), attempt(6, 200.0))])
    assert [record.t for record in joined.steps] == [200, 201, 202, 203, 204, 205]
