"""Damaged files of data end neither `wf look` nor `wf compare`, and what a dead writer has left open is shown."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from adios2 import Stream

from tests.integration.test_look_files import model_of, write_bp
from tests.support.sample_run import write_sample
from workflow.api.archives import look_at
from workflow.errors import RunError
from workflow.formats.lease_file import LEASE_FILE
from workflow.run.control.lease import Lease, this_system
from workflow.run.processes.process_reaper import born_ticks

ROOT = Path(__file__).parents[2]
# Far more than it takes: a hang was one of minutes, or for ever.
LIMIT_S = 60


def wf(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of a verb in a process of its own, and what it printed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "workflow.cli", *words], cwd=folder, env=env, capture_output=True, text=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def cut(path: Path, count: int) -> None:
    """Take bytes from the end of a file."""
    os.truncate(path, path.stat().st_size - count)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bp(tmp_path_factory.mktemp("data") / "whole.bp")


@pytest.mark.parametrize("count", [100, 300, 500, 700, 900, 1100])
def test_metadata_that_crash_the_library_are_named_in_a_message(whole: Path, tmp_path: Path, count: int) -> None:
    shutil.copytree(whole, tmp_path / "short.bp")
    cut(tmp_path / "short.bp/mmd.0", count)
    for words in (("compare", str(whole), "short.bp"), ("look", "short.bp", "-o", "page.html")):
        code, said = wf(tmp_path, *words)
        assert code == 2, said
        assert "error: " in said and "short.bp" in said, said
        assert "Traceback" not in said


@pytest.mark.parametrize("count", [1, 4000])
def test_a_reader_does_not_wait_for_data_that_are_cut_off(whole: Path, tmp_path: Path, count: int) -> None:
    shutil.copytree(whole, tmp_path / "short.bp")
    cut(tmp_path / "short.bp/data.0", count)
    code, said = wf(tmp_path, "compare", str(whole), "short.bp")
    assert code == 2, said
    assert "short.bp: " in said and "truncated" in said, said
    code, said = wf(tmp_path, "look", "short.bp", "-o", "page.html")
    assert "short.bp: " in said and "truncated" in said, said


def test_a_damaged_file_takes_no_other_along(whole: Path, tmp_path: Path) -> None:
    """The process that reads is started again."""
    runs = [write_sample(tmp_path / "runs" / name, steps=3) for name in ("one", "two")]
    for run in runs:
        for name in ("a.bp", "b.bp"):
            shutil.copytree(whole, run / name)
    cut(runs[1] / "a.bp/mmd.0", 500)
    code, said = wf(tmp_path, "compare", "runs/one", "runs/two", "--json")
    found = {each["path"]: each["differences"] for each in json.loads(said)["files"]}
    assert [each["what"] for each in found["a.bp"]] == ["unreadable"]
    assert "SIG" in found["a.bp"][0]["message"] and "two/a.bp" in found["a.bp"][0]["message"]
    assert found["b.bp"] == [] and code == 2


def take_lease(run: Path, pid: int) -> None:
    """As the supervisor with this process id."""
    lease = Lease(socket.gethostname(), pid, 3, str(run), this_system(), born_ticks(pid) or 1)
    (run / LEASE_FILE).write_text(json.dumps(asdict(lease)))


def dead_pid() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_a_dead_sink_has_left_is_shown_and_what_a_living_one_writes_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = write_sample(tmp_path / "runs/one", steps=3)
    with Stream(str(tmp_path / "open.bp"), "w") as out:
        for step in range(2):
            out.begin_step()
            out.write("a", float(step))
            out.end_step()
        shutil.copytree(tmp_path / "open.bp", run / "pdf.bp.partial")
    before = (run / "pdf.bp.partial/md.idx").read_bytes()
    take_lease(run, os.getpid())
    with pytest.raises(RunError, match=r"pdf.bp.partial: its writer has not closed it\n  if it is still being written"):
        look_at("runs/one")
    take_lease(run, dead_pid())
    written = look_at("runs/one", page=tmp_path / "page.html")
    assert any(
        "pdf.bp.partial: its writer has not closed it: shown as far as it goes" in note for note in written.notes
    )
    assert model_of(written.path)["files"][0]["steps"] == [0, 1]
    # The file stays as the writer left it.
    assert (run / "pdf.bp.partial/md.idx").read_bytes() == before
