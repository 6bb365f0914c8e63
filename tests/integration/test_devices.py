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
SST = "sst, transport: tcp"
ENGINES = {SST: "SST", "shm": "SHM", "bp5": "BP5"}
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


GROWING = """
import sys
import numpy as np
from tests.support import fake_device
from workflow import stage

fake_device.install()
device = fake_device.DEVICE
device.can_pin = sys.argv[1] == "pin"
with stage.open_writer("data") as out:
    for step in range(80):
        with out.step():
            # One size for a while, so that segments are used again; then a larger one, for which new ones are made.
            rows = 40 + 30 * (step // 20)
            field = np.arange(rows * 1000, dtype=float).reshape(rows, 1000) + step
            out.write("field", field)
            out.write("twice", fake_device.FakeArray(device, 2 * field), shape=field.shape, start=(0, 0))
            out.write("time", float(step))
            assert not device.memory and len(out._engine._rooms) == 3, "it was copied on the host"
            if step == 79:
                # Sent as another type: through a buffer.
                out.write("truth", fake_device.FakeArray(device, field > 7))
                assert len(device.memory) == 1
assert device.pins == {}, "something stays pinned"
said = {each: device.log.count(each) for each in set(device.log)}
slowly = said.get("copy to host slowly", 0)
assert said.get("copy to host", 0) + slowly == 81, said
if device.can_pin:
    assert 4 <= said["pin"] <= 36 and said["pin"] == said["unpin"] and slowly <= 48, said
else:
    assert "pin" not in said and said["copy to host"] == 1, said
assert not {"pin twice", "unpin too late"} & {*said}, said
print("right")
"""
# Up to three segments for each of four sizes and three steps.
WATCHED = """
import sys
import numpy as np
from tests.support import fake_device
from workflow import stage

fake_device.install()
device = fake_device.DEVICE
device.can_pin, last = sys.argv[1] == "pin", int(sys.argv[2])
kept = []
with stage.open_reader("data") as data:
    for step in data:
        rows = step.shape("field")[0]
        field = np.arange(rows * 1000, dtype=float).reshape(rows, 1000) + step.index
        found = step.read_many(["field", "twice"], device=device)
        part = step.read("field", (3, 0), (20, 1000), device=device)
        kept += [(found["field"], field), (found["twice"], 2 * field), (part, field[3:23])]
        if step.index == last:
            kept.append((step.read("time", device=device), step.index))
            assert not device.memory, "it was copied on the host"
            # In rows that do not follow each other: through a buffer.
            kept.append((step.read("field", (0, 5), (7, 3), device=device), field[:7, 5:8]))
            assert len(device.memory) == 1
            break
for array, wanted in kept:  # what was there is overwritten since
    np.testing.assert_array_equal(array.values, wanted)
assert device.pins == {}, "something stays pinned"
said = {each: device.log.count(each) for each in set(device.log)}
slowly = said.get("copy to device slowly", 0)
assert said.get("copy to device", 0) + slowly == 3 * (last + 1) + 2, said
if device.can_pin:
    assert 4 <= said["pin"] <= 36 and said["pin"] == said["unpin"] and slowly <= said["pin"], said
else:
    assert "pin" not in said and said["copy to device"] == 1, said
assert not {"pin twice", "unpin too late"} & {*said}, said
print("right")
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
@pytest.mark.parametrize("via", ENGINES)
def test_the_data_and_the_time(via: str, writers: int, readers: int, tmp_path: Path) -> None:
    report = run_pair(tmp_path, via, writers, readers).report
    make, take = report.stages
    (stream,) = report.streams
    (reader,) = stream.readers
    assert stream.engine == ENGINES[via]
    # The fake device takes so long for each copy, and copies no two of them at a time.
    assert make.device_s is not None and make.device_s >= STEPS * 2 * COPY_S
    assert take.device_s is not None and take.device_s >= STEPS * 3 * COPY_S
    assert (stream.device_s, reader.device_s) == (make.device_s, take.device_s)
    assert reader.device_times is not None and reader.device_times.p50 >= 3 * COPY_S
    for each in (make, take):
        parts = each.compute_s, each.device_s, each.io_s, each.wait_s, each.open_s, each.other_s
        assert each.wall_s == pytest.approx(sum(part or 0.0 for part in parts), abs=1e-3)


@pytest.mark.parametrize(("pins", "last"), [("pin", 79), ("pin", 5), ("refuse", 30)])
def test_shared_memory_is_copied_from_where_it_is(pins: str, last: int, tmp_path: Path) -> None:
    """To the end of the stream, or until the reader leaves it."""
    (tmp_path / "make.py").write_text(GROWING)
    (tmp_path / "take.py").write_text(WATCHED)
    words = {
        '"STEPS", "ROWS"': pins,
        'take.py"': f'take.py", {pins}, "{last}"',
        "FOLDER": tmp_path,
        "VIA": "shm, queue: {limit: 2}",
    }
    text = PIPELINE
    for word, value in {**words, "WRITERS": 1, "READERS": 1}.items():
        text = text.replace(word, str(value))
    done = run(tmp_path, text)
    assert done.printed("make") == done.printed("take") == ["right"], done.said
    assert (done.code == 0) == (last == 79), done.said
    assert last == 79 or f"take ended with exit code 0, but read only {last + 1} " in done.said


def test_the_ranks_are_compared(mpi_python: str, tmp_path: Path) -> None:
    report = run_pair(tmp_path, SST, 2, 2, python=mpi_python).report
    (stream,) = report.streams
    assert stream.engine == "SST"
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
