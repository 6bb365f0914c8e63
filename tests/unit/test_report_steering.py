"""What the report says of values that were changed while a run went on."""

from __future__ import annotations

from pathlib import Path

from tests.support.sample_run import START, make_events, make_plan, simulate, write_run
from workflow.plan.plan_model import FROM_FILE
from workflow.report.build.steering_notes import MOST_KEPT
from workflow.report.report_files import compute_report


def write_steered(run_dir: Path, *events: dict[str, object]) -> Path:
    """A run that has ended, with these events about its values."""
    metrics = simulate(9, 0.05, 0.05, 0.01)
    more = [{"t": START + 0.3, **each} for each in events]
    stored = sorted([*make_events(metrics, "succeeded"), *more], key=lambda each: float(each["t"]))
    write_run(run_dir, make_plan(), stored, metrics)
    return run_dir


def test_changes_of_two_stages_with_the_same_id_are_two(tmp_path: Path) -> None:
    """So they are where two stages have `at:` for the same name and step."""
    same = {"id": "speed-at-4", "step": 4, "old": {"speed": 1.0}, "by": FROM_FILE}
    refused = {"event": "steering_refused", "id": "x", "values": {"speed": 9.0}, "by": "ada", "reason": "no"}
    run = write_steered(
        tmp_path / "run",
        {"event": "stage_steered", "stage": "md", "new": {"speed": 2.0}, **same},
        {"event": "stage_steered", "stage": "saxs", "new": {"speed": 3.0}, **same},
        {"event": "stage_steered", "stage": "saxs", "new": {"speed": 3.0}, **same, "t": START + 0.4},
        {**refused, "stage": "md"},
        {"event": "steering_asked", "id": "x", "stage": "saxs", "values": {"speed": 9.0}, "by": "ada", "step": None},
    )
    report = compute_report(run)
    assert [(each.stage, each.new["speed"]) for each in report.steering] == [("md", 2.0), ("saxs", 3.0), ("md", 9.0)]
    assert any(note.startswith("saxs did not take speed, requested by ada") for note in report.notes)


def test_of_many_that_were_not_taken_the_newest_are_noted(tmp_path: Path) -> None:
    asked = {"event": "steering_asked", "stage": "md", "values": {"speed": 2.0}, "by": "stage saxs"}
    many = [{**asked, "id": str(number), "step": 1000 + number} for number in range(MOST_KEPT + 20)]
    notes = [
        each
        for each in compute_report(write_steered(tmp_path / "run", *many)).notes
        if "taken" in each or "take" in each
    ]
    assert len(notes) == MOST_KEPT + 1
    assert notes[0] == "20 changes before these not taken either: `wf events` has all"
    assert notes[-1].endswith(f"step {1000 + MOST_KEPT + 19} was not reached")
