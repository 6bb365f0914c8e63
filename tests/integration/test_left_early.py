"""A simulation that closes its stream in order, and has written fewer steps than its component declares."""

from __future__ import annotations

from pathlib import Path

from tests.support.pipelines import Done, run

COMPONENT = """
component: short
kind: simulation
summary: Leaves its loop early
parameters:
  steps: {type: int, default: 30, help: steps to write}
  leave: {type: int, default: 30, help: where it leaves}
writes:
  output:
    any: true
    steps: {of: steps}
"""
PROGRAM = """
import sys
import numpy
from workflow import stage
from workflow.component_program import arguments

args = arguments(__file__)
with stage.open_writer("output") as out:
    for step in range(args.steps):
        if step == args.leave:
            sys.exit(0)
        with out.step():
            out.write("x", numpy.ones(3))
"""
PIPELINE = """
stages:
  sim: {component: ./short, with: {steps: 30, leave: %d}}
  look: {component: "null"}
streams:
  data: {from: sim, to: look, via: %s}
"""


def leaving(folder: Path, at: int, via: str = "sst") -> Done:
    (folder / "short").mkdir()
    (folder / "short/component.yaml").write_text(COMPONENT)
    (folder / "short/program.py").write_text(PROGRAM)
    return run(folder, PIPELINE % (at, via))


def test_the_run_fails_and_says_how_many_steps_there_should_be(tmp_path: Path) -> None:
    done = leaving(tmp_path, 10)
    assert done.code == 1, done.said
    assert done.report.run.stage == "sim"
    said = "sim ended with exit code 0, but wrote only 10 of the 30 steps of data that its parameters request"
    assert done.report.run.reason == said
    assert done.report.stream("data").steps == 10


def test_so_it_does_with_a_file(tmp_path: Path) -> None:
    done = leaving(tmp_path, 10, "bp5")
    assert done.code == 1, done.said
    assert "wrote only 10 of the 30 steps" in done.report.run.reason
    assert done.report.stage("look").state == "stopped", "it would read a part for the whole"


def test_all_steps_are_a_success(tmp_path: Path) -> None:
    assert leaving(tmp_path, 30).code == 0
