"""Runs whose stages copy to and from a device without a GPU: the data, and the time in the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fake_device import COPY_S
from tests.support.pipelines import ROOT, Done, run
from workflow.report.read.run_records import read_records

STEPS, ROWS = 5, 6
PIPELINE = """
stages:
  make: {command: ["${{ wf.python }}", "FOLDER/make.py", "STEPS", "ROWS"], ranks: WRITERS, writes: {data: {}}}
  take: {command: ["${{ wf.python }}", "FOLDER/take.py"], ranks: READERS, reads: {data: {}}}
streams:
  data: {from: make, to: take, via: VIA}
"""
MAKE = """
import sys
import numpy as np
from tests.support import fake_device
from workflow import stage

fake_device.install()
steps, rows = map(int, sys.argv[1:])
with stage.open_writer("data") as out:
    start, count = stage.block(rows)
    for step in range(steps):
        field = np.arange(rows * 4, dtype=float).reshape(rows, 4) + 100 * step
        with out.step():
            array = fake_device.FakeArray(fake_device.DEVICE, field[start : start + count])
            out.write("field", array, shape=field.shape, start=(start, 0))
            out.write("twice", fake_device.FakeArray(fake_device.DEVICE, 2 * field))
"""
TAKE = """
import numpy as np
from tests.support import fake_device
from workflow import stage

fake_device.install()
with stage.open_reader("data") as data:
    for step in data:
        start, count = stage.block(step.shape("field")[0])
        wanted = {"field": ((start, 0), (count, 4)), "twice": None}
        found = step.read_many(wanted, device=fake_device.DEVICE)
        once = step.read("field", device=fake_device.DEVICE)
        assert type(once).__name__ == "FakeArray", once
        field = np.arange(once.values.size, dtype=float).reshape(-1, 4) + 100 * step.index
        np.testing.assert_array_equal(once.values, field)
        np.testing.assert_array_equal(found["field"].values, field[start : start + count])
        np.testing.assert_array_equal(found["twice"].values, 2 * field)
"""
PLAIN = """
from workflow import stage
with stage.open_reader("data") as data:
    for step in data:
        step.read("field")
"""


def run_pair(
    folder: Path, via: str, writers: int, readers: int, take: str = TAKE, python: str = sys.executable
) -> Done:
    (folder / "make.py").write_text(MAKE)
    (folder / "take.py").write_text(take)
    words = {"FOLDER": folder, "STEPS": STEPS, "ROWS": ROWS, "WRITERS": writers, "READERS": readers, "VIA": via}
    text = PIPELINE
    for word, value in words.items():
        text = text.replace(word, str(value))
    done = run(folder, text, python=python)
    assert done.code == 0, done.said
    return done


@pytest.mark.parametrize(("writers", "readers"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("via", ["sst", "shm", "bp5"])
def test_the_data_and_the_time(via: str, writers: int, readers: int, tmp_path: Path) -> None:
    report = run_pair(tmp_path, via, writers, readers).report
    make, take = report.stages
    (stream,) = report.streams
    (reader,) = stream.readers
    # The fake device takes so long for each copy, and copies no two of them at a time.
    assert make.device_s is not None and make.device_s >= STEPS * 2 * COPY_S
    assert take.device_s is not None and take.device_s >= STEPS * 3 * COPY_S
    assert (stream.device_s, reader.device_s) == (make.device_s, take.device_s)
    assert reader.device_times is not None and reader.device_times.p50 >= 3 * COPY_S
    for each in (make, take):
        parts = each.compute_s, each.device_s, each.io_s, each.wait_s, each.open_s, each.other_s
        assert each.wall_s == pytest.approx(sum(part or 0.0 for part in parts), abs=1e-3)


def test_the_ranks_are_compared(mpi_python: str, tmp_path: Path) -> None:
    report = run_pair(tmp_path, "sst", 2, 2, python=mpi_python).report
    (stream,) = report.streams
    for spread in (stream.device_ranks, stream.readers[0].device_ranks):
        assert spread is not None and spread.median >= STEPS * 2 * COPY_S


def test_the_report_has_it_beside_the_transport(tmp_path: Path) -> None:
    done = run_pair(tmp_path, "shm", 1, 1)
    said = subprocess.run(
        [sys.executable, "-m", "workflow.cli", "report", str(done.folder)], check=True, capture_output=True, text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
    ).stdout  # fmt: skip
    assert "device copies" in said
    page = (done.folder / "report.html").read_text()
    for text in (
        "device copies",
        "copying to or from a device",
        "copying data to a device",
        "copying data from a device",
    ):
        assert text in page, text
    take = done.report.stages[1]
    assert take.io_s is not None and take.io_s < STEPS * COPY_S  # shared memory takes microseconds
    records = read_records(done.folder).metrics["take"]
    assert sum(step.device_s for step in records.steps) == pytest.approx(take.device_s, abs=1e-5)


def test_who_uses_no_device_has_nothing_of_it(tmp_path: Path) -> None:
    done = run_pair(tmp_path, "shm", 1, 1, PLAIN)
    lines = [json.loads(line) for line in (done.folder / "stages/take/metrics.jsonl").read_text().splitlines()]
    assert not any("device_s" in line for line in lines)
    assert done.report.stages[1].device_s is None
    assert done.report.streams[0].readers[0].device_times is None
