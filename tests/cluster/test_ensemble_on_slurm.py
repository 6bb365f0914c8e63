"""An ensemble on four isolated nodes: two members on each, of which two are restarted and one is ignored."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.support.ensembles import MEMBERS, WITH, has_steps, of_members, values_of
from tests.support.held_members import held_gray_scott, let_go
from tests.support.packed_runs import MPI_PYTHON
from tests.support.pipelines import Done
from tests.support.slurm_cluster import SlurmCluster
from tests.support.waiting import wait_until
from workflow.run.records.events_file import read_events
from workflow.run.records.run_directory import read_plan_file
from workflow.run.state.lifecycle_events import StageIgnored

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
ROOT = Path(__file__).parents[2]
PIPELINE = f"""
wf: 1
name: ensemble
site: test-slurm
deadlines: {{start: 120 s, step: 120 s, run: 400 s, stop: 5 s}}
stages:
  sim:
    component: ./held
    members: {MEMBERS[:8]}
    with: {{size: [32], steps: 600, write_every: 20, {WITH}}}
    on_failure: {{do: restart, times: 1, backoff: 0.1 s, then: ignore}}
  stat: {{component: statistics, with: {{variable: V}}, place: {{cores_per_rank: 0}}}}
  keep: {{component: archive, with: {{path: stat.bp}}}}
streams:
  field: {{from: sim, to: stat, collect: any}}
  statistics: {{from: stat, to: keep}}
"""


def program_of(run_dir: Path, stage: str) -> int | None:
    """The newest process that is the program of a stage, on whatever node."""
    mark, found = f"WF_STAGE={run_dir}/stages/{stage}/".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_its = any(each.startswith(mark) for each in (folder / "environ").read_bytes().split(b"\0"))
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if is_its and Path(os.fsdecode(words[0])).name.startswith("python"):
            found.append(int(folder.name))
    return max(found, default=None)


def test_statistics_over_eight_members_on_four_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    pipeline, run_dir = tmp_path / "pipeline.yaml", tmp_path / "run"
    pipeline.write_text(PIPELINE)
    held_gray_scott(tmp_path, (2, 5, 7))
    argv = [MPI_PYTHON, "-m", "workflow.cli", "run", str(pipeline), "--run-dir", str(run_dir), "-q"]
    job = cluster.start_job(argv, tmp_path / "job.out", "--nodes=4", "--exclusive", PYTHONPATH=str(ROOT))
    ignored, killed = "sim-5", []
    for name in ("sim-2", "sim-7", ignored):
        wait_until(lambda name=name: has_steps(run_dir, name), f"step 3 of {name}")  # type: ignore[misc]
        killed.append(program_of(run_dir, name))
        assert killed[-1] is not None, name
        os.kill(killed[-1], signal.SIGKILL)
    for member in (2, 7):
        let_go(tmp_path, member)
    wait_until(lambda: program_of(run_dir, ignored) not in (None, killed[-1]), f"{ignored} is started again")
    again = program_of(run_dir, ignored)
    assert again is not None
    os.kill(again, signal.SIGKILL)
    cluster.wait_for_job(job, "COMPLETED")
    done = Done(0, (tmp_path / "job.out").read_text(), run_dir)
    places = {stage.name: stage.placement.nodes for stage in read_plan_file(run_dir).stages if stage.member is not None}
    assert [places[f"sim-{index}"] for index in range(8)] == [[(index // 2, index // 2 + 1)] for index in range(8)]
    assert [each.stage for each in read_events(run_dir) if isinstance(each, StageIgnored)] == [ignored]
    members = of_members(done, 8)
    assert [len(each) for index, each in enumerate(members) if index != 5] == [31] * 7
    assert 3 <= len(members[5]) < 31
    both = np.concatenate(members)
    assert values_of(run_dir / "stat.bp", "number")[-1] == len(both)
    np.testing.assert_allclose(values_of(run_dir / "stat.bp", "mean")[-1], both.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(values_of(run_dir / "stat.bp", "variance")[-1], both.var(axis=0), rtol=1e-9, atol=1e-13)
