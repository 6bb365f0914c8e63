"""A colon that is missing, a line that is indented wrongly: the message names the line that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflow.errors import SpecError
from workflow.spec.load import load_pipeline

PIPELINE = """\
wf: 1
name: x
stages:
  sim:
    component: synthetic
    with: {steps: 2}
  # comment: here
  ana:
    component: histogram
    with:

      variable: grid
      bins: 10
streams:
  data:
    from: sim
    to: ana
"""
LINES = PIPELINE.splitlines()


def first_problem(lines: list[str], folder: Path) -> tuple[int, str, str]:
    """(line, message, hint) of the first mistake in these lines."""
    file = folder / "pipeline.yaml"
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(SpecError) as caught:
        load_pipeline(file)
    problem = caught.value.problems[0]
    return problem.line, problem.message, problem.hint


@pytest.mark.parametrize("number", [n for n, line in enumerate(LINES, 1) if ":" in line and n > 2 and "#" not in line])
def test_a_missing_colon_is_reported_in_its_line(number: int, tmp_path: Path) -> None:
    lines = [*LINES]
    lines[number - 1] = lines[number - 1].replace(":", "", 1)
    line, message, hint = first_problem(lines, tmp_path)
    assert line == number
    assert "colon" in message + hint
    key = LINES[number - 1].strip().partition(":")[0]
    assert f"`{key}:" in hint, "what to write"


@pytest.mark.parametrize("by", [-2, -1, 2])
@pytest.mark.parametrize("number", [4, 5, 6, 8, 9, 10, 12, 13, 15, 16, 17])
def test_a_wrong_indentation_is_reported_with_the_line_that_has_it(number: int, by: int, tmp_path: Path) -> None:
    """Where two lines do not fit together, the message names both: only the user knows which one is wrong."""
    lines = [*LINES]
    lines[number - 1] = lines[number - 1][-by:] if by < 0 else " " * by + lines[number - 1]
    if (number, by) in {(15, -1)}:
        return  # still a stream, and the file is right
    line, message, _ = first_problem(lines, tmp_path)
    assert line == number or f"line {number})" in message or f"in line {number}," in message or (number, by) in HARD


# The file is well-formed, and means something else: the first mistake is what that lacks.
HARD = {(4, 2), (8, 2), (15, -2), (15, 2)}


def test_keys_of_a_stage_among_the_stages(tmp_path: Path) -> None:
    """Not a list of what a stage called `with` lacks."""
    lines = [line.removeprefix("  ") if number in (10, 12, 13) else line for number, line in enumerate(LINES, 1)]
    line, message, hint = first_problem(lines, tmp_path)
    assert line == 10
    assert message == "`with` is a key of a stage, but indented like the name of a stage"
    assert hint == "indent it further: it then belongs to stage `ana`"


def test_a_key_among_the_stages_hides_no_mistake_of_another_stage(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    text = PIPELINE.replace("    with: {steps: 2}", "  with: {steps: 2}\n  sim2:\n    ranks: 1")
    file.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_pipeline(file)
    assert [problem.key for problem in caught.value.problems] == ["stages.with", "stages.sim2"]


def test_a_stage_may_be_called_like_a_key(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.replace("sim:", "place:").replace("from: sim", "from: place").replace("data:", "keep:"))
    assert list(load_pipeline(file).spec.stages) == ["place", "ana"]


def test_a_parameter_beside_with(tmp_path: Path) -> None:
    lines = [*LINES]
    lines[12] = "    bins: 10"
    line, message, hint = first_problem(lines, tmp_path)
    assert (line, message) == (13, "unknown key")
    assert hint == "a parameter of component histogram: write it under `with`"
