"""What every way to start a run promises: one class of tests, which each way of starting subclasses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import ROOT
from tests.support.waiting import wait_until
from workflow.run.processes.process_reaper import end_members, find_members

HEAD = "wf: 1\nname: contract\noversubscribe: true\ndeadlines: {start: 60 s, stop: 5 s}\n"
SHORT = f"""{HEAD}
stages:
  sim: {{component: gray_scott, with: {{steps: 100, write_every: 20, size: [16]}}}}
  keep: {{component: archive, with: {{path: field.bp}}}}
streams:
  field: {{from: sim, to: keep}}
"""
KEEP = "{component: archive, with: {path: field.bp}}"
LONG = SHORT.replace("steps: 100,", "steps: 100000000,").replace(KEEP, '{component: "null"}')
FAILS = f"""{HEAD}
stages:
  bad: {{command: [sh, -c, "echo no such luck >&2; exit 3"]}}
"""
DEAF = f"""{HEAD.replace("stop: 5 s", "stop: 600 s")}
stages:
  deaf: {{command: [sh, -c, "trap : INT TERM; touch held; while :; do sleep 1; done"]}}
"""
WITHIN_S = 120.0


class RunContract:
    """The table. A subclass says how a run is started and where its processes are."""

    def command(self, pipeline: Path) -> list[str]:
        """The command line that starts a run and ends as it ends."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Variables besides those of this process."""
        return {}

    def left(self, run: Path) -> list[Any]:
        """Processes of the run that are still there."""
        return list(find_members(str(run)))

    @pytest.fixture
    def home(self, tmp_path: Path) -> Iterator[Path]:
        """Where the run is; nothing of it is left after the test."""
        yield tmp_path
        for run in (tmp_path / "runs").glob("contract-*"):
            end_members(str(run))

    def start(self, home: Path, pipeline: str) -> subprocess.Popen[str]:
        (home / "p.yaml").write_text(pipeline)
        return self.popen(home, self.command(home / "p.yaml"))

    def popen(self, home: Path, command: list[str]) -> subprocess.Popen[str]:
        env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT), **self.environment()}
        return subprocess.Popen(
            command, cwd=home, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def wf(self, home: Path, *argv: str, code: int = 0) -> str:
        return self.finish(self.popen(home, wf(*argv)), code)

    def finish(self, process: subprocess.Popen[str], code: int) -> str:
        said, _ = process.communicate(timeout=WITHIN_S)
        assert process.returncode == code, f"exit code {process.returncode}\n{said}"
        assert "Traceback" not in said, said
        return said

    def verdict(self, home: Path) -> dict[str, Any]:
        run = json.loads(self.wf(home, "status", "--json"))["run"]
        assert isinstance(run, dict)
        return run

    def wait_for_steps(self, home: Path) -> None:
        events = home / "runs/latest/events.jsonl"
        wait_until(lambda: events.exists() and "stream_progress" in events.read_text(), "steps arrive")

    def test_a_run_that_succeeds_and_its_data(self, home: Path) -> None:
        run = self.start(home, SHORT)
        said = self.finish(run, 0)
        assert "contract: succeeded" in said
        done = (home / "runs/latest").resolve()
        assert self.verdict(home)["state"] == "succeeded"
        assert self.left(done) == []
        assert "contract: succeeded" in self.wf(home, "watch", done.name)
        # The same by hand in one process tree on this machine.
        self.wf(home, "run", "p.yaml", "--site", "local", "--run-dir", "reference")
        self.wf(home, "compare", str(done), "reference")  # exits with 1 when a value differs

    def test_a_stage_that_fails_is_named(self, home: Path) -> None:
        said = self.finish(self.start(home, FAILS), 1)
        assert "bad ended with exit code 3" in said
        assert "no such luck" in said
        run = self.verdict(home)
        assert (run["state"], run["stage"], run["exit_code"]) == ("failed", "bad", 1)

    def test_others_watch_and_cancel_it(self, home: Path) -> None:
        run = self.start(home, LONG)
        self.wait_for_steps(home)
        watch = self.popen(home, wf("watch"))
        (line,) = json.loads(self.wf(home, "runs", "--json"))["runs"]
        assert line["state"] == "running"
        assert "interrupted by `wf cancel`" in self.wf(home, "cancel")
        self.finish(watch, 130)
        self.finish(run, 130)
        assert self.verdict(home)["state"] == "interrupted"
        assert self.left((home / "runs/latest").resolve()) == []

    def test_cancel_now_kills(self, home: Path) -> None:
        run = self.start(home, DEAF)
        wait_until((home / "runs/latest/stages/deaf/work/held").exists, "the stage runs")
        # Sooner than the deadline of a stop: both wait for less here.
        self.wf(home, "cancel", "--now")
        self.finish(run, 130)
        assert self.left((home / "runs/latest").resolve()) == []


def wf(*argv: str) -> list[str]:
    """A command line of wf."""
    return [sys.executable, "-m", "workflow.cli", *argv]
