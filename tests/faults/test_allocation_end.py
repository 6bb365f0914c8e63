"""A run that is stopped before its allocation ends: all files are closed, all steps that were written are read."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import adios2
import pytest

from tests.support.chains import chain, make_end, make_plan, make_stage, make_stream, write_run
from tests.support.watching import Condition, Outcome, describe, held, stepped
from workflow.errors import EXIT_STOPPED
from workflow.launch.allocation import Allocation, Host
from workflow.plan.plan_model import Plan
from workflow.run import stop_sequence
from workflow.run.state.events import Clock, StopPlanned
from workflow.run.state.lifecycle_events import RunFinished
from workflow.run.supervisor import supervise

LONGEST_S = 120.0
GRACE_S = 6.0
# Less than the deadline of a step, and more than the start of a run takes anywhere.
LEFT_S = 50.0
Stop = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_sequence, "default_grace_s", lambda _: GRACE_S)


@pytest.fixture
def run_until(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """Run a plan in an allocation that ends in LEFT_S; once a condition holds, the run's clock goes to its stop."""
    skipped_s, now = [0.0], Clock.now
    monkeypatch.setattr(Clock, "now", lambda clock: now(clock) + skipped_s[0])

    def run(plan: Plan, folder: Path, when: Condition) -> Outcome:
        run_dir = write_run(plan, folder)
        begin, state = time.monotonic(), None
        allocation = Allocation("hostfile", "", (Host(platform.node()),), time.time() + LEFT_S)
        with contextlib.closing(supervise(run_dir, allocation)) as states:
            for state in states:
                if not skipped_s[0] and state.stop_at is not None and when(state, run_dir):
                    skipped_s[0] = max(0.0, state.stop_at - Clock().now())
                assert time.monotonic() - begin < LONGEST_S, f"hangs: {describe(state, run_dir)}"
        assert state is not None
        outcome = Outcome(run_dir, state)
        (end,) = [event.end for event in outcome.events() if isinstance(event, StopPlanned)]
        (finished,) = [event.t for event in outcome.events() if isinstance(event, RunFinished)]
        assert finished < end, "it ended after its allocation"
        return outcome

    return run


def files(*names: str) -> Condition:
    """The program of stage `sim` has made these files."""
    return lambda _, run_dir: all((run_dir / "stages/sim/work" / name).exists() for name in names)


def check_stopped(outcome: Outcome) -> None:
    story = describe(outcome.state, outcome.run_dir)
    assert (outcome.verdict.state, outcome.verdict.exit_code) == ("stopped", EXIT_STOPPED), story
    assert "before the end of the allocation" in outcome.verdict.reason
    assert {stage.status for stage in outcome.state.stages.values()} == {"stopped"}, story
    outcome.assert_tidy()


@pytest.mark.parametrize("ranks", [1, 2])
def test_programs_of_workflow_stage_end_by_themselves_and_lose_nothing(
    ranks: int, run_until: Stop, tmp_path: Path
) -> None:
    outcome = run_until(chain("sst", steps=100_000, step_s=0.01, ranks=ranks), tmp_path, stepped("keep", 11))
    check_stopped(outcome)
    ends = outcome.state.ends.values()
    steps = {end.steps for end in ends}
    assert len(steps) == 1
    assert min(steps) > 10, steps
    assert all(end.complete for end in ends), "a stream was not closed"
    assert {stage.code for stage in outcome.state.stages.values()} == {0}, "it took signals to end them"


def test_what_was_written_to_files_is_readable(run_until: Stop, tmp_path: Path) -> None:
    outcome = run_until(chain("live", steps=100_000, step_s=0.01), tmp_path, stepped("keep", 11))
    check_stopped(outcome)
    written = outcome.state.writer("pattern").steps
    with adios2.FileReader(str(outcome.run_dir / "streams/pattern.bp")) as file:
        assert file.num_steps() == written > 10


def test_stages_that_come_after_do_not_start(run_until: Stop, tmp_path: Path) -> None:
    outcome = run_until(chain("after", steps=100_000, step_s=0.01), tmp_path, stepped("md", 1))
    check_stopped(outcome)
    assert outcome.state.stages["saxs"].started is None


def test_program_ends_by_its_stop_signal(run_until: Stop, tmp_path: Path) -> None:
    """A program of the user's own, which writes its checkpoint on SIGUSR1."""
    script = "trap 'echo checkpoint > saved; exit 0' USR1; touch ready; while :; do sleep 0.05; done"
    stage = make_stage("sim", ["sh", "-c", script], stop_signal="USR1")
    outcome = run_until(make_plan([stage]), tmp_path, files("ready"))
    check_stopped(outcome)
    assert (outcome.run_dir / "stages/sim/work/saved").read_text() == "checkpoint\n"
    assert outcome.state.stages["sim"].code == 0, "it was not the signal of its `stop_signal` that ended it"


def test_launcher_passes_the_stop_signal_on_to_all_ranks(run_until: Stop, tmp_path: Path) -> None:
    mpiexec = str(Path(sys.executable).with_name("mpiexec"))
    script = "trap 'echo $PMI_RANK > saved.$PMI_RANK; exit 0' USR1; touch ready.$PMI_RANK; while :; do sleep 0.05; done"
    launch = {"launcher": "mpiexec", "executable": mpiexec}
    stage = make_stage("sim", ["sh", "-c", script], stop_signal="USR1", launch=launch, ranks=3)
    outcome = run_until(make_plan([stage]), tmp_path, files("ready.0", "ready.1", "ready.2"))
    check_stopped(outcome)
    work = outcome.run_dir / "stages/sim/work"
    assert sorted(path.name for path in work.glob("saved.*")) == ["saved.0", "saved.1", "saved.2"]


def test_program_that_looks_for_the_file_ends_by_itself(run_until: Stop, tmp_path: Path) -> None:
    script = 'touch ready; while [ ! -e "$0" ]; do sleep 0.05; done; cat "$0" > seen'
    stage = make_stage("sim", ["sh", "-c", script, "${{ run.dir }}/stop"])
    outcome = run_until(make_plan([stage]), tmp_path, files("ready"))
    # wf cannot know that it would have done more.
    assert outcome.verdict.state == "succeeded"
    assert "before the end of the allocation" in (outcome.run_dir / "stages/sim/work/seen").read_text()


def test_program_that_ignores_everything_is_killed_before_the_end(run_until: Stop, tmp_path: Path) -> None:
    script = "trap '' INT TERM USR1; touch held; while :; do sleep 0.05; done"
    outcome = run_until(make_plan([make_stage("sim", ["sh", "-c", script])]), tmp_path, held("sim"))
    check_stopped(outcome)
    assert outcome.state.stages["sim"].signal == signal.SIGKILL


def test_program_may_ask_and_save_its_state(run_until: Stop, tmp_path: Path) -> None:
    program = """
        import numpy, pathlib, time
        from workflow import stage
        with stage.open_writer() as out:
            for step in range(100_000):
                if stage.stop_requested():
                    pathlib.Path("checkpoint").write_text(str(step))
                    break
                with out.step():
                    out.write("x", numpy.ones(3))
                time.sleep(0.01)
        pathlib.Path("after").touch()
    """
    (tmp_path / "sim.py").write_text("\n".join(line.removeprefix(" " * 8) for line in program.splitlines()))
    plan = chain("sst", sink=False)
    env = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
    sim = make_stage("md", [sys.executable, str(tmp_path / "sim.py")], [make_end("atoms", "write")], env=env)
    plan = make_plan([sim, plan.stage("saxs")], [make_stream("atoms", "md", ["saxs"])])
    outcome = run_until(plan, tmp_path, stepped("saxs", 1))
    check_stopped(outcome)
    work = outcome.run_dir / "stages/md/work"
    assert int((work / "checkpoint").read_text()) == outcome.state.writer("atoms").steps
    assert (work / "after").exists(), "it was ended before its own end"


def test_run_that_ends_in_time_is_not_told(run_until: Stop, tmp_path: Path) -> None:
    outcome = run_until(chain("sst", steps=5), tmp_path, lambda *_: False)
    assert outcome.verdict.state == "succeeded"
    assert not (outcome.run_dir / "stop").exists()
