"""How the stages of one launch line ended, from what each of their ranks noted and from the launcher's own end."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import make_end, make_plan, make_stage, make_stream
from workflow.formats.rank_files import EXITS_FILE
from workflow.plan.plan_model import GroupPlan, LaunchPlan, Plan
from workflow.run.lifecycle import step
from workflow.run.processes.mpmd_launches import MpmdLaunch, MpmdLaunches
from workflow.run.processes.stage_processes import Ending
from workflow.run.state.events import RunStarted, StageExited, StageStarted, Tick
from workflow.run.state.run_state import initial_state

Note = Callable[..., None]


def plan() -> Plan:
    group = GroupPlan(
        name="a",
        stages=["a", "b"],
        ranks={"a": (0, 2), "b": (2, 1)},
        streams={},
        launch=LaunchPlan(launcher="mpiexec", executable="mpiexec"),
    )
    stages = [
        make_stage("a", ["a"], [make_end("data", "write")], ranks=2),
        make_stage("b", ["b"], [make_end("data", "read")]),
    ]
    return make_plan(stages, [make_stream("data", "a", ["b"])]).model_copy(update={"groups": [group]})


@pytest.fixture
def note(tmp_path: Path) -> Note:
    def write(stage: str, t: float, code: int | None, number: int | None = None) -> None:
        folder = tmp_path / "stages" / stage
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / EXITS_FILE).open("a") as file:
            file.write(json.dumps({"t": t, "code": code, "signal": number}) + "\n")

    return write


@pytest.fixture
def launch(tmp_path: Path) -> MpmdLaunch:
    found = MpmdLaunches(plan(), tmp_path).of("b")
    assert found is not None
    return found


def test_torn_and_mixed_notes_are_read_when_they_are_whole(launch: MpmdLaunch, note: Note, tmp_path: Path) -> None:
    note("a", 1.0, 0)
    file = tmp_path / "stages/a" / EXITS_FILE
    whole = file.read_text()
    for torn in ('{"t": 2.0, {"t": 2.5, "code": 0', '"signal": null}', "\0\0\0", '{"t": 2.0}', "7"):
        file.write_text(f"{torn}\n{whole}")
        assert launch.poll(tmp_path) == [], torn
    file.write_text(whole)
    note("a", 2.0, 0)
    assert launch.poll(tmp_path) == [("a", Ending(0, None))]


def test_a_stage_has_ended_when_all_its_ranks_have(launch: MpmdLaunch, note: Note, tmp_path: Path) -> None:
    note("a", 1.0, 0)
    assert launch.poll(tmp_path) == []
    note("a", 2.0, 0)
    assert launch.poll(tmp_path) == [("a", Ending(0, None))]
    assert launch.poll(tmp_path) == [], "told twice"


def test_one_rank_that_fails_is_enough_and_the_first_is_first(launch: MpmdLaunch, note: Note, tmp_path: Path) -> None:
    note("a", 2.0, None, 15)
    note("b", 1.0, 3)
    assert launch.poll(tmp_path) == [("b", Ending(3, None)), ("a", Ending(None, 15, "one of its ranks"))]


def test_who_left_no_note_was_ended_by_the_launcher(launch: MpmdLaunch, note: Note, tmp_path: Path) -> None:
    note("b", 1.0, 3)
    assert launch.last(tmp_path, Ending(3, None)) == [("b", Ending(3, None)), ("a", Ending(3, None))]


@pytest.mark.parametrize("started", [False, True])
def test_success_of_the_launcher_counts_for_stages_without_records(
    launch: MpmdLaunch, note: Note, tmp_path: Path, started: bool
) -> None:
    """Their disk was full when they started, or since then."""
    note("b", 1.0, 0)
    if started:
        (tmp_path / "stages/a").mkdir()
        (tmp_path / "stages/a" / EXITS_FILE).write_text('{"t": 0.5, "started": 7}\n')
    (_, (name, ending)) = launch.last(tmp_path, Ending(0, None))
    assert (name, ending.code, ending.signal) == ("a", 0, None)
    assert "exit code of its launcher" in ending.note


def test_a_failure_on_record_is_not_hidden_by_the_launcher(launch: MpmdLaunch, note: Note, tmp_path: Path) -> None:
    note("b", 1.0, 3)
    assert [(name, ending.code, ending.signal) for name, ending in launch.last(tmp_path, Ending(0, None))] == [
        ("b", 3, None),
        ("a", None, signal.SIGKILL),
    ]


def test_the_last_read_does_not_believe_a_size_that_the_system_remembers(
    launch: MpmdLaunch, note: Note, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS, where `stat` may show the size of a moment ago."""
    note("a", 1.0, 0)
    note("a", 1.0, 0)
    note("b", 1.0, 3)
    empty = tmp_path / "empty"
    empty.touch()
    stat = empty.stat()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", lambda *_, **__: stat)
        assert launch.poll(tmp_path) == []
        assert launch.last(tmp_path, Ending(3, None)) == [("b", Ending(3, None)), ("a", Ending(0, None))]


def test_a_launcher_that_ends_well_before_its_stages_has_not(launch: MpmdLaunch, note: Note, tmp_path: Path) -> None:
    """One of two ranks has left the record of its end."""
    note("a", 1.0, 0)
    note("b", 1.0, 0)
    (_, (name, ending)) = launch.last(tmp_path, Ending(0, None))
    assert (name, ending.signal) == ("a", signal.SIGKILL)
    assert "its launcher ended, with exit code 0" in ending.note


def test_mpi_says_who_aborted(launch: MpmdLaunch, tmp_path: Path) -> None:
    (tmp_path / "stages/b").mkdir(parents=True)
    (tmp_path / "stages/b/stderr.log").write_text("Abort(5) on node 2 (rank 2 in comm 0): application called MPI_Abort")
    assert [ended.stage for ended in launch.last(tmp_path, Ending(5, None))] == ["b", "a"]


@pytest.mark.parametrize("together", [False, True])
def test_the_others_of_a_launch_are_stopped_and_not_at_fault(together: bool) -> None:
    """The stage whose end comes first is at fault, also where all ends are seen at the same time."""
    state = initial_state(plan())
    facts: list[Any] = [RunStarted(0.0, "run", 1, 1, "here"), StageStarted(0.0, "a", 1), StageStarted(0.0, "b", 1)]
    # A reader that fails is not blamed at once, since its writer may have died first; here that cannot be.
    ends = [StageExited(1.0, "b", 3, None), StageExited(1.0, "a", 3, None)]
    for events in [*([fact] for fact in facts), *([ends] if together else [[end] for end in ends]), [Tick(2.0)]]:
        state, _ = step(state, *events)
    assert {name: stage.status for name, stage in state.stages.items()} == {"a": "stopped", "b": "failed"}
    assert state.culprit == "b"
