"""`wf compare` on real files: equal runs, and each way in which two files can differ."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np
import pytest
from adios2 import Stream
from click.testing import CliRunner
from numpy.typing import NDArray

from tests.support.sample_run import make_plan
from workflow import stage
from workflow.cli.result_verbs import compare
from workflow.compare.compare_runs import compare_files, compare_runs
from workflow.compare.comparison import Comparison
from workflow.data_files import read_steps
from workflow.errors import RunError, WfError
from workflow.report.show.printing import show_comparison

Array = NDArray[Any]
Data = dict[str, Array]
Change = Callable[[int, Data], None]
STEPS = 5


def make_step(step: int) -> Data:
    """What a step of the sample holds: some of each kind."""
    random = np.random.default_rng(step)
    position = random.normal(size=(40, 3))
    position[7, 1] = np.nan
    return {
        "position": position,
        "id": np.arange(40, dtype=np.int64) + 2**60,
        "amplitude": random.normal(size=6) + 1j * random.normal(size=6),
        "time": np.array(0.5 * step),
    }


def write_bp(path: Path, change: Change | None = None, steps: int = STEPS, unit: str = "angstrom") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with Stream(str(path), "w") as out:
        for step in range(steps):
            data = make_step(step)
            if change is not None:
                change(step, data)
            out.begin_step()
            for name, values in data.items():
                array = np.ascontiguousarray(values)
                if values.ndim:
                    out.write(name, array, list(values.shape), [0] * values.ndim, list(values.shape))
                else:
                    out.write(name, values.item())
            if step == 0:
                out.write_attribute("species", ["Cu", "O"])
                if "position" in data:
                    out.write_attribute("unit", unit, "position")
            out.end_step()
    return path


def write_h5(path: Path, change: Change | None = None, steps: int = STEPS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file.attrs["species"] = ["Cu", "O"]
        for step in range(steps):
            data = make_step(step)
            if change is not None:
                change(step, data)
            for name, values in data.items():
                file[f"Step{step}/{name}"] = values
            file[f"Step{step}/position"].attrs["unit"] = "angstrom"
    return path


WRITERS = pytest.mark.parametrize(("write", "suffix"), [(write_bp, ".bp"), (write_h5, ".h5")], ids=["bp", "h5"])


def compare_changed(tmp_path: Path, write: Callable[..., Path], suffix: str, change: Change) -> Comparison:
    return compare_runs(write(tmp_path / f"a{suffix}"), write(tmp_path / f"b{suffix}", change))


@WRITERS
def test_equal_files_are_identical(tmp_path: Path, write: Callable[..., Path], suffix: str) -> None:
    result = compare_runs(write(tmp_path / f"a{suffix}"), write(tmp_path / f"b{suffix}"))
    assert result.identical, result
    assert result.exit_code == 0
    assert (result.files[0].steps, result.files[0].variables) == (STEPS, 4)
    assert result.files[0].bytes == sum(array.nbytes for step in range(STEPS) for array in make_step(step).values())
    assert result.to_text() == "identical: 1 file, 5 steps, 4 variables, 6.92 kB"
    assert json.loads(result.model_dump_json())["identical"] is True


@WRITERS
def test_one_broken_value_is_found(tmp_path: Path, write: Callable[..., Path], suffix: str) -> None:
    def change(step: int, data: Data) -> None:
        if step == 3:
            data["position"][12, 2] += 1e-9

    result = compare_changed(tmp_path, write, suffix, change)
    assert not result.identical
    assert result.exit_code == 1
    (found,) = result.files[0].differences
    assert (found.what, found.name, found.step, found.steps) == ("values", "position", 3, 1)
    assert (found.values, found.of, found.where) == (1, 120, [12, 2])
    assert found.max_abs == pytest.approx(1e-9, rel=1e-6)
    assert found.max_rel == pytest.approx(1e-9 / abs(make_step(3)["position"][12, 2]), rel=1e-6)
    assert result.to_text() == "different: 1 of 1 file"


@WRITERS
def test_many_broken_values_are_one_line(tmp_path: Path, write: Callable[..., Path], suffix: str) -> None:
    def change(step: int, data: Data) -> None:
        if step >= 1:
            data["position"][0:step, 0] += step

    (found,) = compare_changed(tmp_path, write, suffix, change).files[0].differences
    assert (found.step, found.steps, found.values, found.of) == (1, 4, 1 + 2 + 3 + 4, 4 * 120)
    assert found.max_abs == pytest.approx(4)
    assert found.where == [0, 0]


def test_nan_equals_nan_but_no_number(tmp_path: Path) -> None:
    def change(step: int, data: Data) -> None:
        if step == 0:
            data["position"][7, 1] = 0.0

    (found,) = compare_changed(tmp_path, write_bp, ".bp", change).files[0].differences
    assert (found.values, found.where, found.max_abs) == (1, [7, 1], None)
    assert found.message == "nan and 0"
    assert not compare_runs(tmp_path / "a.bp", tmp_path / "b.bp", 0.5).identical


def test_large_integers_are_compared_exactly(tmp_path: Path) -> None:
    def change(step: int, data: Data) -> None:
        if step == 2:
            data["id"][39] += 1  # float64 cannot tell these two apart

    (found,) = compare_changed(tmp_path, write_bp, ".bp", change).files[0].differences
    assert (found.name, found.where, found.max_abs) == ("id", [39], 1.0)


def test_complex_and_scalar_variables(tmp_path: Path) -> None:
    def change(step: int, data: Data) -> None:
        if step == 1:
            data["amplitude"][5] += 3 + 4j
            data["time"] += 0.25

    amplitude, time = compare_changed(tmp_path, write_bp, ".bp", change).files[0].differences
    assert (amplitude.name, amplitude.where) == ("amplitude", [5])
    assert amplitude.max_abs == pytest.approx(5.0)
    assert (time.name, time.message, time.where) == ("time", "0.5 and 0.75", [])


def test_tolerance_is_relative(tmp_path: Path) -> None:
    def change(_: int, data: Data) -> None:
        data["position"] *= 1 + 1e-6

    exact = compare_changed(tmp_path, write_bp, ".bp", change)
    assert not exact.identical
    assert exact.files[0].differences[0].values == STEPS * 119  # all but the NaN
    loose = compare_runs(tmp_path / "a.bp", tmp_path / "b.bp", tolerance=2e-6)
    assert loose.identical
    assert loose.to_text().startswith("equal to 2e-06 relative: 1 file")
    assert not compare_runs(tmp_path / "a.bp", tmp_path / "b.bp", tolerance=5e-7).identical


@pytest.mark.parametrize(
    ("change", "what", "message"),
    [
        (lambda _, data: data.update(position=data["position"][:39]), "shape", "[40, 3] and [39, 3]"),
        (lambda _, data: data.update(position=data["position"].astype("f4")), "type", "float64 and float32"),
        (lambda _, data: data.pop("position"), "missing", "only in A"),
    ],
    ids=["shape", "type", "missing"],
)
def test_other_shape_type_or_none(tmp_path: Path, change: Change, what: str, message: str) -> None:
    (found, *rest) = compare_changed(tmp_path, write_bp, ".bp", change).files[0].differences
    assert (found.what, found.name, found.step, found.steps, found.message) == (what, "position", 0, STEPS, message)
    assert all(each.what == "attribute" for each in rest)


def test_attributes_are_compared(tmp_path: Path) -> None:
    result = compare_runs(write_bp(tmp_path / "a.bp"), write_bp(tmp_path / "b.bp", unit="nm"))
    (found,) = result.files[0].differences
    assert (found.what, found.name, found.message) == ("attribute", "position/unit", "'angstrom' and 'nm'")


def test_each_step_has_its_attributes(tmp_path: Path) -> None:
    for path, middle in (("a.bp", 1.0), ("b.bp", 7.0), ("a.h5", 1.0), ("b.h5", 7.0)):
        with stage.open_writer(path=tmp_path / path) as out:
            for time in (0.0, middle, 2.0):
                out.attribute("/data/time", time)
                with out.step():
                    out.write("x", np.arange(3.0))
    for suffix in ("bp", "h5"):
        (found,) = compare_files("", tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}", 0.0).differences
        assert (found.what, found.name, found.step, found.steps) == ("attribute", "/data/time", 1, 1)
        assert found.message == "1.0 and 7.0"
    assert compare_files("", tmp_path / "a.bp", tmp_path / "a.h5", 0.0).identical


def test_bp4_has_the_last_value_of_each_attribute_only(tmp_path: Path) -> None:
    """ADIOS2 shows it in each step, so that others cannot be compared."""

    def write(name: str, engine: str, last: float) -> Path:
        with stage.open_writer(path=tmp_path / name, engine=engine) as out:
            for time in (0.0, 1.0, last):
                out.attribute("/data/time", time)
                with out.step():
                    out.write("x", np.arange(3.0))
        return tmp_path / name

    old, other, new = write("a.bp", "BP4", 2.0), write("b.bp", "BP4", 3.0), write("c.bp", "BP5", 2.0)
    with read_steps.open_data(old) as steps:
        assert [step.attributes()["/data/time"] for step in steps] == [2.0] * 3
    assert compare_files("", old, new, 0.0).identical
    assert compare_files("", new, old, 0.0).identical
    for one in (old, new):
        (found,) = compare_files("", one, other, 0.0).differences
        assert (found.what, found.name, found.step, found.message) == ("attribute", "/data/time", 2, "2.0 and 3.0")


def test_a_file_of_others_and_its_copy_are_identical(tmp_path: Path) -> None:
    """Dimension scales have references, of which no two are equal."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["T"] = np.arange(4.0), np.ones(4)
        file["x"].make_scale("x")
        file["T"].dims[0].attach_scale(file["x"])
        file["nobody"] = h5py.Empty("f8")
        file["pair"] = np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])
    shutil.copy(tmp_path / "a.h5", tmp_path / "b.h5")
    assert compare_files("", tmp_path / "a.h5", tmp_path / "b.h5", 0.0).identical
    with h5py.File(tmp_path / "b.h5", "a") as file:
        file["T"].attrs["units"] = "K"
        del file["nobody"]
        file["nobody"] = 1.0
    found = compare_files("", tmp_path / "a.h5", tmp_path / "b.h5", 0.0).differences
    assert [(each.what, each.name, each.message) for each in found] == [
        ("attribute", "T/units", "only in B"), ("type", "nobody", "empty and float64"),
    ]  # fmt: skip


def test_local_blocks_are_compared_block_by_block(tmp_path: Path) -> None:
    def write(path: Path, *blocks: list[float], field: float = 1.0) -> Path:
        with Stream(str(path), "w") as out:
            for _ in range(2):
                out.begin_step()
                for block in blocks:
                    out.write("ids", np.array(block), [], [], [len(block)])
                out.write("T", np.full(4, field), [4], [0], [4])
                out.end_step()
        return path

    a = write(tmp_path / "a.bp", [1.0, 2.0, 3.0], [4.0, 5.0])
    assert compare_files("", a, write(tmp_path / "b.bp", [1.0, 2.0, 3.0], [4.0, 5.0]), 0.0).identical
    other = compare_files("", a, write(tmp_path / "c.bp", [1.0, 2.0, 3.0], [4.0, 6.0], field=2.0), 0.0).differences
    assert [(each.name, each.what, each.steps, each.values) for each in other] == [
        ("T", "values", 2, 8), ("ids", "values", 2, 2),
    ]  # fmt: skip
    (found,) = compare_files("", a, write(tmp_path / "d.bp", [1.0, 2.0], [3.0, 4.0, 5.0]), 0.0).differences
    assert (found.what, found.message) == ("shape", "blocks [[3], [2]] and [[2], [3]]")


def test_a_link_to_a_stream_is_no_result(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for directory in (a, b):
        write_bp(directory / "streams" / "atoms.bp")
        write_bp(directory / "pattern.bp")
    (a / "stages/saxs/work").mkdir(parents=True)
    (a / "stages/saxs/work/output.bp").symlink_to(a / "streams/atoms.bp")
    make_runs(a, b)
    result = compare_runs(a, b)
    assert result.identical and (result.only_a, result.only_b) == ([], [])


def test_a_missing_step_is_a_difference(tmp_path: Path) -> None:
    result = compare_runs(write_bp(tmp_path / "a.bp"), write_bp(tmp_path / "b.bp", steps=3))
    (found,) = result.files[0].differences
    assert (found.what, found.step, found.message) == ("steps", 3, "5 steps and 3 steps")
    assert result.files[0].steps == 3


def test_a_file_that_was_never_closed_is_unreadable_not_identical(tmp_path: Path) -> None:
    a, b = write_bp(tmp_path / "a.bp"), write_bp(tmp_path / "b.bp")
    index = bytearray((b / "md.idx").read_bytes())
    index[39] = 1  # BP5's flag of a writer at work: what a crash leaves behind
    (b / "md.idx").write_bytes(index)
    with pytest.raises(RunError, match=r"b\.bp") as error:
        compare_runs(a, b)
    assert error.value.exit_code == 2


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


BROKEN: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "bp-index": (".bp", lambda path: cut(path / "md.idx", 150), "md.idx is truncated"),
    "bp-header": (".bp", lambda path: cut(path / "md.idx", 60), "md.idx is truncated"),
    "bp-metadata": (".bp", lambda path: cut(path / "md.0", 200), "md.0 is truncated"),
    "bp-data": (".bp", lambda path: cut(path / "data.0", 10), "data.0 is truncated"),
    "bp-no-data": (".bp", lambda path: (path / "data.0").unlink(), "data.0 is missing"),
    "hdf5": (".h5", lambda path: cut(path, path.stat().st_size // 2), "cannot open .* as an HDF5 file"),
    "hdf5-empty": (".h5", lambda path: cut(path, 0), "h5"),
    "text": (".h5", lambda path: path.write_text("no data"), "cannot open .* as an HDF5 file"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_broken_file_is_an_error_and_no_difference(tmp_path: Path, name: str, swapped: bool) -> None:
    suffix, damage, message = BROKEN[name]
    write: Callable[..., Path] = write_bp if suffix == ".bp" else write_h5
    good, bad = write(tmp_path / f"good{suffix}"), write(tmp_path / f"bad{suffix}")
    damage(bad)
    with pytest.raises(RunError, match=message) as error:
        compare_runs(*((bad, good) if swapped else (good, bad)))
    assert str(bad) in error.value.message
    assert error.value.exit_code == 2


def test_a_broken_file_of_a_run_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for run in (a, b):
        write_bp(run / "one.bp")
        write_bp(run / "two.bp")
        make_runs(run)
    (b / "one.bp" / "data.0").unlink()
    result = compare_runs(a, b)
    assert (result.identical, result.exit_code) == (False, 2)
    assert result.to_text() == "not compared: 1 of 2 files cannot be read"
    assert [file.identical for file in result.files] == [False, True]
    assert result.unreadable[0].message == f"{b / 'one.bp'}: data.0 is missing"


def make_runs(*directories: Path) -> None:
    for directory in directories:
        (directory / "plan.json").write_text("{}")


def test_runs_are_compared_file_by_file(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    write_bp(a / "pattern.bp")
    write_bp(b / "pattern.bp")
    write_h5(a / "stages" / "keep" / "work" / "field.h5")
    write_h5(b / "stages" / "keep" / "work" / "field.h5")
    write_bp(b / "streams" / "atoms.bp")
    (a / "events.jsonl").write_text(
        '{"event": "run_finished", "t": 1, "state": "failed", "exit_code": 1, "reason": "", "stage": ""}\n'
    )
    make_runs(a, b)
    result = compare_runs(a, b)
    assert result.identical
    assert [file.path for file in result.files] == ["pattern.bp", "stages/keep/work/field.h5"]
    assert (result.only_a, result.only_b) == ([], ["streams/atoms.bp"])
    assert result.notes == [f"{a} failed: its files may be incomplete"]


def test_a_result_that_one_run_lacks_is_a_difference(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for directory in (a, b):
        write_bp(directory / "streams" / "atoms.bp")
    write_bp(a / "pattern.bp")
    make_runs(a, b)
    result = compare_runs(a, b)
    assert not result.identical
    assert result.exit_code == 1
    assert result.to_text() == "different: only one side has pattern.bp"


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ("SST", "has no BP or HDF5 file: its streams leave none; add a sink `archive`, which keeps them"),
        ("BP5", "has no data; a campaign with `keep: records` removes those of its runs"),
    ],
)
def test_runs_without_data_say_how_to_have_some(
    engine: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [tmp_path / name for name in ("a", "b")]
    for run in runs:
        run.mkdir()
        (run / "plan.json").write_text(make_plan(engine=engine).to_json())
    result = compare_runs(runs[0], runs[1])
    assert result.exit_code == 2 and result.notes == [f"{run} {why}" for run in runs]
    show_comparison(result)
    assert "relative:" not in capsys.readouterr().out, "the legend of a table that is not there"


def test_nothing_in_common_is_not_identical(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    write_bp(a / "one.bp")
    write_bp(b / "other.bp")
    make_runs(a, b)
    result = compare_runs(a, b)
    assert not result.identical
    assert result.exit_code == 2
    assert result.to_text() == "nothing to compare: no file that both have"
    empty = compare_runs(write_bp(tmp_path / "e.bp", steps=0), write_bp(tmp_path / "f.bp", steps=0))
    assert (empty.identical, empty.exit_code) == (False, 2)
    assert empty.to_text() == "nothing to compare: 1 file without data"


def test_hdf5_of_another_layout_is_one_step(tmp_path: Path) -> None:
    for name, value in (("a.h5", 1.0), ("b.h5", 2.0)):
        with h5py.File(tmp_path / name, "w") as file:
            file["deep/inside/x"] = np.array([[0.0, value]])
            file["text"] = "same"
    (found,) = compare_runs(tmp_path / "a.h5", tmp_path / "b.h5").files[0].differences
    assert (found.name, found.where, found.max_abs, found.max_rel) == ("deep/inside/x", [0, 1], 1.0, 0.5)


def test_wrong_paths_are_refused(tmp_path: Path) -> None:
    bp = write_bp(tmp_path / "a.bp", steps=1)
    (tmp_path / "run").mkdir()
    (tmp_path / "text").write_text("")
    with pytest.raises(WfError, match=r"there is no run `.*`"):
        compare_runs(bp, tmp_path / "absent.bp")
    with pytest.raises(WfError, match="neither a run directory nor"):
        compare_runs(bp, tmp_path / "text")
    write_bp(tmp_path / "run" / "a.bp", steps=1)
    with pytest.raises(WfError, match=r"run is not a run directory: it has no plan\.json"):
        compare_runs(tmp_path / "run", tmp_path / "run")
    make_runs(tmp_path / "run")
    with pytest.raises(WfError, match="compare two files or two runs"):
        compare_runs(bp, tmp_path / "run")
    with pytest.raises(WfError, match="tolerance"):
        compare_runs(bp, bp, tolerance=-1)


def test_large_arrays_are_read_in_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_steps.boxes, "__defaults__", (200,))  # bytes: eight rows of `position` at a time

    def change(step: int, data: Data) -> None:
        if step == 4:
            data["position"][(3, 21, 38), (0, 1, 2)] += (0.5, 2.0, 1.0)

    (found,) = compare_changed(tmp_path, write_bp, ".bp", change).files[0].differences
    assert (found.values, found.of, found.where) == (3, 120, [21, 1])
    assert found.max_abs == pytest.approx(2.0)


@pytest.mark.parametrize("shape", [(), (7,), (5, 3), (4, 5, 6), (2, 3, 4, 5), (0, 3)])
@pytest.mark.parametrize("limit", [8, 24, 100, 10**6])
def test_boxes_cover_an_array_once(shape: tuple[int, ...], limit: int) -> None:
    seen = np.zeros(shape, int)
    for start, count in read_steps.boxes(shape, "float64", limit):
        assert 8 * int(np.prod(count, dtype=int)) <= limit
        seen[tuple(slice(s, s + c) for s, c in zip(start, count, strict=True))] += 1
    assert (seen == 1).all()


def test_the_tolerance_may_be_in_percent(tmp_path: Path) -> None:
    def change(_: int, data: Data) -> None:
        data["position"] *= 1.01

    assert not compare_changed(tmp_path, write_bp, ".bp", change).identical
    for tolerance, code in (("2%", 0), ("2 %", 0), ("0.02", 0), ("0.5%", 1), ("0", 1), ("2x", 2)):
        done = CliRunner().invoke(
            compare, [str(tmp_path / "a.bp"), str(tmp_path / "b.bp"), "--tolerance", tolerance], standalone_mode=False
        )
        found = done.exit_code if not isinstance(done.exception, click.UsageError) else done.exception.exit_code
        assert found == code, (tolerance, done.output)
