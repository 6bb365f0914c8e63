"""`wf balance` with real runs: the faster candidate is found, the file stays, and what ran before counts."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

# Of each step 60 ms or 20 ms of waiting: no machine is so busy that it turns the order.
PIPELINE = """\
wf: 1
name: balanced
stages:
  sim: {component: synthetic, with: {bytes: 8000, steps: 400, compute_time: 60 ms}}
  look: {component: "null", env: {BAD: "0"}, place: {cores_per_rank: 0}}
streams:
  data: {from: sim, to: look}
"""


def wf(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "workflow.cli", *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=240)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    return tmp_path


def balance(folder: Path, *words: str) -> dict[str, Any]:
    done = wf(folder, "balance", "pipeline.yaml", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


VARY = ("--vary", "stages.sim.with.compute_time=[20 ms]", "--fixed", "streams.data.via")


def test_the_faster_value_is_chosen_and_what_ran_before_counts(folder: Path) -> None:
    first = balance(folder, *VARY)
    assert first["chosen"]["settings"] == {"stages.sim.with.compute_time": "20 ms"}
    assert first["rivals"] == [] and first["counted"] == "sim"
    assert 0.25 < first["chosen"]["ratio"]["median"] < 0.6
    assert first["chosen"]["ratio"]["low"] < first["chosen"]["ratio"]["median"] < first["chosen"]["ratio"]["high"] < 0.8
    assert list(first["keys"]) == ["stages.sim.with.compute_time"]
    assert len(first["today"]["probes"]) >= 3 and len(first["chosen"]["probes"]) >= 3
    assert first["probes"] == len(first["today"]["probes"]) + len(first["chosen"]["probes"]) <= 10
    assert all(0.055 < each < 0.3 for each in first["today"]["probes"])
    assert (folder / "pipeline.yaml").read_text() == PIPELINE

    again = balance(folder, *VARY)
    assert again == first
    assert len((folder / "balance/balanced/probes.jsonl").read_text().splitlines()) == first["probes"]

    # A probe was a part of the run: 400 steps of 60 ms take 24 s.
    assert first["spent_s"] < 12 * first["probes"]


def test_the_overlay_is_laid_over_the_file(folder: Path) -> None:
    balance(folder, *VARY)
    overlay = folder / "balance/balanced/overlay.yaml"
    assert "wf balance pipeline.yaml" in overlay.read_text()
    planned = wf(folder, "plan", "pipeline.yaml", "--json", "--overlay", str(overlay.relative_to(folder)))
    stages = {stage["name"]: stage for stage in json.loads(planned.stdout)["stages"]}
    assert stages["sim"]["parameters"]["compute_time"] == 0.02
    assert stages["sim"]["parameters"]["steps"] == 400
    run = wf(folder, "run", "pipeline.yaml", "--overlay", str(overlay), "--set", "stages.sim.with.steps=30", "-q")
    assert run.returncode == 0, run.stderr
    report = json.loads(wf(folder, "report", "--json").stdout)
    promised = next(each for each in report["forecast"] if each["what"] == "time per step of sim, by wf balance")
    assert promised["low"] < promised["forecast"] < promised["high"]
    assert promised["measured"] == pytest.approx(promised["forecast"], rel=1.0) and promised["measured"] > 0.019


def test_a_candidate_that_fails_is_left_out_and_named(folder: Path) -> None:
    (folder / "look.py").write_text(
        "import os, sys\nfrom workflow import stage\n"
        "if os.environ.get('BAD') == '1':\n    sys.exit('no such mode')\n"
        "with stage.open_reader() as reader:\n    for step in reader:\n        pass\n"
    )
    text = PIPELINE.replace('component: "null"', 'command: ["${{ wf.python }}", look.py], reads: {data: {}}')
    (folder / "pipeline.yaml").write_text(text.replace("env:", "files: {look.py: look.py}, env:"))
    found = balance(folder, *VARY, "--vary", "stages.look.env.BAD=['1']")
    assert found["chosen"]["settings"] == {"stages.sim.with.compute_time": "20 ms"}
    assert found["failed"]
    assert all("look ended with exit code 1" in each["reason"] for each in found["failed"])
    assert all(each["settings"]["stages.look.env.BAD"] == "1" for each in found["failed"])


def test_a_budget_of_node_hours_ends_it(folder: Path) -> None:
    """At least one run, then so many as fit; what is missing is said."""
    limit = 1e-6
    done = wf(folder, "balance", "pipeline.yaml", *VARY, "--budget-node-hours", str(limit))
    assert done.returncode == 5, done.stderr
    assert "undecided (1 run," in done.stdout
    assert re.search(r"at least \d+ more runs, .*: --probes \d+ --budget-node-hours 0\.0\d+$", done.stdout, re.M)
    found = json.loads(
        wf(folder, "balance", "pipeline.yaml", "--json", *VARY, "--budget-node-hours", str(limit)).stdout
    )
    assert found["probes"] == 1 and found["spent_node_hours"] == pytest.approx(found["spent_s"] / 3600)
    limit = 3.7 * found["spent_node_hours"]
    more = json.loads(wf(folder, "balance", "pipeline.yaml", "--json", *VARY, "--budget-node-hours", str(limit)).stdout)
    assert more["probes"] > 1 and not more["decided"]
    # A run is not cut off: all but the last one leave room for what the longest one took.
    ran = [json.loads(line) for line in (folder / "balance/balanced/probes.jsonl").read_text().splitlines()]
    assert sum(each["wall_s"] for each in ran[:-1]) / 3600 < limit
    assert more["spent_node_hours"] < limit + max(each["wall_s"] for each in ran) / 3600 / 2


def test_a_run_that_is_too_short_to_be_timed_is_spent_all_the_same(folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("60 ms", "1 ms"))
    words = ("--json", "--vary", "stages.sim.with.compute_time=[2 ms]", "--budget-node-hours", "1e-6")
    found = json.loads(wf(folder, "balance", "pipeline.yaml", *words).stdout)
    ran = [json.loads(line) for line in (folder / "balance/balanced/probes.jsonl").read_text().splitlines()]
    assert [each["counts"] for each in ran] == [False, True]
    assert len(list((folder / "balance/balanced/runs").iterdir())) == 2 and found["probes"] == 1
    assert found["spent_s"] == pytest.approx(sum(each["wall_s"] for each in ran))
    # By the next call, too.
    again = json.loads(wf(folder, "balance", "pipeline.yaml", *words).stdout)
    assert (again["probes"], again["spent_s"]) == (1, found["spent_s"])


def test_a_second_search_in_the_same_directory_is_refused(folder: Path) -> None:
    argv = [sys.executable, "-m", "workflow.cli", "balance", "pipeline.yaml", *VARY]
    first = subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: (folder / "balance/balanced/runs").exists(), "the first search runs a candidate")
        second = wf(folder, "balance", "pipeline.yaml", *VARY)
        assert second.returncode == 2
        assert f"another process runs this search: process {first.pid} on" in second.stderr
    finally:
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 130
    assert not (folder / "balance/balanced/lease.json").exists()


def test_a_dry_run_starts_nothing(folder: Path) -> None:
    shown = wf(folder, "balance", "pipeline.yaml", "--dry-run", *VARY)
    assert shown.returncode == 0, shown.stderr
    assert "stages.sim.with.compute_time: 60 ms, 20 ms" in shown.stdout
    assert "nothing has run" in shown.stdout and "wf calibrate" in shown.stdout
    assert not (folder / "balance").exists()


def test_a_dry_run_leaves_the_overlay_of_an_earlier_one(folder: Path) -> None:
    balance(folder, *VARY)
    overlay = folder / "balance/balanced/overlay.yaml"
    before = overlay.read_text()
    shown = wf(folder, "balance", "pipeline.yaml", "--dry-run", "--vary", "stages.sim.with.compute_time=[50 ms]")
    assert shown.returncode == 0 and overlay.read_text() == before


def test_behind_a_file_the_time_is_that_until_the_end(folder: Path) -> None:
    """A stream compared with a file that is read afterwards: both from the first step to the last of any stage."""
    (folder / "look.py").write_text(
        "import time\nfrom workflow import stage\n"
        "with stage.open_reader() as reader:\n    for step in reader:\n        time.sleep(0.06)\n"
    )
    text = PIPELINE.replace('component: "null"', 'command: ["${{ wf.python }}", look.py], reads: {data: {}}')
    (folder / "pipeline.yaml").write_text(text.replace("env:", "files: {look.py: look.py}, env:"))
    found = balance(folder, "--vary", "streams.data.via=[bp5]")  # and shm
    assert not found["paced"]
    ran = (found["today"], found["chosen"], *found["others"])
    took = {each["settings"].get("streams.data.via", "sst"): each["seconds"]["median"] for each in ran}
    assert 0.055 < took["sst"] < 0.1
    assert 0.11 < took["bp5"] < 0.25
    assert found["decided"] and found["chosen"]["settings"].get("streams.data.via") != "bp5"


def test_an_ensemble_is_shortened_as_a_whole(folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(
        "wf: 1\nname: many\noversubscribe: true\nstages:\n"
        "  sim: {component: gray_scott, members: 2, with: {size: [8], steps: 4000, write_every: 10}}\n"
        '  look: {component: "null"}\nstreams:\n  field: {from: sim, to: look, collect: any}\n'
    )
    words = ("--vary", "stages.sim.env.TRIED=['1']", "--probes", "2")
    done = wf(folder, "balance", "pipeline.yaml", "--json", *words)
    assert done.returncode in (0, 5), done.stderr
    found = json.loads(done.stdout)
    assert list(found["keys"]) == ["stages.sim.env.TRIED"]
    assert found["probes"] == 2 and not found["failed"]


def test_bad_input_is_refused_before_anything_runs(folder: Path) -> None:
    cases = {
        ("--fixed", "streams.data.vai"): ("there is no such key", "streams.data.via"),
        ("--vary", "streams.data.via=[sst,bp55]"): ("bp55", "--vary streams.data.via", "bp5"),
        ("--vary", "stages.sim.ranks=2"): ("expected a list of values", "--vary stages.sim.ranks=[1,2,4]"),
        ("--vary", "stages.sin.ranks=[2]"): ("there is no stage `sin`", "sim"),
        ("--overlay", "missing.yaml"): ("missing.yaml", "wf balance"),
    }
    for words, expected in cases.items():
        done = wf(folder, "balance", "pipeline.yaml", *words)
        assert done.returncode == 2, (words, done.stdout)
        assert all(text in done.stderr for text in expected), (words, done.stderr)
        assert "Traceback" not in done.stderr and not (folder / "balance").exists()


def test_a_pipeline_that_fails_as_it_is_is_not_balanced(folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(
        PIPELINE.replace('component: "null"', 'command: ["false"], reads: {data: {}}')
    )
    done = wf(folder, "balance", "pipeline.yaml", *VARY)
    assert done.returncode == 1
    assert "the pipeline fails as it is" in done.stderr and "wf report" in done.stderr
