"""What a reader asks ADIOS2 about the blocks of a step, and what an error leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow import stage
from workflow.stage.adios.read_engine import AdiosReadEngine
from workflow.stage.settings import end_by_path
from workflow.stage.stream_engines import StepStatus
from workflow.stage.variables import Selection

HALF = 1 << 19  # of which 8 bytes each are 4 MiB


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """Two halves of an array; of the second step one of them."""
    values = np.arange(1.0, 2 * HALF + 1)
    with stage.open_writer(path=tmp_path / "a.bp") as out:
        for starts in ((0, HALF), (0,)):
            with out.step():
                for start in starts:
                    out.write("V", values[start : start + HALF], (2 * HALF,), (start,))
    return tmp_path / "a.bp"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    import adios2.bindings as adios2

    found: list[str] = []
    original = adios2.Engine.BlocksInfo

    def count(engine: Any, name: str, step: int) -> Any:
        found.append(name)
        return original(engine, name, step)

    monkeypatch.setattr(adios2.Engine, "BlocksInfo", count)
    return found


def test_blocks_are_asked_for_once_in_a_step(halves: Path, asked: list[str]) -> None:
    with stage.open_reader(path=halves) as data:
        for number, step in enumerate(data):
            first, second = (step.read("V", (start,), (HALF,)) for start in (0, HALF))
            (piece,) = step.share("V")
            assert asked == ["V"] * (number + 1)
            assert (first[0], first[-1]) == (1.0, HALF)
            assert (second[0], second[-1]) == ((0.0, 0.0) if number else (HALF + 1, 2 * HALF))
            np.testing.assert_array_equal(piece.values, np.concatenate([first, second]))


def test_gaps_in_given_memory_are_zeros_and_little_memory_asks_nothing(halves: Path, asked: list[str]) -> None:
    engine = AdiosReadEngine(end_by_path("read", halves, None, ""))
    for number, expected in enumerate((HALF + 1, 0)):
        assert engine.begin(0.0) is StepStatus.READY
        small, large = np.full(10, 7.0), np.full(HALF, 7.0)
        engine.get([Selection("V", (HALF,), (10,), into=small)])
        assert len(asked) == number
        engine.get([Selection("V", (HALF,), (HALF,), into=large)] * 2)
        assert len(asked) == number + 1
        assert small[0] == large[0] == expected
        engine.end()
    engine.close()


AFTER_AN_ERROR = """
import sys
import numpy as np
from workflow import stage

with stage.open_writer(path=sys.argv[1], engine="BP4") as out:
    for blocks, length in (3, 0), (3, 2), (1, 2):
        with out.step():
            out.write_local("parts", [np.full(2, number) for number in range(blocks)])
            out.write("no_elements_at_first", np.ones(length), (length,))
with stage.open_reader(path=sys.argv[1], engine="BP4") as data:
    next(data)
    try:
        next(data).shares(["parts", "no_elements_at_first"])
    except stage.StageError:
        print("refused")
    step = next(data)
    print(sorted(step.variables()), [piece.values.tolist() for piece in step.share("parts")])
"""


def test_after_an_error_a_step_with_fewer_blocks_is_read(tmp_path: Path) -> None:
    """ADIOS2 ended the process."""
    command = [sys.executable, "-c", AFTER_AN_ERROR, str(tmp_path / "a.bp")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = "refused\n['no_elements_at_first', 'parts'] [[0, 0]]\n"
    assert (done.returncode, done.stdout) == (0, said), done.stderr
