"""What a stage has started and not waited for is named when the stage has ended, and when it is killed with the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import run
from workflow.run.records.events_file import read_events
from workflow.run.state.events import ProcessesLeft

PIPELINE = """
stages:
  a: {{command: [/bin/sh, -c, "{start} & exit 0"]}}
  b: {{command: [/bin/sh, -c, "{wait}"]}}
"""
# A daemon has a session of its own.
STARTS = {"in the group": "(sleep 300; echo data > out.txt)", "daemon": "setsid sleep 300"}
# It ends when the warning is in the events.
UNTIL_SAID = "until grep -q '[p]rocesses_left' ../../../events.jsonl; do sleep 0.1; done"


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_work_in_the_background_is_named_at_once_and_when_it_is_killed(start: str, tmp_path: Path) -> None:
    done = run(tmp_path, PIPELINE.format(start=start, wait=UNTIL_SAID))
    said, killed = (event for event in read_events(done.folder) if isinstance(event, ProcessesLeft))
    assert (said.stage, said.killed, killed.stage, killed.killed) == ("a", False, "a", True)
    assert "sleep" in said.programs
    assert "sleep" in killed.programs
    assert done.code == 0, done.said
    report = done.report
    assert killed.text in report.run.reason
    assert killed.text in report.notes
    assert said.text not in report.notes, "what has become of it says all"


def test_work_in_the_background_of_a_short_run_is_named_when_it_is_killed(tmp_path: Path) -> None:
    done = run(tmp_path, PIPELINE.format(start=STARTS["in the group"], wait="exit 0"))
    assert "that a had left running" in done.report.run.reason


def test_a_program_that_waits_for_its_children_leaves_none(tmp_path: Path) -> None:
    done = run(tmp_path, PIPELINE.format(start="sleep 0.1", wait="sleep 1.5"))
    assert done.report.run.reason == ""
