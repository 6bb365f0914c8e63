"""`wf calibrate` as a user runs it: a campaign and a run are measured, kept, and used by `wf plan`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipelines import ROOT
from workflow.api.campaigns import plan_campaign

CAMPAIGN = ROOT / "examples/calibration/transports.yaml"
# It computes for much longer than 1 MB takes on a busy machine.
PIPELINE = """
wf: 1
name: known
stages:
  make: {component: synthetic, with: {bytes: %s, steps: %d, compute_time: 1 s}}
  drop: {component: "null"}
streams:
  data: {from: make, to: drop, via: %s}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the shipped campaign has been measured, as small as it is."""
    folder = tmp_path_factory.mktemp("calibrate")
    wf(folder, "campaign", "run", str(CAMPAIGN), "--set", "scale=tiny")
    said = wf(folder, "calibrate", "transports")
    assert "figures of 4 stages\n" in said and "next: wf plan PIPELINE" in said
    return folder


def wf(folder: Path, *argv: str, code: int = 0) -> str:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "workflow.cli", *argv], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == code, f"{argv}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def kept(folder: Path) -> Any:
    return json.loads((folder / "config/wf/calibration/local.json").read_text())


def test_what_is_measured(home: Path) -> None:
    found = kept(home)
    ends = {
        (end["kind"]["engine"], end["kind"]["side"], round(end["bytes"], -3)): end["seconds"] for end in found["ends"]
    }
    assert ends.keys() == {
        (engine, side, size) for engine in ("SST", "BP5") for side in ("write", "read") for size in (64_000, 1_000_000)
    }
    assert all(0 < seconds["low"] <= seconds["median"] <= seconds["high"] for seconds in ends.values())
    said = wf(home, "calibrate")
    assert "SST tcp, written by 1 rank" in said and "synthetic" in said
    assert json.loads(wf(home, "calibrate", "--json")) == found


def test_a_step_is_known_from_earlier_runs(home: Path) -> None:
    pipeline = home / "pipeline.yaml"
    pipeline.write_text(PIPELINE % ("500 kB", 4, "sst-tcp"))
    before = wf(home, "plan", "pipeline.yaml")
    # What moving takes is known between the two sizes, what the stage computes is not.
    assert "run it once, then `wf calibrate RUN`" in before and "between 64.0 kB in run " in before
    assert "time per step: at least " in before
    wf(home, "run", "pipeline.yaml", "--run-dir", "former", "-q")
    assert "figures of 2 stages; with earlier runs it has 6\n" in wf(home, "calibrate", "former")
    pipeline.write_text(PIPELINE % ("500 kB", 3, "bp5"))
    plan = wf(home, "plan", "pipeline.yaml")
    assert "limited by stage make: compute" in plan and "steps of run former" in plan and "not known" not in plan
    assert "forecast" not in json.loads(wf(home, "plan", "pipeline.yaml", "--json"))
    (record, *_) = kept(home)["stages"]
    assert record["run"] == "former" and record["parameters"]["bytes"] == 500_000 and record["seconds"]["median"] >= 1.0
    assert "steps" not in record["parameters"]


def test_between_two_nodes() -> None:
    planned, problems, _ = plan_campaign(CAMPAIGN, sets=["scale=two-nodes"], site="frontier", as_written=True)
    assert planned.ready and not planned.problems
    assert [problem for problem in problems if problem.level == "error"] == []


def test_mistakes(tmp_path: Path) -> None:
    assert "nothing is known of site local" in wf(tmp_path, "calibrate", code=2)
    assert "no run" in wf(tmp_path, "calibrate", "x", code=2)
    assert "leave out RUN" in wf(tmp_path, "calibrate", "x", "--json", code=2)
    # A calibration of another wf is named by the plan, and does not keep anything from running.
    config = tmp_path / "config/wf/calibration"
    config.mkdir(parents=True)
    (config / "local.json").write_text('{"calibration_version": 9}')
    (tmp_path / "pipeline.yaml").write_text(PIPELINE % ("1 MB", 2, "bp5"))
    assert "calibration_version is 9" in wf(tmp_path, "plan", "pipeline.yaml", code=0)
