"""`reader.window`: which steps are in it, and what is refused. The streams are files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow import stage
from workflow.stage.api import window


def written(folder: Path, steps: Iterable[Mapping[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "given.bp"
    with stage.open_writer(path=path) as out:
        for step in steps:
            with out.step():
                for name, value in step.items():
                    shape = getattr(value, "shape", ())
                    out.write(name, value, shape=shape or None)
    return path


def fields(number: int) -> list[dict[str, Any]]:
    return [{"V": np.arange(6.0).reshape(2, 3) + 10 * step, "time": 0.5 * step, "note": "x"} for step in range(number)]


@pytest.mark.parametrize("length", [1, 2, 3, 5, 20])
def test_a_window_has_the_last_steps_the_oldest_first(length: int, tmp_path: Path) -> None:
    given = fields(13)
    with stage.open_reader(path=written(tmp_path, given)) as reader:
        for index, seen in enumerate(reader.window(length, ["V", "time"])):
            first = max(0, index + 1 - length)
            assert seen.steps == tuple(range(first, index + 1))
            assert len(seen) == index + 1 - first
            assert seen.step.index == index
            np.testing.assert_array_equal(seen.read("V"), [each["V"] for each in given[first : index + 1]])
            np.testing.assert_array_equal(seen.read("time"), [each["time"] for each in given[first : index + 1]])
            assert str(seen.step.read("note")) == "x"
    assert index == 12


def test_an_array_stays_as_it_was_and_cannot_be_changed(tmp_path: Path) -> None:
    given = fields(20)
    with stage.open_reader(path=written(tmp_path, given)) as reader:
        kept = [seen.read("V") for seen in reader.window(3, "V")]
    for index, values in enumerate(kept):
        np.testing.assert_array_equal(values, [each["V"] for each in given[max(0, index - 2) : index + 1]])
    with pytest.raises(ValueError, match="read-only"):
        kept[0][0] = 0


def test_a_step_costs_at_most_one_more_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = list[int]()

    def made(shape: tuple[int, ...], kind: str) -> stage.Array:
        rooms.append(shape[0])
        return np.empty(shape, kind)

    monkeypatch.setattr(window, "fresh_array", made)
    for length, steps in itertools.product([1, 2, 5, 16], [1, 4, 100]):
        rooms.clear()
        slots = window.Slots(length)
        for step in range(steps):
            slots.add(np.full(3, step))
        assert set(rooms) == {2 * length}
        assert (len(rooms) - 1) * (length - 1) <= steps
        assert slots.last(min(length, steps))[:, 0].tolist() == list(range(max(0, steps - length), steps))


@pytest.mark.parametrize("box", [((0, 1), (2, 2)), lambda shape: ((0, 1), (shape[0], 2))], ids=["box", "function"])
def test_a_box_of_each_step(box: Any, tmp_path: Path) -> None:
    given = fields(4)
    with stage.open_reader(path=written(tmp_path, given)) as reader:
        for seen in reader.window(2, {"V": box}):
            np.testing.assert_array_equal(seen.read("V"), [given[step]["V"][:, 1:] for step in seen.steps])
            assert seen.box("V") == ((0, 1), (2, 2))


def test_it_can_be_written(tmp_path: Path) -> None:
    given = fields(4)
    with stage.open_reader(path=written(tmp_path, given)) as reader:
        written(tmp_path / "again", [{"last": seen.read("V")} for seen in reader.window(2, "V")][1:])
    with stage.open_reader(path=tmp_path / "again/given.bp") as again:
        for step in again:
            np.testing.assert_array_equal(step.read("last"), [given[step.index]["V"], given[step.index + 1]["V"]])


def refused(path: Path, wanted: Any, length: int = 3) -> str:
    with stage.open_reader(path=path) as reader, pytest.raises((stage.StageError, ValueError, IndexError)) as error:
        for seen in reader.window(length, wanted):
            seen.read("W")
    return str(error.value)


def test_what_cannot_be_a_window_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, fields(2))
    assert refused(path, "note") == "stream given.bp: note is text: read it by `window.step.read`"
    assert refused(path, "tim") == "stream given.bp: step 0 has no variable 'tim'; did you mean 'time'?"
    assert refused(path, "V") == "this window is of V, not of 'W': name it in `reader.window`"
    assert refused(path, []) == "a window needs the names of its variables"
    assert refused(path, "V", 0) == "a window has at least one step, not 0"
    assert "does not lie inside its shape (2, 3)" in refused(path, {"V": ((0, 0), (2, 9))})


def test_a_shape_that_changes_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, [*fields(2), {"V": np.zeros((3, 3))}])
    with stage.open_reader(path=path) as reader:
        windows = reader.window(5, "V")
        assert [len(next(windows)), len(next(windows))] == [1, 2]
        with pytest.raises(stage.StageError) as error:
            next(windows)
    assert str(error.value) == (
        "stream given.bp: V has type float64 and shape (3, 3) in step 2, but float64 and (2, 3) in the steps before: "
        "a window needs one shape; read such a variable step by step"
    )
