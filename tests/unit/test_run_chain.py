"""Whether the part of a run that was stopped before its time limit gets a next one: a pure decision."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.chains import make_end, make_plan, make_stage, make_stream
from workflow.plan.plan_model import AllocationPlan, PartPlan, Plan
from workflow.run.chain import (
    NextPart,
    is_planned,
    read_next_part,
    standstill,
    submission_s,
    why_last,
    write_next_part,
)
from workflow.run.state.run_state import initial_state
from workflow.run.stop_sequence import ladder


def part(number: int, parts: int = 5, **steps: int | None) -> Plan:
    """sim → mean, where these stages begin at these steps; None: done before."""
    begins = {"sim": 0, "mean": 0} | steps
    ends = {
        "sim": [make_end("field", "write", "after", first_step=begins["sim"] or 0)],
        "mean": [make_end("field", "read", "after", first_step=begins["mean"] or 0)],
    }
    stages = [make_stage(name, ["x"], ends[name]) for name in ends]
    plan = make_plan(stages, [make_stream("field", "sim", ["mean"], "after")])
    asked = AllocationPlan(scheduler="slurm", nodes=1, walltime_s=3600, grace_s=120, parts=parts)
    finished: dict[str, dict[str, int]] = {name: {"field": 9} for name, step in begins.items() if step is None}
    before = None if number == 1 else PartPlan(number=number, run="/runs/a", finished=finished, pieces={})
    return plan.model_copy(update={"allocation": asked, "part": before})


@pytest.mark.parametrize(
    ("parts", "code", "planned"),
    [(5, 75, True), (1, 75, False), (5, 0, False), (5, 1, False), (5, 130, False), (5, 3, False)],
)
def test_a_next_part_is_planned_only_after_a_stop_in_order_of_a_run_that_asks_for_parts(
    parts: int, code: int, planned: bool
) -> None:
    assert is_planned(part(1, parts), code) == planned
    assert not is_planned(part(1).model_copy(update={"allocation": None}), code)


def test_no_more_parts_than_were_asked_for() -> None:
    assert why_last(part(1, 3)) == "" == why_last(part(2, 3))
    assert why_last(part(3, 3)) == "`allocation.parts` asks for 3 parts at most, and this was part 3"
    assert why_last(part(7, 3)), "after parts that were resumed by hand"


def test_a_part_that_makes_progress_is_gone_on_with() -> None:
    assert standstill(part(1), part(2, sim=0, mean=1)) == ""
    assert standstill(part(1), part(2, sim=None, mean=0)) == "", "a stage is done"
    assert standstill(part(2, sim=None, mean=40), part(3, sim=None, mean=41)) == ""
    assert standstill(part(2, sim=20, mean=38), part(3, sim=40, mean=38)) == ""


def test_a_part_without_progress_ends_the_chain_and_says_where_it_stood() -> None:
    said = standstill(part(3, sim=40, mean=40), part(4, sim=40, mean=40))
    assert said == "part 3 made no progress: it began and ended at step 40"
    said = standstill(part(2, sim=None, mean=40), part(3, sim=None, mean=40))
    assert said == "part 2 made no progress: it began and ended at step 40"
    said = standstill(part(2, sim=40, mean=38), part(3, sim=40, mean=38))
    assert said == "part 2 made no progress: it began and ended at step 40 of sim, step 38 of mean"
    assert standstill(part(2, sim=40, mean=38), part(3, sim=20, mean=38)), "less than before is none"


def test_a_stop_leaves_time_for_the_submission_of_the_next_part() -> None:
    assert submission_s(part(1), 120.0) == 30.0
    assert submission_s(part(1), 40.0) == 10.0
    assert submission_s(part(5), 120.0) == submission_s(part(1, 1), 120.0) == 0.0
    state = replace(initial_state(part(1)), stopping=1000.0, cause="end_of_allocation", ends_at=1120.0)
    *_, last = ladder(state)
    assert (last.at, last.number) == (1120.0 - 30.0 - 9.0, signal.SIGKILL)


def test_the_record_is_read_again_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    assert read_next_part(tmp_path) is None
    for state, settled in (("planned", False), ("submitting", False), ("submitted", True), ("none", True)):
        record = NextPart(state, "/runs/b", "why", "what to type", ["n3"])  # type: ignore[arg-type]
        write_next_part(tmp_path, record)
        assert read_next_part(tmp_path) == record
        assert record.is_settled == settled
    (tmp_path / "next_part.json").write_text('{"state": "odd"}')
    assert read_next_part(tmp_path) is None
