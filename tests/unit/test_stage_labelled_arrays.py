"""Steps as a dataset of xarray. The streams are files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow import stage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "field.bp"
    with stage.open_writer(path=made) as out:
        out.attribute("unit", "mol/l", variable="V")
        out.attribute("long_name", "concentration", variable="V")
        for step in range(6):
            with out.step():
                out.write("V", np.full((2, 3), float(step)), shape=(2, 3))
                out.write("time", 0.5 * step)
                out.write("rows", np.zeros(step), shape=(step,))
    return made


def test_steps_are_a_dataset(path: Path) -> None:
    pytest.importorskip("xarray", reason="needs xarray")
    with stage.open_reader(path=path) as reader:
        first, rest = reader.to_xarray(["V", "time"], steps=2), reader.to_xarray("V")
    assert first["step"].values.tolist() == [0, 1]
    assert rest["step"].values.tolist() == [2, 3, 4, 5]
    assert first["V"].dims == ("step", "V_0", "V_1")
    assert first["V"].attrs == {"long_name": "concentration", "units": "mol/l"}
    assert first["time"].values.tolist() == [0.0, 0.5]
    np.testing.assert_array_equal(rest["V"].mean(["V_0", "V_1"]), [2, 3, 4, 5])


def test_a_step_that_is_removed_while_it_is_read_is_left_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run does with old steps that a notebook reads."""
    pytest.importorskip("xarray", reason="needs xarray")
    read = stage.Step.read_many

    def removing(step: stage.Step, wanted: Any) -> dict[str, stage.Array]:
        if step.index == 2:
            raise stage.StepRemoved("removed")
        return read(step, wanted)

    monkeypatch.setattr(stage.Step, "read_many", removing)
    with stage.open_reader(path=path) as reader:
        assert reader.to_xarray("V", steps=3)["V"][:, 0, 0].values.tolist() == [0.0, 1.0, 3.0]
    with stage.open_reader(path=path) as reader:
        assert [window.steps for window in reader.window(2, "V")] == [(0,), (0, 1), (1, 3), (3, 4), (4, 5)]


def test_a_window_is_a_dataset(path: Path) -> None:
    pytest.importorskip("xarray", reason="needs xarray")
    with stage.open_reader(path=path) as reader:
        *_, last = (window.to_xarray() for window in reader.window(3, "V"))
    assert last["step"].values.tolist() == [3, 4, 5]
    np.testing.assert_array_equal(last["V"].sel(step=4), np.full((2, 3), 4.0))


def test_what_cannot_be_one_array_is_refused(path: Path) -> None:
    pytest.importorskip("xarray", reason="needs xarray")
    with stage.open_reader(path=path) as reader:
        with pytest.raises(stage.StageError, match=r"rows has shape \(1,\) in step 1, but \(0,\) in the steps before"):
            reader.to_xarray("rows")
        with pytest.raises(ValueError, match="an array has at least one step, not 0"):
            reader.to_xarray("V", steps=0)
        reader.to_xarray("V")
        with pytest.raises(stage.StageError, match="it has no steps that could be an array"):
            reader.to_xarray("V")


def test_without_xarray_it_says_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with stage.open_reader(path=path) as reader:
        with pytest.raises(stage.StageError, match=r"a dataset needs xarray; install it: .*pip install .*\[xarray\]"):
            reader.to_xarray("V")
        with pytest.raises(stage.StageError, match="a dataset needs xarray"):
            next(iter(reader.window(2, "V"))).to_xarray()
