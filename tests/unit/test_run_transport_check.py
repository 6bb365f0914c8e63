"""What was asked is what runs: the data plane as ADIOS2's log tells it, and what follows when it is another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import make_end, make_plan, make_stage, make_stream, write_run
from workflow.plan.plan_model import Plan
from workflow.report.report_files import compute_report
from workflow.report.show.report_tables import stream_table
from workflow.run.actions import RecordEvent, SignalStages
from workflow.run.lifecycle import step
from workflow.run.observe.followed_stages import Follower
from workflow.run.observe.sst_log import SstLog, is_chatter
from workflow.run.records.events_file import EventLog
from workflow.run.records.run_directory import read_filled_plan, stage_dir
from workflow.run.state.events import Event, RunStarted, StageStarted, StreamTransport
from workflow.run.state.lifecycle_events import StopRequested
from workflow.run.state.run_state import RunState, initial_state

# What ADIOS2 2.12.1 printed at levels 2 and 3.
QUIET = """Warning:  Preferred DataPlane "rdma" not found.
Selecting DataPlane "evpath", priority 1 for use
Opening Stream "/runs/streams/field"
Writer stream params are:
"""
LOUD = """Writer (0x5568ea10cde0): Sst set to use sockets as a Control Transport
DP Writer (0x5568ea10cde0): Considering DataPlane "evpath" for possible use, priority is 1
mpi_dp priority=-1 since: MPI_Initialized() failed.Warning:  Preferred DataPlane "rdma" is not available.
DP Writer (0x5568ea10cde0): Selecting DataPlane "ucx", priority 10 for use
Writer (0x5568ea10cde0): Opening Stream "/runs/streams/field"
"""
# A reader says which one it takes, too: not what is asked here.
BOTH = """Warning:  Preferred DataPlane "rdma" not found.
Selecting DataPlane "evpath", priority 1 for use
Opening Reader Stream.
mpi_dp priority=0 since: Heuristics determined poor compatibility.Selecting DataPlane "ucx" (preferred) for use
Opening Stream "/runs/streams/field"
"""


# One rank reads by another plane at the same time.
MIXED = """Selecting DataPlane "ucx" (preferred) for use
Selecting DataPlane "evpath" (preferred) for use
Opening Stream "/runs/streams/field"
Opening Reader Stream.
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MIXED, None),
        (QUIET, "evpath: rdma not found"),
        (LOUD, "ucx: rdma not available"),
        (BOTH, "ucx"),
        ('Opening Stream "x"\n', None),
    ],
)
def test_the_plane_of_a_writer_is_in_its_log(text: str, expected: str | None) -> None:
    log = SstLog()
    facts = [fact for line in text.splitlines(keepends=True) for fact in log.feed(line)]
    planes = [fact for fact in facts if fact.kind == "plane"]
    assert [fact.text for fact in planes] == ([] if expected is None else [expected])
    assert all((fact.side, fact.name) == ("write", "/runs/streams/field") for fact in planes)


LEFT_OPEN = """nanobind: leaked 2 instances!
 - leaked instance 0x7fadd1ba42c8 of type "adios2.bindings.adios2_bindings.Engine"
nanobind: leaked 3 types!
 - leaked type "Mode"
nanobind: leaked 28 functions!
 - leaked function "Close"
 - ... skipped remainder
nanobind: this is likely caused by a reference counting issue in the binding code.
See https://nanobind.readthedocs.io/en/latest/refleaks.html
"""


@pytest.mark.parametrize("line", (QUIET + LOUD + BOTH + LEFT_OPEN).splitlines())
def test_these_lines_are_not_for_people(line: str) -> None:
    assert is_chatter(line)


def plan_for(planned: str | None, **stream: Any) -> Plan:
    ends = [make_end("field", "write", transport=planned), make_end("field", "read", transport=planned)]
    stages = [make_stage(name, ["x"], [end]) for name, end in zip(("sim", "ana"), ends, strict=True)]
    return make_plan(stages, [make_stream("field", "sim", ["ana"], **stream)])


def after(plan: Plan, *events: Event) -> tuple[RunState, list[Any]]:
    state, done = initial_state(plan), list[Any]()
    started = [RunStarted(1.0, "r", 1, 1, "h"), StageStarted(1.0, "sim", 10), StageStarted(1.0, "ana", 11)]
    for event in [*started, *events]:
        state, actions = step(state, event)
        done += actions
    return state, done


@pytest.mark.parametrize(
    ("plane", "why", "said"),
    [
        ("evpath", "rdma not found", "ADIOS2 took tcp: rdma is not built into its ADIOS2; `make adios2-mpi`"),
        ("ucx", "rdma not available", "ADIOS2 took ucx: its ADIOS2 has rdma, but that cannot run here"),
        ("ucx", "", "was given no config file"),
    ],
)
def test_another_plane_than_asked_for_stops_the_run_at_once(plane: str, why: str, said: str) -> None:
    plan = plan_for("rdma", transport="rdma", fallback=False)
    state, done = after(plan, StreamTransport(2.0, "field", "sim", plane, why))
    stops = [
        action.event for action in done if isinstance(action, RecordEvent) and isinstance(action.event, StopRequested)
    ]
    assert len(stops) == 1 and stops[0].stage == "sim"
    assert "transport rdma was requested" in stops[0].reason and said in stops[0].reason
    assert any(isinstance(action, SignalStages) and set(action.stages) == {"sim", "ana"} for action in done)
    assert state.stopping == 2.0


@pytest.mark.parametrize(
    ("planned", "fallback", "plane"),
    [("rdma", False, "rdma"), ("rdma", True, "ucx"), (None, True, "ucx"), ("evpath", False, "")],
)
def test_otherwise_it_goes_on(planned: str | None, fallback: bool, plane: str) -> None:
    plan = plan_for(planned, fallback=fallback)
    assert after(plan, StreamTransport(2.0, "field", "sim", plane))[0].stopping is None


def test_a_stage_with_metrics_is_followed_by_its_stderr_until_the_plane_is_known(tmp_path: Path) -> None:
    run_dir = write_run(plan_for("evpath"), tmp_path)
    plan = read_filled_plan(run_dir)
    follower, log = Follower(plan.stage("sim"), stage_dir(run_dir, "sim")), stage_dir(run_dir, "sim") / "stderr.log"
    log.write_text(QUIET[:60])
    assert follower.poll(1.0) == []
    log.write_text(QUIET)
    assert follower.poll(2.0) == [StreamTransport(2.0, "field", "sim", "evpath", "rdma not found")]
    log.write_text(QUIET * 2)
    assert follower.poll(3.0) == []


def test_the_report_says_what_ran(tmp_path: Path) -> None:
    run_dir = write_run(plan_for("rdma", transport="rdma"), tmp_path)
    log = EventLog(run_dir)
    for event in (RunStarted(1.0, "r", 1, 1, "h"), StreamTransport(2.0, "field", "sim", "ucx", "rdma not available")):
        log.write(event)
    log.close()
    report = compute_report(run_dir)
    assert report.stream("field").transport == "ucx"
    assert any("transport rdma was planned, but ADIOS2 took ucx" in note for note in report.notes)
    assert "SST ucx" in stream_table(report, "page").rows[0][2]
