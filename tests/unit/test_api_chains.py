"""Which hosts the next part of a run is not to have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.chains import make_plan, make_stage
from workflow.api.chains import lost_hosts
from workflow.plan.plan_model import PartPlan
from workflow.run.chain import NextPart, write_next_part
from workflow.run.state.events import NodeLost
from workflow.run.state.run_state import initial_state


def test_hosts_that_were_lost_in_any_part_so_far_are_left_out(tmp_path: Path) -> None:
    plan = make_plan([make_stage("sim", ["x"])])
    state = initial_state(plan)
    lost = replace(state, lost=(NodeLost(1.0, 2, "n3", 12.0, "sim"), NodeLost(2.0, 0, "n1", 12.0, "sim")))
    assert lost_hosts(plan, state) == []
    assert lost_hosts(plan, lost) == ["n3", "n1"]
    part = PartPlan(number=2, run=str(tmp_path), finished={}, pieces={})
    second = plan.model_copy(update={"part": part})
    assert lost_hosts(second, lost) == ["n3", "n1"]
    write_next_part(tmp_path, NextPart("submitted", "/runs/b", without=["n7", "n3"]))
    assert lost_hosts(second, lost) == ["n7", "n3", "n1"]
