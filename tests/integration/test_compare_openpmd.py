"""`wf compare` on openPMD files: steps by the names of their iterations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import h5py
import numpy as np
import openpmd_api
import pytest

from workflow.compare.compare_runs import compare_runs


def write_openpmd(
    path: Path,
    encoding: str = "groupBased",
    iterations: Iterable[int] = range(0, 51, 10),
    add: tuple[int, float] = (-1, 0.0),
    steps: bool = True,
) -> Path:
    """An openPMD file by openPMD-api: a field and a particle species in each iteration; `add` changes one value."""
    chosen = {name: getattr(openpmd_api.Iteration_Encoding, name) for name in ("group_based", "variable_based")}
    series = openpmd_api.Series(str(path), openpmd_api.Access.create)
    series.iteration_encoding = chosen["variable_based" if encoding == "variableBased" else "group_based"]
    opened = series.write_iterations() if steps else series.iterations
    for number in iterations:
        iteration = opened[number]
        iteration.time = 0.5 * number
        values = np.full((4, 3), float(number))
        values[2, 1] += add[1] if number == add[0] else 0.0
        for record, array in (
            (iteration.meshes["E"]["x"], values),
            (iteration.particles["e"]["position"]["x"], values[:, 0]),
        ):
            array = np.ascontiguousarray(array)
            record.reset_dataset(openpmd_api.Dataset(array.dtype, array.shape))
            record[()] = array
            series.flush()
        if steps:
            iteration.close()
    series.close()
    return path


OPENPMD = pytest.mark.parametrize(
    ("suffix", "encoding", "steps"),
    [
        (".bp", "groupBased", True), (".bp", "groupBased", False), (".bp", "variableBased", True),
        (".h5", "groupBased", True),
    ],
)  # fmt: skip


@OPENPMD
def test_an_openpmd_file_has_the_steps_that_its_names_have(
    tmp_path: Path, suffix: str, encoding: str, steps: bool
) -> None:
    a = write_openpmd(tmp_path / f"a{suffix}", encoding, range(51), steps=steps)
    b = write_openpmd(tmp_path / f"b{suffix}", encoding, range(51), steps=steps)
    result = compare_runs(a, b)
    assert result.files[0].differences == []
    assert result.files[0].steps == 51
    volume = 51 * 8 * (12 + 4)
    named = result.files[0].variables
    assert (named, result.files[0].bytes) == (2, volume)


@OPENPMD
def test_a_difference_of_an_openpmd_file_has_the_step_in_which_it_is(
    tmp_path: Path, suffix: str, encoding: str, steps: bool
) -> None:
    a = write_openpmd(tmp_path / f"a{suffix}", encoding, steps=steps)
    b = write_openpmd(tmp_path / f"b{suffix}", encoding, steps=steps, add=(30, 0.25))
    (found,) = (each for each in compare_runs(a, b).files[0].differences)
    assert (found.name, found.step, found.where) == ("/data/meshes/E/x", 3, [2, 1])
    assert (found.max_abs, found.values, found.of) == (0.25, 1, 12)


@pytest.mark.parametrize("suffix", [".bp", ".h5"])
def test_an_iteration_that_one_side_lacks_is_named(tmp_path: Path, suffix: str) -> None:
    a = write_openpmd(tmp_path / f"a{suffix}", iterations=(0, 10, 20))
    b = write_openpmd(tmp_path / f"b{suffix}", iterations=(0, 20, 30))
    found = compare_runs(a, b).files[0].differences
    assert [(each.what, each.name, each.message) for each in found] == [
        ("missing", "/data/10/", "only in A"), ("missing", "/data/30/", "only in B"),
    ]  # fmt: skip


def test_attributes_of_openpmd_groups_in_hdf5_are_compared(tmp_path: Path) -> None:
    a, b = write_openpmd(tmp_path / "a.h5"), write_openpmd(tmp_path / "b.h5")
    with h5py.File(b, "r+") as file:
        file["data/20"].attrs["time"] = 11.0
        file.attrs["date"] = "2026-01-02 03:04:05 +0000"
    result = compare_runs(a, b)
    assert [(each.what, each.name, each.step) for each in result.files[0].differences] == [
        ("attribute", "/data/time", 2)
    ]
    assert [note for note in result.notes if note.startswith("not compared: /date: ")]


def test_encodings_and_formats_hold_the_same_data(tmp_path: Path) -> None:
    group, variable, hdf5 = (
        write_openpmd(tmp_path / "g.bp"), write_openpmd(tmp_path / "v.bp", "variableBased"),
        write_openpmd(tmp_path / "h.h5"),
    )  # fmt: skip
    for other in (variable, hdf5):
        found = compare_runs(group, other).files[0]
        assert {each.what for each in found.differences} <= {"attribute"} and found.variables == 2


def test_iterations_are_paired_by_the_number_that_each_step_has(tmp_path: Path) -> None:
    a = write_openpmd(tmp_path / "a.bp", "variableBased", iterations=(0, 100, 200))
    b = write_openpmd(tmp_path / "b.bp", "variableBased", iterations=(0, 200, 400))
    found = compare_runs(a, b).files[0].differences
    assert [(each.what, each.name, each.message) for each in found] == [
        ("missing", "/data/100/", "only in A"), ("missing", "/data/400/", "only in B"),
    ]  # fmt: skip
