"""What `select` says when it has selected no step, and how often it reads one."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import pytest

from components.select import program
from components.select.program import Nearest, none_selected
from workflow import stage
from workflow.conditions import read_condition

NAN = math.nan


def said(condition: str, values: list[float], figure: str = "max(V)") -> str:
    nearest = Nearest(figure, read_condition(condition))
    for step, value in enumerate(values):
        nearest.look(step, value)
    return none_selected(len(values), [nearest])


@pytest.mark.parametrize(
    ("condition", "values", "why"),
    [
        ("> 0.9", [0.1, 0.62, 0.3], "the largest was 0.62 at step 1"),
        (">= 0.9", [0.1, 0.3, 0.3], "the largest was 0.3 at step 1"),  # the first of those that are as near
        ("< -1", [0.5, NAN, -0.25], "the smallest was -0.25 at step 2"),
        ("== 3", [1.0, 5.0, 2.5], "the nearest was 2.5 at step 2"),
        ("> 0.9", [NAN, NAN], "there were no finite values"),
        ("> 0.9", [0.89999], "the largest was 0.89999 at step 0"),  # not 0.9
        ("> 0.3", [0.3], "the largest was 0.3 at step 0"),
        ("< 1e30", [1.00000000001e30], "the smallest was 1.00000000001e+30 at step 0"),
    ],
)
def test_how_near_the_steps_came(condition: str, values: list[float], why: str) -> None:
    count = len(values)
    assert said(condition, values) == f"no step of {count} had max(V) {condition}, and none was selected; {why}"


def test_the_number_of_a_step_is_no_value_at_a_step() -> None:
    found = said(">= 1000", [0.0, 1.0, 2.0], "step")
    assert found == "no step of 3 had step >= 1000, and none was selected; the largest was 2"


def test_several_conditions_that_never_held_together() -> None:
    both = [Nearest("max(V)", read_condition("> 2")), Nearest("min(V)", read_condition("< 0"))]
    for step, (high, low) in enumerate([(3.0, 1.0), (4.0, 0.5), (1.0, 0.25)]):
        both[0].look(step, high)
        both[1].look(step, low)
    expected = "no step of 3 had max(V) > 2 and min(V) < 0, and none was selected; "
    assert none_selected(3, both) == f"{expected}max(V) > 2 at 2 steps; min(V): the smallest was 0.25 at step 2"


def test_a_stream_without_steps() -> None:
    assert said("> 1", []) == "the stream brought no step, and none was selected"


def test_each_step_is_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, too: of which what no other step has goes out with the first that is passed on."""
    with stage.open_writer(path=tmp_path / "a.bp") as out:
        for number in range(3):
            with out.step():
                out.write("V", np.full(4, float(number)))
                if not number:
                    out.write("mesh", np.arange(5.0))
    copied, of = list[int](), stage.StepCopy.of
    open_reader, open_writer = stage.open_reader, stage.open_writer

    def count(step: stage.Step) -> stage.StepCopy:
        copied.append(step.index)
        return of(step)

    given = argparse.Namespace(max=None, min=None, mean=None, step=">= 1", variable="", before=2, after=0, times="each")
    monkeypatch.setattr(program, "arguments", lambda _: given)
    monkeypatch.setattr(stage.StepCopy, "of", count)
    monkeypatch.setattr(stage, "open_reader", lambda _, **more: open_reader(path=tmp_path / "a.bp", **more))
    monkeypatch.setattr(stage, "open_writer", lambda _: open_writer(path=tmp_path / "b.bp"))
    program.main()
    assert copied == [0, 1, 2]
    with open_reader(path=tmp_path / "b.bp") as data:
        found = [(int(step.read("selected_step")), step.names()) for step in data]
    assert found == [(0, ["V", "mesh", "selected_step"]), (1, ["V", "selected_step"]), (2, ["V", "selected_step"])]
