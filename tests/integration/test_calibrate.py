"""`wf calibrate` as a user runs it: measured, kept, used by the plan and the report; Ctrl-C keeps what there is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

COMMAND = [sys.executable, "-m", "workflow.cli", "calibrate"]
# It computes for much longer than 2 MB take on a busy machine.
PIPELINE = """
wf: 1
name: known
stages:
  make: {component: synthetic, with: {bytes: 2 MB, steps: %d, compute_time: 1 s}}
  drop: {component: "null"}
streams:
  data: {from: make, to: drop, via: sst-tcp}
"""

FIELD = """
wf: 1
name: field
stages:
  sim: {component: gray_scott, with: {size: [16], steps: 20, write_every: 20}}
  drop: {component: "null"}
streams:
  field: {from: sim, to: drop, via: bp5}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose calibration has memory and transports."""
    folder = tmp_path_factory.mktemp("calibrate")
    (folder / "measured").mkdir()
    (folder / "pipeline.yaml").write_text(PIPELINE % 4)
    parts = ["--only", "memory", "--only", "transports"]
    said = wf(folder, "calibrate", "--quick", "--despite-load", *parts, "--dir", "measured")
    assert "1/3 memcpy" in said and "2/3 sst-tcp" in said and "3/3 shm" in said
    return folder


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), "NO_COLOR": "1", "COLUMNS": "160"}


def wf(folder: Path, *argv: str, code: int = 0, python: str = sys.executable) -> str:
    command = [python, "-m", "workflow.cli", *argv]
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, f"{argv}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def kept(folder: Path) -> Any:
    return json.loads((folder / "config/wf/calibration/local.json").read_text())


@pytest.fixture
def busy_cores() -> Iterator[None]:
    """Other programs use all cores."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


@pytest.mark.usefixtures("busy_cores")
def test_a_busy_machine_is_not_measured_unless_asked_and_then_that_is_kept(tmp_path: Path) -> None:
    said = wf(tmp_path, "calibrate", "--quick", "--only", "launch", code=2)
    assert "other programs use " in said and "add `--despite-load`" in said
    said = wf(tmp_path, "calibrate", "--quick", "--only", "launch", "--despite-load")
    assert "note: measured while other programs used " in said
    found = kept(tmp_path)
    conditions, cost = found["measured"]["launch"], found["launch"][0]["begin_s"]
    assert conditions["others"] > 0.1 * conditions["cores"]
    # On a quiet machine it may take as much less as the others took of the cores.
    free = 1 - conditions["others"] / conditions["cores"]
    assert cost["low"] <= max(0.1, free) * cost["median"]
    assert "while other programs used" in wf(tmp_path, "calibrate", "--show")


def test_what_is_measured(home: Path) -> None:
    found = kept(home)
    assert set(found["measured"]) == {"memory", "transports"}
    assert 1e8 < found["memory"]["low"] <= found["memory"]["median"] <= found["memory"]["high"] < 1e12
    tcp, shared = found["transports"]
    assert (tcp["transport"], shared["transport"], shared["engine"]) == ("tcp", "", "SHM")
    assert [each["bytes"] for each in shared["points"]] == [each["bytes"] for each in tcp["points"]]
    assert [each["bytes"] for each in tcp["points"]] == [65_536, 1_000_000, 16_000_000]
    for point in tcp["points"]:
        # Each time is of a whole step: none is longer than the step of a stream at work by far, none is nothing.
        assert point["read_s"]["median"] > 0 and point["write_s"]["median"] > 0 and point["step_s"]["median"] > 0
        assert point["step_s"]["count"] == 10 and point["write_s"]["count"] == 6
    # Moving 250 times as much takes longer.
    assert tcp["points"][2]["read_s"]["median"] > tcp["points"][0]["read_s"]["median"]
    assert list((home / "measured").iterdir()) == []
    said = wf(home, "calibrate", "--show")
    assert "sst-tcp" in said and "memcpy of one core" in said
    assert json.loads(wf(home, "calibrate", "--show", "--json")) == found


def test_a_run_is_forecast_from_a_former_one(home: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(home, tmp_path / "home"))
    before = wf(home, "plan", "pipeline.yaml")
    assert "stages.make: its computing time is not known: run it once, then `wf calibrate --from RUN`" in before
    wf(home, "run", "pipeline.yaml", "--run-dir", "former", "-q")
    assert "computing time of 2 stages" in wf(home, "calibrate", "--from", "former")
    # What is recorded now, and what the file holds.
    wf(home, "run", "pipeline.yaml", "--run-dir", "small", "-q", "--set", "stages.make.with.bytes=1 MB")
    said = wf(home, "calibrate", "--from", "small")
    assert "computing time of 2 stages; with those of earlier runs it has 4\n" in said
    wf(home, "calibrate", "--from", "former")
    (home / "other.yaml").write_text(PIPELINE % 3)
    plan = wf(home, "plan", "other.yaml")
    assert "limited by stage make" in plan and "not known" not in plan
    assert "forecast" not in json.loads(wf(home, "plan", "other.yaml", "--json"))
    wf(home, "run", "other.yaml", "--run-dir", "next", "-q")
    report = json.loads(wf(home, "report", "next", "--json"))
    lines = {line["what"]: line for line in report["forecast"]}
    pace = lines["time per step of make"]
    # It sleeps for 1 s in each step.
    assert pace["forecast"] >= 1.0 and pace["measured"] >= 1.0
    assert lines["make: compute"]["forecast"] >= 1.0
    assert lines["make: write data"]["measured"] > 0
    assert "time per step of make" in wf(home, "report", "next")
    assert "<h2>Forecast</h2>" in (home / "next/report.html").read_text()
    assert kept(home)["stages"][0]["parameters"]["bytes"] == 2_000_000
    assert "steps" not in kept(home)["stages"][0]["parameters"]


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    # The parts come in a fixed order: memory is measured when the first transport is announced.
    folder, printed = tmp_path / "here", tmp_path / "printed"
    folder.mkdir()
    with printed.open("w") as output:
        process = subprocess.Popen(
            [*COMMAND, "--despite-load"],
            cwd=folder,
            env=environment(folder),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        wait_until(lambda: "sst-tcp" in printed.read_text() or process.poll() is not None, "the first transport")
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    said = printed.read_text()
    assert process.returncode == 130, said
    assert "interrupted; what was measured is in" in said and "Traceback" not in said
    found = kept(folder)
    assert found["memory"]["count"] == 12 and found["compressors"] == found["file_system"] == []
    assert found["measured"]["memory"]["complete"] is False
    assert [path.name for path in folder.iterdir()] == ["config"]


def test_compressors_on_data_of_the_user(tmp_path: Path, mpi_python: str) -> None:
    (tmp_path / "pipeline.yaml").write_text(FIELD)
    wf(tmp_path, "run", "pipeline.yaml", "--run-dir", "first", "-q", python=mpi_python)
    data = "first/streams/field.bp:U"
    wf(tmp_path, "calibrate", "--quick", "--despite-load", "--only", "compressors", "--data", data, python=mpi_python)
    found = {
        each["operator"] + each["parameters"].get("compressor", ""): each for each in kept(tmp_path)["compressors"]
    }
    assert set(found) == {"blosclz4", "blosczstd", "zfp", "bzip2"}
    assert {each["data"] for each in found.values()} == {"field.bp:U"}
    assert {each["bytes"] for each in found.values()} == {16**3 * 8}
    # Three digits of smooth numbers are a small part of them.
    assert found["zfp"]["ratio"] < found["blosczstd"]["ratio"] < 1
    for each in found.values():
        assert 0 < each["compress"]["low"] <= each["compress"]["median"] and each["decompress"]["median"] > 0


def test_mistakes(tmp_path: Path) -> None:
    assert "has not been calibrated" in wf(tmp_path, "calibrate", "--show", code=2)
    assert "expected FILE.bp:VARIABLE" in wf(tmp_path, "calibrate", "--data", "x.bp", code=2)
    assert "there is no x.bp" in wf(tmp_path, "calibrate", "--data", "x.bp:V", code=2)
    assert "--from measures nothing" in wf(tmp_path, "calibrate", "--from", "x", "--quick", code=2)
    assert "no run" in wf(tmp_path, "calibrate", "--from", "x", code=2)
    assert "has a scheduler, and this is not one of its jobs" in wf(tmp_path, "calibrate", "--site", "slurm", code=2)
    # A calibration of a newer wf is named by the plan, and does not keep anything from running.
    config = tmp_path / "config/wf/calibration"
    config.mkdir(parents=True)
    (config / "local.json").write_text('{"calibration_version": 9}')
    (tmp_path / "pipeline.yaml").write_text(PIPELINE % 2)
    assert "calibration_version is 9" in wf(tmp_path, "plan", "pipeline.yaml", code=0)
