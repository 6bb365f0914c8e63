"""What `archive` keeps, bit for bit, and what `plot` draws."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import adios2
import h5py
import matplotlib.image
import numpy as np
import pytest

from workflow import stage

COMPONENTS = Path(__file__).parents[2] / "components"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
TYPES = [
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
STEPS = 4


def run(component: str, *options: object, cwd: Path, ranks: int = 1, code: int = 0) -> str:
    launch = [str(MPIEXEC), "-n", str(ranks)] if ranks > 1 else []
    argv = [*launch, sys.executable, str(COMPONENTS / component / "program.py"), *map(str, options)]
    answer = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=100)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with every type, scalars and strings, arrays that change their size, and all kinds of attributes."""
    path = tmp_path_factory.mktemp("source") / "source.bp"
    random = np.random.default_rng(5)
    with adios2.Stream(str(path), "w") as out:
        out.write_attribute("species", ["Cu", "Al"])
        out.write_attribute("title", "every type")
        out.write_attribute("bounds", np.array([1.5, np.pi]))
        out.write_attribute("count", np.array([3], dtype=np.int16))
        out.write_attribute("v_float64/unit", "Å")
        for step in range(STEPS):
            out.begin_step()
            for kind in TYPES:
                values = (random.random((4 + step, 3)) * 100).astype(kind)
                out.write(f"v_{kind}", values, list(values.shape), [0, 0], list(values.shape))
                out.write(f"s_{kind}", np.array(values[0, 0]))
            cube = random.random((3, 4, 5))
            cube[0, 0, 0] = np.nan
            out.write("group/cube", cube, [3, 4, 5], [0, 0, 0], [3, 4, 5])
            out.write("note", f"step {step}")
            out.end_step()
    return path


def read_bp(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Steps, and attributes with their types as ADIOS2 names them."""
    # adios2's own Stream cannot read complex64.
    with stage.open_reader(path=path) as stream:
        steps = [{name: step.read(name) for name in step.names()} for step in stream]
    with adios2.FileReader(str(path)) as file:
        attributes = {name: (info["Type"], info["Value"]) for name, info in file.available_attributes().items()}
    return steps, attributes


@pytest.mark.parametrize("ranks", [1, 2])
def test_archive_keeps_everything_in_bp5(source: Path, ranks: int, tmp_path: Path) -> None:
    run("archive", "--read", source, "--path", "kept.bp", ranks=ranks, cwd=tmp_path)
    (steps, attributes), (kept, kept_attributes) = read_bp(source), read_bp(tmp_path / "kept.bp")
    assert len(kept) == STEPS
    assert kept_attributes == attributes
    for step, other in zip(steps, kept, strict=True):
        assert step.keys() == other.keys()
        for name, values in step.items():
            if isinstance(values, str):
                assert other[name] == values
            else:
                assert other[name].tobytes() == values.tobytes(), name
                assert (other[name].dtype, other[name].shape) == (values.dtype, values.shape), name
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("ranks", [1, 2])
def test_archive_keeps_everything_in_hdf5_and_back(source: Path, ranks: int, tmp_path: Path) -> None:
    run("archive", "--read", source, "--path", "kept.h5", ranks=ranks, cwd=tmp_path)
    steps, attributes = read_bp(source)
    with h5py.File(tmp_path / "kept.h5") as file:
        assert file.attrs["title"] == "every type"
        assert file["Step3/v_float64"].attrs["unit"] == "Å"
        for number, step in enumerate(steps):
            for name, values in step.items():
                dataset = file[f"Step{number}/{name}"]
                if isinstance(values, str):
                    assert dataset.asstr()[()] == values
                else:
                    assert dataset.dtype == values.dtype, name
                    assert dataset[()].tobytes() == values.tobytes(), name
    run("archive", "--read", "kept.h5", "--path", "back.bp", ranks=ranks, cwd=tmp_path)
    back, back_attributes = read_bp(tmp_path / "back.bp")
    assert back_attributes == attributes
    assert [sorted(step) for step in back] == [sorted(step) for step in steps]
    assert all(
        np.asarray(b[n]).tobytes() == np.asarray(s[n]).tobytes() for b, s in zip(back, steps, strict=True) for n in s
    )


def test_archive_keeps_what_is_asked_for(source: Path, tmp_path: Path) -> None:
    run("archive", "--read", source, "--path", "some.bp", "--every", 3, "--variables", "note", "v_int16", cwd=tmp_path)
    kept, _ = read_bp(tmp_path / "some.bp")
    assert [step["note"] for step in kept] == ["step 0", "step 3"]
    assert {name for step in kept for name in step} == {"note", "v_int16"}


@pytest.mark.parametrize(
    ("path", "options", "code", "message"),
    [
        ("there.bp", [], 1, "there.bp already exists"),
        ("data.csv", [], 2, "the suffix of `data.csv` selects no format"),
        ("new.bp", ["--variables", "note", "nothing"], 1, "had a variable nothing; there is"),
    ],
)
def test_archive_refuses(source: Path, path: str, options: list[str], code: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "there.bp").mkdir()
    said = run("archive", "--read", source, "--path", path, *options, code=code, cwd=tmp_path)
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "new.bp").exists()


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("field") / "field.bp"
    x, y = np.linspace(0, 1, 60), np.linspace(-1, 1, 40)
    with adios2.Stream(str(path), "w") as out:
        out.write_attribute("line/unit", "angstrom")
        for step in range(6):
            out.begin_step()
            for name, values in {
                "line": np.exp(-((x - 0.1 * step) ** 2) * 50),
                "plane": np.outer(y, x) * step,
                "cube": np.ones((5, 40, 60)) * np.arange(5)[:, None, None] + x,
                "x": x, "edges": np.linspace(0, 1, 61), "y": y,
            }.items():  # fmt: skip
                out.write(name, values, list(values.shape), [0] * values.ndim, list(values.shape))
            out.write("time", 0.5 * step)
            out.write("total", float(step))
            out.write("word", "hello")
            out.end_step()
    return path


def assert_is_a_picture(path: Path) -> None:
    pixels = matplotlib.image.imread(path)
    assert min(pixels.shape[:2]) > 150
    assert max(pixels.shape[:2]) < 4000
    assert len(np.unique(pixels[:, :, 0])) > 10, f"{path} is empty"


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--variable", "line", "--x", "x", "--time", "time", "--log", "true"],
        ["--variable", "line", "--x", "edges", "--lines", "curves", "--title", "a title"],
        ["--variable", "total"],
        ["--panels", "line", "plane", "cube", "total", "--x", "x", "--axes", "y", "x", "--snapshots", "3"],
        ["--variable", "plane", "--snapshots", "1", "--range", "0", "1", "--log", "true", "--colormap", "magma"],
    ],
    ids=["default", "map", "curves", "scalar", "panels", "image"],
)
def test_plot_draws_steps_and_a_summary(field: Path, options: list[str], tmp_path: Path) -> None:
    frames_too = ("--frames", "true", "--max-frames", 2, "--picture", "out/all.png")
    said = run("plot", "--read", field, *options, *frames_too, cwd=tmp_path)
    assert "Warning" not in said
    assert_is_a_picture(tmp_path / "out/all.png")
    frames = sorted((tmp_path / "pictures/frames").iterdir())
    assert [frame.name for frame in frames] == ["step00000.png", "step00001.png"]
    assert_is_a_picture(frames[1])


def test_plot_draws_the_summary_only_unless_asked(field: Path, tmp_path: Path) -> None:
    run("plot", "--read", field, cwd=tmp_path)
    assert [path.name for path in tmp_path.rglob("*.png")] == ["summary.png"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--variable", "nothing"], "no step of 6 had a variable nothing; there is cube, edges"),
        (["--variable", "line", "--x", "q"], "no step of 6 had a variable q"),
        (["--variable", "word"], "word cannot be drawn"),
    ],
)
def test_plot_refuses(field: Path, options: list[str], message: str, tmp_path: Path) -> None:
    said = run("plot", "--read", field, *options, code=1, cwd=tmp_path)
    assert message in said
    assert "Traceback" not in said
