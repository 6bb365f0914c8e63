"""Campaigns as a user runs them: what runs, what is not run again, and what the report says."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest

from tests.support.campaigns import TIMEOUT_S, CampaignFolder
from workflow import read_report, report_campaign, run_campaign
from workflow.api.campaigns import campaign_status, plan_campaign
from workflow.campaign.ledger import Ledger
from workflow.cli.json_output import CampaignPlan
from workflow.errors import RunError


def test_every_repetition_runs_once_and_no_run_twice(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=3, repetitions=4)
    said = campaign.wf("run")
    assert "12 of 12 repetitions succeeded" in said
    assert Counter(campaign.ran()) == {"1": 4, "2": 4, "3": 4}
    assert [sorted(campaign.ran()[start : start + 3]) for start in range(0, 12, 3)] == [["1", "2", "3"]] * 4
    campaign.wf("run")
    assert len(campaign.ran()) == 12


def test_a_campaign_grows_without_running_what_is_there(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=2)
    campaign.wf("run", "-q")
    campaign.write(values=3, repetitions=3)
    assert "4 of them are finished; for the other 5:" in campaign.wf("plan")
    campaign.wf("run", "-q")
    assert "all of them are finished: nothing is left to run" in campaign.wf("plan")
    assert Counter(campaign.ran()) == {"1": 3, "2": 3, "3": 3}
    campaign.write(values=2, repetitions=2)
    assert "4/4" not in campaign.wf("run", "-q")
    assert len(campaign.ran()) == 9


def test_the_plan_as_json(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=3)
    document = json.loads(campaign.wf("plan", "--json"))
    jsonschema.validate(document, CampaignPlan.model_json_schema(mode="serialization"))
    assert (document["ok"], document["repetitions"], document["finished"], document["left"]) == (True, 6, 0, 6)
    assert [list(trial["parameters"].values()) for trial in document["trials"]] == [[1], [2]]
    campaign.wf("run", "-q")
    assert json.loads(campaign.wf("plan", "--json"))["finished"] == 6
    refused = json.loads(campaign.wf("plan", "--json", "--set", "set.stages.one.ranks=zero", code=2))
    assert not refused["ok"] and refused["trials"][0]["problems"][0]["level"] == "error"


def test_a_changed_input_is_measured_again(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=2)
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/sh\necho 1 >> $FOLDER/ran.txt\n")
    program.chmod(0o755)
    pipeline = (tmp_path / "pipeline.yaml").read_text()
    head, tail = pipeline.split("    command:")[0], pipeline.split("\n    env:")[1]
    (tmp_path / "pipeline.yaml").write_text(f"{head}    command: [./program.sh]\n    env:{tail}")
    campaign.wf("run", "-q")
    assert len(campaign.ran()) == 2
    program.write_text("#!/bin/sh\n# changed\necho 1 >> $FOLDER/ran.txt\n")
    campaign.wf("run", "-q")
    assert len(campaign.ran()) == 4


def test_a_program_that_changes_during_a_campaign_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=3)
    program = tmp_path / "program.sh"
    text = "#!/bin/sh\necho 1 >> $FOLDER/ran.txt\nif [ -e $FOLDER/edit ]; then echo '#' >> $FOLDER/program.sh; fi\n"
    program.write_text(text)
    program.chmod(0o755)
    pipeline = (tmp_path / "pipeline.yaml").read_text()
    head, tail = pipeline.split("    command:")[0], pipeline.split("\n    env:")[1]
    (tmp_path / "pipeline.yaml").write_text(f"{head}    command: [./program.sh]\n    env:{tail}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match=r"program\.sh changed after planning"):
        run_campaign("campaign.yaml", show=lambda _: program.write_text(f"{text}# between two repetitions\n") and None)
    assert [each["state"] for each in campaign.records("ended")] == ["succeeded"] and len(campaign.ran()) == 1
    (tmp_path / "edit").touch()
    assert "program.sh changed after planning" in campaign.wf("run", "-q", code=2)
    last = campaign.records("ended")[-1]
    assert last["state"] == "interrupted" and "changed after planning" in last["reason"]
    assert len(campaign.ran()) == 2 and last["host"]
    (tmp_path / "edit").unlink()
    campaign.wf("run", "-q")
    assert len(campaign.ran()) == 5


def test_a_moved_pipeline_has_the_same_keys(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    CampaignFolder(tmp_path / "here", values=2, repetitions=2).wf("run", "-q")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    second = CampaignFolder(tmp_path / "there", values=2, repetitions=2)
    second.wf("run", "-q")
    assert len(second.ran()) == 4


def test_what_fails_is_tried_again_and_does_not_stop_the_others(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=3, repetitions=2, more="retries: 2\n")
    (tmp_path / "fail-2").touch()
    pipeline = (tmp_path / "pipeline.yaml").read_text()
    fails = """test ! -e "$FOLDER/fail-$VALUE" || { echo "no $VALUE today" >&2; exit 1; }"""
    (tmp_path / "pipeline.yaml").write_text(pipeline.replace('test ! -e "$FOLDER/fail-$VALUE"', fails))
    said = campaign.wf("run", code=1)
    assert "4 of 6 repetitions succeeded, 2 failed" in said
    assert Counter(campaign.ran()) == {"1": 2, "2": 6, "3": 2}
    run = next(each["run"] for each in campaign.records("ended") if each["attempt"] == 3)
    assert "attempt 3: failed" in said and f"one ended with exit code 1: no 2 today (runs/{run})" in said
    assert "exit code 1: no 2 today (runs/" in campaign.wf("status")
    campaign.wf("run", code=1)
    assert len(campaign.ran()) == 10
    (tmp_path / "fail-2").unlink()
    campaign.wf("run", "--failed")
    assert Counter(campaign.ran())["2"] == 8


def test_a_deadline_ends_a_repetition(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1, more="retries: 0\ndeadline: 300 ms\n")
    (tmp_path / "pipeline.yaml").write_text(
        "wf: 1\nname: tiny\nstages:\n  one: {command: [sleep, '60'], env: {VALUE: 0}}\n"
    )
    assert "0 of 1 repetition succeeded, 1 failed" in campaign.wf("run", code=1)


def test_the_budget_stops_the_campaign_which_then_goes_on(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=50, more="budget: {time: 500 ms}\n")
    assert "the budget is spent" in campaign.wf("run", code=1)
    some = len(campaign.ran())
    assert 0 < some < 100
    campaign.write(values=2, repetitions=some // 2 + 2, more="budget: {time: 1 h}\n")
    campaign.wf("run", "-q")
    assert len(campaign.ran()) == 2 * (some // 2 + 2)


def test_two_processes_do_not_run_one_campaign(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1)
    campaign.directory.mkdir(parents=True)
    (campaign.directory / "schedule.json").touch()
    with Ledger(campaign.directory):
        said = campaign.wf("run", code=2)
    assert "another process runs this campaign\n  wf campaign watch tiny, or wf campaign cancel tiny" in said
    assert campaign.ran() == []


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1)
    assert "is not a campaign's directory" in campaign.wf("run", "--dir", ".", code=2)


def test_nothing_runs_when_one_trial_cannot_be_planned(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=1)
    (tmp_path / "campaign.yaml").write_text(
        "wf: 1\ncampaign: tiny\npipeline: pipeline.yaml\nmatrix: {stages.one.ranks: [1, many]}\n"
    )
    said = campaign.wf("run", code=2)
    assert "campaign.yaml:4:32: stages.one.ranks: expected a whole number" in said
    assert campaign.ran() == []
    listed = campaign.wf("plan", "--junit", "plan.xml", code=2)
    assert "error" in listed
    suite = ElementTree.parse(tmp_path / "plan.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    (failure,) = suite.iter("failure")
    assert "expected a whole number" in str(failure.text)


def test_junit_of_a_run_has_the_failed_trials(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=1, more="retries: 0\n")
    (tmp_path / "fail-2").touch()
    campaign.wf("run", "-q", "--junit", "run.xml", code=1)
    suite = ElementTree.parse(tmp_path / "run.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_data_of_runs_stay_unless_the_file_says_that_they_go(tmp_path: Path) -> None:
    """What is removed is said before the first repetition, and in the plan."""
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1)
    assert "the data that the stages write stay in campaigns/tiny/runs: how much is not known" in campaign.wf("plan")
    assert "removed" not in campaign.wf("run", "-q")
    assert [path.read_text() for path in campaign.directory.rglob("data")] == ["1\n"]
    campaign.write(values=1, repetitions=3, more="keep: records\n")
    goes = "note: the data that the stages write are removed after each repetition that succeeds (about 4 B by what"
    assert goes in campaign.wf("plan") and goes in campaign.wf("run", "-q")
    assert len(list(campaign.directory.rglob("data"))) == 1, "of the first repetition, which was to be kept"
    last = campaign.directory / "runs" / campaign.records("ended")[-1]["run"]
    assert (last / "events.jsonl").exists() and (last / "stages/one/stdout.log").exists()
    assert [each["data_bytes"] for each in campaign.records("ended")] == [2, 2, 2]
    assert "removed" not in campaign.wf("run", "-q"), "nothing is left to run"


def test_status_and_report_name_a_campaign_in_three_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=6)
    campaign.wf("run", "-q")
    assert "6/6" in campaign.wf("status")
    monkeypatch.chdir(tmp_path)
    found = [report_campaign(name)[0] for name in ("campaign.yaml", "tiny", "campaigns/tiny")]
    assert found[0] == found[1] == found[2]
    with pytest.raises(RunError, match="did you mean `tiny`"):
        report_campaign("tinny")


def test_a_campaign_keeps_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scales = "scales: {more: {matrix: {stages.one.env.VALUE: [3, 4, 5]}}}\n"
    campaign = CampaignFolder(tmp_path, values=1, repetitions=5, more=scales)
    assert "3 trials" in campaign.wf("plan", "--set", "scale=more")
    campaign.wf("run", "-q", "--set", "scale=more", "--set", "repetitions=1")
    assert Counter(campaign.ran()) == {"3": 1, "4": 1, "5": 1}
    monkeypatch.chdir(tmp_path)
    planned, problems, _ = plan_campaign("campaign.yaml")
    assert len(planned.ready) == 3
    assert any("with the options of its last run: --set scale=more" in problem.message for problem in problems)
    assert [trial.wanted for trial in campaign_status("tiny").trials] == [1, 1, 1]
    assert run_campaign("campaign.yaml", sets=["repetitions=2"]).status.complete
    assert Counter(campaign.ran()) == {"3": 2, "4": 2, "5": 2}
    assert "the options of its last run" in campaign.wf("run", "-q")
    assert len(campaign.ran()) == 6
    assert run_campaign("tiny", sets=["repetitions=3"]).status.complete
    assert len(campaign.ran()) == 9
    results, _ = report_campaign("campaigns/tiny", sets=["threshold=0.5"])
    assert results.metrics[0].threshold == 0.5 and [len(each.values) for each in results.results] == [3, 3, 3]
    assert run_campaign("campaign.yaml", as_written=True).status.complete
    assert Counter(campaign.ran())["1"] == 5
    monkeypatch.chdir(campaign.directory)
    assert run_campaign("../../campaign.yaml", ".", sets=["repetitions=1"]).status.complete
    planned, _, _ = plan_campaign("../../campaign.yaml", ".")
    assert planned.campaign.options.sets == ("repetitions=1",), "also of a file that is not below"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaign.yaml").unlink()
    with pytest.raises(RunError, match=r"no longer exists: campaign\.yaml"):
        run_campaign("tiny")


def test_keys_of_the_site_vary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1)
    vary = "zip: {site.cores_per_node: [1, 2], site.launcher: [mpiexec, none]}"
    text = (tmp_path / "campaign.yaml").read_text()
    (tmp_path / "campaign.yaml").write_text(text.replace("matrix: {stages.one.env.VALUE: [1]}", vary))
    monkeypatch.chdir(tmp_path)
    assert run_campaign("campaign.yaml", sets=["set.site.env={KIND: '7'}"]).status.complete
    plans = [json.loads(path.read_text()) for path in sorted(campaign.directory.glob("runs/*/plan.json"))]
    assert len(plans) == 2 and all(plan["stages"][0]["env"]["KIND"] == "7" for plan in plans)


def test_the_report_says_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=8)
    (tmp_path / "pipeline.yaml").write_text(
        "wf: 1\nname: tiny\nstages:\n  one:\n    command: [sh, -c, 'sleep 0.$VALUE']\n    env: {VALUE: 0}\n"
    )
    campaign.write(
        2, 8, "comparisons: [{vary: stages.one.env.VALUE}]\nmetrics: {time: run.wall_s, stage: stages.one.wall_s}\n"
    )
    monkeypatch.chdir(tmp_path)
    outcome = run_campaign("campaign.yaml")
    assert outcome.status.complete and not outcome.interrupted and outcome.left == 0
    results, written = report_campaign("tiny")
    assert {path.name for path in written} == {"table.csv", "table.parquet", "tables.tex", "report.json", "report.html"}
    medians = {(each.metric, each.parameters["stages.one.env.VALUE"]): each.median for each in results.results}
    short, long = medians["stage", 1], medians["stage", 2]
    assert short is not None and long is not None and 0.1 <= short < 0.2 <= long
    assert [(each.metric, each.decision) for each in results.comparisons] == [("time", "slower"), ("stage", "slower")]
    assert json.loads((outcome.directory / "report.json").read_text()) == json.loads(results.model_dump_json())
    page = (outcome.directory / "report.html").read_text()
    assert "slower" in page and page.count("data:image/svg+xml;base64,") >= 3
    pictures = {path.name for path in (outcome.directory / "pictures").iterdir()}
    assert {"time-values.svg", "time-values.pdf", "time-values.csv", "time-comparisons.svg"} <= pictures
    rows = list(csv.DictReader((outcome.directory / "table.csv").read_text().splitlines()))
    times = [float(row["value"]) for row in rows if row["metric"] == "stage" and row["VALUE"] == "2"]
    assert times == next(each.values for each in results.results if each.median == long)
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(outcome.directory / "table.parquet").to_pylist()
    assert [row["value"] for row in table if row["metric"] == "stage" and row["VALUE"] == "2"] == times


def test_perceived_throughput_is_bytes_over_the_time_that_writing_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "wf: 1\nname: io\noversubscribe: true\nstages:\n"
        "  source: {component: synthetic, with: {bytes: 30 MB, steps: 4}}\n  sink: {component: 'null'}\n"
        "streams:\n  data: {from: source, to: sink, via: bp5}\n"
    )
    (tmp_path / "campaign.yaml").write_text(
        "wf: 1\ncampaign: io\npipeline: pipeline.yaml\nrepetitions: 2\nwarmup: 0\n"
        "matrix: {stages.source.with.bytes: [30 MB, 40 MB]}\n"
        "baseline: {set: {stages.source.with.bytes: 8}}\nmetrics: {rate: stages.source.perceived_throughput}\n"
    )
    monkeypatch.chdir(tmp_path)
    outcome = run_campaign("campaign.yaml")
    assert [each.is_baseline for each in outcome.status.trials] == [False, False, True]
    results, _ = report_campaign("io")
    rows = list(csv.DictReader((outcome.directory / "table.csv").read_text().splitlines()))

    def figures(name: str, figure: str, **where: str) -> list[float]:
        found = [row for row in rows if (row["name"], row["figure"]) == (name, figure)]
        return [float(row["value"]) for row in found if all(row[key] == value for key, value in where.items())]

    quiet = figures("source", "wall_s", baseline="True")
    assert len(quiet) == 2
    middle = sum(quiet) / 2
    for result in results.results:
        trial = result.trial
        times, counts = figures("source", "wall_s", trial=trial), figures("source", "bytes_out", trial=trial)
        expected = [count / (time - middle) for time, count in zip(times, counts, strict=True) if time > middle]
        assert result.values == pytest.approx(expected)


def test_percentiles_over_the_steps_of_real_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the tables as in the records of the stages; over ranks nothing, as there is one."""
    (tmp_path / "pipeline.yaml").write_text(
        "wf: 1\nname: steps\noversubscribe: true\nstages:\n"
        "  source: {component: synthetic, with: {bytes: 1 MB, steps: 12}, expect: {step_max_s: '< 1 min'}}\n"
        "  sink: {component: 'null'}\nstreams:\n  data: {from: source, to: sink, via: bp5}\n"
    )
    (tmp_path / "campaign.yaml").write_text(
        "wf: 1\ncampaign: steps\npipeline: pipeline.yaml\nrepetitions: 2\nwarmup: 0\nmetrics:\n"
        "  step: stages.source.step_p95_s\n  write: streams.data.write_p50_s\n  load: streams.data.load_max_s\n"
        "  balance: stages.source.compute_imbalance\n"
    )
    monkeypatch.chdir(tmp_path)
    outcome = run_campaign("campaign.yaml")
    results, _ = report_campaign("steps")
    values = {each.metric: each.values for each in results.results}
    runs = sorted(outcome.directory.glob("runs/*-r*"))
    assert len(runs) == 2

    def seconds(run: Path, stage: str, *parts: str) -> list[float]:
        lines = (run / "stages" / stage / "metrics.jsonl").read_text().splitlines()
        steps = [line for line in map(json.loads, lines) if line["kind"] == "step"]
        assert len(steps) == 12
        return [sum(step[part] for part in parts) for step in steps]

    known = {
        "step": [float(np.percentile(seconds(run, "source", "compute_s", "io_s", "wait_s"), 95)) for run in runs],
        "write": [float(np.median(seconds(run, "source", "io_s", "wait_s"))) for run in runs],
        "load": [max(seconds(run, "sink", "io_s")) for run in runs],
    }
    for metric, expected in known.items():
        assert values[metric] == pytest.approx(expected, abs=2e-6), metric
    assert values["balance"] == [] and any("balance" in note for note in results.notes)
    rows = list(csv.DictReader((outcome.directory / "table.csv").read_text().splitlines()))
    assert [float(row["value"]) for row in rows if row["metric"] == "step"] == values["step"]
    assert "write" in (outcome.directory / "tables.tex").read_text()
    report = read_report(runs[0])
    assert [(each.figure, each.state) for each in report.expectations] == [("stages.source.step_max_s", "met")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"fom": NaN, "m": 1}', "one: figures.json: no number: `fom`"),
        ('{"from": 1, "text": "x"}', "one measured no `fom`; did you mean `from`?"),
        ("", "one wrote no figures.json"),
    ],
)
def test_why_a_figure_of_a_program_is_not_known(text: str, said: str, tmp_path: Path) -> None:
    metrics = "metrics: {fom: {of: stages.one.figures.fom, better: more}}\n"
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1, more=metrics)
    (tmp_path / "text").write_text(text)
    pipeline = (tmp_path / "pipeline.yaml").read_text()
    command = next(line for line in pipeline.splitlines() if "command:" in line)
    write = '[sh, -c, "test ! -s $FOLDER/text || cp $FOLDER/text figures.json"]'
    (tmp_path / "pipeline.yaml").write_text(pipeline.replace(command, f"    command: {write}"))
    results, _ = report_campaign(run_campaign(tmp_path / "campaign.yaml", campaign.directory).directory)
    assert f"fom is not known of 1 trial: {said}" in results.notes


def test_figures_that_the_program_measured(tmp_path: Path) -> None:
    """In the results with their unit, also after the data of the repetitions was removed."""
    metrics = "metrics: {fom: {of: stages.one.figures.fom, better: more, unit: sites/s}}\nkeep: records\n"
    campaign = CampaignFolder(tmp_path, values=2, repetitions=2, more=metrics)
    write = """'echo "{\\"fom\\": $VALUE.5, \\"text\\": \\"x\\"}" > figures.json; echo 1 > data'"""
    pipeline = (tmp_path / "pipeline.yaml").read_text()
    command = next(line for line in pipeline.splitlines() if "command:" in line)
    (tmp_path / "pipeline.yaml").write_text(pipeline.replace(command, f"    command: [sh, -c, {write}]"))
    campaign.wf("run", "-q")
    assert "1.5 sites/s" in campaign.wf("report")
    results = report_campaign(tmp_path / "campaign.yaml", campaign.directory)[0]
    assert sorted(value for each in results.results for value in each.values) == [1.5, 1.5, 2.5, 2.5]
    run = next((campaign.directory / "runs").iterdir())
    assert not (run / "stages/one/work/data").exists(), "data of the run was removed"
    report = read_report(run)
    assert report.stages[0].figures["fom"] in (1.5, 2.5)
    assert "one: figures.json: no number: `text`" in report.notes


def test_records_beside_the_file_are_named_when_it_begins_in_another_folder(tmp_path: Path) -> None:
    """It measures everything again: who did not mean that reads where to go on."""
    (tmp_path / "study").mkdir()
    campaign = CampaignFolder(tmp_path / "study", values=1, repetitions=1)

    def call(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "workflow.cli", "campaign", *words], cwd=tmp_path, env=campaign.environment,
            capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    said = "note: this campaign has already run in study/campaigns/tiny"
    assert said not in call("plan", "study/campaign.yaml")
    campaign.wf("run")
    assert said in call("plan", "study/campaign.yaml")
    assert said not in call("run", "study/campaign.yaml", "-q", "--dir", "study/campaigns/tiny")
    first = call("run", "study/campaign.yaml", "-q")
    assert said in first and "go on with it: cd study && wf campaign run campaign.yaml" in first
    assert said not in call("run", "study/campaign.yaml", "-q"), "it has records here now"
    assert len(campaign.ran()) == 2
