"""When a program is asked for a checkpoint by a signal: pure."""

from __future__ import annotations

from tests.support.chains import chain
from tests.support.imagined_run import Run
from workflow.plan.plan_model import CheckpointPlan, Plan
from workflow.run.lifecycle import wake_at
from workflow.run.state.events import Interrupted, StreamOffered, StreamOpened
from workflow.run.state.lifecycle_events import CheckpointRequested


def plan(stop_signal: str | None = None) -> Plan:
    """md → saxs → keep; md writes a checkpoint at USR1."""
    made = chain("sst", start=1e6, step=1e6, warn=1e6, run=1e6)
    checkpoint = CheckpointPlan(every_s=100.0, files="chk.*", every=1, program=["x"], signal="USR1")
    stages = [
        stage.model_copy(update={"checkpoint": checkpoint, "stop_signal": stop_signal} if stage.name == "md" else {})
        for stage in made.stages
    ]
    return made.model_copy(update={"stages": stages})


def test_it_gets_the_signal_as_often_as_said_from_the_opening_of_its_streams() -> None:
    run = Run(plan())
    run.tick(500)
    assert run.passed == [], "it may have no handler for it yet"
    run.feed(StreamOffered(600.0, "atoms", "md"), StreamOpened(600.0, "atoms", "md", "write"))
    assert wake_at(run.state) == 700.0
    for t in range(601, 950, 3):
        run.tick(t)
    assert run.passed == [(700, "md", "USR1"), (802, "md", "USR1"), (904, "md", "USR1")]
    assert [event.t for event in run.decisions(CheckpointRequested)] == [700, 802, 904]
    assert run.state.stages["md"].checkpoint_asked == 904


def test_one_that_has_closed_its_streams_or_has_ended_gets_none() -> None:
    run = Run(plan()).open_all().steps(atoms_md=3, atoms_saxs=3)
    closed, exited = run.done("md", 3)
    run.feed(closed).tick(run.t + 200)
    assert run.passed == [], "it may have given up its handler"
    run.feed(exited).tick(run.t + 200)
    assert run.passed == []
    assert run.decisions(CheckpointRequested) == []


def test_one_of_which_no_end_is_seen_gets_none() -> None:
    """Such a stage counts as open from its start; nobody knows when it has a handler."""
    made = chain("after", plain=True, start=1e6, step=1e6, warn=1e6, run=1e6)
    md, saxs, keep = made.stages
    keep = keep.model_copy(update={"checkpoint": plan().stage("md").checkpoint})
    run = Run(made.model_copy(update={"stages": [md, saxs, keep]}))
    run.feed(*run.done("md", 3)).feed(*run.done("saxs", 3))
    assert run.state.stages["keep"].opened is not None
    run.tick(run.t + 500)
    assert run.passed == []


def test_at_the_stop_it_is_asked_once_more_by_the_signal_that_it_has() -> None:
    assert plan().stage("md").told_by == "USR1"
    assert plan("USR2").stage("md").told_by == "USR2"
    assert plan().stage("saxs").told_by is None
    run = Run(plan()).open_all()
    run.feed(Interrupted(50.0, "SIGINT")).tick(200)
    assert run.passed == [], "what ends is asked no more"
