"""A stage that fails: those that could go on without it end as at `wf cancel`, with whole steps and closed files."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import adios2
import pytest

from tests.support.chains import PROGRAMS, ROOT, chain, make_end, make_plan, make_stage, make_stream
from tests.support.watching import Outcome, describe, held, kill, run_and_hurt, stepped
from workflow.plan.plan_model import Plan

STOP_S = 20.0
TRAP = "trap 'echo checkpoint > saved; exit 0' USR1; touch held; while :; do sleep 0.05; done"


def check(outcome: Outcome, culprit: str) -> None:
    story = describe(outcome.state, outcome.run_dir)
    assert (outcome.verdict.state, outcome.verdict.exit_code, outcome.verdict.stage) == ("failed", 1, culprit), story
    outcome.assert_tidy()


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_simulation_ends_at_a_step_when_its_consumer_fails(ranks: int, tmp_path: Path) -> None:
    plan = chain("sst", steps=100_000, step_s=0.01, ranks=ranks, stop=STOP_S)
    outcome = run_and_hurt(plan, tmp_path, stepped("keep", 5), kill("keep"))
    check(outcome, "keep")
    ends = outcome.state.writer("atoms"), outcome.state.ends["atoms", "saxs", "read"]
    assert all(end.complete for end in ends), describe(outcome.state, outcome.run_dir)
    assert {outcome.state.stages[name].code for name in ("md", "saxs")} == {0}, "it took signals to end them"
    assert "keep was killed by signal 9" in (outcome.run_dir / "stop").read_text()


def own_and_killed(stop_signal: str | None = None) -> Plan:
    sim = make_stage("sim", ["sh", "-c", TRAP], stop_signal=stop_signal)
    return make_plan([sim, make_stage("look", ["sleep", "100"])], stop=STOP_S)


def test_the_simulation_gets_its_stop_signal_when_another_stage_fails(tmp_path: Path) -> None:
    outcome = run_and_hurt(own_and_killed(stop_signal="USR1"), tmp_path, held("sim"), kill("look"))
    check(outcome, "look")
    assert (outcome.run_dir / "stages/sim/work/saved").read_text() == "checkpoint\n"
    assert outcome.state.stages["sim"].code == 0, "it was not the signal of its `stop_signal` that ended it"


def test_a_simulation_that_cannot_be_told_is_interrupted(tmp_path: Path) -> None:
    outcome = run_and_hurt(own_and_killed(), tmp_path, held("sim"), kill("look"))
    check(outcome, "look")
    assert outcome.state.stages["sim"].signal == signal.SIGINT


def test_what_the_simulation_writes_to_a_file_is_whole(tmp_path: Path) -> None:
    """Its SST stream has lost its reader; the file beside it is closed, and has as many steps."""
    program = tmp_path / "sim.py"
    program.write_text("""
import numpy, time
from workflow import stage
with stage.open_writer("atoms") as live, stage.open_writer("kept") as kept:
    for number in range(100_000):
        for out in (live, kept):
            with out.step():
                out.write("x", numpy.full(3, float(number)))
        time.sleep(0.01)
""")
    env = {"PYTHONPATH": str(ROOT)}
    ends = [make_end("atoms", "write"), make_end("kept", "write", "live")]
    sim = make_stage("sim", [sys.executable, str(program)], ends, env=env)
    look = make_stage("look", [sys.executable, str(PROGRAMS / "staged.py")], [make_end("atoms", "read")], env=env)
    streams = [make_stream("atoms", "sim", ["look"]), make_stream("kept", "sim", [], "live")]
    outcome = run_and_hurt(make_plan([sim, look], streams, stop=STOP_S), tmp_path, stepped("look", 5), kill("look"))
    check(outcome, "look")
    assert outcome.state.stages["sim"].code == 0
    with adios2.FileReader(str(outcome.run_dir / "streams/kept.bp")) as file:
        assert file.num_steps() == outcome.state.writer("atoms").steps


@pytest.mark.parametrize("plain", [False, True])
def test_a_reader_of_a_dead_writer_is_not_waited_for(plain: bool, tmp_path: Path) -> None:
    plan = chain("sst", steps=100_000, step_s=0.01, plain=plain, stop=60)
    outcome = run_and_hurt(plan, tmp_path, stepped("keep", 5), kill("md"))
    assert outcome.verdict.stage == "md"
    assert not (outcome.run_dir / "stop").exists(), "somebody was told"
