"""What the report says of values that were changed while a run went on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.sample_run import START, make_events, make_plan, simulate, write_run
from workflow.plan.plan_model import FROM_FILE, SteerPlan
from workflow.report.build.steering_notes import MOST_KEPT, steering_note
from workflow.report.report_files import compute_report
from workflow.report.show.event_lines import event_text
from workflow.run.records.events_file import read_events


def write_steered(run_dir: Path, *events: Mapping[str, object]) -> Path:
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


def test_values_have_their_units(tmp_path: Path) -> None:
    """In the note, which status shows, too, and in the lines of events."""
    changed = {"event": "stage_steered", "id": "a", "stage": "md", "by": "ada", "step": 4}
    refused = {
        "event": "steering_refused",
        "id": "b",
        "stage": "md",
        "by": "ada",
        "values": {"gain": 9.0},
        "reason": "no",
    }
    asked = {"event": "steering_asked", "id": "c", "stage": "md", "by": "ada", "values": {"gain": 3.0}, "step": None}
    new = {"old": {"gain": 1.0, "on": False}, "new": {"gain": 2.5, "on": True}}
    run = write_steered(tmp_path / "run", {**changed, **new}, refused, asked)
    plan = make_plan()
    gain, on = SteerPlan(type="float", value=1.0, unit="mm"), SteerPlan(type="bool", value=False)
    md = plan.stages[0].model_copy(update={"steer": {"gain": gain, "on": on}})
    plan = plan.model_copy(update={"stages": [md, *plan.stages[1:]]})
    (run / "plan.json").write_text(plan.to_json())
    texts = (
        "md: gain 1.0 → 2.5 mm, on false → true from step 4 on, by ada",
        "md was not given gain=9.0 mm, requested by ada: no",
    )
    assert [steering_note(part) for part in compute_report(run).steering] == [*texts]
    lines = [event_text(event, plan) for event in read_events(run) if getattr(event, "by", "") == "ada"]
    assert lines == [texts[0], "md: refuses gain=9.0 mm, asked for by ada: no", "md: ada asks for gain=3.0 mm"]
