"""Spools in the memory or on the disk of a node: however the run ends, nothing of them is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines import FAULTY, ROOT, Done, run
from tests.support.reliability import steps_done
from tests.support.waiting import wait_until
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.formats.node_folder import folders_here

STEPS = 20
PIPELINE = """
stages:
  sim: {{component: synthetic, with: {{grid_points: 1000, particles: 0, steps: {steps}, compute_time: 20 ms}}}}
  work:
    component: {faulty}
    with: {{how: {how}, where: inside, at: 5, times: 9, tokens: {tokens}}}
    on_failure: restart
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: work, keep: {spool}}}
  result: {{from: work, to: keep, via: bp5}}
"""


def go(folder: Path, spool: str, *, how: str = "none", name: str = "run", steps: int = STEPS) -> Done:
    text = PIPELINE.format(faulty=FAULTY, tokens=folder / "tokens", spool=spool, how=how, steps=steps)
    return run(folder, text, name=name)


IN_MEMORY, ON_DISK = "{where: /dev/shm}", "{where: $TMPDIR}"


@pytest.fixture(params=[IN_MEMORY, ON_DISK])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "disk"))
    return str(request.param)


def assert_nothing_is_left(run_dir: Path, disk: Path) -> None:
    assert folders_here(run_dir) == set()
    assert list(disk.glob("wf-*")) == []
    assert [path.name for path in (run_dir / "streams").iterdir() if "spool" in path.name] == []


def test_nothing_is_left_of_a_run_that_succeeds(place: str, tmp_path: Path) -> None:
    done = go(tmp_path, place)
    assert done.code == 0, done.said
    assert done.report.stream("field-spool").steps == STEPS, "it had all steps"
    assert_nothing_is_left(done.folder, tmp_path / "disk")
    (note,) = (note for note in done.report.notes if note.startswith("the spool of field "))
    assert "all steps, in /dev/shm" in note or "all steps, in $TMPDIR" in note


def test_nothing_is_left_of_a_run_that_fails(place: str, tmp_path: Path) -> None:
    done = go(tmp_path, place, how="exit1")
    assert done.code == 1
    assert len(done.report.restarts) == 1, "it was read once"
    assert_nothing_is_left(done.folder, tmp_path / "disk")


def test_nothing_is_left_of_a_run_whose_supervisor_is_killed(place: str, tmp_path: Path) -> None:
    file, run_dir = tmp_path / "pipeline.yaml", tmp_path / "run"
    text = PIPELINE.format(faulty=FAULTY, tokens=tmp_path / "tokens", spool=place, how="none", steps=2000)
    file.write_text(f"wf: 1\nname: test\noversubscribe: true\n{text}")
    argv = [sys.executable, "-m", "workflow.cli", "run", str(file), "--run-dir", str(run_dir), "-q"]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True) as supervisor:
        wait_until(lambda: steps_done(run_dir, "field-spool") > 4, "some steps in the spool")
        (folder,) = folders_here(run_dir)
        assert any(folder.rglob("data.0"))
        os.kill(supervisor.pid, signal.SIGKILL)
    # The guard writes the verdict when all else is done.
    wait_until(lambda: "run_finished" in (run_dir / "events.jsonl").read_text(), "the guard's verdict")
    assert_nothing_is_left(run_dir, tmp_path / "disk")
    assert json.loads((run_dir / "events.jsonl").read_text().splitlines()[-1])["cause"] == "supervisor_killed"
    assert read_report(run_dir).run.state == "failed"


def test_a_node_without_such_a_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    done = go(tmp_path, ON_DISK)
    assert done.code == 0, done.said
    assert f"cannot be written to $TMPDIR of this node: {tmp_path}/missing/wf-" in done.said
    assert "`keep` without `where` keeps it in the run directory" in done.said
    assert [path.name for path in (done.folder / "streams").iterdir()] == ["result.bp"]
    assert done.report.run.reason == ""


@pytest.mark.parametrize(("first", "then"), [(IN_MEMORY, IN_MEMORY), ("true", IN_MEMORY)])
def test_a_resumed_run_does_without_it(first: str, then: str, tmp_path: Path) -> None:
    """As with a spool that keeps the newest steps: the simulation sends its steps again."""
    whole = go(tmp_path, "true", name="whole")
    assert whole.code == 0, whole.said
    failed = go(tmp_path, first, how="exit1")
    assert failed.code == 1
    argv = [
        sys.executable,
        "-m",
        "workflow.cli",
        "resume",
        str(failed.folder),
        "-q",
        "--run-dir",
        str(tmp_path / "two"),
    ]
    # What failed twice is mended.
    argv += ["--set", "stages.work.with.how=none"]
    argv += ["--set", f"streams.field.keep={then}"]
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert compare_runs(whole.folder / "kept.bp", tmp_path / "two" / "kept.bp").identical
    assert folders_here(tmp_path / "two") == set()


def test_what_was_in_memory_cannot_be_replayed(tmp_path: Path) -> None:
    done = go(tmp_path, IN_MEMORY)
    argv = [sys.executable, "-m", "workflow.cli", "replay", str(done.folder)]
    said = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=150, check=False
    )
    assert said.returncode != 0
    assert "the run has kept no steps of field" in said.stderr + said.stdout
    assert "keep=true" in said.stderr + said.stdout


def test_a_spool_that_is_gone_hinders_no_reuse(tmp_path: Path) -> None:
    spool = "{where: /dev/shm, steps: 4}"
    done = go(tmp_path, spool)
    file = tmp_path / "pipeline.yaml"
    file.write_text(file.read_text().replace("kept.bp", "other.bp"))
    argv = [sys.executable, "-m", "workflow.cli", "run", str(file), "--reuse", str(done.folder), "-q"]
    again = subprocess.run(
        [*argv, "--run-dir", str(tmp_path / "again")], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert again.returncode == 0, again.stdout + again.stderr
    started = [json.loads(line) for line in (tmp_path / "again/events.jsonl").read_text().splitlines()]
    assert [event["stage"] for event in started if event["event"] == "stage_started"] == ["keep"]
    assert read_report(tmp_path / "again").warnings == []
    assert not any(event["event"] == "spool_grows" for event in started)
