"""Variables that the first step lacks, and what is declared for them. The streams are files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from workflow import stage
from workflow.formats.stage_file import StageSettings
from workflow.stage import settings
from workflow.stage.api import open_streams
from workflow.stage.settings import end_by_path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """`late`, which comes in the second step, has attributes in the first one."""
    with stage.open_writer(path=tmp_path / "a.bp") as out:
        out.attribute("unit", "K", variable="late")
        for number in range(2):
            with out.step():
                out.write("temperature_e", np.ones(3))
                if number:
                    out.write("temperature_i", np.full(3, 2.0))
                    out.write("late", np.arange(3))
    return tmp_path / "a.bp"


def test_a_similar_name_is_no_error_at_the_first_step(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage.open_reader(path=path, may_lack=["temperature_i"]) as data:
        found = ["temperature_i" in step and step.read("temperature_i").tolist() for step in data]
    assert found == [False, [2.0] * 3]
    assert "no temperature_i: it may still come; did you mean 'temperature_e'?" in capsys.readouterr().err


def test_a_misspelling_is_an_error_at_the_first_step(path: Path) -> None:
    with (
        pytest.raises(stage.ContractError, match=r"variable temprature_e is missing; did you mean 'temperature_e'\?"),
        stage.open_reader(path=path, may_lack=["temprature_e"]) as data,
    ):
        next(data)


def test_what_never_comes_is_an_error_at_the_end(path: Path) -> None:
    with (
        pytest.raises(stage.ContractError, match="no step of 2 had a variable density; there is temperature_e"),
        stage.open_reader(path=path, may_lack=["density"]) as data,
    ):
        assert len([step.index for step in data]) == 2


def test_what_comes_late_and_has_attributes_is_checked_then(path: Path) -> None:
    end = replace(end_by_path("read", path, None, ""), variables={"late": {"type": "float64"}})
    with open_streams._open_read(end) as data:
        data.may_lack(["late"])
        assert "late" not in next(data)
        with pytest.raises(stage.ContractError, match="late: expected type float64, found int64"):
            next(data)


def test_what_has_attributes_need_not_come(tmp_path: Path) -> None:
    with stage.open_writer(path=tmp_path / "a.bp") as out, out.step():
        out.attribute("unit", "K", variable="constant")
        out.write("V", 1.0)
    with stage.open_reader(path=tmp_path / "a.bp", may_lack=["constant"]) as data:
        assert [step.names() for step in data] == [["V"]]


def test_a_rank_may_have_no_local_blocks_of_a_declared_variable(tmp_path: Path) -> None:
    """As one of several ranks, of which others have some: it alone would fail."""
    end = replace(end_by_path("write", tmp_path / "a.bp", None, ""), variables={"parts": {"type": "float64"}})
    with open_streams._open_write(end) as out, out.step():
        out.write_local("parts", [])


def test_a_declared_variable_that_is_not_written_is_an_error(tmp_path: Path) -> None:
    end = replace(end_by_path("write", tmp_path / "a.bp", None, ""), variables={"parts": {"type": "float64"}})
    with pytest.raises(stage.ContractError, match="parts is missing"), open_streams._open_write(end) as out, out.step():
        out.write("V", 1.0)


def test_iterations_of_a_port_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be read without the steps of an earlier part of the run."""
    end = replace(end_by_path("read", path, None, ""), port="field", stream="field")
    monkeypatch.setattr(settings, "current", lambda: StageSettings(stage="mean", ends=[end]))
    with pytest.raises(stage.StageError, match=r"stream field: `iterations` is for a file by its `path`"):
        stage.open_reader("field", iterations=True)
