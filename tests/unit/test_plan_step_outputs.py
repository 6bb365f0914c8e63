"""`files: each_step` in the plan: where it has an effect, and what is said where it has none."""

from __future__ import annotations

import pytest

from tests.support.planner import Planner, end_of

FILE = """
stages:
  walk: {component: walker, output: {files: each_step%s}}
  keep: {component: keep}
streams:
  positions: {from: walk, to: keep, via: %s}
"""


@pytest.mark.parametrize("via", ["bp5", "bp4"])
def test_both_ends_and_the_directory_are_named(via: str, plan_of: Planner) -> None:
    plan = plan_of(FILE % ("", via))
    stream = plan.stream("positions")
    assert stream.path.endswith("/streams/positions/%06T.bp") and [stream.path] * 2 == [
        end_of(plan, stage, "positions").path for stage in ("walk", "keep")
    ]
    assert stream.on_disk == [stream.path.removesuffix("/%06T.bp")]
    assert "one output per step" in plan.reasons["streams.positions.path"]
    assert not plan.advice


@pytest.mark.parametrize(("via", "why"), [("sst", "from memory to memory"), ("hdf5", "no steps in files of its own")])
def test_other_engines_ignore_it_and_say_so(via: str, why: str, plan_of: Planner) -> None:
    plan = plan_of(FILE % ("", via))
    assert "%" not in plan.stream("positions").path
    assert [why in line and "output.files has no effect" in line for line in plan.advice] == [True]


def test_asynchronous_writing_hides_little_of_it(plan_of: Planner) -> None:
    (line,) = plan_of(FILE % (", async: naive", "bp5")).advice
    assert "waits until it is written" in line
