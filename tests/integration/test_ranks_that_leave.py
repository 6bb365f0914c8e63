"""Several ranks that are not what the plan says: some that leave early, copies of a serial program, none at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import run

LEAVES = """
import os, sys, time
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 1:
    {leave}
MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank)  # waits for all
open("result", "w").write("done")
"""
STAGE = """
stages:
  sim: {command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py"], ranks: 2}
"""
SERIAL = """
import sys, time
import adios2, numpy as np
stream = adios2.Stream(adios2.Adios("adios2.xml").declare_io("out"), sys.argv[1], "w")
for step in range(60):
    stream.begin_step()
    stream.write("x", np.arange(10.0), [10], [0], [10])
    stream.end_step()
    time.sleep(0.1)
stream.close()
"""
COPIES = """
stages:
  sim:
    command: [sh, "${{{{ pipeline.dir }}}}/sim.sh", "${{{{ wf.python }}}}", "${{{{ streams.heat.path }}}}"]
    ranks: {ranks}
    writes: {{heat: {{io: out, config: adios2.xml}}}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  heat: {{from: sim, to: keep, via: {via}}}
"""
# As where launcher and program are of different MPI libraries.
ALONE = 'unset PMI_RANK PMI_SIZE PMI_FD PMI_PORT PMI_ID; exec "$1" "$(dirname "$0")/sim.py" "$2"'


@pytest.mark.parametrize("leave", ["os._exit(0)", "MPI.COMM_WORLD.Abort(0)"])
def test_ranks_that_are_killed_because_another_has_left_are_a_failure(leave: str, tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(LEAVES.format(leave=leave))
    done = run(tmp_path, STAGE)
    assert done.code == 1
    assert "of its ranks, by mpiexec, which reports success: another rank had left before" in done.report.run.reason


def test_ranks_that_end_in_order_succeed(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(LEAVES.format(leave="time.sleep(0.3)"))
    assert run(tmp_path, STAGE).code == 0


EXITS = """
import sys
import numpy as np
from mpi4py import MPI
from workflow import stage
rank = MPI.COMM_WORLD.rank
with stage.open_writer("heat") as stream:
    for step in range(10):
        if step == 5 and rank in {who}:
            sys.exit(0)
        with stream.step():
            stream.write("x", np.arange(4.0), shape=(8,), start=(4 * rank,))
"""
BY_STAGE = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py"]
    ranks: 2
    writes: {heat: {}}
  keep: {component: archive, with: {path: kept.bp}}
streams:
  heat: {from: sim, to: keep, via: bp5}
"""


@pytest.mark.parametrize(("who", "code"), [("(1,)", 1), ("(0,)", 1), ("(0, 1)", 0)])
def test_a_rank_that_leaves_a_stream_alone_ends_all(who: str, code: int, tmp_path: Path, mpi_python: str) -> None:
    (tmp_path / "sim.py").write_text(EXITS.replace("{who}", who))
    done = run(tmp_path, BY_STAGE, "--set", "deadlines.step=5 s", python=mpi_python)
    assert done.code == code, done.said
    if code:
        assert "left a stream by `sys.exit(0)`, and rank" in "\n".join(done.report.stage("sim").last_lines)


@pytest.mark.parametrize("via", ["sst", "bp5"])
def test_copies_of_a_serial_program_are_named_and_end_the_run(via: str, tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SERIAL)
    (tmp_path / "sim.sh").write_text(ALONE)
    done = run(tmp_path, COPIES.format(ranks=2, via=via))
    assert done.code == 1
    assert done.report.run.reason.startswith("2 copies of a program without MPI write heat: ")
    assert done.report.run.stage == "sim"


def test_a_program_that_gathers_what_it_writes_is_no_copy(tmp_path: Path) -> None:
    gathers = f"from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 0:\n    exec({SERIAL!r})\n"
    (tmp_path / "sim.py").write_text(gathers)
    (tmp_path / "sim.sh").write_text(ALONE.partition("; ")[2])
    done = run(tmp_path, COPIES.format(ranks=2, via="bp5"))
    assert done.code == 0, done.said
    assert "heat has 1 writer, and sim 2 ranks: what the others have is missing, unless" in "\n".join(done.report.notes)


@pytest.mark.parametrize("variable", ["SLURM_NODELIST", "HYDRA_LAUNCHER"])
def test_what_an_outer_job_has_left_does_not_keep_ranks_from_this_node(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sim.py").write_text("from mpi4py import MPI\nprint(MPI.COMM_WORLD.size)")
    monkeypatch.setenv(variable, {"SLURM_NODELIST": "x", "HYDRA_LAUNCHER": "slurm"}[variable])
    monkeypatch.setenv("SLURM_NNODES", "1")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "1")
    done = run(tmp_path, STAGE)
    assert done.code == 0, done.said
    assert "".join(done.printed("sim")) == "22"


def test_a_launcher_that_starts_no_rank_is_named(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text("")
    fake = tmp_path / "bin" / "mpiexec"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\ncase "$*" in *version*) echo HYDRA;; *) sleep 300;; esac\n')
    fake.chmod(0o755)
    site = tmp_path / "site.yaml"
    site.write_text(f"site: fake\nsummary: fake\ncores_per_node: 2\nmemory_per_node: 2 GiB\nlauncher_path: {fake}\n")
    done = run(tmp_path, STAGE, "--site", str(site), "--set", "deadlines.start=2 s")
    assert done.code == 1
    assert done.report.run.reason == "mpiexec has started no rank of sim within 2 s (`deadlines.start`)"
