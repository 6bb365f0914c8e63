"""Transports that do not bring the data: what ADIOS2 prints, and which cause the verdict names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import make_end, make_plan, make_stage, make_stream, write_run
from tests.support.imagined_run import Run, end_all
from workflow.formats.json_lines import Tail, to_record
from workflow.plan.plan_model import Plan
from workflow.run.observe.followed_stages import Follower
from workflow.run.observe.sst_log import FAULT_LOOK_S, TransportFaultFollower
from workflow.run.records.events_file import from_record, to_line
from workflow.run.records.run_directory import read_filled_plan, stage_dir
from workflow.run.state.events import StageExited, StreamProgress, StreamTransport, TransportFault
from workflow.run.state.lifecycle_events import DeadlinePassed

# The stderr of a reader over ucx on another node, without an RDMA network, after its writer was ended (ADIOS2 2.12.1).
UCX = """mpi_dp priority=-1 since: MPI_Initialized() failed.Selecting DataPlane "ucx" (preferred) for use
Opening Reader Stream.
Writer is using Minimum Connection Communication pattern (min)
UCX Error during ucp_get_nbx() with: Endpoint timeout.
srun: error: n2: task 0: Segmentation fault
"""
# That of a writer with the same id in EVPath as the reader of another stream (ADIOS2 2.12.1).
EVPATH = """Selecting DataPlane "evpath" (preferred) for use
Opening Stream "./a"
CM - No handler for incoming data of this version of format "EvpathPreload"
CM - No handler for incoming data of this version of format "EvpathPreload"

Stream "./a" (0x5581ee2c5750) summary info:
"""
MISDIRECTED = 'CM - No handler for incoming data of this version of format "EvpathPreload"'
UNREACHABLE = "UCX Error during ucp_get_nbx() with: Endpoint timeout"
NEEDS_FABRIC = (
    "field uses transport ucx, which needs an RDMA network between the nodes{}. Where there is none, take `transport: "
    "tcp`; with `fabric: false` in the site's file the plan refuses ucx"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UCX, [("unreachable", UNREACHABLE)]),
        (EVPATH, [("misdirected", MISDIRECTED)]),
        (EVPATH + UCX, [("misdirected", MISDIRECTED), ("unreachable", UNREACHABLE)]),
        (
            "DP Reader 0 (0x5568ea10cde0): fi_read failed with code -5.\n",
            [("unreachable", "fi_read failed with code -5")],
        ),
        ("CM - Establish connection\n", []),
    ],
)
def test_faults_are_lines_of_the_log(text: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text(text)
    follower = TransportFaultFollower("ana", Tail(tmp_path / "stderr.log"))
    assert [(each.stage, each.fault, each.line) for each in follower.poll(1.0)] == [("ana", *each) for each in expected]


def test_a_fault_is_reported_once_and_looked_for_once_a_second(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    follower = TransportFaultFollower("ana", Tail(log))
    assert list(follower.poll(1.0)) == []
    log.write_text(EVPATH)
    assert list(follower.poll(1.0 + FAULT_LOOK_S / 2)) == []
    assert [each.t for each in follower.poll(1.0 + FAULT_LOOK_S)] == [1.0 + FAULT_LOOK_S]
    log.write_text(EVPATH * 2)
    assert list(follower.poll(9.0)) == []


def two_stages(nodes: tuple[tuple[int, int], tuple[int, int]] = ((0, 1), (1, 2)), **deadlines: float) -> Plan:
    ends = [make_end("field", "write", transport="ucx"), make_end("field", "read", transport="ucx")]
    stages = [make_stage(name, ["x"], [end]) for name, end in zip(("sim", "ana"), ends, strict=True)]
    placed = [
        stage.model_copy(update={"placement": stage.placement.model_copy(update={"nodes": [span]})})
        for stage, span in zip(stages, nodes, strict=True)
    ]
    return make_plan(placed, [make_stream("field", "sim", ["ana"], transport="ucx")], **deadlines)


@pytest.mark.parametrize("engine", ["SST", "BP5"])
def test_stages_with_sst_are_followed_by_their_stderr(engine: str, tmp_path: Path) -> None:
    """A reader too. When it has ended, at once: its last lines may be the ones."""
    plan = two_stages()
    stages = [
        stage.model_copy(update={"ends": [end.model_copy(update={"engine": engine}) for end in stage.ends]})
        for stage in plan.stages
    ]
    run_dir = write_run(plan.model_copy(update={"stages": stages}), tmp_path)
    filled = read_filled_plan(run_dir)
    follower = Follower(filled.stage("ana"), stage_dir(run_dir, "ana"))
    assert follower.poll(1.0) == []
    (stage_dir(run_dir, "ana") / "stderr.log").write_text(UCX)
    expected = [TransportFault(1.1, "ana", "unreachable", UNREACHABLE)] if engine == "SST" else []
    assert follower.last(1.1, False) == expected


def test_the_event_survives_its_file() -> None:
    fault = TransportFault(1.0, "ana", "misdirected", MISDIRECTED)
    assert from_record(to_record(to_line(fault)) or {}) == fault


MISDIRECTED_CAUSE = (
    f"a message of SST for another process came to sim and was dropped (`{MISDIRECTED}` in its stderr): two "
    "processes have the same id in EVPath, the network layer of ADIOS2. Run it again: the ids will be others. "
    "`make adios2-mpi` builds an ADIOS2 that gives each process an id of its own (docs/how-to/transports.md)"
)


@pytest.mark.parametrize(("is_open", "limit"), [(False, "start"), (True, "step")])
def test_a_misdirected_message_is_the_cause_where_a_deadline_passes(is_open: bool, limit: str) -> None:
    deadlines: dict[str, Any] = {"start": 60, "step": 60, limit: 20}
    run = Run(two_stages(**deadlines))
    run = run.open_all() if is_open else run
    run.feed(TransportFault(3.0, "sim", "misdirected", MISDIRECTED), TransportFault(3.5, "ana", "misdirected", "again"))
    assert run.tick(19.0).state.stopping is None
    assert run.tick(24.0).state.stopping is not None
    end_all(run, 50.0)
    assert run.verdict.state == "failed"
    assert run.verdict.reason.endswith(f": {MISDIRECTED_CAUSE}")


def test_words_in_a_log_end_no_run() -> None:
    """A program may compute for longer than any limit of this code, and its steps may not be seen until it ends."""
    run = Run(two_stages(start=60, step=2000, run=9000)).open_all()
    run.feed(TransportFault(3.0, "sim", "misdirected", MISDIRECTED))
    for step in range(1, 5):
        run.feed(StreamProgress(600.0 * step, "field", "sim", "write", step, 0))
        run.feed(StreamProgress(600.0 * step, "field", "ana", "read", step, 0)).tick(600.0 * step + 599.0)
    assert run.state.stopping is None


def test_a_misdirected_message_that_is_seen_after_the_failure_is_named_too() -> None:
    run = Run(two_stages()).open_all().feed(StageExited(2.0, "ana", None, 11))
    run.feed(TransportFault(2.5, "sim", "misdirected", MISDIRECTED))
    end_all(run, 40.0)
    assert run.verdict.stage == "ana"
    assert run.verdict.reason.startswith("ana was killed by signal 11 (SIGSEGV): a message of SST for another process")


def stalled(plan: Plan, *, read: int = 0, plane: str = "ucx") -> Run:
    """A writer whose reader makes no more step, until the deadline of 20 s has passed."""
    run = Run(plan).open_all()
    run.feed(StreamTransport(1.0, "field", "sim", plane), StreamProgress(1.0, "field", "sim", "write", 2 + read, 64))
    if read:
        run.feed(StreamProgress(1.0, "field", "ana", "read", read, 32))
    return run.tick(30.0)


@pytest.mark.parametrize("nodes", [((0, 1), (1, 2)), ((0, 2), (0, 2)), ((0, 1), (0, 2))])
def test_a_reader_on_another_node_that_never_gets_a_step(nodes: Any) -> None:
    """ADIOS2 prints nothing while it waits."""
    run = stalled(two_stages(nodes, step=20.0))
    assert [getattr(event, "stage", "") for event in run.decisions(DeadlinePassed)] == ["ana"]
    end_all(run, 40.0)
    assert run.verdict.stage == "ana"
    assert run.verdict.reason.startswith("no step for 20 s: ana has been busy for ")
    assert run.verdict.reason.endswith(f" without a first step: {NEEDS_FABRIC.format('')}")


def test_what_it_prints_when_its_writer_is_ended_is_quoted() -> None:
    run = stalled(two_stages(step=20.0)).feed(TransportFault(31.0, "ana", "unreachable", UNREACHABLE))
    end_all(run, 40.0)
    assert run.verdict.reason.endswith(NEEDS_FABRIC.format(f" (in the stderr of ana: `{UNREACHABLE}`)"))


def test_a_reader_that_dies_of_it() -> None:
    run = Run(two_stages()).open_all().feed(StreamProgress(1.0, "field", "sim", "write", 2, 64))
    fault = TransportFault(2.0, "ana", "unreachable", UNREACHABLE)
    run.feed_together(fault, StageExited(2.0, "ana", 139, 11, "one of its ranks")).tick(3.0)
    end_all(run, 40.0)
    assert run.verdict.stage == "ana"
    assert run.verdict.reason == (
        "ana was killed by signal 11 (SIGSEGV): one of its ranks; 2 of 2 steps of field never arrived at ana: "
        + NEEDS_FABRIC.format(f" (in the stderr of ana: `{UNREACHABLE}`)")
    )


@pytest.mark.parametrize(
    "run",
    [
        stalled(two_stages(((0, 1), (0, 1)), step=20.0)),
        stalled(two_stages(step=20.0), read=1),
        stalled(two_stages(step=20.0), plane="evpath"),
    ],
    ids=["one node", "it worked before", "tcp"],
)
def test_where_it_is_not_the_network(run: Run) -> None:
    end_all(run, 40.0)
    assert run.verdict.state == "failed"
    assert "RDMA" not in run.verdict.reason


def test_the_reader_of_a_writer_that_was_killed_is_not_said_to_lack_a_network() -> None:
    """It prints the same: its writer's node does not answer."""
    run = Run(two_stages()).open_all().feed(StreamProgress(1.0, "field", "sim", "write", 2, 64))
    fault = TransportFault(2.0, "ana", "unreachable", UNREACHABLE)
    run.feed_together(fault, StageExited(2.0, "ana", None, 11), StageExited(2.1, "sim", None, 9))
    end_all(run, 40.0)
    assert (run.verdict.stage, run.verdict.reason) == ("sim", "sim was killed by signal 9 (SIGKILL)")
