"""Stages with several streams, in real runs: opened in any order, and read in lockstep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fan_programs import STEPS
from tests.support.pipelines import HOLDING, ROOT, run
from workflow.run.records.run_directory import read_filled_plan

START = f'["${{{{ wf.python }}}}", {ROOT}/tests/support/fan_programs.py, '


def program(role: str, *words: object) -> str:
    return "command: " + START + ", ".join(map(str, (role, *words))) + "]"


SST = "sst, transport: tcp"
TWO_WRITERS = f"""
stages:
  left: {{{program("one", "%d")}, writes: {{x: {{}}}}}}
  right: {{{program("one", "%d")}, writes: {{y: {{}}}}}}
  both: {{{program("join")}, reads: {{x: {{}}, y: {{}}}}}}
streams:
  %s
  %s
"""
X, Y = "x: {from: left, to: both, via: %s}", "y: {from: right, to: both, via: %s}"


@pytest.mark.parametrize(
    ("via", "turned"),
    [(SST, False), (SST, True), ("sst", False), ("sst", True), ("bp5, coupling: live", True), ("bp5", False)],
)
def test_two_writers_one_reader(via: str, turned: bool, tmp_path: Path) -> None:
    streams = [X % via, Y % via]
    if turned:
        streams.reverse()
    done = run(tmp_path, TWO_WRITERS % (STEPS, STEPS, *streams))
    assert done.code == 0, done.said
    assert done.printed("both") == [f"{step} {step}" for step in range(STEPS)]
    assert via != SST or {stream.engine for stream in done.report.streams} == {"SST"}


@pytest.mark.parametrize("back", [(), ("back",)])
@pytest.mark.parametrize("turned", [False, True])
def test_one_stage_writes_two_streams_and_another_opens_them_the_other_way_round(
    turned: bool, back: tuple[str, ...], tmp_path: Path
) -> None:
    """Opened in the programs' order, both would wait in their first open without limit.

    The writer closes x first and waits there for its last step, also when the reader asks y first whether it goes on.
    """
    streams = ["x: {from: sim, to: both}", "y: {from: sim, to: both}"]
    if turned:
        streams.reverse()
    stages = f"""
stages:
  sim: {{{program("two")}, writes: {{x: {{}}, y: {{}}}}}}
  both: {{{program("join", *back)}, reads: {{x: {{}}, y: {{}}}}}}
streams:
  {streams[0]}
  {streams[1]}
"""
    done = run(tmp_path, stages)
    assert done.code == 0, done.said
    assert done.printed("both") == [f"{step} {step}" for step in range(STEPS)]


def test_one_stream_ends_before_the_other(tmp_path: Path) -> None:
    done = run(tmp_path, TWO_WRITERS % (5, 3, X % "sst", Y % "sst"))
    assert done.code == 1
    assert "stream y ended after 3 steps, but x, read in lockstep with it, goes on" in done.report.run.reason
    assert done.report.run.stage == "both"


@pytest.mark.parametrize(("way", "engine"), [("tcp", "SST"), ("shm", "SHM")])
@pytest.mark.parametrize("orders", [("in", "in"), ("out", "in")])
def test_two_stages_that_read_each_other(orders: tuple[str, str], way: str, engine: str, tmp_path: Path) -> None:
    """A cycle of live streams, with either stream opened first by each program."""
    stages = f"""
stages:
  fluid: {{{program("couple", orders[0])}, writes: {{mine: {{}}}}, reads: {{yours: {{}}}}}}
  solid: {{{program("couple", orders[1])}, writes: {{mine: {{}}}}, reads: {{yours: {{}}}}}}
streams:
  force: {{from: fluid.mine, to: solid.yours, transport: {way}}}
  shape: {{from: solid.mine, to: fluid.yours, transport: {way}}}
"""
    done = run(tmp_path, stages)
    assert done.code == 0, done.said
    assert {stream.engine for stream in done.report.streams} == {engine}
    # The programs begin with 1 and 3; at each step both take the mean and add 0, 1, 2, …
    begin = sum(1.0 if order == "in" else 3.0 for order in orders) / 2
    assert done.printed("fluid") == done.printed("solid") == [str(begin + sum(range(STEPS)))]


def test_one_writer_many_readers(tmp_path: Path) -> None:
    """The writer waits for all readers, and each reads every step."""
    stages = f"""
stages:
  sim: {{component: synthetic, with: {{grid_points: 2000, particles: 10, steps: {STEPS}}}}}
  one: {{component: {HOLDING}}}
  two: {{component: {HOLDING}}}
  three: {{component: {HOLDING}}}
streams:
  data: {{from: sim, to: [one, two, three]}}
"""
    done = run(tmp_path, stages)
    assert done.code == 0, done.said
    end = read_filled_plan(tmp_path / "run").stage("sim").ends[0]
    assert end.parameters["RendezvousReaderCount"] == "3"
    readers = done.report.stream("data").readers
    assert [(reader.stage, reader.steps, reader.dropped) for reader in readers] == [
        (name, STEPS, 0) for name in ("one", "two", "three")
    ]
    assert all(done.numbers(name) == list(range(STEPS)) for name in ("one", "two", "three"))
