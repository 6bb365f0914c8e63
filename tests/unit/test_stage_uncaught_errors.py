"""What a program prints when it does not catch an error of `workflow.stage`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("out.write('x', 1)", "error: {program}:3: stream a.bp: 'x' must be written inside `with writer.step():`\n"),
        ("raise stage.StreamFailed('stream a: gone')", "error: stream a: gone\n"),
    ],
)
def test_an_error_is_printed_without_a_traceback(tmp_path: Path, mistake: str, message: str) -> None:
    """A wrong call with its place in the program, not one inside the package."""
    program = tmp_path / "program.py"
    program.write_text(f"from workflow import stage\nout = stage.open_writer(path='a.bp')\n{mistake}\n")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    argv = [sys.executable, str(program)]
    answer = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 1
    assert message.format(program=program) in answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_error_of_the_program_keeps_its_traceback(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from workflow import stage\nout = stage.open_writer(path='a.bp')\n1 / 0\n")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    argv = [sys.executable, str(program)]
    answer = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 1
    assert "ZeroDivisionError" in answer.stderr and "Traceback" in answer.stderr
