"""Submitted runs on a real Slurm: its refusals, its silence, and the deaths of those who follow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import ROOT
from tests.support.slurm_cluster import ClusterSettings, SlurmCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.turns(3)

PIPELINE = """
wf: 1
name: job
deadlines: {start: 60 s, stop: 4 s, node: 10 s}
allocation: {walltime: 10 min}
stages:
  sim: {component: gray_scott, with: {steps: 100000000, write_every: 20, size: [16]}}
  sink: {component: "null", place: {nodes: 1}}
streams:
  field: {from: sim, to: sink}
"""
WITHIN_S = 90.0
# From the death of a supervisor until everybody knows it.
KNOWN_S = 20.0
# From the loss of a supervisor's node until its job has ended.
ENDED_S = 30.0


class Submitted:
    """A pipeline in a folder, and wf on the login node of the cluster."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        (folder / "p.yaml").write_text(PIPELINE)

    def start(self, *argv: str) -> subprocess.Popen[str]:
        own = {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-m", "workflow.cli", *argv], cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, **self.cluster.environment, **own}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def wf(self, *argv: str, code: int = 0) -> str:
        process = self.start(*argv)
        said, _ = process.communicate(timeout=WITHIN_S)
        assert process.returncode == code, f"{argv}: {process.returncode}\n{said}"
        assert "Traceback" not in said, said
        return said

    @property
    def run(self) -> Path:
        return (self.folder / "runs/latest").resolve()

    @property
    def job(self) -> int:
        return int(json.loads((self.run / "job.json").read_text())["job"])

    def state(self) -> dict[str, Any]:
        run = json.loads(self.wf("status", "--json"))["run"]
        assert isinstance(run, dict)
        return run

    def run_detached(self, *options: str) -> None:
        self.wf("run", "p.yaml", "--site", "test-slurm", "--detach", *options)
        events = self.run / "events.jsonl"
        wait_until(lambda: events.exists() and "stream_progress" in events.read_text(), "steps arrive")

    def assert_nothing_left(self) -> None:
        self.cluster.wait_for_state("idle", *self.cluster.hosts)
        left = {host: self.cluster.processes_on(host) for host in self.cluster.hosts}
        assert not any(left.values()), left


@pytest.fixture
def submitted(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Submitted]:
    yield Submitted(cluster, tmp_path)
    cluster.client("scancel", "--user=root")
    cluster.make_whole()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_run_outlives_its_follower_and_is_seen_from_a_node(number: signal.Signals, submitted: Submitted) -> None:
    follower = submitted.start("run", "p.yaml", "--site", "test-slurm")
    assert follower.stdout is not None
    assert any("sim: started" in line for line in follower.stdout)
    follower.send_signal(number)
    follower.communicate(timeout=WITHIN_S)
    # A node that the run does not use sees no process of it, and says the same.
    argv = [sys.executable, "-m", "workflow.cli", "status", str(submitted.run), "--json"]
    seen = submitted.cluster.run_on("n4", ["env", f"PYTHONPATH={ROOT}", *argv])
    assert json.loads(seen.stdout)["run"]["state"] == "running", seen.stderr
    submitted.wf("cancel")
    assert submitted.state()["state"] == "interrupted"
    submitted.assert_nothing_left()


def test_a_run_is_cancelled_from_a_node_that_it_does_not_use(submitted: Submitted) -> None:
    submitted.run_detached()
    argv = [sys.executable, "-m", "workflow.cli", "cancel", str(submitted.run)]
    done = submitted.cluster.run_on("n4", ["env", f"PYTHONPATH={ROOT}", *argv])
    assert "interrupted by `wf cancel`" in done.stdout, done.stderr
    submitted.assert_nothing_left()


def test_a_killed_supervisor_is_known_to_those_who_follow_and_to_those_who_ask(submitted: Submitted) -> None:
    submitted.run_detached()
    watch = submitted.start("watch")
    assert watch.stdout is not None
    assert any("sim: started" in line for line in watch.stdout)
    lease = json.loads((submitted.run / "lease.json").read_text())
    assert submitted.cluster.run_on(lease["host"], ["kill", "-KILL", str(lease["pid"])]).returncode == 0
    begin = time.monotonic()
    said, _ = watch.communicate(timeout=WITHIN_S)
    assert time.monotonic() - begin < KNOWN_S, said
    assert watch.returncode == 1, said
    assert submitted.state()["state"] == "failed"
    submitted.assert_nothing_left()


def test_a_job_that_waits_is_followed_and_cancelled(submitted: Submitted) -> None:
    submitted.cluster.submit("--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 300")
    follower = submitted.start("run", "p.yaml", "--site", "test-slurm")
    assert follower.stdout is not None
    assert any("PENDING (" in line for line in follower.stdout)
    assert submitted.state()["state"] == "submitted"
    assert "cancelled before it was started" in submitted.wf("cancel")
    said, _ = follower.communicate(timeout=WITHIN_S)
    assert follower.returncode == 130, said
    assert submitted.cluster.job_state(submitted.job) == "CANCELLED"


def test_what_slurm_refuses_is_said_in_its_words(submitted: Submitted) -> None:
    said = submitted.wf("run", "p.yaml", "--site", "test-slurm", "--set", "allocation.reservation=none", code=2)
    assert "error: slurm did not accept the job: sbatch: error: " in said
    assert "reservation is invalid" in said
    assert submitted.state()["state"] == "failed"


def test_what_a_queue_does_not_take_is_refused_before_anything_is_submitted(submitted: Submitted) -> None:
    said = submitted.wf("run", "p.yaml", "--site", "test-slurm", "--set", "allocation.queue=short", code=2)
    assert "10 min, but queue short takes jobs of at most 1 min" in said
    assert not (submitted.folder / "runs").exists()


def test_a_controller_that_is_down_for_a_while_changes_nothing(
    start_cluster: Callable[[ClusterSettings], SlurmCluster], tmp_path: Path
) -> None:
    cluster = start_cluster(ClusterSettings())
    submitted = Submitted(cluster, tmp_path)
    submitted.run_detached()
    watch = submitted.start("watch")
    assert watch.stdout is not None
    assert any("sim: started" in line for line in watch.stdout)
    cluster.stop_controller()
    steps = written(submitted.run)
    wait_until(lambda: written(submitted.run) > steps + 5, "the run goes on without a controller")
    assert submitted.state()["state"] == "running"
    assert watch.poll() is None
    cluster.start_controller()
    assert "interrupted by `wf cancel`" in submitted.wf("cancel")
    watch.communicate(timeout=WITHIN_S)
    assert watch.returncode == 130
    submitted.assert_nothing_left()


def written(run: Path) -> int:
    """Steps of the last event of progress."""
    lines = [line for line in (run / "events.jsonl").read_text().splitlines() if '"stream_progress"' in line]
    return int(json.loads(lines[-1])["steps"])


def test_the_job_is_not_requeued_and_its_exit_code_is_that_of_the_run(submitted: Submitted) -> None:
    submitted.run_detached()
    shown = submitted.cluster.client("scontrol", "--oneliner", "show", "job", str(submitted.job))
    assert " Requeue=0 " in shown
    submitted.wf("cancel")
    submitted.cluster.wait_for_job(submitted.job, "FAILED")
    assert " ExitCode=130:0 " in submitted.cluster.client("scontrol", "--oneliner", "show", "job", str(submitted.job))


def test_the_job_ends_when_the_node_of_its_supervisor_is_lost(submitted: Submitted) -> None:
    follower = submitted.start("run", "p.yaml", "--site", "test-slurm")
    events = submitted.folder / "runs/latest/events.jsonl"
    wait_until(lambda: events.exists() and "stream_progress" in events.read_text(), "steps arrive")
    lease = json.loads((submitted.run / "lease.json").read_text())
    submitted.cluster.kill_node(lease["host"])
    # The job was asked to outlive a lost node. Without its supervisor it would hold the other one for ten minutes.
    job = submitted.job
    wait_until(lambda: submitted.cluster.job_state(job) != "RUNNING", "the end of the job", ENDED_S, 0.2)
    said, _ = follower.communicate(timeout=WITHIN_S)
    reason = submitted.state()["reason"]
    assert reason.startswith(f"node lost: no heartbeat of the supervisor on {lease['host']} for "), reason
    assert reason.endswith(f"has asked the scheduler to cancel slurm job {submitted.job}"), reason
    assert reason in " ".join(said.split()) and follower.returncode == 1, said
    assert "has ended before: failed" in submitted.wf("cancel")


def test_the_allocation_of_a_user_is_left_alone_when_the_node_of_the_supervisor_is_lost(submitted: Submitted) -> None:
    script = submitted.folder / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -m workflow.cli run p.yaml --site test-slurm\n")
    given = {**submitted.cluster.environment, "PYTHONPATH": str(ROOT)}
    export = f"--export=ALL,{','.join(f'{name}={value}' for name, value in given.items())}"
    options = ["--nodes=2", "--exclusive", "--no-kill", f"--chdir={submitted.folder}", export]
    job = submitted.cluster.submit(*options, str(script))
    events = submitted.folder / "runs/latest/events.jsonl"
    wait_until(lambda: events.exists() and "stream_progress" in events.read_text(), "steps arrive", WITHIN_S)
    host = json.loads((submitted.run / "lease.json").read_text())["host"]
    (other,) = {"n1", "n2"} - {host}
    submitted.cluster.kill_node(host)
    wait_until(lambda: not submitted.cluster.processes_on(other), "the end of the run's processes", ENDED_S)
    assert not (submitted.run / "job_end.json").exists()
    assert submitted.cluster.job_state(job) == "RUNNING"
    state = submitted.state()
    assert state["state"] == "lost"
    assert f"slurm job {job} may hold its nodes until its time limit" in state["reason"]
