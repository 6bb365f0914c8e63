"""`expect:` on real runs: met, violated and not measured, in every place where a run is shown, and by exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.campaigns import PIPELINE as TINY
from tests.support.campaigns import CampaignFolder
from tests.support.chains import ROOT
from workflow import report_campaign
from workflow.errors import EXIT_VIOLATED

# `steps` and `dropped` are counted, so that no clock of a busy machine decides; the limits of times never matter.
PIPELINE = """wf: 1
name: gate
oversubscribe: true
stages:
  sim:
    component: gray_scott
    with: {size: [16], steps: 40, write_every: 20}
    expect: {wait_share: "<= 100 %", figures: {residual: "< 1e-6"}}
  keep: {component: archive, with: {path: field.bp}}
streams:
  field:
    from: sim
    to: keep
    expect: {steps: 3, dropped: 0, throughput: "> 1 B/s", bytes: "> 1 TB"}
expect: {wall_s: "< 1 h"}
profiles:
  right: {stages: {sim: {expect: {figures: null}}}, streams: {field: {expect: {bytes: null}}}}
"""
STATES = {
    "run.wall_s": "met", "stages.sim.wait_share": "met", "stages.sim.figures.residual": "not_measured",
    "streams.field.steps": "met", "streams.field.dropped": "met", "streams.field.throughput": "met",
    "streams.field.bytes": "violated",
}  # fmt: skip
MISSED = "stages.sim.expect.figures.residual: expected < 1e-6, but the run did not measure it"


def wf(folder: Path, *argv: str, code: int = 0) -> str:
    """Run a verb; returns what it printed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "workflow.cli", *argv], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, f"{argv}: {done.returncode}\n{said}"
    assert "Traceback" not in said
    return said


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run that has not kept two of its seven expectations: `one`."""
    folder = tmp_path_factory.mktemp("gate")
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "said").write_text(wf(folder, "run", "pipeline.yaml", "--run-dir", "one", code=EXIT_VIOLATED))
    return folder


def states(text: str) -> dict[str, str]:
    return {each["figure"]: each["state"] for each in json.loads(text)["expectations"]}


def test_the_end_of_a_run_names_what_it_did_not_keep(home: Path) -> None:
    said = (home / "said").read_text()
    assert "gate: succeeded (" in said and "2 of 7 expectations not met)" in said
    line = next(n for n, text in enumerate(PIPELINE.splitlines(), 1) if "bytes: " in text)
    column = PIPELINE.splitlines()[line - 1].index('"> 1 TB"') + 1
    assert f"error: pipeline.yaml:{line}:{column}: streams.field.expect.bytes: expected > 1 TB, measured " in said
    assert f"{MISSED}\n  sim wrote no figures.json" in said


def test_every_view_of_the_run_shows_each_expectation(home: Path) -> None:
    assert states((home / "one/report.json").read_text()) == STATES
    assert states(wf(home, "status", "one", "--json")) == STATES
    report = json.loads(wf(home, "report", "one", "--json"))
    assert (report["run"]["state"], report["run"]["exit_code"]) == ("succeeded", EXIT_VIOLATED)
    for verb in ("status", "report"):
        said = wf(home, verb, "one")
        (row,) = [line for line in said.splitlines() if line.startswith("streams.field.bytes")]
        assert "> 1 TB" in row and "violated" in row and "pipeline.yaml:14:" in row
        assert sum(" met " in line for line in said.splitlines()) == 5, said
    page = (home / "one/report.html").read_text()
    assert "<h2>Expectations</h2>" in page and "2 of 7 expectations not met" in page
    assert '<span class="not measured">not measured</span>' in page


def test_lists_of_runs_mark_it(home: Path) -> None:
    (home / "runs").mkdir(exist_ok=True)
    (home / "runs/one").symlink_to(home / "one")
    (line,) = json.loads(wf(home, "runs", "--json"))["runs"]
    assert (line["state"], line["violated"]) == ("succeeded", 2), "the programs did their work"
    assert re.search("^one +succeeded, violated ", wf(home, "runs"), re.MULTILINE)
    assert "one: succeeded (2 of 7 expectations not met)" in wf(home, "status", "one")


def test_what_was_found_stays_when_the_data_are_gone(home: Path) -> None:
    kept = json.loads((home / "one/expectations.json").read_text())
    assert {each["figure"]: each["state"] for each in kept["expectations"]} == STATES
    records = home / "one/stages/sim/metrics.jsonl"
    text = records.read_bytes()
    records.write_bytes(b"")
    try:
        assert states(wf(home, "status", "one", "--json")) == STATES
    finally:
        records.write_bytes(text)


def test_the_plan_lists_them(home: Path) -> None:
    said = wf(home, "plan", "pipeline.yaml", "--profile", "right", "--set", "expect.wall_s=> 1 s")
    rows = [
        line.split("  ") for line in said.splitlines() if line.startswith(("run.", "streams.field.", "stages.sim."))
    ]
    assert [row[0] for row in rows] == ["run.wall_s", "stages.sim.wait_share"] + [
        f"streams.field.{name}" for name in ("steps", "dropped", "throughput")
    ]
    assert "--set expect.wall_s=> 1 s" in said and "pipeline.yaml:14:21" in said


def test_junit_has_a_case_for_each(home: Path) -> None:
    wf(home, "report", "one", "--junit", "gate.xml")
    root = ElementTree.parse(home / "gate.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("8", "2"), "the run itself is one, too"
    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == ["stages.sim.figures.residual < 1e-6", "streams.field.bytes > 1 TB"]


def test_a_run_that_keeps_all_exits_with_0(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    said = wf(tmp_path, "run", "pipeline.yaml", "--profile", "right", "--run-dir", "right")
    assert ", 5 expectations met)" in said and "error" not in said


def test_a_detached_run_is_compared_when_it_ends_and_a_failed_one_is_not(tmp_path: Path) -> None:
    home = tmp_path
    (home / "pipeline.yaml").write_text(PIPELINE)
    wf(home, "run", "pipeline.yaml", "--detach", "--run-dir", "alone")
    assert "2 of 7 expectations not met)" in wf(home, "watch", "alone", code=EXIT_VIOLATED)
    program = 'stages: {sim: {command: ["false"], expect: {wall_s: "< 1 h"}}}\n'
    (home / "failing.yaml").write_text("wf: 1\nname: failing\noversubscribe: true\n" + program)
    assert "expectation" not in wf(home, "run", "failing.yaml", "--run-dir", "failed", code=1)
    assert states((home / "failed/report.json").read_text()) == {"stages.sim.wall_s": "not_checked"}
    assert not (home / "failed/expectations.json").exists()


def test_the_process_of_a_detached_run_writes_its_report_and_has_its_exit_code(tmp_path: Path) -> None:
    """As a batch job executes it."""
    from workflow.api.plans import make_plan
    from workflow.api.runs import create_run
    from workflow.run.control.detached import supervisor_command
    from workflow.spec.load import load_pipeline

    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    loaded = load_pipeline(tmp_path / "pipeline.yaml")
    run_dir = create_run(loaded, make_plan(loaded), tmp_path / "job")
    done = subprocess.run(
        supervisor_command(run_dir), env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == EXIT_VIOLATED, done.stderr
    assert MISSED in done.stderr
    assert states((run_dir / "report.json").read_text()) == STATES and (run_dir / "report.html").exists()


def test_a_campaign_counts_repetitions_that_violate_an_expectation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=2)
    written = """expect: {figures: {value: "< 2"}}
    command: [sh, -c, 'printf "{\\"value\\": %s}" "$VALUE" > figures.json; """
    expecting = TINY.replace("command: [sh, -c, '", written)
    (tmp_path / "pipeline.yaml").write_text(expecting)
    said = campaign.wf("run", "--junit", "tiny.xml", code=EXIT_VIOLATED)
    assert "4 of 4 repetitions succeeded, 2 violated an expectation" in said
    assert said.count("stages.one.figures.value: expected < 2, measured 2") == 2, "each has a line when it ends"
    place = "pipeline.yaml:6:31: stages.one.expect.figures.value"
    assert f"{place}: VALUE=2: expected < 2, and 2 of 2 repetitions did not meet it; at worst 2 (runs/" in said
    root = ElementTree.parse(tmp_path / "tiny.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    status = json.loads(campaign.wf("status", "--json"))
    assert [trial["violated"] for trial in status["trials"]] == [0, 2]
    (line,) = json.loads(campaign.wf("list", "--json"))["campaigns"]
    assert (line["state"], line["violated"]) == ("complete", 2)
    assert re.search(r"^tiny +complete +4/4 +0 +2 ", campaign.wf("list"), re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    results, _ = report_campaign("tiny")
    assert [len(each.values) for each in results.results] == [2, 2], "they were measured"
    assert any("2 repetitions did not meet an expectation" in note for note in results.notes)

    (tmp_path / "pipeline.yaml").write_text(expecting.replace("< 2", "<= 2"))
    assert "4 of 4 repetitions succeeded, " in campaign.wf("run") and len(campaign.ran()) == 4, "judged anew, not run"
