"""HDF5 as `workflow.stage` writes it, and HDF5 files of others: names, attributes, sizes and types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from workflow import stage

NAMES = [
    "/data/meshes/rho",
    "x",
    "x/y",
    ".",
    "..",
    "x/",
    "a//b",
    "a/b",
    "T",
    "/T",
    "ρ_é",
    "a/../b",
    "{}",
    "100%",
    "x%2F",
]


def test_every_name_keeps_its_variable_in_every_step(tmp_path: Path) -> None:
    with stage.open_writer(path=tmp_path / "a.h5") as out:
        for k in range(3):
            with out.step():
                for i, name in enumerate(NAMES):
                    out.write(name, np.full(2 + k, 100.0 * i + k))
                out.write("/note", f"step {k}")
    with stage.open_reader(path=tmp_path / "a.h5") as data:
        for k, step in enumerate(data):
            assert step.names() == sorted([*NAMES, "/note"])
            assert step.read("/note") == f"step {k}"
            for i, name in enumerate(NAMES):
                np.testing.assert_array_equal(step.read(name), np.full(2 + k, 100.0 * i + k))
    assert k == 2


def test_a_name_with_slashes_is_where_the_engine_of_adios2_has_it(tmp_path: Path) -> None:
    """HDF5Common.cpp of ADIOS2 2.12.1: `CreateDataset`, `StoreADIOSName`, `ReadADIOSName`."""
    with stage.open_writer(path=tmp_path / "a.h5") as out, out.step():
        out.write("/data/meshes/rho", np.arange(3.0))
        out.write("plain", 1)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["Step0/data/meshes/rho"].attrs["ADIOSName"] == b"/data/meshes/rho"
        assert dict(file["Step0/plain"].attrs) == {}
        assert list(file) == ["Step0"] and file.attrs["NumSteps"] == 1
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["Step0/rho"] = 1.5
        file["Step0/rho"].attrs["ADIOSName"] = np.bytes_(b"rho")
        file["Step0/ADIOS_BLOCKINFO_rho"] = np.zeros((1, 2), np.uint64)
    with stage.open_reader(path=tmp_path / "b.h5") as data:
        assert [(step.names(), step.attributes()) for step in data] == [(["rho"], {})]


def test_attributes_have_the_value_of_their_step(tmp_path: Path) -> None:
    with stage.open_writer(path=tmp_path / "a.h5") as out:
        for k in range(4):
            out.attribute("/data/time", 0.5 * (k // 2))
            out.attribute("same", ["a", "b"])
            out.attribute("unit", f"m{k}", variable="/T")
            if k == 2:
                out.attribute("late", 7)
            with out.step():
                if k != 1:
                    out.write("/T", np.ones(2))
    with stage.open_reader(path=tmp_path / "a.h5") as data:
        found = [step.attributes() for step in data]
    assert [each["/data/time"] for each in found] == [0.0, 0.0, 0.5, 0.5]
    assert [each["same"] for each in found] == [["a", "b"]] * 4
    assert [each.get("late") for each in found] == [None, None, 7, 7]
    assert [each["/T/unit"] for each in found] == ["m0", "m1", "m2", "m3"]
    with h5py.File(tmp_path / "a.h5") as file:  # as readers of ADIOS2 see it
        assert file.attrs["/data/time"] == 0.5 and file["Step3/T"].attrs["unit"] == "m3"


@pytest.mark.parametrize(
    "value", ["x" * 100_000, np.arange(10_000.0), [f"species {i}" for i in range(5_000)], []], ids=type
)
def test_an_attribute_of_any_size(value: Any, tmp_path: Path) -> None:
    with stage.open_writer(path=tmp_path / "a.h5") as out:
        out.attribute("deck", value)
        out.attribute("deck", value, variable="T")
        with out.step():
            out.write("T", 1.0)
    with stage.open_reader(path=tmp_path / "a.h5") as data:
        for step in data:
            for name in ("deck", "T/deck"):
                np.testing.assert_array_equal(step.attributes()[name], value)


def test_blocks_without_a_common_shape_are_refused_by_name(tmp_path: Path) -> None:
    def write() -> None:
        with stage.open_writer(path=tmp_path / "a.h5") as out, out.step():
            out.write("ids", np.zeros(3))
            out.write("ids", np.zeros(2))

    with pytest.raises(stage.StageError, match=r"ids .*\(3,\) .*\(2,\)"):
        write()


def test_an_attribute_that_hdf5_cannot_hold_is_named(tmp_path: Path) -> None:
    def write() -> None:
        with stage.open_writer(path=tmp_path / "a.h5") as out:
            out.attribute("deck", "a\0b")
            with out.step():
                out.write("T", 1.0)

    with pytest.raises(stage.StageError, match="attribute 'deck' could not be written"):
        write()


def others(path: Path) -> Path:
    """A file with what HDF5 has and a stream has not."""
    with h5py.File(path, "w") as file:
        file["x"], file["T"] = np.arange(4.0), np.ones(4)
        file["x"].make_scale("x")
        file["T"].dims[0].attach_scale(file["x"])
        file["T"].attrs["empty"] = h5py.Empty("f8")
        file["T"].attrs["where"] = file["x"].ref
        file["T"].attrs["opaque"] = np.void(b"\1\2")
        file["T"].attrs["latin"] = np.bytes_(b"\xe9")
        file["nobody"] = h5py.Empty("f8")
        file["pair"] = np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])
        file.create_dataset("see", data=[file["x"].ref], dtype=h5py.ref_dtype)
        file.create_dataset("ragged", (2,), h5py.vlen_dtype("i4"))[:] = [np.array([1], "i4"), np.array([2, 3], "i4")]
        file["names"] = ["a", "b", "c"]
        file["bits"] = np.void(b"\3\4")
    return path


def test_what_no_stream_has_is_read_by_name_and_as_text(tmp_path: Path) -> None:
    with stage.open_reader(path=others(tmp_path / "a.h5")) as data:
        for step in data:
            kinds = {name: info.type for name, info in step.variables().items()}
            assert kinds == {
                "T": "float64", "bits": "opaque", "names": "string", "nobody": "empty", "pair": "compound",
                "ragged": "variable length", "see": "reference", "x": "float64",
            }  # fmt: skip
            assert step.read("see").tolist() == ["/x"] and step.read("ragged").tolist() == ["[1]", "[2, 3]"]
            assert step.read("names", [1], [2]).tolist() == ["b", "c"]
            found = step.attributes()
            assert found["x/REFERENCE_LIST"] == ['{"dataset": "/T", "dimension": 0}']
            assert found["T/DIMENSION_LIST"] == ['["/x"]']
            assert [found[f"T/{name}"] for name in ("empty", "where", "opaque", "latin")] == ["", "/x", "0102", "\\xe9"]


def test_a_reader_leaves_the_file_to_its_program(tmp_path: Path) -> None:
    """A program that opens its output anew for each dump would fail with errno 11 at a lock."""
    path = others(tmp_path / "a.h5")
    append = f"import h5py; f = h5py.File({str(path)!r}, 'a'); f['later'] = 1.0; f.close()"
    with stage.open_reader(path=path) as data:
        for step in data:
            subprocess.run([sys.executable, "-c", append], check=True, timeout=60)
            assert step.read("T").tolist() == [1.0] * 4


def openpmd_file(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file.attrs["openPMD"] = "1.1.0"
        file.attrs["basePath"] = "/data/%T/"
        for number in (100, 20):
            file[f"data/{number}/meshes/E/x"] = np.full((2, 3), float(number))
            file[f"data/{number}"].attrs["time"] = 0.1 * number
            file[f"data/{number}/meshes/B"] = float(number) if number == 20 else [1.0, 2.0]
            file[f"data/{number}/meshes/E"].attrs["geometry"] = "cartesian"
        file.create_group("data/3").attrs["time"] = 0.3
        file["rankTable"] = [b"a"]
    return path


def test_an_iteration_of_openpmd_is_a_step(tmp_path: Path) -> None:
    """Under the names that it has in a variable-based series of ADIOS2."""
    with stage.open_reader(path=openpmd_file(tmp_path / "a.h5")) as data:
        steps = [
            (step.names(), step.attributes(), "/data/meshes/E/x" in step and step.read("/data/meshes/E/x")[0, 0])
            for step in data
        ]
    assert [names for names, _, _ in steps] == [["/rankTable"], *[["/data/meshes/B", "/data/meshes/E/x"]] * 2]
    assert [each["/data/snapshot"] for _, each, _ in steps] == [3, 20, 100]
    assert [each["/data/time"] for _, each, _ in steps] == [0.3, 2.0, 10.0]
    assert [value for _, _, value in steps] == [False, 20.0, 100.0]
    assert steps[2][1]["/openPMD"] == "1.1.0" and steps[2][1]["/data/meshes/E/geometry"] == "cartesian"
    assert steps[2][1]["/iterationEncoding"] == "variableBased"


def test_a_time_step_of_a_vtkhdf_image_is_a_step(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.vtkhdf", "w") as file:
        root = file.create_group("VTKHDF")
        root.attrs["Type"], root.attrs["Spacing"] = np.bytes_(b"ImageData"), [1.0, 2.0, 1.0]
        root.create_group("Steps").attrs["NSteps"] = 2
        root["Steps/Values"] = [0.5, 1.5]
        root["PointData/T"] = np.arange(24.0).reshape(2, 3, 4)
    with stage.open_reader(path=tmp_path / "a.vtkhdf") as data:
        for k, step in enumerate(data):
            assert {name: info.shape for name, info in step.variables().items()} == {"T": (3, 4), "time": ()}
            assert step.read("time") == 0.5 + k and step.attributes()["Spacing"].tolist() == [1.0, 2.0, 1.0]
            np.testing.assert_array_equal(step.read("T", [1, 0], [2, 4]), np.arange(24.0).reshape(2, 3, 4)[k, 1:])
    assert k == 1


def test_an_openpmd_file_without_iterations_is_read_as_one_step(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["openPMD"] = "1.1.0"
        file["data/meshes/E"] = np.arange(3.0)
    with stage.open_reader(path=tmp_path / "a.h5") as data:
        (found,) = [(step.names(), step.read("data/meshes/E").tolist()) for step in data]
    assert found == (["data/meshes/E"], [0.0, 1.0, 2.0])
