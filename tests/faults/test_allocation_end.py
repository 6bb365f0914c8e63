"""A run that is stopped before its allocation ends: all files are closed, all steps that were written are read."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
import time
from pathlib import Path

import adios2
import pytest

from tests.support.chains import chain, make_end, make_plan, make_stage, make_stream, write_run
from tests.support.watching import Outcome, describe
from workflow.errors import EXIT_STOPPED
from workflow.launch.allocation import Allocation, Host
from workflow.plan.plan_model import Plan
from workflow.run import stop_ladder
from workflow.run.supervisor import supervise

LONGEST_S = 60.0
GRACE_S = 6.0


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_ladder, "default_grace_s", lambda _: GRACE_S)


def run_until(plan: Plan, folder: Path, left_s: float = GRACE_S + 2) -> Outcome:
    """Run the plan in an allocation that ends in `left_s`."""
    run_dir = write_run(plan, folder)
    begin = time.monotonic()
    allocation = Allocation("hostfile", "", (Host(platform.node()),), time.time() + left_s)
    state = None
    with contextlib.closing(supervise(run_dir, allocation)) as states:
        for state in states:
            assert time.monotonic() - begin < LONGEST_S, f"hangs: {describe(state, run_dir)}"
    assert state is not None
    assert time.monotonic() - begin < left_s, "it ended after its allocation"
    return Outcome(run_dir, state, time.monotonic() - begin)


def check_stopped(outcome: Outcome) -> None:
    story = describe(outcome.state, outcome.run_dir)
    assert (outcome.verdict.state, outcome.verdict.exit_code) == ("stopped", EXIT_STOPPED), story
    assert "before the end of the allocation" in outcome.verdict.reason
    assert {stage.status for stage in outcome.state.stages.values()} == {"stopped"}, story
    outcome.assert_tidy()


@pytest.mark.parametrize("ranks", [1, 2])
def test_programs_of_workflow_stage_end_by_themselves_and_lose_nothing(ranks: int, tmp_path: Path) -> None:
    outcome = run_until(chain("sst", steps=100_000, step_s=0.01, ranks=ranks), tmp_path)
    check_stopped(outcome)
    ends = outcome.state.ends.values()
    steps = {end.steps for end in ends}
    assert len(steps) == 1
    assert min(steps) > 10, steps
    assert all(end.complete for end in ends), "a stream was not closed"
    assert {stage.code for stage in outcome.state.stages.values()} == {0}, "it took signals to end them"


def test_what_was_written_to_files_is_readable(tmp_path: Path) -> None:
    outcome = run_until(chain("live", steps=100_000, step_s=0.01), tmp_path)
    check_stopped(outcome)
    written = outcome.state.writer("pattern").steps
    with adios2.FileReader(str(outcome.run_dir / "streams/pattern.bp")) as file:
        assert file.num_steps() == written > 10


def test_stages_that_come_after_do_not_start(tmp_path: Path) -> None:
    outcome = run_until(chain("after", steps=100_000, step_s=0.01), tmp_path)
    check_stopped(outcome)
    assert outcome.state.stages["saxs"].started is None


def test_program_ends_by_its_stop_signal(tmp_path: Path) -> None:
    """A program of the user's own, which writes its checkpoint on SIGUSR1."""
    script = "trap 'echo checkpoint > saved; exit 0' USR1; touch ready; while :; do sleep 0.05; done"
    stage = make_stage("sim", ["sh", "-c", script], stop_signal="USR1")
    outcome = run_until(make_plan([stage]), tmp_path)
    check_stopped(outcome)
    assert (outcome.run_dir / "stages/sim/work/saved").read_text() == "checkpoint\n"
    assert outcome.state.stages["sim"].code == 0, "it was not the signal of its `stop_signal` that ended it"


def test_launcher_passes_the_stop_signal_on_to_all_ranks(tmp_path: Path) -> None:
    mpiexec = str(Path(sys.executable).with_name("mpiexec"))
    script = "trap 'echo $PMI_RANK > saved.$PMI_RANK; exit 0' USR1; while :; do sleep 0.05; done"
    launch = {"launcher": "mpiexec", "executable": mpiexec}
    stage = make_stage("sim", ["sh", "-c", script], stop_signal="USR1", launch=launch, ranks=3)
    outcome = run_until(make_plan([stage]), tmp_path)
    check_stopped(outcome)
    work = outcome.run_dir / "stages/sim/work"
    assert sorted(path.name for path in work.glob("saved.*")) == ["saved.0", "saved.1", "saved.2"]


def test_program_that_looks_for_the_file_ends_by_itself(tmp_path: Path) -> None:
    script = 'while [ ! -e "$0" ]; do sleep 0.05; done; cat "$0" > seen'
    stage = make_stage("sim", ["sh", "-c", script, "${{ run.dir }}/stop"])
    outcome = run_until(make_plan([stage]), tmp_path)
    # wf cannot know that it would have done more.
    assert outcome.verdict.state == "succeeded"
    assert "before the end of the allocation" in (outcome.run_dir / "stages/sim/work/seen").read_text()


def test_program_that_ignores_everything_is_killed_before_the_end(tmp_path: Path) -> None:
    script = "trap '' INT TERM USR1; touch held; while :; do sleep 0.05; done"
    outcome = run_until(make_plan([make_stage("sim", ["sh", "-c", script])]), tmp_path)
    check_stopped(outcome)
    assert outcome.state.stages["sim"].signal == signal.SIGKILL


def test_program_may_ask_and_save_its_state(tmp_path: Path) -> None:
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
    outcome = run_until(plan, tmp_path)
    check_stopped(outcome)
    work = outcome.run_dir / "stages/md/work"
    assert int((work / "checkpoint").read_text()) == outcome.state.writer("atoms").steps
    assert (work / "after").exists(), "it was ended before its own end"


def test_run_that_ends_in_time_is_not_told(tmp_path: Path) -> None:
    outcome = run_until(chain("sst", steps=5), tmp_path)
    assert outcome.verdict.state == "succeeded"
    assert not (outcome.run_dir / "stop").exists()
