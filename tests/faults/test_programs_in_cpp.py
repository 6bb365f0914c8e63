"""Unchanged programs in C++ that are killed: a simulation with MPI goes on from a checkpoint of its own in the next
part of the run, an analysis is started again in the run. The data are those of an undisturbed run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.long_tables import long_table
from tests.support.pipelines import ROOT, Done
from tests.support.reliability import note
from tests.support.resumed_runs import first_step
from tests.support.waiting import wait_until
from workflow.compare.compare_runs import compare_runs
from workflow.formats.bp_index import read_index
from workflow.formats.run_variables import STAGE_VARIABLE
from workflow.formats.stage_file import STAGE_FILE
from workflow.run.processes.process_reaper import find_members

MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")
SOURCES = ROOT / "tests/support/cpp"
OUTPUTS = 24  # steps that the simulation writes: of its own 240 each 10th
# By `workflow.stage`; it can begin at any step, as the program in C++ cannot.
STAGED = """
import numpy as np
from workflow import stage
with stage.open_reader("field") as fields, stage.open_writer("sums") as sums:
    for step in fields:
        with sums.step():
            sums.write("index", np.int64(step.read("step")))
            sums.write("energy", float((step.read("u") ** 2).sum()))
"""
PIPELINE = """
wf: 1
name: waves
oversubscribe: true
deadlines: {{start: 60 s, step: 60 s, run: 200 s, stop: 2 s}}
stages:
  sim:
    command: ["{bin}/wave", "${{{{ streams.field.path }}}}"]
    ranks: 2
    checkpoint:
      files: checkpoint.*
      outputs: {{every: 10, first: 0}}
      command: ["{bin}/wave", "${{{{ streams.field.path }}}}", "${{{{ checkpoint.path }}}}"]
    writes: {{field: {{io: out, config: adios2.xml}}}}
  sum:
    {analysis}
    on_failure: {rule}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: sum, via: {first}}}
  sums: {{from: sum, to: keep, via: {second}}}
"""
UNCHANGED = """command: ["{bin}/energy", "${{{{ streams.field.path }}}}", "${{{{ streams.sums.path }}}}", {pause}]
    reads: {{field: {{io: in, config: adios2.xml}}}}
    writes: {{sums: {{io: sums, config: adios2.xml}}}}"""
WITH_STAGE = """command: ["${{{{ wf.python }}}}", "{folder}/sum.py"]
    reads: {{field: {{}}}}
    writes: {{sums: {{}}}}"""


class Cell(NamedTuple):
    """Who is killed when the simulation has written so many steps. `analysis`: whether that is in C++, too."""

    role: str
    analysis: str
    first: str
    second: str
    at: int

    def __str__(self) -> str:
        return f"{self.role} at {self.at}, {self.first} to {self.analysis}"


def cells() -> list[Cell]:
    """The same ones each time."""
    dice = random.Random(2)
    ways = [
        ("sim", "C++", "bp5", "bp5"),
        ("sim", "stage", "bp5, coupling: live", "sst"),
        ("sim", "stage", "sst", "sst"),
        ("sim", "stage", "sst, keep: true", "sst"),
        ("sum", "C++", "bp5", "bp5"),
        ("sum", "C++", "bp5, coupling: live", "bp5"),
    ]
    return [Cell(*way, at) for way in ways for at in sorted(dice.sample(range(4, OUTPUTS - 1), 4))]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the two programs."""
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    folder, tools = tmp_path_factory.mktemp("programs"), Path(MPI_PYTHON).parent
    for name, compiler, kind in (("wave", str(tools / "mpicxx"), "--mpi"), ("energy", "c++", "--serial")):
        flags = subprocess.run(
            [tools / "adios2-config", kind, "--cxx"], capture_output=True, text=True, check=True
        ).stdout.split()
        line = [compiler, "-std=c++17", "-o", str(folder / name), str(SOURCES / f"{name}.cpp"), *flags]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def write(folder: Path, cell: Cell, programs: Path) -> None:
    """The pipeline, and the analysis by `workflow.stage`."""
    (folder / "sum.py").write_text(STAGED)
    # That of a complete file is so fast that it would be done before it is killed.
    pause = 100 if cell.first == "bp5" else 1
    template = UNCHANGED if cell.analysis == "C++" else WITH_STAGE
    analysis = template.format(bin=programs, folder=folder, pause=pause)
    if cell.analysis != "C++":
        analysis += "\n    env: {PYTHONPATH: " + str(ROOT) + "}"
    rule = "{do: restart, backoff: 0.1 s}" if cell.role == "sum" else "stop"
    text = PIPELINE.format(bin=programs, analysis=analysis, rule=rule, first=cell.first, second=cell.second)
    (folder / "pipeline.yaml").write_text(text)


def go(folder: Path, cell: Cell | None, before: Path | None = None, name: str = "run") -> Done:
    """The run, or its next part; of a cell the stage is killed."""
    # `wf resume -q` would not say where each stage begins.
    what = ["run", "pipeline.yaml", "-q"] if before is None else ["resume", str(before)]
    argv = [MPI_PYTHON, "-m", "workflow.cli", *what, "--run-dir", str(folder / name)]
    env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"} | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        if cell is not None:
            wait_until(
                lambda: process.poll() is not None or is_there(folder / name, cell),
                f"the moment of {cell}",
                every_s=0.005,
            )
            for pid in processes_of(folder / name, cell.role):
                os.kill(pid, signal.SIGKILL)
        said, _ = process.communicate(timeout=200)
    return Done(process.returncode, said, folder / name)


def is_there(run_dir: Path, cell: Cell) -> bool:
    """Whether the moment has come: so many steps are in the file of the analysis, or the simulation has written the
    checkpoint before that step, and gone on for a while."""
    if cell.role == "sum":
        index = read_index(run_dir / "streams/sums.bp/md.idx")
        return index is not None and index.steps >= cell.at
    saved = run_dir / f"stages/sim/work/checkpoint.{cell.at // 3 * 30}"
    return saved.exists() and time.time() - saved.stat().st_mtime > cell.at % 3 * 0.1


def processes_of(run_dir: Path, stage: str) -> list[int]:
    """The processes that run the program of a stage, without those of its launcher."""
    found = []
    for pid in find_members(str(run_dir / "stages" / stage / STAGE_FILE), by=STAGE_VARIABLE):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/exe").resolve().name in ("wave", "energy"):
                found.append(pid)
    return sorted(found)


@pytest.fixture(scope="module")
def undisturbed(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """By the kind of the analysis, what `keep` writes when nothing happens."""

    @functools.cache
    def of(analysis: str) -> Path:
        folder = tmp_path_factory.mktemp("whole")
        write(folder, Cell("", analysis, "bp5, coupling: live", "bp5", 0), programs)
        done = go(folder, None)
        assert done.code == 0, done.said
        return done.folder / "kept.bp"

    return of


CELLS = cells()


@pytest.mark.parametrize("cell", long_table([cell for cell in CELLS if cell.role == "sim"], sample=1, seed=2), ids=str)
def test_a_simulation_goes_on_from_its_own_checkpoint(
    cell: Cell, programs: Path, undisturbed: Callable[[str], Path], tmp_path: Path
) -> None:
    write(tmp_path, cell, programs)
    failed = go(tmp_path, cell)
    assert failed.code == 1, failed.said
    assert failed.report.run.stage == "sim", failed.said
    done = go(tmp_path, None, failed.folder, "part2")
    assert done.code == 0, done.said
    begun = first_step(done, "sim")
    assert begun > 0 and begun % 3 == 0, done.said
    check(cell, done, undisturbed, "resume")


@pytest.mark.parametrize("cell", long_table([cell for cell in CELLS if cell.role == "sum"], sample=1), ids=str)
def test_an_analysis_is_started_again(
    cell: Cell, programs: Path, undisturbed: Callable[[str], Path], tmp_path: Path
) -> None:
    write(tmp_path, cell, programs)
    done = go(tmp_path, cell)
    assert done.code == 0, done.said
    (restart,) = done.report.restarts
    assert (restart.stage, restart.first_step) == ("sum", 0), "nobody knows where an unchanged program was"
    check(cell, done, undisturbed, "restart")


@pytest.mark.reliability
def test_a_simulation_that_is_killed_twice(programs: Path, undisturbed: Callable[[str], Path], tmp_path: Path) -> None:
    """Also before its first step: then the checkpoint may be what kills it, and the one before is used."""
    cell = Cell("sim", "stage", "bp5, coupling: live", "sst", 8)
    write(tmp_path, cell, programs)
    assert go(tmp_path, cell).code == 1
    newest = tmp_path / "run/stages/sim/work/checkpoint.60"
    newest.write_bytes(newest.read_bytes()[:100])
    damaged = go(tmp_path, None, tmp_path / "run", "part2")
    assert damaged.code == 1
    assert first_step(damaged, "sim") == 6
    assert "is no whole checkpoint" in damaged.said
    again = go(tmp_path, cell._replace(at=17), tmp_path / "run", "part3")
    assert again.code == 1
    assert first_step(again, "sim") == 3
    done = go(tmp_path, None, tmp_path / "run", "part4")
    assert done.code == 0, done.said
    assert first_step(done, "sim") in (15, 18)
    check(cell, done, undisturbed, "resume, of a damaged checkpoint the one before")


def check(cell: Cell, done: Done, undisturbed: Callable[[str], Path], by: str) -> None:
    """The data are those of an undisturbed run."""
    found = compare_runs(undisturbed(cell.analysis), done.folder / "kept.bp")
    way = f"{cell.first}, {'C++' if cell.analysis == 'C++' else 'workflow.stage'}"
    note("programs", role=cell.role, way=way, by=by, equal=found.identical)
    assert found.identical, found
    assert found.files[0].steps == OUTPUTS
