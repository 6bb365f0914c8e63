"""A stage that has closed its streams and does not end, as in MPI_Finalize or in the teardown of a GPU."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.chains import chain
from tests.support.watching import Outcome, describe, kill, run_and_hurt, run_whole
from workflow.report.read.run_states import list_runs
from workflow.report.report_files import compute_report
from workflow.run.state.lifecycle_events import StageSilent
from workflow.run.state.run_state import RunState

AFTER_S = 3.0


def warned(outcome: Outcome) -> list[str]:
    return [event.stage for event in outcome.events() if isinstance(event, StageSilent)]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("stage", ["md", "keep"])
def test_it_is_ended_when_its_deadline_is_set(stage: str, plain: bool, tmp_path: Path) -> None:
    plan = chain("sst", steps=5, plain=plain, options={stage: ["--hold", "closed"]}, exit=2)
    outcome = run_whole(plan, tmp_path)
    story = describe(outcome.state, outcome.run_dir)
    assert (outcome.verdict.state, outcome.verdict.stage) == ("failed", stage), story
    assert "no sign of work for 2 s" in outcome.verdict.reason, story
    assert f"{stage} closed its streams" in outcome.verdict.reason, story
    assert outcome.passed_deadlines() == ["exit"]
    outcome.assert_tidy()


def test_one_that_is_stopped_after_the_close_is_warned_of_and_its_time_goes_on(tmp_path: Path) -> None:
    plan = chain("sst", steps=5, options={"md": ["--stop", "closed"]}, warn=1)
    run_dir, times = tmp_path / "run", list[float]()

    def is_seen(state: RunState, _: Path) -> bool:
        if state.stages["md"].silence is None:
            return False
        report = compute_report(run_dir)
        (line,) = list_runs([run_dir])
        assert any("md closed its streams" in text for text in report.warnings), report.warnings
        assert (report.run.state, line.state) == ("running", "running")
        times.append(min(each or 0.0 for each in (report.run.wall_s, report.stage("md").wall_s, line.wall_s)))
        return times[-1] - times[0] > AFTER_S

    outcome = run_and_hurt(plan, tmp_path, is_seen, kill("md", signal.SIGCONT))
    assert outcome.verdict.state == "succeeded", describe(outcome.state, outcome.run_dir)
    assert set(warned(outcome)) == {"md"}


@pytest.mark.parametrize("plain", [False, True])
def test_one_that_works_is_left_alone(plain: bool, tmp_path: Path) -> None:
    plan = chain("sst", steps=5, plain=plain, options={"md": ["--work", "closed:6"]}, exit=3, warn=3)
    outcome = run_whole(plan, tmp_path)
    assert outcome.verdict.state == "succeeded", describe(outcome.state, outcome.run_dir)
    assert warned(outcome) == []
