"""`wf balance` with real runs: the faster candidate is found, the file stays, and what ran before counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


VARY = ("--vary", "stages.sim.with.compute_time=[20 ms]")


def test_the_faster_value_is_chosen_and_what_ran_before_counts(folder: Path) -> None:
    first = balance(folder, *VARY)
    assert first["chosen"]["settings"] == {"stages.sim.with.compute_time": "20 ms"}
    assert first["rivals"] == [] and first["counted"] == "sim"
    assert 0.25 < first["chosen"]["ratio"]["median"] < 0.6
    assert first["chosen"]["ratio"]["low"] < first["chosen"]["ratio"]["median"] < first["chosen"]["ratio"]["high"] < 0.8
    # Steps of 8 kB: how they are moved is not varied.
    assert list(first["keys"]) == ["stages.sim.with.compute_time"]
    assert len(first["today"]["probes"]) == len(first["chosen"]["probes"]) == 3 and first["probes"] == 6
    assert all(0.055 < each < 0.3 for each in first["today"]["probes"])
    assert (folder / "pipeline.yaml").read_text() == PIPELINE

    again = balance(folder, *VARY)
    assert again == first
    assert len((folder / "balance/balanced/probes.jsonl").read_text().splitlines()) == 6

    # A probe was a part of the run: 400 steps of 60 ms take 24 s.
    assert first["spent_s"] < 6 * 12


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


def test_a_dry_run_starts_nothing(folder: Path) -> None:
    shown = wf(folder, "balance", "pipeline.yaml", "--dry-run", *VARY)
    assert shown.returncode == 0, shown.stderr
    assert "stages.sim.with.compute_time: 60 ms, 20 ms" in shown.stdout
    assert "nothing has run" in shown.stdout
    assert not (folder / "balance/balanced/runs").exists()


def test_bad_input_is_refused_before_anything_runs(folder: Path) -> None:
    cases = {
        ("--fixed", "streams.data.vai"): ("this key is not varied", "streams.data.via"),
        ("--vary", "stages.sim.ranks=2"): ("expected a list of values", "--vary stages.sim.ranks=[1,2,4]"),
        ("--vary", "stages.sin.ranks=[2]"): ("there is no stage `sin`", "sim"),
        ("--overlay", "missing.yaml"): ("missing.yaml", "wf balance"),
    }
    for words, expected in cases.items():
        done = wf(folder, "balance", "pipeline.yaml", "--dry-run", *words)
        assert done.returncode == 2, (words, done.stdout)
        assert all(text in done.stderr for text in expected), (words, done.stderr)
        assert "Traceback" not in done.stderr


def test_a_pipeline_that_fails_as_it_is_is_not_balanced(folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(
        PIPELINE.replace('component: "null"', 'command: ["false"], reads: {data: {}}')
    )
    done = wf(folder, "balance", "pipeline.yaml", *VARY)
    assert done.returncode == 1
    assert "the pipeline fails as it is" in done.stderr and "wf report" in done.stderr
