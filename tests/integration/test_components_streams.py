"""The components as real processes, started by hand, with real files and real SST streams."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adios2
import numpy as np
import pytest

COMPONENTS = Path(__file__).parents[2] / "components"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
Step = dict[str, Any]
Start = Callable[..., "subprocess.Popen[str]"]


def command(component: str, *options: object, ranks: int = 1) -> list[str]:
    launch = [str(MPIEXEC), "-n", str(ranks)] if ranks > 1 else []
    return [*launch, sys.executable, str(COMPONENTS / component / "program.py"), *map(str, options)]


def run(component: str, *options: object, ranks: int = 1, cwd: Path) -> str:
    answer = subprocess.run(
        command(component, *options, ranks=ranks), cwd=cwd, capture_output=True, text=True, timeout=100
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def run_together(*commands: list[str], cwd: Path) -> list[str]:
    """Start all at once, as a pipeline does; what each said. All must succeed."""
    pipe = subprocess.PIPE
    running = [subprocess.Popen(argv, cwd=cwd, stdout=pipe, stderr=subprocess.STDOUT, text=True) for argv in commands]
    try:
        said = [process.communicate(timeout=100)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * len(running), "\n".join(said)
    return said


def read_bp(path: Path) -> list[Step]:
    """All steps of a file, read by adios2 alone."""
    with adios2.Stream(str(path), "r") as stream:
        return [{name: stream.read(name) for name in stream.available_variables()} for _ in stream.steps()]


def read_attributes(path: Path) -> dict[str, Any]:
    with adios2.FileReader(str(path)) as file:
        return {name: file.read_attribute(name) for name in file.available_attributes()}


def assert_same(one: list[Step], other: list[Step]) -> None:
    assert len(one) == len(other) > 0
    for first, second in zip(one, other, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name, strict=True)


GRAY_SCOTT = ("--size", 18, 22, 20, "--steps", 120, "--write_every", 40, "--seeds", 3)


def test_gray_scott_is_the_same_for_any_number_of_ranks(tmp_path: Path) -> None:
    for ranks in (1, 2, 3):
        run("gray_scott", *GRAY_SCOTT, "--write", f"field={ranks}.bp", ranks=ranks, cwd=tmp_path)
    alone = read_bp(tmp_path / "1.bp")
    assert [int(step["step"]) for step in alone] == [0, 40, 80, 120]
    assert alone[0]["step"].dtype == np.int32
    for step in alone:
        assert step["U"].shape == step["V"].shape == (18, 22, 20)
        assert step["U"].dtype == np.float64
        assert 0 < step["U"].min() <= step["U"].max() <= 1.01
        assert 0 <= step["V"].min() <= step["V"].max() < 0.8
    assert alone[-1]["V"].mean() > 2 * alone[0]["V"].mean(), "the seeds died out"
    assert_same(alone, read_bp(tmp_path / "2.bp"))
    assert_same(alone, read_bp(tmp_path / "3.bp"))
    assert read_attributes(tmp_path / "1.bp")["F"] == 0.03


def test_gray_scott_in_two_dimensions_does_not_depend_on_the_plane_count(tmp_path: Path) -> None:
    run(
        "gray_scott",
        "--size",
        1,
        30,
        40,
        "--steps",
        50,
        "--write_every",
        50,
        "--write",
        "flat.bp",
        ranks=2,
        cwd=tmp_path,
    )
    assert read_bp(tmp_path / "flat.bp")[-1]["V"].shape == (1, 30, 40)


def test_gray_scott_refuses_an_unstable_time_step(tmp_path: Path) -> None:
    argv = command("gray_scott", "--dt", 3, "--write", "f.bp")
    answer = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 1
    assert "unstable" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_histogram_by_stream_is_that_by_file(ranks: int, tmp_path: Path) -> None:
    options = ("--variable", "V", "--bins", 40)
    run_together(
        command("gray_scott", *GRAY_SCOTT, "--write", "field=field"),
        command("histogram", *options, "--read", "input=field", "--write", "histogram=pdf", ranks=ranks),
        command("archive", "--read", "input=pdf", "--path", "stream.bp"),
        cwd=tmp_path,
    )
    run("gray_scott", *GRAY_SCOTT, "--write", "field=field.bp", cwd=tmp_path)
    run("histogram", *options, "--read", "field.bp", "--write", "histogram=file.bp", ranks=ranks, cwd=tmp_path)
    found, field = read_bp(tmp_path / "stream.bp"), read_bp(tmp_path / "field.bp")
    assert_same(found, read_bp(tmp_path / "file.bp"))
    assert not list(tmp_path.glob("*.sst")), "a contact file was left behind"
    for step, values in zip(found, (step["V"] for step in field), strict=True):
        np.testing.assert_array_equal(step["counts"], np.histogram(values, 40)[0])
        assert step["counts"].sum() == values.size
        assert (step["min"], step["max"]) == (values.min(), values.max())
        assert step["mean"] == pytest.approx(values.mean(), rel=1e-12)
        assert step["std"] == pytest.approx(values.std(), rel=1e-12)
    assert [int(step["step"]) for step in found] == [0, 40, 80, 120]
    assert read_attributes(tmp_path / "stream.bp")["of"] == "V"


@pytest.mark.parametrize("ranks", [1, 2])
def test_synthetic_is_checkable_and_null_drops_it(ranks: int, tmp_path: Path) -> None:
    options = ("--grid_points", 1000, "--particles", 700, "--steps", 3)
    said = run_together(
        command("synthetic", *options, "--write", "output=data", ranks=ranks),
        command("null", "--read", "input=data", ranks=3 - ranks),
        cwd=tmp_path,
    )
    assert f"3 steps, {3 * (ranks * (8000 + 12 * 700) + 8)} bytes" in said[1]
    run("synthetic", *options, "--write", "output=data.bp", ranks=ranks, cwd=tmp_path)
    for number, step in enumerate(read_bp(tmp_path / "data.bp")):
        np.testing.assert_array_equal(step["grid"], np.arange(1000 * ranks, dtype=np.uint64) + number, strict=True)
        index = np.arange(700 * ranks)[:, None]
        expected = (index + np.arange(3) + number).astype(np.float32)
        np.testing.assert_array_equal(step["particles"], expected, strict=True)


def test_synthetic_takes_its_size_from_bytes_and_its_time(tmp_path: Path) -> None:
    said = run(
        "synthetic",
        "--bytes",
        "2 MB",
        "--steps",
        2,
        "--compute_time",
        "20 ms",
        "--spin",
        "true",
        "--write",
        "d.bp",
        cwd=tmp_path,
    )
    assert said == ""
    step = read_bp(tmp_path / "d.bp")[0]
    assert step["grid"].nbytes + step["particles"].nbytes == 2_000_000
