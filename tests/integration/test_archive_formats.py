"""What archive writes as openPMD, H5Part, H5Block and VTKHDF: bit for bit, and as the tools of each format read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import openpmd_api
import pytest
from openpmd_viewer import OpenPMDTimeSeries

from tests.support import openpmd_programs
from workflow import stage

pytestmark = pytest.mark.turns(2)

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "components/archive/program.py"
PROGRAMS = ROOT / "tests/support/openpmd_programs.py"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
VALIDATOR = Path(sys.executable).with_name("openPMD_check_h5")
STEPS = 3


def archive(*options: object, cwd: Path, ranks: int = 1, code: int = 0) -> str:
    launch = [str(MPIEXEC), "-n", str(ranks)] if ranks > 1 else []
    argv = [*launch, sys.executable, str(ARCHIVE), *map(str, options)]
    answer = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=100)
    assert answer.returncode == code, answer.stdout + answer.stderr
    assert not list(cwd.glob("*.partial")) or code
    return answer.stdout + answer.stderr


def made(index: int) -> dict[str, Any]:
    """The arrays of one step; the number of atoms varies."""
    random, atoms = np.random.default_rng(index), 5 + index
    return {
        "position": random.random((atoms, 3)),
        "velocity": random.random((atoms, 3)).astype(np.float32),
        "id": np.arange(atoms)[::-1].copy(),
        "rho": random.random((4, 6, 8)),
        "vectors/E": random.random((4, 6, 8, 3)),
        "plane": np.array([[np.nan, 1.0], [-0.0, np.inf], [1e-310, 2.0]]),
        "line": random.random(7).astype(np.complex128),
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "source.bp"
    with stage.open_writer(path=path) as out:
        out.attribute("species", ["Cu", "Al"])
        out.attribute("title", "Ångström")
        out.attribute("empty", "")
        for variable, unit in {
            "position": "angstrom",
            "velocity": "angstrom/ps",
            "time": "ps",
            "rho": "bushel",
        }.items():
            out.attribute("unit", unit, variable=variable)
        for index in range(STEPS):
            with out.step():
                for name, values in made(index).items():
                    out.write(name, values, shape=values.shape, start=(0,) * values.ndim)
                out.write("time", 0.5 * index)
                out.write("timestep", 100 * index)
                out.write("note", f"step {index}")
    return path


def same(found: Any, values: Any) -> bool:
    return bool(found.dtype == values.dtype) and np.ascontiguousarray(found).tobytes() == values.tobytes()


def check_openpmd(path: Path) -> None:
    """What the validator says: no errors."""
    answer = subprocess.run([str(VALIDATOR), "-i", str(path)], capture_output=True, text=True, timeout=100)
    assert "Result: 0 Errors" in answer.stdout, answer.stdout + answer.stderr
    assert answer.returncode == 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_openpmd_bit_for_bit(source: Path, ranks: int, tmp_path: Path) -> None:
    archive("--read", source, "--path", "kept.h5", "--format", "openpmd", ranks=ranks, cwd=tmp_path)
    check_openpmd(tmp_path / "kept.h5")
    with h5py.File(tmp_path / "kept.h5") as file:
        assert list(file["data"]) == ["0", "100", "200"]
        assert file.attrs["title"] == "Ångström"
        for index in range(STEPS):
            base, data = file[f"data/{100 * index}"], made(index)
            assert base.attrs["time"] == 0.5 * index
            assert base.attrs["note"] == f"step {index}".encode()
            for axis, column in zip("xyz", range(3), strict=True):
                for record in ("position", "velocity"):
                    assert same(base[f"particles/particles/{record}/{axis}"][()], data[record][:, column].copy())
                assert same(base[f"meshes/vectors_E/{axis}"][()], data["vectors/E"][..., column].copy())
            assert same(base["particles/particles/id"][()], data["id"])
            for name in ("rho", "plane", "line"):
                assert same(base[f"meshes/{name}"][()], data[name])
        assert base["particles/particles/velocity/x"].attrs["unitSI"] == 100.0
        assert base["meshes/rho"].attrs["unit"] == b"bushel"
        assert base["meshes/rho"].attrs["unitSI"] == 1.0


@pytest.mark.parametrize("chosen", ["openpmd", "h5part", "h5block", "vtkhdf"])
def test_ranks_that_read_for_themselves_make_the_same_file(source: Path, chosen: str, tmp_path: Path) -> None:
    """With an ADIOS2 built for MPI every rank has its own reader; the first one writes."""
    python = os.environ.get("WF_MPI_PYTHON")
    if not python:
        pytest.skip("WF_MPI_PYTHON names no Python with an ADIOS2 built for MPI")
    serial, parallel = (f"{name}{'.vtkhdf' if chosen == 'vtkhdf' else '.h5'}" for name in ("serial", "parallel"))
    archive("--read", source, "--path", serial, "--format", chosen, cwd=tmp_path)
    words = ["--read", source, "--path", parallel, "--format", chosen]
    argv = [Path(python).with_name("mpiexec"), "-n", 2, python, ARCHIVE, *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(list(map(str, argv)), cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert contents(tmp_path / serial) == contents(tmp_path / parallel)


def contents(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def look(name: str, item: Any) -> None:
        data = item[()].tobytes() if isinstance(item, h5py.Dataset) else b""
        found[name] = data, {key: str(value) for key, value in item.attrs.items()}

    with h5py.File(path) as file:
        file.visititems(look)
    return found


@pytest.mark.parametrize("backend", ["h5py", "openpmd-api"])
def test_openpmd_viewer_reads_it(source: Path, backend: str, tmp_path: Path) -> None:
    archive("--read", source, "--path", "kept.h5", "--format", "openpmd", cwd=tmp_path)
    series = OpenPMDTimeSeries(str(tmp_path), backend=backend)
    assert list(series.iterations) == [0, 100, 200]
    assert series.t == pytest.approx([0, 0.5e-12, 1e-12])
    assert series.avail_species == ["particles"]
    (x,) = series.get_particle(["x"], species="particles", iteration=100)
    assert x == pytest.approx(made(1)["position"][:, 0] * 1e-10, rel=1e-15)
    field, about = series.get_field("vectors_E", "y", iteration=200)
    assert np.array_equal(field, made(2)["vectors/E"][..., 1])
    assert about.axes == {0: "z", 1: "y", 2: "x"}


@pytest.fixture(scope="module", params=["variable_based", "group_based"])
def openpmd_source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "source.bp"
    openpmd_programs.write(str(path), f'{{"iteration_encoding": "{request.param}", "rank_table": "hostname"}}')
    return path


def test_an_openpmd_stream_stays_what_it_is(openpmd_source: Path, tmp_path: Path) -> None:
    archive("--read", openpmd_source, "--path", "kept.h5", "--format", "openpmd", cwd=tmp_path)
    check_openpmd(tmp_path / "kept.h5")
    openpmd_programs.read(str(tmp_path / "kept.h5"), str(tmp_path / "kept.npz"))
    with np.load(tmp_path / "kept.npz") as kept:
        for step, number in enumerate(openpmd_programs.NUMBERS):
            for path, values in openpmd_programs.expected(step).items():
                assert same(kept[f"{number}/{path}"], values), path
    series = openpmd_api.Series(str(tmp_path / "kept.h5"), openpmd_api.Access.read_only)
    iteration = series.iterations[20]
    mesh = iteration.meshes["E"]
    assert (iteration.time, iteration.dt, iteration.time_unit_SI) == (1.0, 0.5, 1e-12)
    assert (mesh.axis_labels, mesh.grid_spacing, mesh["x"].unit_SI) == (["y", "x"], [2.0, 3.0], 2.0)
    assert mesh.unit_dimension == [1, 1, -3, -1, 0, 0, 0]
    offset = iteration.particles["e"]["positionOffset"]["x"]
    assert (offset.constant, offset.shape) == (True, [5])


def write_unusual(path: Path, engine: str, encoding: str) -> None:
    """A plane of constants, and a mesh of one dimension."""
    chosen = {"adios2": {"engine": {"type": engine}}, "iteration_encoding": encoding}
    series = openpmd_api.Series(str(path), openpmd_api.Access.create_linear, json.dumps(chosen))
    for step, number in enumerate(openpmd_programs.NUMBERS):
        iteration = series.snapshots()[number]
        iteration.time, iteration.dt = 0.5 * step, 0.5
        plane, line = iteration.meshes["B"], iteration.meshes["line"]
        plane.axis_labels, plane.grid_spacing, plane.grid_global_offset = ["y", "x"], [2.0, 3.0], [0.0, 0.0]
        line.axis_labels, line.grid_spacing, line.grid_global_offset = ["x"], [2.0], [1.0]
        for mesh, shape in ((plane, (4, 6)), (line, (7,))):
            mesh.unit_dimension = {openpmd_api.Unit_Dimension.L: 1}
            mesh["x"].position = [0.5] * len(shape)
            mesh["x"].reset_dataset(openpmd_api.Dataset(np.dtype("float64"), shape))
        plane["x"].make_constant(float(number))
        line["x"].store_chunk(np.arange(7.0) + number)
        iteration.close()
    series.close()


@pytest.mark.parametrize(
    ("engine", "encoding"), [("bp4", "group_based"), ("bp5", "group_based"), ("bp5", "variable_based")]
)
def test_openpmd_of_constants_and_lines_passes_its_tools(engine: str, encoding: str, tmp_path: Path) -> None:
    write_unusual(tmp_path / "source.bp", engine, encoding)
    archive("--read", tmp_path / "source.bp", "--path", "kept.h5", "--format", "openpmd", cwd=tmp_path)
    check_openpmd(tmp_path / "kept.h5")
    series = openpmd_api.Series(str(tmp_path / "kept.h5"), openpmd_api.Access.read_only)
    assert [series.iterations[number].time for number in openpmd_programs.NUMBERS] == [0.0, 0.5, 1.0]
    assert series.iterations[10].meshes["line"].axis_labels == ["x"]
    viewer = OpenPMDTimeSeries(str(tmp_path), backend="h5py")
    field, about = viewer.get_field("B", "x", iteration=20)
    assert field.shape == (4, 6) and np.all(field == 20.0) and about.axes == {0: "y", 1: "x"}
    found, _ = viewer.get_field("line", "x", iteration=10)
    np.testing.assert_array_equal(found, np.arange(7.0) + 10)
    with stage.open_reader(path=tmp_path / "kept.h5") as again:
        numbers = [
            (step.attributes()["/data/snapshot"], step.names(), step.read("/data/meshes/line/x")[0]) for step in again
        ]
    assert numbers == [(number, ["/data/meshes/line/x"], float(number)) for number in openpmd_programs.NUMBERS]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("name", "chosen"), [("kept.h5part", "auto"), ("kept.h5", "h5part")])
def test_h5part_bit_for_bit(source: Path, ranks: int, name: str, chosen: str, tmp_path: Path) -> None:
    said = archive("--read", source, "--path", name, "--format", chosen, "--every", 2, ranks=ranks, cwd=tmp_path)
    assert "rho is left out: it is not one value per particle" in said
    with h5py.File(tmp_path / name) as file:
        assert sorted(file) == ["Step#0", "Step#1"]  # consecutive, whatever is kept
        for number, index in enumerate((0, 2)):
            group, data = file[f"Step#{number}"], made(index)
            assert sorted(group) == ["id", "vx", "vy", "vz", "x", "y", "z"]
            for axis, column in zip("xyz", range(3), strict=True):
                assert same(group[axis][()], data["position"][:, column].copy())
                assert same(group[f"v{axis}"][()], data["velocity"][:, column].copy())
            assert same(group["id"][()], data["id"])
            assert group.attrs["timestep"] == 100 * index
        assert group["x"].attrs["unit"] == b"angstrom"


@pytest.mark.parametrize("ranks", [1, 2])
def test_h5block_bit_for_bit(source: Path, ranks: int, tmp_path: Path) -> None:
    said = archive("--read", source, "--path", "kept.h5block", ranks=ranks, cwd=tmp_path)
    assert said.count("left out") == 1
    with h5py.File(tmp_path / "kept.h5block") as file:
        for index in range(STEPS):
            block, data = file[f"Step#{index}/Block"], made(index)
            assert same(block["rho/0"][()], data["rho"])
            assert same(block["plane/0"][()], data["plane"][None])
            for column in range(3):
                assert same(block[f"E/{column}"][()], data["vectors/E"][..., column].copy())
            assert same(file[f"Step#{index}/z"][()], data["position"][:, 2].copy())
        assert list(block["rho"].attrs["__Spacing__"]) == [1, 1, 1]


def test_h5part_of_an_openpmd_stream(openpmd_source: Path, tmp_path: Path) -> None:
    archive("--read", openpmd_source, "--path", "kept.h5block", cwd=tmp_path)
    with h5py.File(tmp_path / "kept.h5block") as file:
        group, data = file["Step#2"], openpmd_programs.expected(2)
        assert (group.attrs["iteration"], group.attrs["time"]) == (20, 1.0)
        assert same(group["y"][()], data["particles/e/position/y"])
        assert same(group["Block/E/1"][()], data["meshes/E/y"][None])
        assert list(group["Block/E"].attrs["__Spacing__"]) == [3, 2, 1]
        assert "rankTable" not in group["Block"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["--path", "a.bp", "--format", "openpmd"],
            2,
            "openpmd needs a file that ends in .h5 or .hdf5, not `a.bp`",
        ),
        (["--path", "a.h5", "--format", "bp5"], 2, "format bp5 needs a file that ends in .bp or .bp5, not `a.h5`"),
        (["--path", "a.h5part", "--format", "hdf5"], 2, "format hdf5 needs a file that ends in .h5 or .hdf5"),
        (["--path", "a.h5part", "--variables", "rho"], 1, "unclear which ones hold particles"),
    ],
)
def test_what_does_not_go_together(source: Path, options: list[str], code: int, message: str, tmp_path: Path) -> None:
    said = archive("--read", source, *options, code=code, cwd=tmp_path)
    assert message in said
    assert "Traceback" not in said


def read_by_vtk(path: Path) -> list[tuple[float, Any]]:
    """(time, image) of each step, as VTK's own reader sees them."""
    vtk = pytest.importorskip("vtk", reason="the package vtk is in the extra dev")
    found = []
    reader = vtk.vtkHDFReader()
    assert reader.CanReadFile(str(path))
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    for time in reader.GetOutputInformation(0).Get(vtk.vtkStreamingDemandDrivenPipeline.TIME_STEPS()):
        reader.UpdateTimeStep(time)
        image = vtk.vtkImageData()
        image.DeepCopy(reader.GetOutputDataObject(0))
        found.append((time, image))
    return found


def vtk_array(data: Any, name: str) -> Any:
    from vtkmodules.util.numpy_support import vtk_to_numpy

    assert data.HasArray(name), f"VTK sees no {name}"
    convert: Any = vtk_to_numpy  # VTK's own Python has no types
    return convert(data.GetArray(name))


@pytest.mark.parametrize("values", ["points", "cells"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_vtk_reads_the_fields_of_each_step(source: Path, ranks: int, values: str, tmp_path: Path) -> None:
    words = ["--read", source, "--path", "kept.vtkhdf", "--vtk-values", values]
    said = archive(*words, ranks=ranks, cwd=tmp_path)
    assert said.count("position is left out: it is no field of real numbers on the grid [4, 6, 8]") == 1
    with h5py.File(tmp_path / "kept.vtkhdf") as file:
        assert same(file[f"VTKHDF/{'Point' if values == 'points' else 'Cell'}Data/rho"][1], made(1)["rho"])
    steps = read_by_vtk(tmp_path / "kept.vtkhdf")
    assert [time for time, _ in steps] == [0.5 * index for index in range(STEPS)]
    for index, (_, image) in enumerate(steps):
        more = 0 if values == "points" else 1
        assert image.GetExtent() == (0, 7 + more, 0, 5 + more, 0, 3 + more)
        assert (image.GetOrigin(), image.GetSpacing()) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
        data = image.GetPointData() if values == "points" else image.GetCellData()
        assert same(vtk_array(data, "rho").reshape(4, 6, 8), made(index)["rho"])
        assert same(vtk_array(data, "vectors_E").reshape(4, 6, 8, 3), made(index)["vectors/E"])


def test_vtk_reads_a_plane_where_the_stream_says_it_is(tmp_path: Path) -> None:
    plane = np.arange(12.0).reshape(3, 4)
    with stage.open_writer(path=tmp_path / "plane.bp") as out:
        out.attribute("gridSpacing", [0.5, 0.25], variable="T")
        out.attribute("gridGlobalOffset", [2.0, 1.0], variable="T")
        for index in range(4):
            with out.step():
                out.write("T", plane + index, shape=plane.shape, start=(0, 0))
    archive("--read", tmp_path / "plane.bp", "--path", "kept.vtkhdf", "--every", 2, cwd=tmp_path)
    steps = read_by_vtk(tmp_path / "kept.vtkhdf")
    assert [time for time, _ in steps] == [0.0, 2.0]
    for time, image in steps:
        assert image.GetExtent() == (0, 3, 0, 2, 0, 0)
        assert image.GetOrigin() == (1.0, 2.0, 0.0)
        assert image.GetSpacing() == (0.25, 0.5, 1.0)
        assert same(vtk_array(image.GetPointData(), "T").reshape(3, 4), plane + time)


def test_vtkhdf_refuses_what_it_cannot_hold(source: Path, tmp_path: Path) -> None:
    said = archive("--read", source, "--path", "p.vtkhdf", "--variables", "position", cwd=tmp_path, code=1)
    assert "format vtkhdf needs a field of 2 or 3 dimensions, but step 0 has position [5, 3]" in said
    with stage.open_writer(path=tmp_path / "grows.bp") as out:
        for index in range(2):
            with out.step():
                out.write("T", np.ones((3, 4 + index)), shape=(3, 4 + index), start=(0, 0))
    said = archive("--read", tmp_path / "grows.bp", "--path", "g.vtkhdf", cwd=tmp_path, code=1)
    assert "T has shape [3, 5] in step 1, and the grid of the file is [3, 4]" in said
