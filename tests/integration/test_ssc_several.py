"""SSC: stages that several streams of one launch line join. None waits for one that waits for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fan_programs import STEPS
from tests.support.ssc_runs import ROOT, command, need_mpi, run

FAN = ROOT / "tests/support/fan_programs.py"
ALL = [f"{step} {step}" for step in range(STEPS)]


@pytest.fixture(autouse=True)
def with_mpi() -> None:
    need_mpi()


def program(ranks: int, role: str, *words: object) -> str:
    return f"command: {command(FAN, role, *map(str, words))}, ranks: {ranks}"


def two_streams(order: tuple[str, str], ranks: tuple[int, int], count: int = 0) -> str:
    return f"""
stages:
  make: {{{program(ranks[0], "out_of_line", "x", "y")}, writes: {{x: {{}}, y: {{}}}}}}
  take: {{{program(ranks[1], "side_by_side", count, *order)}, reads: {{x: {{}}, y: {{}}}}}}
streams:
  x: {{from: make, to: take, via: ssc}}
  y: {{from: make, to: take, via: ssc}}
"""


def printed(folder: Path) -> list[str]:
    return (folder / "run/stages/take/stdout.log").read_text().splitlines()


@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")])
@pytest.mark.parametrize("ranks", [(1, 1), (2, 3)])
def test_two_streams_between_two_stages(order: tuple[str, str], ranks: tuple[int, int], tmp_path: Path) -> None:
    """The writer closes y first, and sends x first, whichever the reader asks for first."""
    code, report, said = run(tmp_path, two_streams(order, ranks))
    assert code == 0, said
    assert printed(tmp_path) == ALL
    assert [(each["steps"], each["readers"][0]["steps"]) for each in report["streams"]] == [(STEPS, STEPS)] * 2


@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")])
def test_a_reader_that_leaves_two_streams_early_lets_both_pass(order: tuple[str, str], tmp_path: Path) -> None:
    code, report, said = run(tmp_path, two_streams(order, (1, 2), count=2))
    assert code == 1, said
    assert report["run"]["stage"] == "take", said
    assert f"of the {STEPS} steps that make wrote" in report["run"]["reason"], said
    assert [each["steps"] for each in report["streams"]] == [STEPS] * 2
    assert printed(tmp_path) == ALL[:2]


@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")])
@pytest.mark.parametrize("ranks", [1, 2])
def test_two_writers_of_one_reader(order: tuple[str, str], ranks: int, tmp_path: Path) -> None:
    """Its ranks may hear of the two in different order."""
    text = f"""
stages:
  left: {{{program(1, "out_of_line", "x")}, writes: {{x: {{}}}}}}
  right: {{{program(1, "out_of_line", "y")}, writes: {{y: {{}}}}}}
  take: {{{program(ranks, "side_by_side", 0, *order)}, reads: {{x: {{}}, y: {{}}}}}}
streams:
  x: {{from: left, to: take, via: ssc}}
  y: {{from: right, to: take, via: ssc}}
"""
    code, _, said = run(tmp_path, text)
    assert code == 0, said
    assert printed(tmp_path) == ALL


@pytest.mark.parametrize("readers", ["[pass, take]", "[take, pass]"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_stream_straight_and_by_another_stage(ranks: int, readers: str, tmp_path: Path) -> None:
    """take waits for pass first, while make may wait for take before it goes on with pass."""
    text = f"""
stages:
  make: {{{program(1, "out_of_line", "x")}, writes: {{x: {{}}}}}}
  pass: {{{program(1, "pass_on")}, reads: {{x: {{}}}}, writes: {{z: {{}}}}}}
  take: {{{program(ranks, "side_by_side", 0, "z", "x")}, reads: {{x: {{}}, z: {{}}}}}}
streams:
  x: {{from: make, to: {readers}, via: ssc}}
  z: {{from: pass, to: take, via: ssc}}
"""
    code, _, said = run(tmp_path, text)
    assert code == 0, said
    assert printed(tmp_path) == ALL


@pytest.mark.parametrize("ranks", [1, 2])
def test_one_stream_that_ends_before_the_other_is_told(ranks: int, tmp_path: Path) -> None:
    text = f"""
stages:
  left: {{{program(1, "one", 5)}, writes: {{x: {{}}}}}}
  right: {{{program(1, "one", 3)}, writes: {{y: {{}}}}}}
  take: {{{program(ranks, "side_by_side", 0, "x", "y")}, reads: {{x: {{}}, y: {{}}}}}}
streams:
  x: {{from: left, to: take, via: ssc}}
  y: {{from: right, to: take, via: ssc}}
"""
    code, report, said = run(tmp_path, text)
    assert code == 1, said
    assert report["run"]["stage"] == "take", said
    assert "stream y ended after 3 steps, but x, read in lockstep with it, goes on" in report["run"]["reason"], said
