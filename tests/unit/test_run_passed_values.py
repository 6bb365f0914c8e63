"""How new values reach a program that reads files, and which of them a later run repeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chains import chain
from tests.support.imagined_run import Run
from workflow.formats.steering_files import ValueChange
from workflow.plan.plan_model import ChangePlan, Plan, StagePlan, SteerPlan
from workflow.run.passed_values import changes_of, hand_over
from workflow.run.state.events import StageSteered, SteeringAsked, SteeringRefused
from workflow.run.steering_requests import KnownRequests, taken_from_file


def plan(folder: Path, changes: list[ChangePlan] | None = None) -> Plan:
    """md finds two values in files of its own."""
    steer = {
        name: SteerPlan(type="float", value=0.03, file=str(folder / name), around=["", "\n"])
        for name in ("feed", "kill")
    }
    made = chain("sst")
    update = {"steer": steer, "changes": changes or []}
    stages = [each.model_copy(update=update if each.name == "md" else {}) for each in made.stages]
    return made.model_copy(update={"stages": stages})


def md(folder: Path) -> StagePlan:
    """The stage, whose files are there as at the start."""
    for name in ("feed", "kill"):
        (folder / name).write_text("0.03\n")
    return plan(folder).stage("md")


def test_all_values_are_in_the_files_or_none(tmp_path: Path) -> None:
    stage, change = md(tmp_path), ValueChange("1", {"feed": 0.04, "kill": 0.06}, None, "ada")
    assert hand_over(stage, tmp_path, change) == []
    assert [(tmp_path / name).read_text() for name in ("feed", "kill")] == ["0.04\n", "0.06\n"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["feed", "kill"], "nothing is left beside them"
    (tmp_path / "kill").unlink()
    (tmp_path / "kill").mkdir()
    with pytest.raises(OSError, match="kill"):
        hand_over(stage, tmp_path, ValueChange("2", {"feed": 0.05, "kill": 0.07}, None, "ada"))
    assert (tmp_path / "feed").read_text() == "0.04\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["feed", "kill"]


def test_a_part_goes_on_with_what_the_program_had_last_and_a_replay_begins_anew(tmp_path: Path) -> None:
    run = Run(plan(tmp_path)).open_all().steps(atoms_md=5)
    taken = taken_from_file(run.state, "md", ValueChange("1", {"feed": 0.05}, None, "ada"), 9.0)
    assert taken is not None
    run.feed(taken)
    part = changes_of(tmp_path / "part1", run.state.plan, [taken])
    assert [(each.values, each.step) for each in part["md"] if each.values] == [({"feed": 0.05}, None)]
    assert changes_of(tmp_path / "part1", run.state.plan, [taken], replay_from=0) == {}
    resumed = plan(tmp_path, [ChangePlan(id="files", values={"feed": 0.05}, step=None, by="part1")])
    assert changes_of(tmp_path / "part2", resumed, [], replay_from=3) == {}


def test_a_part_knows_what_earlier_ones_have_answered(tmp_path: Path) -> None:
    """Its stages may come to the place again at which they have asked."""
    made = plan(tmp_path)
    values: dict[str, bool | int | float | str] = {"feed": 0.05}
    file_taken = StageSteered(1.0, "look-3-0", "md", 2, {"feed": 0.03}, values, "stage look", exact=False)
    refused = SteeringRefused(2.0, "look-4-0", "md", values, "stage look", "no")
    part = changes_of(tmp_path, made, [file_taken, refused])
    assert [(each.id, each.values) for each in part["md"]] == [("files", values), ("look-3-0", {}), ("look-4-0", {})]
    later = plan(tmp_path, [ChangePlan(id="x", values=values, step=5, by="ada")])
    stages = [each.model_copy(update={"answered": ["look-3-0"]}) for each in later.stages if each.name == "md"]
    known = KnownRequests(later.model_copy(update={"stages": stages}))
    asked = [SteeringAsked(1.0, id_, "md", values, "stage look", None) for id_ in ("look-3-0", "x", "new", "new")]
    assert [each.id for each in known.without_known(asked) if isinstance(each, SteeringAsked)] == ["new"]
    assert known.without_known([refused, asked[2]]) == [refused], "nor what was passed on before"
