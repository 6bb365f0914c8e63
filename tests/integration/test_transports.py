"""Every transport, in real runs: the one asked for is the one that ran, or the run fails at once and says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.ucx_here import FASTEST, UCX_WORKS
from workflow.site.adios2_library import adios2_planes

pytestmark = pytest.mark.turns(2)

# SST, however its steps go: `via` of an option is an engine by name.
BY_NAME = "transport: auto"
# What is asked for → what runs.
WAYS = [("transport: rdma", "rdma"), ("via: sst-tcp", "tcp"), (BY_NAME, FASTEST)]
WAYS += [("transport: ucx", "ucx")] * UCX_WORKS
MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")
PIPELINE = """
wf: 1
name: moving
site: %s
oversubscribe: true
stages:
  make: {component: synthetic, ranks: %d, with: {bytes: 2 MB, %s}}
  drop: {component: "null"}
streams:
  data: {from: make, to: drop, %s}
"""
LIAR = """
site: liar
summary: says that its ADIOS2 can do more than it can
planes: [tcp, rdma, ucx]
"""


def run(
    folder: Path,
    wiring: str,
    python: str = sys.executable,
    site: str = "local",
    ranks: int = 1,
    path: Sequence[str] = (),
    steps: str = "steps: 5",
) -> Any:
    """(exit code, report, what was printed) of a run."""
    (folder / "sites").mkdir(exist_ok=True)
    (folder / "sites/liar.yaml").write_text(LIAR)
    (folder / "pipeline.yaml").write_text(PIPELINE % (site, ranks, steps, wiring))
    # The folder of the sources, so that another Python has this package too.
    env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    env |= {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *path]), "WF_CONFIGS": str(folder)}
    argv = [python, "-m", "workflow.cli", "run", str(folder / "pipeline.yaml"), "--run-dir", str(folder / "run"), "-q"]
    argv += ["--via", "sst"] if wiring == BY_NAME else []
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    report = folder / "run/report.json"
    return done.returncode, json.loads(report.read_text()) if report.exists() else {}, done.stdout + done.stderr


@pytest.fixture
def mpi_python() -> str:
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    return MPI_PYTHON


def test_tcp_runs_everywhere(tmp_path: Path) -> None:
    code, report, said = run(tmp_path, "transport: tcp")
    assert code == 0, said
    assert report["streams"][0]["transport"] == "tcp"
    assert report["streams"][0]["readers"][0]["steps"] == 5


@pytest.mark.parametrize(("wiring", "transport"), WAYS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_with_the_full_adios2(wiring: str, transport: str, ranks: int, mpi_python: str, tmp_path: Path) -> None:
    code, report, said = run(tmp_path, wiring, mpi_python, ranks=ranks)
    assert code == 0, said
    stream = report["streams"][0]
    assert (stream["transport"], stream["steps"], stream["readers"][0]["steps"]) == (transport, 5, 5)
    # the data arrived whole, whichever way they went
    assert stream["readers"][0]["bytes"] == stream["bytes"] > 5 * 2_000_000 * ranks
    assert not [note for note in report["notes"] if "transport" in note]


@pytest.mark.parametrize("wiring", ["via: sst", "transport: shm"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_shared_memory_runs_with_every_adios2(wiring: str, ranks: int, tmp_path: Path) -> None:
    for python in (sys.executable, *([MPI_PYTHON] if MPI_PYTHON else [])):
        (tmp_path / Path(python).parents[1].name).mkdir()
        code, report, said = run(tmp_path / Path(python).parents[1].name, wiring, python, ranks=ranks)
        assert code == 0, said
        stream = report["streams"][0]
        assert (stream["engine"], stream["via"], stream["transport"], stream["steps"]) == ("SHM", "sst", "", 5)
        assert stream["readers"][0]["bytes"] == stream["bytes"] > 5 * 2_000_000 * ranks
        assert not [note for note in report["notes"] if "transport" in note]


@pytest.mark.skipif(adios2_planes()[0] != ["tcp"], reason="this adios2 has more than tcp")
def test_another_transport_than_asked_for_fails_at_once(tmp_path: Path) -> None:
    code, report, said = run(tmp_path, "transport: ucx", site="liar", steps="steps: 200, compute_time: 0.2 s")
    assert code == 1, said
    assert report["run"]["stage"] == "make"
    assert (
        "transport ucx was requested, but ADIOS2 took tcp: ucx is not built into its ADIOS2" in report["run"]["reason"]
    )
    assert report["streams"][0]["transport"] == "tcp"
    assert (report["streams"][0]["steps"] or 0) < 100  # it did not go on for long


@pytest.mark.skipif(adios2_planes()[0] != ["tcp"], reason="this adios2 has more than tcp")
def test_another_transport_than_auto_planned_is_a_note(tmp_path: Path) -> None:
    code, report, said = run(tmp_path, BY_NAME, site="liar")
    assert code == 0, said
    assert report["streams"][0]["transport"] == "tcp"
    assert any("transport ucx was planned, but ADIOS2 took tcp" in note for note in report["notes"])


def test_rdma_without_a_network_and_without_shared_memory_is_no_rdma(mpi_python: str, tmp_path: Path) -> None:
    """A wish that ADIOS2 has built in but cannot fulfil: the other reason in its log."""
    wiring = "transport: rdma, parameters: {DataInterface: no_such_interface}"
    code, report, said = run(tmp_path, wiring, mpi_python)
    assert code == 1, said
    assert "its ADIOS2 has rdma, but that cannot run here" in report["run"]["reason"]


def test_the_memory_policy_reaches_the_processes(tmp_path: Path) -> None:
    code, _, said = run(tmp_path, "transport: tcp")
    assert code == 0, said
    plan = json.loads((tmp_path / "run/plan.json").read_text())
    for stage in plan["stages"]:
        told = {key for key in stage["env"] if key.startswith(("GLIBC_TUNABLES", "MALLOC_"))}
        assert bool(told) == (stage["memory"] is not None)
        assert plan["reasons"][f"stages.{stage['name']}.memory"]


def test_the_adios2_that_the_site_has_is_used(mpi_python: str, tmp_path: Path) -> None:
    """A module puts its packages on PYTHONPATH: they come before what is installed beside wf."""
    where = "import pathlib, adios2, mpi4py; print(*(pathlib.Path(m.__file__).parent for m in (adios2, mpi4py)))"
    module = tmp_path / "module"
    module.mkdir()
    found = subprocess.run([mpi_python, "-c", where], capture_output=True, text=True, check=True).stdout.split()
    for package in map(Path, found):
        (module / package.name).symlink_to(package.resolve())
    code, report, said = run(tmp_path, BY_NAME, path=[str(module)])
    assert code == 0, said
    assert report["streams"][0]["transport"] == FASTEST
    assert report["streams"][0]["readers"][0]["steps"] == 5
