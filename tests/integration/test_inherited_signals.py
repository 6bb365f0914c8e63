"""What the caller has left of signals: ignored, blocked. A run ends as it does without, and its stages get defaults."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines import ROOT
from workflow.api.runs import read_report
from workflow.launch.launchers import ProcessSpec
from workflow.run.processes.stage_processes import StageProcesses

# Becomes its arguments with signals ignored and blocked, which stays so.
CALLER = """
import os, signal, sys
for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM, signal.SIGINT])
os.execv(sys.argv[1], sys.argv[1:])
"""
# Which Python ignores itself, and which `CALLER` sets.
PYTHONS = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP}
# Nothing else is started to read them: dash blocks all signals while it starts something.
PIPELINE = """
wf: 1
name: fail
stages:
  a: {command: [/bin/sh, -c, "while read -r a b; do case $a in Sig[BI]*) echo $a $b;; esac; done </proc/$$/status; %s"]}
"""


@pytest.mark.parametrize(
    ("end", "how"), [("exit 7", "a ended with exit code 7"), ("kill -SEGV $$", "a was killed by signal 11 (SIGSEGV)")]
)
def test_a_stage_that_fails_has_failed_whatever_signals_the_caller_ignores(end: str, how: str, tmp_path: Path) -> None:
    (tmp_path / "fail.yaml").write_text(PIPELINE % end)
    argv = [sys.executable, "-m", "workflow.cli", "run", "fail.yaml", "-q", "--run-dir", "run"]
    done = subprocess.run(
        [sys.executable, "-c", CALLER, *argv], cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    report = read_report(tmp_path / "run")
    assert report.run.state == "failed", done.stderr
    assert done.returncode == 1
    assert report.run.reason.startswith(how)
    lines = (tmp_path / "run/stages/a/stdout.log").read_text().split("\n")
    masks = {name: int(value, 16) for name, _, value in (line.partition(":") for line in lines if line)}
    assert masks["SigBlk"] == 0
    # nohup means what it starts, too; and what these tests themselves inherit is not for wf to change.
    mine = re.search(r"^SigIgn:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert mine is not None
    inherited = {number for number in range(1, 65) if int(mine[1], 16) >> (number - 1) & 1}
    kept = {int(signal.SIGHUP), *(inherited - PYTHONS)}
    assert masks["SigIgn"] == sum(1 << (number - 1) for number in kept)


def test_an_exit_status_that_others_have_taken_is_no_success(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with StageProcesses(tmp_path) as processes:
            spec = ProcessSpec("a", ["/bin/sh", "-c", "exit 7"], tmp_path, str(tmp_path), "none")
            processes.start(spec)
            assert processes.wait(60) == ["a"]
            ending = processes.collect("a")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (ending.code, ending.signal) == (None, None)
    assert "exit status" in ending.note
