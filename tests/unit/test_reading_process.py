"""The deadline of a process that reads files of others: about progress, not about time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import h5py
import numpy as np
import pytest

from workflow.compare.compare_runs import compare_files
from workflow.data_files import reading_process
from workflow.data_files.read_steps import DataStep, open_data
from workflow.data_files.reading_process import SILENT_S, ReadingProcess, note_reading
from workflow.errors import RunError
from workflow.stage import Step


class Pipe:
    """Answers after some polls. Each takes a minute of the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at_poll: Callable[[], object], polls: int = 10) -> None:
        self.now, self.polls, self.at_poll = 0.0, polls, at_poll
        monkeypatch.setattr(reading_process, "time", SimpleNamespace(monotonic=lambda: self.now))
        busy = reading_process._Look(read=1000, calls=10, busy=True)
        monkeypatch.setattr(reading_process, "_look", lambda _: busy)

    def poll(self, _: float) -> bool:
        self.now += SILENT_S / 2
        self.polls -= 1
        self.at_poll()
        return self.polls < 0


def waited(monkeypatch: pytest.MonkeyPatch, at_poll: Callable[[], object]) -> str:
    with ReadingProcess() as reading:
        monkeypatch.setattr(reading_process, "_note", reading._noted)
        process = SimpleNamespace(pid=1, kill=lambda: None, wait=lambda: 0)
        reading._process = cast("subprocess.Popen[bytes]", process)
        return reading._wait(cast(Connection, Pipe(monkeypatch, at_poll)))


def test_a_process_that_works_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with many steps is in memory after the first ones: nothing more is read from the disk."""
    assert waited(monkeypatch, lambda: note_reading(Path("a.bp"))) == ""


def test_one_that_is_in_a_single_call_for_too_long_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has read nothing for 120 s" in waited(monkeypatch, lambda: None)


def make_file(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        for step in range(3):
            file[f"Step{step}/x"] = np.full(4, float(step))
    return path


def test_a_file_that_is_written_meanwhile_is_no_result(tmp_path: Path) -> None:
    path = make_file(tmp_path / "a.h5")
    with pytest.raises(RunError, match=r"a\.h5: was written while it was read"), open_data(path) as steps:
        for step in steps:
            if not step.number:
                append = f"import h5py; f = h5py.File({str(path)!r}, 'a'); f['later'] = 1.0; f.close()"
                subprocess.run([sys.executable, "-c", append], check=True, timeout=60)
    with pytest.raises(RunError, match=r"a\.h5: .*No such file"), open_data(path):
        path.rename(tmp_path / "moved.h5")
    (tmp_path / "moved.h5").rename(path)
    assert compare_files("a.h5", path, make_file(tmp_path / "b.h5"), 0.0).identical


@pytest.mark.parametrize(
    ("snapshot", "number"), [(3.0, 3), (np.float64(3), 3), ([3], 3), (7, 7), ([1, 2], None), (0.5, None), ("x", None)]
)
def test_the_number_of_an_iteration(snapshot: object, number: int | None) -> None:
    """Other programs write it as a number of any type, or all of them."""
    step = SimpleNamespace(index=1, attributes=lambda: {"/openPMD": "1.1.0", "/data/snapshot": snapshot})
    found = DataStep(cast(Step, step), Path("a.bp"))
    assert (found.iteration, found.number) == (number, 1 if number is None else number)
