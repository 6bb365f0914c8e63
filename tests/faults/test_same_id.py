"""Two stages with one id in EVPath: messages for one go to the other, and the run says so instead of waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chains import chain
from tests.support.watching import describe, run_whole
from workflow.plan.plan_model import Plan
from workflow.run.state.events import TransportFault
from workflow.site.adios2_library import adios2_random_ids

LIMIT_S = 12.0


def with_same_id(plan: Plan) -> Plan:
    """md and keep open their streams when they have the same id; saxs is joined to both. keep is started first."""
    programs = {"md": "first", "keep": "last"}
    stages = []
    for stage in plan.stages:
        python, program, *options = stage.program
        if stage.name in programs:
            program = program.replace("staged.py", "same_id.py")
            options.append(programs[stage.name])
        stages.append(stage.model_copy(update={"program": [python, program, *options], "random_sst_ids": True}))
    return plan.model_copy(update={"stages": stages[::-1]})


@pytest.mark.skipif(adios2_random_ids(), reason="the ADIOS2 of this Python gives no two processes the same id")
def test_a_message_for_another_process_is_named_as_the_cause(tmp_path: Path) -> None:
    """By the deadline of the stages that wait for the message: the log alone ends no run."""
    outcome = run_whole(with_same_id(chain("sst", steps=2000, start=LIMIT_S, step=LIMIT_S)), tmp_path)
    story = describe(outcome.state, outcome.run_dir)
    faults = [event for event in outcome.events() if isinstance(event, TransportFault)]
    assert [(fault.stage, fault.fault) for fault in faults] == [("md", "misdirected")], story
    assert outcome.verdict.state == "failed", story
    reason = outcome.verdict.reason
    assert "a message of SST for another process came to md and was dropped (`CM - No handler" in reason, story
    assert "Run it again" in reason and "`make adios2-mpi`" in reason
    assert len(outcome.passed_deadlines()) == 1, story
    outcome.assert_tidy()
