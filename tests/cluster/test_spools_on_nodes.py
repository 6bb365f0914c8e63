"""A spool in the memory of another node than the supervisor's: it stays short, is read there, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.packed_runs import MPI_PYTHON
from tests.support.reliability import steps_done
from tests.support.slurm_cluster import SlurmCluster
from tests.support.waiting import wait_until
from workflow.formats.node_folder import folder_name
from workflow.report.report_files import compute_report
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StagesRestarted, StepsDropped

pytestmark = [
    pytest.mark.turns(3),
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
ROOT = Path(__file__).parents[2]
STEPS, FAILS = 600, 400
# sim is on n1, with the supervisor; work, which fails once, is on n2 with the spool.
PIPELINE = """
wf: 1
name: spool
site: test-slurm
stages:
  sim: {{component: synthetic, with: {{grid_points: 100000, particles: 0, steps: {steps}, compute_time: 30 ms}}}}
  work:
    component: {faulty}
    with: {{how: kill, where: inside, at: {fails}, tokens: {tokens}}}
    on_failure: restart
  keep: {{component: archive, with: {{path: kept.bp, every: 20}}}}
streams:
  field: {{from: sim, to: work, keep: {{where: /dev/shm, steps: 8}}}}
  result: {{from: work, to: keep, via: bp5}}
"""


@contextlib.contextmanager
def running(cluster: SlurmCluster, folder: Path, steps: int) -> Iterator[tuple[Path, int]]:
    """(run directory, job) of a run on three nodes, once its spool has some steps."""
    pipeline, run_dir = folder / "pipeline.yaml", folder / "run"
    faulty = ROOT / "tests/support/faulty"
    pipeline.write_text(PIPELINE.format(steps=steps, fails=FAILS, faulty=faulty, tokens=folder / "tokens"))
    argv = [MPI_PYTHON, "-m", "workflow.cli", "run", str(pipeline), "--run-dir", str(run_dir)]
    job = cluster.start_job(argv, folder / "job.out", "--nodes=3", "--exclusive", PYTHONPATH=str(ROOT))
    try:
        wait_until(lambda: steps_done(run_dir, "field-spool") > 40, "40 steps in the spool")
        yield run_dir, job
    finally:
        with contextlib.suppress(RuntimeError):
            cluster.client("scancel", "--signal=KILL", "--full", str(job))


def in_memory(cluster: SlurmCluster, host: str, run_dir: Path) -> bool:
    """Whether a node has the folder of this run."""
    return cluster.run_on(host, ["test", "-d", f"/dev/shm/{folder_name(run_dir)}"]).returncode == 0


def bytes_on_node(cluster: SlurmCluster, host: str, run_dir: Path) -> tuple[int, int]:
    """(size, memory that is used) of the data of the spool."""
    file = f"/dev/shm/{folder_name(run_dir)}/field-spool.bp/data.0"
    size, blocks = cluster.run_on(host, ["stat", "-c", "%s %b", file]).stdout.split()
    return int(size), 512 * int(blocks)


def test_a_stage_goes_on_from_the_memory_of_its_node(cluster: SlurmCluster, tmp_path: Path) -> None:
    with running(cluster, tmp_path, STEPS) as (run_dir, job):
        assert [host for host in cluster.hosts if in_memory(cluster, host, run_dir)] == ["n2"]
        wait_until(lambda: steps_done(run_dir, "field-spool") > STEPS - 60, "nearly all steps in the spool")
        size, used = bytes_on_node(cluster, "n2", run_dir)
        assert used < size / 2, f"{used} of {size} bytes: its guard frees what the supervisor asks for"
        cluster.wait_for_job(job, "COMPLETED", deadline_s=60)
    events = list(read_events(run_dir))
    (again,) = (event for event in events if isinstance(event, StagesRestarted))
    assert again.first_step == FAILS
    assert any(isinstance(event, StepsDropped) and event.t < again.t for event in events)
    report = compute_report(run_dir)
    assert [report.stream(name).steps for name in ("field", "result")] == [STEPS, STEPS]
    wait_until(lambda: not any(in_memory(cluster, host, run_dir) for host in cluster.hosts), "all memory to be free")
    assert [path.name for path in (run_dir / "streams").iterdir()] == ["result.bp"]


def test_nothing_stays_in_memory_when_the_supervisor_is_killed(cluster: SlurmCluster, tmp_path: Path) -> None:
    with running(cluster, tmp_path, 100_000) as (run_dir, _):
        assert in_memory(cluster, "n2", run_dir)
        processes = cluster.processes_on("n1")
        (supervisor,) = (each.pid for each in processes if {"workflow.cli", str(run_dir)} <= {*each.command})
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: not in_memory(cluster, "n2", run_dir), "the guard of n2 to free its memory", 60)
