"""Output that nobody can read: a full log, a closed descriptor, a terminal that is gone."""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import TextIO

import pytest

from tests.support.waiting import wait_until

PIPELINE = "wf: 1\nname: quick\nstages: {a: {command: [/bin/sh, -c, 'ls -l /proc/self/fd; exit 0']}}\n"
CAMPAIGN = "wf: 1\ncampaign: c\npipeline: p.yaml\nmatrix: {stages.a.env.X: [a, b]}\nwarmup: 0\nrepetitions: 1\n"
CAMPAIGN += "metrics: {time: run.wall_s}\n"
NO_SPACE = "No space left on device"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    return tmp_path


def wf(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """`wf` in a shell, with its redirections."""
    command = ["bash", "-c", f'"$0" -m workflow.cli {line}', sys.executable]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("redirected", "note"),
    [
        ("2> /dev/full", f"standard error cannot be written: {NO_SPACE}"),
        ("2>&-", "standard error cannot be written: it is closed"),
        ("<&- >&- 2>&-", "standard error cannot be written: it is closed"),
        ("> /dev/full", ""),
        (">&-", ""),
    ],
)
def test_a_run_goes_on_and_has_its_own_exit_code(folder: Path, redirected: str, note: str) -> None:
    ran = wf(folder, f"run p.yaml --run-dir run {redirected}")
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr
    verdict = json.loads((folder / "run/events.jsonl").read_text().splitlines()[-1])
    assert verdict["state"] == "succeeded"
    notes = folder / "run/notes.jsonl"
    assert (
        [json.loads(line)["text"] for line in notes.read_text().splitlines()]
        == [f"{note}: what wf printed from then on is lost, the run went on"]
        if note
        else not notes.exists()
    )
    assert "/events.jsonl" not in (folder / "run/stages/a/stdout.log").read_text()


def test_the_exit_code_of_a_run_that_fails_is_its_own(folder: Path) -> None:
    (folder / "p.yaml").write_text(PIPELINE.replace("exit 0", "exit 7"))
    assert wf(folder, "run p.yaml 2> /dev/full > /dev/full").returncode == 1


def test_a_campaign_goes_on(folder: Path) -> None:
    (folder / "c.yaml").write_text(CAMPAIGN)
    ran = wf(folder, "campaign run c.yaml > /dev/full")
    assert ran.returncode == 0
    assert ran.stderr.endswith(
        f"warning: standard output cannot be written: {NO_SPACE}\n"
        "  what was printed is lost; the exit code says how it went\n"
    )
    ledger = (folder / "campaigns/c/ledger.jsonl").read_text()
    assert ledger.count('"succeeded"') == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plan p.yaml > /dev/full", f"error: standard output cannot be written: {NO_SPACE}\n"),
        ("plan p.yaml --json >&-", "error: standard output cannot be written: it is closed\n"),
        ("--help > /dev/full", f"error: standard output cannot be written: {NO_SPACE}\n"),
    ],
)
def test_a_verb_that_only_prints_says_so(folder: Path, line: str, said: str) -> None:
    ran = wf(folder, line)
    assert (ran.returncode, ran.stderr) == (2, said)


def test_a_verb_that_only_prints_needs_no_standard_error(folder: Path) -> None:
    assert wf(folder, "plan p.yaml --json 2> /dev/full").returncode == 0


def test_a_reader_that_leaves_is_no_mistake(folder: Path) -> None:
    ran = wf(folder, "plan p.yaml --json | head -1; exit ${PIPESTATUS[0]}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "{\n", "")


def test_a_terminal_that_is_gone_ends_no_run(folder: Path) -> None:
    """In a session of its own, so that no SIGHUP comes."""
    (folder / "p.yaml").write_text(PIPELINE.replace("exit 0", "until [ -e ../../../../go ]; do sleep 0.02; done"))
    ours, its = os.openpty()
    command = [sys.executable, "-m", "workflow.cli", "run", "p.yaml", "--run-dir", "run"]
    process = subprocess.Popen(command, cwd=folder, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)
    events = folder / "run/events.jsonl"
    wait_until(lambda: events.exists() and "stage_started" in events.read_text(), "the start of the stage")
    os.close(ours)
    (folder / "go").touch()
    assert process.wait(120) == 0
    assert json.loads(events.read_text().splitlines()[-1])["state"] == "succeeded"
    assert "Input/output error" in (folder / "run/notes.jsonl").read_text()


def test_a_pipe_that_does_not_block_gets_all(folder: Path) -> None:
    """Another program that has the same pipe may make it so."""
    whole = wf(folder, "schema").stdout
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    command = [sys.executable, "-m", "workflow.cli", "schema"]
    process = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert select.select([pipe], [], [], 120)[0]
        wait_until(lambda: process.poll() is not None or _is_full(pipe), "a pipe that is full")
        assert pipe.read() == whole
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 0)


def _is_full(pipe: TextIO) -> bool:
    size = fcntl.ioctl(pipe, termios.FIONREAD, b"1234")
    return int.from_bytes(size, sys.byteorder) >= 60_000


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_characters_that_an_encoding_lacks_are_no_error(encoding: str) -> None:
    program = "from workflow.standard_streams import keep_writable; keep_writable(); print('lat\\udce9in → é')"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
    after = {"utf-8": "→ é".encode(), "ascii": b"? ?", "latin-1": b"? \xe9"}[encoding]
    assert said == b"lat\xe9in " + after + b"\n"
