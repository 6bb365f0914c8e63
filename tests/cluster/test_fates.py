"""What can befall a run on several nodes: each is named as what it is, within 20 s, and leaves nothing on any node."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import ClusterSettings, SlurmCluster
from tests.support.waiting import wait_until
from workflow.report.report_files import compute_report
from workflow.run.records.events_file import read_events

pytestmark = pytest.mark.turns(3)

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/faults/programs/staged.py"
PIPELINE = """\
wf: 1
name: fate
site: test-slurm
stages:
  md:
    command: [{python}, {program}, --steps, 100000, --step-s, 0.02]
    writes: {{atoms: {{}}}}
    ranks: 2
    place: {{nodes: 2}}
  saxs:
    command: [{python}, {program}]
    reads: {{atoms: {{}}}}
    writes: {{pattern: {{}}}}
  keep:
    command: [{python}, {program}]
    reads: {{pattern: {{}}}}
streams:
  atoms: {{from: md, to: saxs}}
  pattern: {{from: saxs, to: keep}}
deadlines: {{stop: 10 s}}
"""
# md is on n1 and n2, saxs and keep are on n3, n4 is spare. The supervisor is on n1.
SECONDS_TO_A_VERDICT = 20


@dataclass(frozen=True)
class RunInJob:
    """A run that goes on in a job of the cluster."""

    cluster: SlurmCluster
    job: int
    run_dir: Path
    output: Path

    def story(self) -> str:
        logs = [self.output, *self.run_dir.glob("stages/*/stderr.log"), self.run_dir / "guards.log"]
        texts = [f"--- {path.parent.name}/{path.name}\n{path.read_text()[-800:]}" for path in logs if path.exists()]
        events = list(read_events(self.run_dir)) if (self.run_dir / "events.jsonl").exists() else []
        return "\n".join([*texts, *(str(event) for event in events[-12:])])

    def steps(self, stage: str) -> int:
        try:
            return (self.run_dir / f"stages/{stage}/metrics.jsonl").read_text().count('"kind": "step"')
        except OSError:
            return 0

    def rank_on(self, host: str) -> int:
        """The process on this machine of the rank that runs on a node."""
        (found,) = [each.pid for each in self.cluster.processes_on(host) if str(PROGRAM) in each.command]
        return found

    def step_of(self, stage: str, host: str) -> str:
        """The number of a stage's step in Slurm, as a rank of it on this node has it: `12.1`."""
        mark = f"WF_STAGE={self.run_dir}/stages/{stage}/"
        for each in self.cluster.processes_on(host):
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{each.pid}/environ").read_text(errors="replace").split("\0")
                steps = [text.partition("=")[2] for text in variables if text.startswith("SLURM_STEP_ID=")]
                if steps and any(text.startswith(mark) for text in variables):
                    return f"{self.job}.{steps[0]}"
        raise AssertionError(f"no rank of {stage} on {host}")


@contextlib.contextmanager
def running(cluster: SlurmCluster, folder: Path, *options: str) -> Iterator[RunInJob]:
    """A run on all four nodes whose last stage has made some steps."""
    pipeline, run_dir, output = folder / "pipeline.yaml", folder / "run", folder / "job.out"
    pipeline.write_text(PIPELINE.format(python=MPI_PYTHON, program=PROGRAM))
    script = folder / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {MPI_PYTHON} -m workflow.cli run {pipeline} --run-dir {run_dir}\n")
    given = {**cluster.environment, "PYTHONPATH": str(ROOT)}
    export = f"--export=ALL,{','.join(f'{name}={value}' for name, value in given.items())}"
    # --no-kill and --no-requeue: as `wf run` submits its jobs (`submit.job_scripts`)
    fixed = ["--nodes=4", "--exclusive", "--no-kill", "--no-requeue", export, f"--output={output}"]
    run = RunInJob(cluster, cluster.submit(*fixed, *options, str(script)), run_dir, output)
    try:
        wait_for(run, lambda: run.steps("keep") > 20, "20 steps at keep", 60)
        yield run
    finally:
        with contextlib.suppress(RuntimeError):
            cluster.client("scancel", "--signal=KILL", "--full", str(run.job))


def wait_for(run: RunInJob, true: Callable[[], bool], what: str, deadline_s: float) -> None:
    try:
        wait_until(true, what, deadline_s, 0.1)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{run.story()}") from None


def kill_rank(run: RunInJob) -> None:
    os.kill(run.rank_on("n2"), signal.SIGKILL)


def cut_power(run: RunInJob) -> None:
    run.cluster.kill_node("n3")


def cancel_job(run: RunInJob) -> None:
    run.cluster.client("scancel", str(run.job))


def cancel_step(run: RunInJob) -> None:
    run.cluster.client("scancel", run.step_of("saxs", "n3"))


def requeue_job(run: RunInJob) -> None:
    run.cluster.client("scontrol", "requeue", str(run.job))


@dataclass(frozen=True)
class Fate:
    """What is done to a run, and what its status says then. `{job}` stands for the number of the job."""

    befalls: Callable[[RunInJob], None]
    state: str
    stage: str
    cause: str
    words: tuple[str, ...]
    options: tuple[str, ...] = ()


FATES = {
    "rank killed on another node": Fate(
        kill_rank, "failed", "md", "killed", ("md was killed by signal 9 (SIGKILL) (rank 1 on n2)",)
    ),
    "step cancelled": Fate(
        cancel_step, "failed", "saxs", "cancelled", ("saxs was cancelled", "STEP {job}.", "CANCELLED AT")
    ),
    "job cancelled": Fate(
        cancel_job, "interrupted", "", "cancelled", ("job {job} was cancelled", "the scheduler says `JobState=")
    ),
    "job requeued": Fate(
        requeue_job, "failed", "", "requeued", ("job {job} was requeued", "DUE TO JOB REQUEUE"), ("--requeue",)
    ),
    "power cut": Fate(
        cut_power, "failed", "saxs", "node_lost",
        ("node n3 was lost (no sign of life for 1", "stages on it: saxs, keep", "steps of atoms never arrived at saxs"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def own_cluster(start_cluster: Callable[[ClusterSettings], SlurmCluster]) -> SlurmCluster:
    return start_cluster(ClusterSettings(kill_wait_s=15))


@pytest.mark.parametrize("name", FATES)
def test_each_fate_is_named_within_20_seconds_and_leaves_nothing(
    name: str, own_cluster: SlurmCluster, tmp_path: Path
) -> None:
    fate, cluster = FATES[name], own_cluster
    with running(cluster, tmp_path, *fate.options) as run:
        fate.befalls(run)
        wait_for(run, lambda: compute_report(run.run_dir).run.cause == fate.cause, "the cause", SECONDS_TO_A_VERDICT)
        said = compute_report(run.run_dir).run
        assert said.stage == fate.stage, run.story()
        for words in fate.words:
            assert words.format(job=run.job) in said.reason, said.reason
        wait_for(run, lambda: compute_report(run.run_dir).run.state == fate.state, f"state {fate.state}", 20)
        hosts = [host for host in cluster.hosts if cluster.is_on(host)]
        wait_for(run, lambda: not any(cluster.processes_on(host) for host in hosts), "the end of all processes", 20)
        assert not list((run.run_dir / "streams").glob("*.sst"))
        left = {host: cluster.run_on(host, ["ls", "/dev/shm"]).stdout for host in hosts}
        assert not any("mpich_shm" in names for names in left.values()), left
    for host in set(cluster.hosts) - set(hosts):
        cluster.restart_node(host)


@pytest.mark.slow
def test_run_is_stopped_in_order_before_its_walltime(own_cluster: SlurmCluster, tmp_path: Path) -> None:
    """The shortest job of Slurm is one minute: the run is stopped 6 s before."""
    with running(own_cluster, tmp_path, "--time=1") as run:
        wait_for(run, lambda: compute_report(run.run_dir).run.state == "stopped", "the stop", 60)
        report = compute_report(run.run_dir)
        assert (report.run.exit_code, report.run.cause) == (75, "end_of_allocation"), run.story()
        assert "before the end of the allocation" in report.run.reason
        written = {stream.steps for stream in report.streams}
        read = {reader.steps for stream in report.streams for reader in stream.readers}
        assert len(written | read) == 1, report.streams
        assert all(reader.complete for stream in report.streams for reader in stream.readers)
        own_cluster.wait_for_job(run.job, "FAILED", deadline_s=20)
        wait_for(run, lambda: not any(map(own_cluster.processes_on, own_cluster.hosts)), "the end of all processes", 20)


@pytest.mark.slow
def test_time_limit_that_came_earlier_than_the_run_knew_is_named(own_cluster: SlurmCluster, tmp_path: Path) -> None:
    with running(own_cluster, tmp_path, "--time=10") as run:
        own_cluster.client("scontrol", "update", f"JobId={run.job}", "TimeLimit=1")
        wait_for(run, lambda: compute_report(run.run_dir).run.cause == "time_limit", "the cause", 100)
        wait_for(run, lambda: compute_report(run.run_dir).run.state == "failed", "the verdict", 20)
        said = compute_report(run.run_dir).run
        assert said.reason.startswith(f"job {run.job} reached its time limit"), said.reason
        assert "TimeLimit" in said.reason
        wait_for(run, lambda: not any(map(own_cluster.processes_on, own_cluster.hosts)), "the end of all processes", 20)
