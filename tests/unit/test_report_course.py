"""What `wf status`, `wf explain` and `wf runs` say of how a run has gone on: restarts, skipped steps, parts, re-use."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.sample_run import START, make_events, make_plan, simulate, write_run
from workflow.formats.stage_file import STAGE_FILE, StageSettings, StreamEnd, to_json
from workflow.plan.plan_model import PartPlan, Plan, RestartPlan
from workflow.report.read.run_records import read_records
from workflow.report.read.run_states import list_runs
from workflow.report.report_files import compute_report, read_report, write_report
from workflow.report.report_model import RestartPart
from workflow.report.show.printing import show_status
from workflow.report.show.run_in_words import MOST_RESTARTS, course_lines, explanation
from workflow.report.show.tables_of_runs import run_table
from workflow.report.show.terminal import Output
from workflow.run.chain import NextPart, write_next_part
from workflow.run.part_record import PartRecord, write_part
from workflow.run.records.run_directory import attempt_dir

Say = Callable[[Path], str]
TWICE = "ended with exit code 3 both times"


def restartable() -> Plan:
    """saxs, with keep, may be started again."""
    plan = make_plan()
    rule = RestartPlan(times=3, within_s=None, backoff_s=0, stages=["saxs", "keep"], from_start=False, same_step="skip")
    stages = [stage.model_copy(update={"restart": rule}) if stage.name == "saxs" else stage for stage in plan.stages]
    return plan.model_copy(update={"stages": stages})


def write_restarted(run_dir: Path, state: str = "succeeded") -> Path:
    """saxs failed twice at step 4, and skips it."""
    metrics = simulate(9, 0.05, 0.05, 0.01)
    decided = {"event": "restart_decided", "stage": "saxs", "stages": ["saxs", "keep"], "step": 4, "at": START}
    begun = {"event": "stages_restarted", "stages": ["saxs", "keep"], "first_step": 4}
    reason = "ended with exit code 3"
    more = [
        decided | {"t": START + 0.3, "reason": reason},
        begun | {"t": START + 0.31, "attempt": 2},
        decided | {"t": START + 0.4, "reason": reason, "skips": 4},
        begun | {"t": START + 0.41, "attempt": 3, "skipped": {"saxs": [4]}},
    ]
    events = sorted([*make_events(metrics, state), *more], key=lambda each: float(each["t"]))
    write_run(run_dir, restartable(), events, metrics)
    for attempt in (2, 3):
        skipped = (4,) if attempt == 3 else ()
        for stage in ("saxs", "keep"):
            folder = attempt_dir(run_dir, stage, attempt)
            folder.mkdir(parents=True)
            ends = [StreamEnd("atoms", "atoms", "read", "SST", "atoms", skipped=skipped if stage == "saxs" else ())]
            (folder / STAGE_FILE).write_text(to_json(StageSettings(stage, 1, ends=ends)))
    return run_dir


def write_part_of(run_dir: Path, before: Path, number: int = 2) -> Path:
    """A run that goes on with an earlier one, or with number 1 re-uses its stage md."""
    part = PartPlan(number=number, run=str(before), finished={"md": {"atoms": 9}}, pieces={})
    metrics = simulate(9, 0.05, 0.05, 0.01)
    events = [each for each in make_events(metrics) if each.get("stage") != "md"]
    write_run(run_dir, make_plan().model_copy(update={"part": part}), events, metrics)
    write_part(run_dir, PartRecord(number, str(before)))
    return run_dir


def write_stopped(run_dir: Path) -> Path:
    metrics = simulate(9, 0.05, 0.05, 0.01)
    return write_run(run_dir, make_plan(), make_events(metrics, "stopped", "", "the job ends"), metrics)


def status(run_dir: Path) -> str:
    """Without the breaks of its lines."""
    text = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    show_status(compute_report(run_dir), Output(text, 500))
    text.seek(0)
    return " ".join(text.read().split())


def explained(run_dir: Path, **run: object) -> str:
    report = compute_report(run_dir)
    report = report.model_copy(update={"run": report.run.model_copy(update=run)})
    return " ".join(explanation(report, read_records(run_dir), has_data=False))


def cells(run_dir: Path) -> dict[str, str]:
    """Title of a column of `wf runs` → what it has of this run."""
    table = run_table(list_runs([run_dir]))
    return {heading.title: cell for heading, cell in zip(table.head, table.rows[0], strict=True)}


@pytest.mark.parametrize("say", [status, explained])
def test_restarts_and_skipped_steps_are_said(tmp_path: Path, say: Say) -> None:
    said = say(write_restarted(tmp_path / "run"))
    assert "saxs ended with exit code 3; attempt 2 began at step 4, together with keep" in said
    assert "attempt 3 began at step 4, together with keep, without step 4, at which it failed twice" in said
    assert f"saxs: step 4 was skipped: {TWICE}" in said


def test_of_a_run_that_was_lost_the_skipped_steps_are_said_too(tmp_path: Path) -> None:
    assert f"saxs: step 4 was skipped: {TWICE}" in explained(write_restarted(tmp_path / "run"), state="lost")


def test_the_report_has_a_note_of_each(tmp_path: Path) -> None:
    notes = compute_report(write_restarted(tmp_path / "run")).notes
    assert [note.partition(" ")[0] for note in notes[:3]] == ["saxs", "saxs", "saxs:"]


def test_the_list_of_runs_has_them_without_the_events(tmp_path: Path) -> None:
    run_dir = write_restarted(tmp_path / "run")
    (line,) = list_runs([run_dir])
    assert line.restarts == {"keep": 2, "saxs": 2} and line.skipped == {"saxs": [4]}
    assert cells(run_dir)["started again"] == "keep 2 times; saxs 2 times, without 1 step"
    assert "started again" not in cells(write_stopped(tmp_path / "other"))


def test_of_many_restarts_the_newest_ones_are_said(tmp_path: Path) -> None:
    report = compute_report(write_restarted(tmp_path / "run"))
    many = [
        RestartPart(
            t=0, stage="saxs", stages=["saxs"], reason=f"fault {n}", attempt=n, first_step=n, replayed=0, gap_s=1
        )
        for n in range(MOST_RESTARTS + 3)
    ]
    lines = course_lines(report.model_copy(update={"restarts": many}))
    assert lines[0] == "3 restarts before these: `wf report` has all of them"
    assert len(lines) == MOST_RESTARTS + 1 and "fault 7" in lines[-1]


@pytest.mark.parametrize("say", [status, explained])
def test_stages_that_are_re_used_are_named(tmp_path: Path, say: Say) -> None:
    run_dir = write_part_of(tmp_path / "new", write_stopped(tmp_path / "old"), number=1)
    said = say(run_dir)
    assert "md: not run, but re-used from old" in said
    assert "did not start" not in said, "nobody expects it to start"
    report = compute_report(run_dir)
    assert report.run.reused_from == "old" and report.run.goes_on_with == ""
    assert [stage.first_step for stage in report.stages] == [None, 0, 0]
    assert cells(run_dir)["re-used from"] == "old"


@pytest.mark.parametrize("say", [status, explained])
def test_both_parts_of_a_run_that_was_resumed_by_hand_name_each_other(tmp_path: Path, say: Say) -> None:
    first = write_stopped(tmp_path / "first")
    assert "goes on with" not in say(first) and "next part" not in cells(first)
    second = write_part_of(tmp_path / "second", first)
    assert "second goes on with first" in say(first)
    assert "part 2 of the run, which goes on with first: md had done its work; keep, saxs began at step 0" in say(
        second
    )
    assert compute_report(first).run.next_part == "second" and compute_report(second).run.goes_on_with == "first"
    assert cells(first)["next part"] == "second"
    # Where both are listed, the line of the second one says it.
    assert "next part" not in [heading.title for heading in run_table(list_runs([first, second])).head]


def test_a_stored_report_says_what_has_been_made_since(tmp_path: Path) -> None:
    first = write_stopped(tmp_path / "first")
    write_next_part(first, NextPart("none", reason="part 1 made no progress"))
    why = "no part follows first: part 1 made no progress"
    assert write_report(first).notes[0] == why and why in status(first)
    write_part_of(tmp_path / "second", first)
    notes = read_report(first).notes
    assert notes[0] == "second goes on with first" and why not in notes
    assert not read_report(first).run.resumable
