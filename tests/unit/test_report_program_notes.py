"""What the programs of stages say of their run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.sample_run import write_sample
from workflow.formats.stage_file import StageSettings, StreamEnd
from workflow.report.build.report_notes import program_notes
from workflow.report.read.stage_metrics import join_attempts, read_metrics
from workflow.report.report_files import compute_report
from workflow.report.report_model import StagePart
from workflow.stage import settings
from workflow.stage.api import notes
from workflow.stage.stage_errors import StageError


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


@pytest.mark.parametrize("explained", [False, True])
def test_only_a_note_that_says_why_replaces_the_warning_of_a_stream_without_steps(
    tmp_path: Path, explained: bool
) -> None:
    run = write_sample(tmp_path / "run", steps=0)
    why = {"no_steps": ["atoms"]} if explained else {}
    with (run / "stages/md/metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": "note", "t": 1.0, "text": "a remark", **why}) + "\n")
    report = compute_report(run)
    assert "md: a remark" in report.notes
    assert ("stream atoms: md wrote no step" in report.warnings) is not explained


def test_a_note_names_the_streams_of_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, object]] = []
    metrics = SimpleNamespace(write=lambda kind, **fields: said.append({"kind": kind, **fields}))
    monkeypatch.setattr(notes, "process_metrics", lambda: metrics)
    notes.note("by hand", no_steps="output")  # there are no ports
    ports = {"a": "out", "b": "out", "c": "other"}
    ends = [StreamEnd(stream, port, "write", "BP5", stream) for stream, port in ports.items()]
    monkeypatch.setattr(settings, "current", lambda: StageSettings("s", 1, ends=ends))
    notes.note("none", no_steps="out")
    notes.note("a remark")
    assert [each.get("no_steps") for each in said] == [None, ["a", "b"], None]
    with pytest.raises(StageError, match="ouput"):
        notes.note("none", no_steps="ouput")


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
    assert program_notes(stages) == [*first, "997 more notes of members of md: `--json`"]
    alone = md.model_copy(update={"name": "alone", "notes": ["a", "b", "c", "d"]})
    assert program_notes([*stages[:3], alone]) == [*first, *(f"alone: {text}" for text in "abcd")]
