"""What the programs of stages say of their run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.sample_run import write_sample
from workflow.report.build.report_notes import program_notes
from workflow.report.read.stage_metrics import join_attempts, read_metrics
from workflow.report.report_files import compute_report
from workflow.report.report_model import StagePart


def say(metrics: Path, *texts: str) -> None:
    with metrics.open("a", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"kind": "note", "t": 1.0, "text": text}) + "\n")


def test_the_last_five_notes_of_a_stage_are_in_the_report(tmp_path: Path) -> None:
    run = write_sample(tmp_path / "run", steps=3)
    say(run / "stages/saxs/metrics.jsonl", *(f"remark {number}" for number in range(7)))
    report = compute_report(run)
    assert report.stage("saxs").notes == [f"remark {number}" for number in range(2, 7)]
    assert [each for each in report.notes if "remark" in each] == [f"saxs: remark {number}" for number in range(2, 7)]


def test_a_stage_that_was_started_again_has_the_notes_of_all_attempts(tmp_path: Path) -> None:
    for number in (1, 2):
        say(tmp_path / f"{number}.jsonl", f"attempt {number}")
    parts = [read_metrics(tmp_path / f"{number}.jsonl") for number in (1, 2)]
    assert join_attempts([(lambda _: 0, part) for part in parts]).notes == ["attempt 1", "attempt 2"]


def test_of_many_members_the_first_ones_are_heard(tmp_path: Path) -> None:
    md = compute_report(write_sample(tmp_path / "run", steps=3)).stages[0]
    stages: list[StagePart] = [
        md.model_copy(update={"name": f"md-{number}", "ensemble": "md", "notes": ["nothing found"]})
        for number in range(1000)
    ]
    first = [f"md-{number}: nothing found" for number in range(3)]
    assert program_notes(stages) == [*first, "997 more of members of md: `--json`"]
    alone = md.model_copy(update={"name": "alone", "notes": ["a", "b", "c", "d"]})
    assert program_notes([*stages[:3], alone]) == [*first, *(f"alone: {text}" for text in "abcd")]
