"""What joins a run on several nodes: from the login node, and on a node of the job that the run does not use."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster.test_spools_on_nodes import in_memory
from tests.support.packed_runs import MPI_PYTHON
from tests.support.reliability import steps_done
from tests.support.slurm_cluster import SlurmCluster
from tests.support.waiting import wait_until
from workflow.data_files.read_steps import find_data
from workflow.report.report_files import compute_report
from workflow.run.records.run_directory import read_allocation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
ROOT = Path(__file__).parents[2]
STEPS = 400
PIPELINE = """
wf: 1
name: joined
site: test-slurm
stages:
  sim: {{component: synthetic, with: {{grid_points: 1000, particles: 0, steps: {steps}, compute_time: 50 ms}}}}
  work: {{component: "null"}}
streams:
  field: {{from: sim, to: work, keep: {spool}}}
"""


@pytest.fixture
def job(cluster: SlurmCluster, tmp_path: Path, request: pytest.FixtureRequest) -> int:
    """The job of a run on n1 and n2 that has n3 besides, once some steps are kept."""
    pipeline, run_dir = tmp_path / "pipeline.yaml", tmp_path / "run"
    pipeline.write_text(PIPELINE.format(steps=STEPS, spool=getattr(request, "param", "true")))
    run = f"{MPI_PYTHON} -m workflow.cli run {pipeline} --run-dir {run_dir} -q"
    # When a job ends, all that runs in it is ended.
    argv = ["sh", "-c", f"{run} && until test -e {tmp_path}/joined; do sleep 0.1; done"]
    number = cluster.start_job(argv, tmp_path / "job.out", "--nodes=3", "--exclusive", PYTHONPATH=str(ROOT))
    wait_until(lambda: steps_done(run_dir, "field-spool") > 20, "20 steps in the spool")
    return number


def attach_argv(run_dir: Path, name: str) -> list[str]:
    what = ["--component", "archive", "--with", f"path={name}.bp", "--name", name, "-q"]
    return [MPI_PYTHON, "-m", "workflow.cli", "attach", str(run_dir), *what]


def test_from_the_login_node_and_on_a_free_node_of_the_job(cluster: SlurmCluster, job: int, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    environment = {**os.environ, **cluster.environment, "PYTHONPATH": str(ROOT)}
    inside = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=n3"]
    processes = {
        name: subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for name, argv in {
            "login": [*attach_argv(run_dir, "login"), "--set", "oversubscribe=true"],
            "inside": [*inside, *attach_argv(run_dir, "inside"), "--site", "test-slurm"],
        }.items()
    }
    said = {name: process.communicate(timeout=120)[0] for name, process in processes.items()}
    (tmp_path / "joined").touch()
    cluster.wait_for_job(job, "COMPLETED")
    for name, process in processes.items():
        assert process.returncode == 0, (name, said[name])
        attached = compute_report(run_dir / "attached" / name)
        stream = attached.stream("field")
        assert stream.steps is not None and 0 < stream.steps < STEPS - 20
        _, log = (run_dir / "attached" / name / "stages/field-follow/stdout.log").read_text().splitlines()
        assert log == f"follow: {stream.steps} steps of field, from step {STEPS - stream.steps} to {STEPS - 1}"
        assert [path.name for path in find_data(run_dir / "attached" / name).values()]
    received = read_allocation(run_dir / "attached/inside")
    assert received is not None and [host.name for host in received.hosts] == ["n3"]
    report = compute_report(run_dir)
    assert report.stream("field").steps == STEPS
    assert {each.name for each in report.attached} == {"login", "inside"}


@pytest.mark.parametrize("job", ["{where: /dev/shm, steps: 8}"], indirect=True)
def test_a_spool_in_the_memory_of_a_node_is_read_there_and_nowhere_else(
    cluster: SlurmCluster, job: int, tmp_path: Path
) -> None:
    """On a node that the run uses, beside its stages."""
    run_dir = tmp_path / "run"
    environment = {**os.environ, **cluster.environment, "PYTHONPATH": str(ROOT)}
    elsewhere = subprocess.run(
        attach_argv(run_dir, "login"), env=environment, capture_output=True, text=True, timeout=60
    )
    assert elsewhere.returncode == 2
    assert "keeps the steps of field in /dev/shm of another node" in elsewhere.stderr
    assert "--set streams.field.keep=true" in elsewhere.stderr
    (node,) = [host for host in cluster.hosts if in_memory(cluster, host, run_dir)]
    srun = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}"]
    there = subprocess.run(
        [*srun, *attach_argv(run_dir, "there")], env=environment, capture_output=True, text=True, timeout=120
    )
    (tmp_path / "joined").touch()
    cluster.wait_for_job(job, "COMPLETED")
    assert there.returncode == 0, there.stdout + there.stderr
    stream = compute_report(run_dir / "attached/there").stream("field")
    assert stream.steps is not None and 0 < stream.steps < STEPS - 20
    assert compute_report(run_dir).stream("field").steps == STEPS
