"""The entities of an archive: what is said of many trials, of a run that failed, and of names with spaces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.sample_run import PROVENANCE, write_sample
from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.crate.archive_campaign import CrateCampaign, campaign_entities
from workflow.crate.archive_files import SOURCE, source_files
from workflow.crate.fill_archive import to_metadata
from workflow.crate.run_entities import (
    CrateRun,
    Entity,
    actions_of,
    definition_entities,
    execution_entities,
    file_id,
    references,
)
from workflow.provenance.provenance_model import FileRecord, FileRole
from workflow.report.report_files import compute_report
from workflow.run.records.run_directory import read_filled_plan

SPEC = {"wf": 1, "campaign": "big", "pipeline": "p.yaml", "repetitions": 10, "warmup": 1}


def campaign_of(trials: int, failing: int = 0) -> CrateCampaign:
    scheduled = [ScheduledTrial(key=f"{each:012x}", parameters={"a.b": each % 20, "c": each}) for each in range(trials)]
    schedule = Schedule(wf_version="0", site="local", host="here", versions={}, trials=scheduled)
    history = History()
    for index, trial in enumerate(scheduled):
        for number in range(1, 11):
            state = "failed" if index < failing and number == 10 else "succeeded"
            attempt = Attempt(state, 1, f"{trial.key}-r{number}", 1000.0 + number, 2.0)  # type: ignore[arg-type]
            history.end(Repetition(trial.key, number), attempt)
    return CrateCampaign(CampaignSpec.model_validate(SPEC), schedule, history, PROVENANCE, "p.yaml", ("table.csv",))


def test_2000_repetitions_are_200_actions() -> None:
    entities = campaign_entities(campaign_of(200, failing=1))
    found = {each["@id"]: each for each in entities}
    assert len(found) == len(entities) == 200 + 20 + 200 + 2, "trials, values, parameters"
    first, other = found["#trial-000000000000"], found["#trial-000000000001"]
    assert first["error"] == "9 of 11 repetitions succeeded" and first["actionStatus"].endswith("FailedActionStatus")
    assert "error" not in other or other["actionStatus"].endswith("FailedActionStatus")
    assert (other["startTime"], other["endTime"]) == ("1970-01-01T00:16:41.000+00:00", "1970-01-01T00:16:52.000+00:00")
    assert len(found["#parameter-a.b"]["workExample"]) == 20
    text = to_metadata({"name": "x"}, "p.yaml", entities, [], actions_of(entities))
    assert len(json.loads(text)["@graph"]) == len(entities) + 3 + 2, "with the profiles, the root and the file itself"


def test_a_trial_that_a_search_does_not_ask_for_any_more_has_not_failed() -> None:
    campaign = campaign_of(4)
    search = {"over": ["c"], "best": "run.wall_s", "trials": 40}
    spec = {**SPEC, "matrix": {"c": [0, 1, 2, 3]}, "search": search, "metrics": {"time": "run.wall_s"}, "warmup": 0}
    trials = [each.model_copy(update={"parameters": {"c": each.parameters["c"]}}) for each in campaign.schedule.trials]
    history = History()
    for index, trial in enumerate(trials):
        for number in range(1, 11 if index < 2 else 2):
            its = Attempt("succeeded", 1, "r", 1000.0 + number, 2.0, figures={"run.wall_s": 1.0 + index})
            history.end(Repetition(trial.key, number), its)
    schedule = campaign.schedule.model_copy(update={"trials": trials})
    searched = replace(campaign, spec=CampaignSpec.model_validate(spec), schedule=schedule, history=history)
    found = [each for each in campaign_entities(searched) if each["@id"].startswith("#trial-")]
    assert [each["description"].rpartition(": ")[2] for each in found] == [
        *["10 of 10 repetitions succeeded"] * 2,
        *["1 of 1 repetition succeeded"] * 2,
    ]
    assert all(each["actionStatus"].endswith("CompletedActionStatus") for each in found)


def run_of(run_dir: Path) -> CrateRun:
    plan, report = read_filled_plan(run_dir), compute_report(run_dir)
    return CrateRun(plan, report, PROVENANCE, file_id("source/my pipeline.yaml"), ("source/in.txt",), ())


def test_every_reference_leads_to_an_entity(tmp_path: Path) -> None:
    run = run_of(write_sample(tmp_path / "run"))
    entities = [*definition_entities(run), *execution_entities(run)]
    known = [each["@id"] for each in entities]
    assert len(known) == len(set(known))
    files = {"source/in.txt"}
    for each in entities:
        for name, content in each.items():
            for one in content if isinstance(content, list) else [content]:
                if isinstance(one, dict) and not one["@id"].startswith("https://"):
                    assert one["@id"] in {*known, *files}, f"{each['@id']} {name}"
    assert run.pipeline == "source/my%20pipeline.yaml" in known
    assert {f"#program-{stage.name}" for stage in run.plan.stages} <= set(known)


def test_a_failure_is_said(tmp_path: Path) -> None:
    run = run_of(write_sample(tmp_path / "run"))
    part = run.report.run.model_copy(update={"state": "failed", "reason": "md broke"})
    failed = run.report.model_copy(update={"run": part})
    by_id: dict[str, Entity] = {
        each["@id"]: each for each in execution_entities(CrateRun(run.plan, failed, PROVENANCE, run.pipeline, (), ()))
    }
    assert by_id["#run"]["error"] == "md broke"
    assert all(
        ("error" in each) == each["actionStatus"].endswith("FailedActionStatus")
        for each in by_id.values()
        if "actionStatus" in each
    )


def test_references_stand_alone_where_there_is_one() -> None:
    assert references(["a"]) == references(["a", "a"]) == {"@id": "a"}
    assert references(["a", "b"]) == [{"@id": "a"}, {"@id": "b"}]


def record(path: Path, role: FileRole) -> FileRecord:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(role)
    return FileRecord(role=role, path=str(path), size=1, modified=0.0)


def test_files_keep_their_places_to_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflow.crate.archive_files._SYSTEM", (tmp_path / "usr",))
    user = tmp_path / "home/me"
    records = [
        record(user / "pipes/p.yaml", "pipeline"), record(user / "data/in.txt", "input"),
        record(user / "bin/sim", "program"), record(tmp_path / "usr/tool", "program"),
        record(user / ".config/wf/sites/own.yaml", "site"), record(user / "pipes/c/component.yaml", "component"),
        record(user / "venv/bin/python3.12", "program"),
    ]  # fmt: skip
    (user / "pipes/c/compiled").write_text("x")
    (user / "pipes/c/__pycache__").mkdir()
    (user / "pipes/c/__pycache__/x.pyc").write_text("x")
    found = source_files(records, [], f"data: {user}/data/in.txt", user / "studies/campaign.yaml")
    assert set(found.files) == {
        f"{SOURCE}/pipes/p.yaml", f"{SOURCE}/data/in.txt", f"{SOURCE}/bin/sim", "configs/sites/own.yaml",
        f"{SOURCE}/pipes/c/component.yaml", f"{SOURCE}/pipes/c/compiled", f"{SOURCE}/studies/campaign.yaml",
    }  # fmt: skip
    assert found.absolute == ((str(user / "data/in.txt"), f"{SOURCE}/data/in.txt"),)
    assert [(each.path, each.why) for each in found.left_out] == [
        (str(tmp_path / "usr/tool"), "it belongs to the machine")
    ]
    assert found.moved(["--site", str(user / ".config/wf/sites/own.yaml")]) == ["--site", "configs/sites/own.yaml"]
