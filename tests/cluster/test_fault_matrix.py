"""What ends a submitted job from outside is named, again and again: by luck is not enough.

`scancel` of jobs whose ranks are steps of srun, and of jobs whose processes are all those of the script: Slurm signals
them in different ways. The short rows run always, the long ones with `-m reliability`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_submission_on_slurm import Submitted
from tests.support.slurm_cluster import ClusterSettings, SlurmCluster
from tests.support.waiting import wait_until

# From `scancel` to a verdict: within the time that Slurm leaves before SIGKILL.
KILL_WAIT_S = 15
VERDICT_S = 20.0


@pytest.fixture(scope="module")
def patient(start_cluster: Callable[[ClusterSettings], SlurmCluster]) -> SlurmCluster:
    return start_cluster(ClusterSettings(kill_wait_s=KILL_WAIT_S))


def without_steps(cluster: SlurmCluster, folder: Path) -> dict[str, str]:
    """The cluster's site where stages of one rank need no launcher."""
    known = Path(cluster.environment["WF_CONFIGS"], "sites/test-slurm.yaml").read_text()
    sites = folder / "configs/sites"
    sites.mkdir(parents=True)
    (sites / "test-slurm.yaml").write_text(known.replace("launch_single: true", "launch_single: false"))
    return {"WF_CONFIGS": str(folder / "configs")}


def verdict(submitted: Submitted) -> dict[str, Any]:
    events = submitted.run / "events.jsonl"
    wait_until(lambda: events.exists() and '"run_finished"' in events.read_text(), "the verdict", VERDICT_S, 0.1)
    (end,) = [json.loads(line) for line in events.read_text().splitlines() if '"run_finished"' in line]
    assert isinstance(end, dict)
    return end


def cancel_one_that_runs(cluster: SlurmCluster, folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    submitted = Submitted(cluster, folder)
    with monkeypatch.context() as patch:
        if kind == "script":
            for name, value in without_steps(cluster, folder).items():
                patch.setattr(type(cluster), "environment", {**cluster.environment, name: value})
            text = (folder / "p.yaml").read_text().replace(", place: {nodes: 1}", "")
            (folder / "p.yaml").write_text(text)
        submitted.run_detached()
        cluster.client("scancel", str(submitted.job))
        end = verdict(submitted)
    said = json.dumps(end)
    assert (end["state"], end["exit_code"], end["cause"]) == ("interrupted", 130, "cancelled"), said
    assert end["reason"].startswith(f"job {submitted.job} was cancelled: "), said
    cluster.wait_for_state("idle", *cluster.hosts)


def cancel_one_that_waits(cluster: SlurmCluster, folder: Path) -> None:
    folder.mkdir()
    blocking = cluster.submit("--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 300")
    cluster.wait_for_job(blocking, "RUNNING")
    submitted = Submitted(cluster, folder)
    follower = submitted.start("run", "p.yaml", "--site", "test-slurm")
    assert follower.stdout is not None
    assert any("PENDING (" in line for line in follower.stdout)
    cluster.client("scancel", str(submitted.job))
    said, _ = follower.communicate(timeout=90)
    assert follower.returncode == 130, said
    run = submitted.state()
    assert (run["state"], run["cause"]) == ("interrupted", "cancelled"), run
    assert run["reason"].startswith(f"job {submitted.job} was cancelled: "), run
    assert "before its supervisor started" in run["reason"]
    cluster.client("scancel", str(blocking))
    cluster.wait_for_state("idle", *cluster.hosts)


@pytest.mark.parametrize("kind", ["steps", "script"])
def test_scancel_of_a_job_that_runs_is_named(
    kind: str, patient: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        cancel_one_that_runs(patient, tmp_path / str(number), kind, monkeypatch)


def test_scancel_of_a_job_that_waits_is_named(patient: SlurmCluster, tmp_path: Path) -> None:
    cancel_one_that_waits(patient, tmp_path / "0")


@pytest.mark.reliability
@pytest.mark.parametrize("kind", ["steps", "script"])
def test_scancel_of_ten_jobs_that_run_is_named_each_time(
    kind: str, patient: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        cancel_one_that_runs(patient, tmp_path / str(number), kind, monkeypatch)


@pytest.mark.reliability
def test_scancel_of_five_jobs_that_wait_is_named_each_time(patient: SlurmCluster, tmp_path: Path) -> None:
    for number in range(5):
        cancel_one_that_waits(patient, tmp_path / str(number))
