"""The API in one process, on files: BP5 through ADIOS2 and HDF5 through h5py."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import adios2
import h5py
import numpy as np
import pytest

from workflow import stage
from workflow.formats import bp_index


@pytest.fixture(params=[".bp", ".h5"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"data{request.param}"


def write(path: Path, *steps: dict[str, Any]) -> None:
    with stage.open_writer(path=path) as out:
        for step in steps:
            with out.step():
                for name, value in step.items():
                    out.write(name, value)


def read(path: Path) -> list[dict[str, Any]]:
    with stage.open_reader(path=path) as data:
        return [step.read_many(step.names()) for step in data]


@pytest.mark.parametrize(
    ("given", "kind", "found"),
    [
        (1, "int64", 1),
        (1.5, "float64", 1.5),
        (True, "uint8", 1),
        (1j, "complex128", 1j),
        (np.float32(2.5), "float32", np.float32(2.5)),
        (np.uint8(7), "uint8", 7),
        ("Å", "string", "Å"),
        ("", "string", ""),
        ([1, 2, 3], "int64", [1, 2, 3]),
        ([[1.0], [2.0]], "float64", [[1.0], [2.0]]),
        (np.array([True, False]), "uint8", [1, 0]),
        (np.arange(6)[::2], "int64", [0, 2, 4]),
        (np.arange(6.0).reshape(2, 3).T, "float64", [[0, 3], [1, 4], [2, 5]]),
        (np.array([1, 2], ">i4"), "int32", [1, 2]),
        (np.empty((0, 3)), "float64", np.empty((0, 3))),
        (np.array(3.5), "float64", 3.5),
    ],
)
def test_values_keep_type_and_shape(path: Path, given: Any, kind: str, found: Any) -> None:
    write(path, {"x": given})
    with stage.open_reader(path=path) as data:
        for step in data:
            assert step.info("x") == stage.Info(kind, np.shape(found))
            assert np.array_equal(step.read("x"), found)
    if not np.shape(found):
        assert f"{read(path)[0]['x']}" == str(found)  # formats like the value itself


@pytest.mark.parametrize("value", [["a", "b"], None, {}, b"bytes", np.array([object()]), 2**70])
def test_types_that_cannot_be_streamed_are_refused_by_name(tmp_path: Path, value: Any) -> None:
    with stage.open_writer(path=tmp_path / "data.bp") as out, pytest.raises(TypeError, match=r"^x: "), out.step():
        out.write("x", value)


def test_shapes_may_change_and_variables_come_and_go(path: Path) -> None:
    write(path, {"x": np.ones(2), "only": 1}, {"x": np.ones(5)}, {"x": np.ones(0), "only": 2})
    with stage.open_reader(path=path) as data:
        seen = [(step.names(), step.shape("x"), step.read("x").sum()) for step in data]
    assert seen == [(["only", "x"], (2,), 2), (["x"], (5,), 5), (["only", "x"], (0,), 0)]


def test_a_variable_keeps_its_type_and_dimensions(tmp_path: Path) -> None:
    for second in (np.ones(3, np.float32), np.ones((3, 1)), 1.0):
        with pytest.raises(stage.StageError, match="variable x was float64 with 1 dimensions; it cannot become"):
            write(tmp_path / "data.bp", {"x": np.ones(3)}, {"x": second})


def test_arrays_may_be_changed_after_writing_unless_lent(path: Path) -> None:
    buffer = np.zeros(2_000_000)  # large enough that ADIOS2 would not copy it by itself
    with stage.open_writer(path=path) as out, out.step():
        out.write("before", buffer)
        buffer[:] = 1
        out.write("after", buffer)
    (step,) = read(path)
    assert (step["before"].max(), step["after"].min()) == (0, 1)


def test_boxes_are_checked_against_the_shape(path: Path) -> None:
    write(path, {"x": np.arange(12).reshape(4, 3), "s": 1})
    with stage.open_reader(path=path) as data:
        for step in data:
            assert step.read("x", start=(2, 1)).tolist() == [[7, 8], [10, 11]]
            assert step.read("x", count=(1, 2)).tolist() == [[0, 1]]
            assert step.read("x", start=(4, 0), count=(0, 3)).shape == (0, 3)
            for start, count in [((0,), None), ((3, 0), (2, 3)), ((-1, 0), (1, 1)), ((0, 0), (1,)), (None, (5, 3))]:
                with pytest.raises(IndexError, match=r"^x: "):
                    step.read("x", start=start, count=count)
            with pytest.raises(IndexError, match=r"^s: "):
                step.read("s", start=(0,), count=(1,))


def test_blocks_are_checked_when_written(tmp_path: Path) -> None:
    cases: list[tuple[tuple[int, ...], tuple[int, ...] | None]] = [
        ((1,), None),
        ((4,), (3,)),
        ((4, 1), None),
        ((4,), (-1,)),
    ]
    for shape, start in cases:
        with stage.open_writer(path=tmp_path / "data.bp") as out:  # noqa: SIM117
            with pytest.raises(stage.StageError, match="does not lie inside"), out.step():
                out.write("x", np.ones(2), shape=shape, start=start)


def test_errors_of_unknown_variables_name_the_nearest(path: Path) -> None:
    write(path, {"position": 1.0, "velocity": 2.0})
    with stage.open_reader(path=path) as data:
        for step in data:
            assert "position" in step
            assert "positon" not in step
            with pytest.raises(stage.StageError, match=r"step 0 has no variable 'positon'; did you mean 'position'\?"):
                step.read("positon")
            with pytest.raises(stage.StageError, match="there is position, velocity"):
                step.shape("zz")


def test_a_step_ends_when_the_loop_goes_on(path: Path) -> None:
    write(path, {"x": 1}, {"x": 2})
    with stage.open_reader(path=path) as data:
        first = next(data)
        assert first.index == 0
        second = next(data)
        assert second.index == 1
        with pytest.raises(stage.StageError, match="step 0 has ended"):
            first.read("x")
        assert next(data, None) is None
        with pytest.raises(stage.StageError, match="step 1 has ended"):
            second.names()
        assert list(data) == []
    assert data.steps == 2


def test_attributes_keep_type_and_may_change(path: Path) -> None:
    values: dict[str, Any] = {
        "text": "Å", "empty": "", "one": ["Cu"], "several": ["a", "", "b"], "integer": 3, "real": 0.5,
        "short": np.int16(3), "array": np.array([1.5]), "flags": np.array([True, False]), "none": np.zeros(0, np.int32),
    }  # fmt: skip
    with stage.open_writer(path=path) as out:
        for name, value in values.items():
            out.attribute(name, value)
        out.attribute("unit", "nm", variable="x")
        for step in range(2):
            out.attribute("step", step)
            with out.step():
                out.write("x", np.ones(2))
    with stage.open_reader(path=path) as data:
        for seen in data:
            found = seen.attributes()
            assert found.pop("step") in (seen.index, 1)
            assert found.pop("x/unit") == "nm"
            assert seen.attributes("x") == {"unit": "nm"}
            assert set(found) == set(values)
            for name, value in values.items():
                assert type(found[name]) in (str, int, float, list, np.ndarray)
                assert np.array_equal(found[name], value)
            assert found["array"].dtype == np.float64
            assert found["none"].dtype == np.int32


@pytest.mark.parametrize("value", [np.ones((2, 2)), None, {}])
def test_impossible_attributes_are_refused_by_name(tmp_path: Path, value: Any) -> None:
    with stage.open_writer(path=tmp_path / "data.bp") as out, pytest.raises(TypeError, match="x/unit: "):
        out.attribute("unit", value, variable="x")


def test_copied_attributes_keep_their_types(path: Path, tmp_path: Path) -> None:
    with stage.open_writer(path=path) as out:
        out.attribute("names", ["a"])
        out.attribute("short", np.int16(3))
        out.attribute("unit", "nm", variable="x")
        with out.step():
            out.write("x", 1.0)
    copy = tmp_path / "copy.bp"
    with stage.open_reader(path=path) as data, stage.open_writer(path=copy) as out:
        for step in data:
            step.copy_attributes_to(out)
            with out.step():
                out.write("x", step.read("x"))
    with adios2.FileReader(str(copy)) as file:
        assert file.read_attribute("names") == ["a"]
        assert file.read_attribute("x/unit") == "nm"
        assert file.available_attributes()["short"]["Type"] == "int16_t"


def test_a_writer_left_by_an_error_accepts_no_more_steps(path: Path) -> None:
    with stage.open_writer(path=path) as out:
        with out.step():
            out.write("x", 0)
        with pytest.raises(ArithmeticError), out.step():
            out.write("x", 1)
            raise ArithmeticError
        with pytest.raises(stage.StageError, match="the last step was left by an exception"), out.step():
            pass
    assert [step["x"] for step in read(path)] == [0]


def test_steps_are_opened_one_at_a_time_and_written_inside(path: Path) -> None:
    with stage.open_writer(path=path) as out:
        with pytest.raises(stage.StageError, match=r"inside `with writer.step\(\):`"):
            out.write("x", 1)
        with out.step() as step:
            step.write("x", 1)
            with pytest.raises(stage.StageError, match="the last step is still open"):
                out.begin_step()
    with pytest.raises(stage.StageError, match="the stream is closed"):
        out.begin_step()
    out.close()
    assert [step["x"] for step in read(path)] == [1]


def test_a_missing_file_is_an_error_at_once(path: Path) -> None:
    with pytest.raises(stage.StageError, match=r"there is no .*data"):
        stage.open_reader(path=path)


def test_errors_of_open_name_stream_and_engine(tmp_path: Path) -> None:
    with pytest.raises(stage.StageError, match=r"cannot open .*nowhere.* with engine Nonsense"):
        stage.open_writer(path=tmp_path / "nowhere", engine="Nonsense")
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(stage.StageError, match=r"cannot open .* as an HDF5 file"):
        stage.open_reader(path=tmp_path / "text.h5")


def test_any_hdf5_file_is_one_step(tmp_path: Path) -> None:
    path = tmp_path / "foreign.h5"
    with h5py.File(path, "w") as file:
        file["group/x"] = np.arange(3)
        file["name"] = "text"
        file.attrs["title"] = "foreign"
    (step,) = read(path)
    assert step["group/x"].tolist() == [0, 1, 2]
    assert step["name"] == "text"


def test_a_file_of_no_steps_has_none(path: Path) -> None:
    with stage.open_writer(path=path) as out:
        out.attribute("title", "nothing")
    assert read(path) == []


def test_a_bp_file_of_no_steps_by_any_program_has_none(tmp_path: Path) -> None:
    for engine in ("BP4", "BP5"):
        for title in ("", "attributes only"):
            path = tmp_path / f"{engine}{title[:1]}.bp"
            adios = adios2.bindings.ADIOS()
            io = adios.DeclareIO("out")
            io.SetEngine(engine)
            if title:
                io.DefineAttribute("title", title)
            io.Open(str(path), adios2.bindings.Mode.Write).Close()
            with stage.open_reader(path=path) as data:
                assert [step.attributes() for step in data] == ([{"title": title}] if title else [])


def test_an_empty_first_step_counts_when_others_follow(path: Path) -> None:
    write(path, {}, {"x": 1}, {}, {"x": 2})
    with stage.open_reader(path=path) as data:
        seen = []
        for step in data:
            names = step.names()
            assert ("x" in step) == bool(names)
            assert step.attributes() == {}
            seen.append(step.read_many(names))
    assert seen == [{}, {"x": 1}, {}, {"x": 2}]


def test_arrays_in_local_blocks_are_refused_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "local.bp"
    with adios2.Stream(str(path), "w") as file:
        for _ in file.steps(1):
            file.write("blocks", np.ones(3), [], [], [3])
    with stage.open_reader(path=path) as data:
        for step in data:
            with pytest.raises(stage.StageError, match="local blocks"):
                step.read("blocks")


def test_a_bp_file_of_either_version_is_read_by_its_path(tmp_path: Path) -> None:
    for engine in ("BP4", "BP5"):
        path = tmp_path / f"{engine}.bp"
        with stage.open_writer(path=path, engine=engine) as out, out.step():
            out.write("x", 1)
        assert [step["x"] for step in read(path)] == [1]


def test_open_streams_are_closed_at_exit_unless_the_program_fails(tmp_path: Path) -> None:
    text = (
        "import sys\n"
        "from workflow import stage\n"
        "out = stage.open_writer(path=sys.argv[1])\n"
        "with out.step():\n    out.write('x', 1)\n"
        "if sys.argv[2] == 'fail':\n    out.begin_step()\n    out.write('x', 2)\n    raise ArithmeticError\n"
    )
    for how in ("end", "fail"):
        path = tmp_path / f"{how}.bp"
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        code = subprocess.run([sys.executable, "-c", text, str(path), how], env=env, timeout=60, check=False).returncode
        assert (code != 0) == (how == "fail")
        assert [step["x"] for step in read(path)] == [1]


def test_a_file_of_an_older_adios2_is_read_by_its_path(tmp_path: Path) -> None:
    """BP3 is one file, not a folder."""
    io = adios2.Adios().declare_io("old")
    io.set_engine("BP3")
    with adios2.Stream(io, str(tmp_path / "old.bp"), "w") as out:
        for k in range(2):
            out.begin_step()
            out.write("T", np.arange(4.0) + k, [4], [0], [4])
            out.end_step()
    assert [step["T"].tolist() for step in read(tmp_path / "old.bp")] == [[0, 1, 2, 3], [1, 2, 3, 4]]


def test_a_big_endian_index_is_whole(tmp_path: Path) -> None:
    """Of a machine with the other byte order, which ADIOS2 reads."""
    path = tmp_path / "a.bp"
    write(path, *[{"x": np.arange(3.0)}] * 4)
    index = path / "md.idx"
    data = bytearray(index.read_bytes())
    records, at = bp_index.read_records(bytes(data[bp_index.HEADER :])), bp_index.HEADER
    data[bp_index.ENDIAN] = 1
    for record in records:
        size = 8 * len(record.numbers)
        data[at : at + 9 + size] = struct.pack(f">cQ{len(record.numbers)}Q", record.kind, size, *record.numbers)
        at += 9 + size
    index.write_bytes(data)
    assert bp_index.missing_part(path) == ""
    found = bp_index.read_index(index)
    assert found is not None and (found.steps, found.active) == (4, False)
    index.write_bytes(data[:-3])
    assert bp_index.missing_part(path) == "md.idx is truncated"
