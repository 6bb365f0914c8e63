"""Notes and tags of a run: written by anybody at any time, shown wherever the run is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.sample_run import write_sample
from workflow.cli.main import wf
from workflow.errors import RunError, WfError
from workflow.formats.job_end_file import JOB_END_FILE
from workflow.report.report_files import compute_report, read_report, write_report
from workflow.run.records.run_directory import written_data
from workflow.run.records.run_notes import LONGEST_TEXT, NOTES_FILE, add_note, check_tags, read_notes


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_sample(tmp_path / "runs/chain")
    write_sample(tmp_path / "runs/other")
    return Path("runs/chain")


def wf_says(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(wf, list(words), env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert done.exit_code == code, done.output
    return done.output


def test_notes_are_kept_in_order_with_their_writers_and_tags_once(run: Path) -> None:
    add_note(run, "the first try", ["trial", "fig.2"])
    add_note(run, tags=["trial", "paper"])
    found = read_notes(run)
    assert found.tags == ["trial", "fig.2", "paper"]
    assert [note.text for note in found.with_text] == ["the first try"]
    assert "@" in found.notes[0].user
    line = json.loads((run / NOTES_FILE).read_text().splitlines()[0])
    assert set(line) == {"t", "user", "text", "tags"}


def test_damaged_lines_are_counted_and_the_others_kept(run: Path) -> None:
    add_note(run, "whole")
    good = json.loads((run / NOTES_FILE).read_text())
    bad = [{**good, "t": None}, {**good, "tags": ["a b"]}, {**good, "tags": "ab"}, {**good, "more": 1}, []]
    with (run / NOTES_FILE).open("a") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in bad)
        file.write("{half")
    found = read_notes(run)
    assert [note.text for note in found.notes] == ["whole"]
    assert found.unreadable == len(bad)
    assert compute_report(run).notes[-1] == "notes.jsonl is damaged: 5 lines could not be read"
    assert "notes.jsonl is damaged" in wf_says("note", "chain")


def test_what_others_write_does_not_steer_a_terminal(run: Path) -> None:
    record = {"t": 1.0, "user": "ada@\x1b[2J", "text": "a\x1b]0;b\x07\nc", "tags": []}
    (run / NOTES_FILE).write_text(json.dumps(record) + "\n")
    (note,) = read_notes(run).notes
    assert note.text.isprintable() and note.user.isprintable()


@pytest.mark.parametrize("tag", ["", "two words", "a/b", "-x", "a\n", "x" * 65])
def test_a_bad_tag_is_refused_with_what_a_tag_is(tag: str) -> None:
    with pytest.raises(WfError, match="is not a tag"):
        check_tags([tag])


def test_good_tags_are_taken_once() -> None:
    assert check_tags(["fig.2", "a:b-c_d", "größe", "fig.2"]) == ["fig.2", "a:b-c_d", "größe"]


def test_a_text_that_is_too_long_and_a_directory_that_is_not_there_are_refused(run: Path) -> None:
    with pytest.raises(WfError, match="at most 10,000 characters"):
        add_note(run, "x" * (LONGEST_TEXT + 1))
    with pytest.raises(RunError, match="cannot write"):
        add_note(run / "gone", "text")


def test_a_note_after_the_report_was_written_is_in_the_next_report(run: Path) -> None:
    assert write_report(run).tags == []
    add_note(run, "kept for the paper", ["paper"])
    report = read_report(run)
    assert report.tags == ["paper"]
    assert [note.text for note in report.user_notes] == ["kept for the paper"]
    write_report(run)
    page = (run / "report.html").read_text()
    assert "kept for the paper" in page and "<dt>tags</dt><dd>paper</dd>" in page
    assert json.loads((run / "report.json").read_text())["user_notes"][0]["text"] == "kept for the paper"


@pytest.mark.usefixtures("run")
def test_the_verb_adds_and_shows_notes() -> None:
    assert "no notes" in wf_says("note", "chain")
    said = wf_says("note", "chain", "the first try", "--tag", "trial", "--tag", "fig.2")
    assert "tags: trial, fig.2" in said and "the first try" in said
    assert wf_says("note", "chain") == said
    assert json.loads(wf_says("note", "chain", "--json"))["tags"] == ["trial", "fig.2"]
    for verb in ("status", "report"):
        assert "tags: trial, fig.2" in wf_says(verb, "chain") and "the first try" in wf_says(verb, "chain")
    assert isinstance(CliRunner().invoke(wf, ["note", "chain", " "]).exception, WfError)
    assert isinstance(CliRunner().invoke(wf, ["note", "chain", "--tag", "a b"]).exception, WfError)


@pytest.mark.usefixtures("run")
def test_runs_are_listed_by_tag_with_columns_only_where_there_is_something() -> None:
    assert "tags" not in wf_says("runs") and "newest note" not in wf_says("runs")
    wf_says("note", "chain", "the first try", "--tag", "trial", "--tag", "fig.2")
    said = wf_says("runs")
    assert "trial fig.2" in said and "the first try" in said and "other" in said
    assert "other" not in wf_says("runs", "--tag", "trial", "--tag", "fig.2")
    (line,) = json.loads(wf_says("runs", "--tag", "trial", "--json"))["runs"]
    assert (line["name"], line["tags"], line["note"]) == ("chain", ["trial", "fig.2"], "the first try")
    error = CliRunner().invoke(wf, ["runs", "--tag", "trial", "--tag", "none"]).exception
    assert isinstance(error, RunError) and "no run here has the tag trial and none" in str(error)


def test_notes_and_the_end_of_the_job_are_records_and_no_data(run: Path) -> None:
    add_note(run, "stays")
    (run / JOB_END_FILE).write_text("{}")
    assert not {run / NOTES_FILE, run / JOB_END_FILE} & set(written_data(run))
