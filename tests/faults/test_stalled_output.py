"""A terminal or a pipe that accepts no output: the run goes on, its deadlines hold and its verdict is written."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import ROOT
from tests.support.waiting import wait_until
from workflow.run.processes.process_reaper import find_members

HANGS = "wf: 1\nname: stalled\ndeadlines: {run: 2 s, stop: 1 s}\nstages: {md: {command: [sleep, '1000']}}\n"
DIES = (
    "wf: 1\nname: stalled\ndeadlines: {stop: 1 s}\n"
    "stages: {md: {command: [sh, -c, 'sleep 1; exit 3']}, other: {command: [sleep, '1000']}}\n"
)


@pytest.fixture
def full_pipe() -> Iterator[int]:
    """The writing end of a pipe that nobody reads, and into which no byte fits."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(writer, b"x" * size)
        except BlockingIOError:
            pass
    os.set_blocking(writer, True)
    yield writer
    os.close(reader)
    os.close(writer)


@pytest.fixture
def stopped_terminal() -> Iterator[int]:
    """A terminal at which somebody has typed Ctrl-S."""
    controller, terminal = pty.openpty()
    os.write(controller, b"\x13")
    yield terminal
    os.close(controller)
    os.close(terminal)


def verdict(run_dir: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The last event of the run, once that is its verdict."""
    events = run_dir / "events.jsonl"

    def is_there() -> bool:
        assert process.poll() is None or events.exists(), "wf ended without a run"
        text = events.read_text() if events.exists() else ""
        return '"run_finished"' in text and text.endswith("\n")

    wait_until(is_there, f"a verdict in {events}")
    last: dict[str, Any] = json.loads(events.read_text().splitlines()[-1])
    return last


def check(text: str, output: int, folder: Path, *options: str) -> dict[str, Any]:
    """Run the pipeline with this output, wait for its verdict, then end `wf` by Ctrl-C."""
    (folder / "pipeline.yaml").write_text(text)
    run_dir = folder / "run"
    argv = [sys.executable, "-m", "workflow.cli.main", "run", "pipeline.yaml", "--run-dir", str(run_dir), *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    process = subprocess.Popen(argv, cwd=folder, env=env, stdout=output, stderr=output, start_new_session=True)
    try:
        last = verdict(run_dir, process)
        assert find_members(str(run_dir)) == set()
        if process.poll() is None:  # it waits for its output to be read: as any program, and to be interrupted
            process.send_signal(signal.SIGTERM)
        process.wait(120)
    finally:
        process.kill()
        process.wait()
    return last


@pytest.mark.parametrize("options", [(), ("-q",)], ids=["lines", "quiet"])
@pytest.mark.parametrize(("text", "words"), [(HANGS, "not done within 2 s"), (DIES, "ended with exit code 3")])
def test_full_pipe(text: str, words: str, options: tuple[str, ...], full_pipe: int, tmp_path: Path) -> None:
    last = check(text, full_pipe, tmp_path, *options)
    assert (last["state"], last["stage"]) == ("failed", "md")
    assert words in last["reason"]


@pytest.mark.parametrize(("text", "words"), [(HANGS, "not done within 2 s"), (DIES, "ended with exit code 3")])
def test_stopped_terminal(text: str, words: str, stopped_terminal: int, tmp_path: Path) -> None:
    last = check(text, stopped_terminal, tmp_path)
    assert (last["state"], last["stage"]) == ("failed", "md")
    assert words in last["reason"]
