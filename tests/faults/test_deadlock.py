"""Real stages that wait for each other: named within seconds, though no deadline is near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.recorded_runs import RUNS
from tests.support.watching import describe, run_whole
from workflow.run.state.lifecycle_events import DeadlockFound


@pytest.mark.parametrize(
    ("name", "stage", "words"),
    [
        ("opens-one-of-two", "corr", "wave waits in open for corr to open forcing"),
        ("reads-one-of-two", "corr", "corr has not read forcing"),
        ("circle", "one", "one and two wait for each other"),
    ],
)
def test_stages_that_wait_for_each_other_stop_the_run(name: str, stage: str, words: str, tmp_path: Path) -> None:
    outcome = run_whole(RUNS[name][0], tmp_path)
    story = describe(outcome.state, outcome.run_dir)
    assert (outcome.verdict.state, outcome.verdict.stage) == ("failed", stage), story
    assert outcome.verdict.reason.startswith("deadlock: "), story
    assert words in outcome.verdict.reason
    assert [event.stage for event in outcome.events() if isinstance(event, DeadlockFound)] == [stage]
    outcome.assert_tidy()
