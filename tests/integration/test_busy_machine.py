"""A machine with more work than cores: what the report says of a stage that computes without having a core."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pipelines import run

PIPELINE = """
stages:
  sim: {component: synthetic, with: {grid_points: 1000, particles: 0, steps: 8, compute_time: 400 ms, spin: true}}
  keep: {component: archive, with: {path: kept.bp}}
streams:
  data: {from: sim, to: keep}
"""


@pytest.fixture
def crowded_core() -> Iterator[None]:
    """One core for this process and its children, which two other programs use as much as they can."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        for each in others:
            each.kill()
            each.wait()


@pytest.mark.usefixtures("crowded_core")
def test_a_stage_that_shares_its_core_is_said_to_have_waited_for_it(tmp_path: Path) -> None:
    done = run(tmp_path, PIPELINE)
    run_part, notes = done.report.run, done.report.notes
    assert run_part.state == "succeeded", done.said
    assert any(note.startswith("sim had a core for ") and "waited for one" in note for note in notes), notes
    assert "clear" not in run_part.limit_evidence, run_part
