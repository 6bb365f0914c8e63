"""`wf run` on the nodes of a test cluster, and where its ranks are meanwhile, looked up in each node's namespaces."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import SlurmCluster
from tests.support.slurm_cluster.cluster import ENDED
from tests.support.waiting import wait_until
from workflow.core_set import parse_cores

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "01-shock-diffraction" / "pipeline.yaml"
SITE = "test-slurm"
DEADLINE_S = 120.0


@dataclass(frozen=True)
class RankSeen:
    """A rank's node, its process on this machine, and the cores of the node on which it may run."""

    host: str
    pid: int
    cores: tuple[int, ...]


@dataclass
class RunSeen:
    """What a run on the cluster printed, and where its ranks were seen."""

    printed: str = ""
    ranks: dict[tuple[str, int], RankSeen] = field(default_factory=dict)

    def hosts(self, stage: str) -> list[str]:
        """The node of each rank of a stage, in order."""
        return [seen.host for (name, _), seen in sorted(self.ranks.items()) if name == stage]

    def cores(self, stage: str) -> list[tuple[int, ...]]:
        """The cores of each rank of a stage, in order."""
        return [seen.cores for (name, _), seen in sorted(self.ranks.items()) if name == stage]


def wf_run(pipeline: Path, run_dir: Path, settings: dict[str, str], *options: str) -> list[str]:
    """The command line of `wf run`."""
    changes = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [MPI_PYTHON, "-m", "workflow.cli", "run", str(pipeline), "--run-dir", str(run_dir), *changes, *options]


def run_in_job(cluster: SlurmCluster, argv: list[str], run_dir: Path, nodes: int) -> RunSeen:
    """`wf run` in a batch job that has whole nodes."""
    seen, output = RunSeen(), run_dir.with_suffix(".job")
    job = cluster.start_job(argv, output, f"--nodes={nodes}", "--exclusive", PYTHONPATH=str(ROOT))

    def ended() -> bool:
        look(cluster, run_dir, seen)
        return cluster.job_state(job) in ENDED

    wait_until(ended, f"the end of job {job}", DEADLINE_S, every_s=0.2)
    done = cluster.job_done(job, output)
    assert done.state == "COMPLETED", done.printed
    seen.printed = done.printed
    return seen


def run_from_login(cluster: SlurmCluster, argv: list[str], run_dir: Path) -> RunSeen:
    """`wf run`, or a command in front of it, on this machine, which is the cluster's login node."""
    seen = RunSeen()
    environment = {**os.environ, **cluster.environment, "PYTHONPATH": str(ROOT)}
    with run_dir.with_suffix(".login").open("w+") as output:
        process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

        def ended() -> bool:
            look(cluster, run_dir, seen)
            return process.poll() is not None

        try:
            wait_until(ended, "the end of wf run", DEADLINE_S, every_s=0.2)
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        seen.printed = output.read()
    assert process.returncode == 0, seen.printed
    return seen


def run_here(argv: list[str]) -> None:
    """`wf run` on this machine alone."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr


def look(cluster: SlurmCluster, run_dir: Path, seen: RunSeen) -> None:
    """Add the ranks of a run that are on the nodes at this moment: found by their environment, in Slurm's steps."""
    hosts = {cluster.namespaces(host)["pid"]: host for host in cluster.hosts}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "environ").read_bytes().split(b"\0")
            variables = dict(os.fsdecode(word).split("=", 1) for word in words if b"=" in word)
            host = hosts.get(str((process / "ns/pid").readlink()))
            status = (process / "status").read_text()
        except OSError:  # it has ended
            continue
        stage = Path(variables.get("WF_STAGE", ""))
        if host and run_dir in stage.parents and "SLURM_STEP_ID" in variables:
            allowed = next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list:"))
            seen.ranks[stage.parent.name, int(variables["SLURM_PROCID"])] = RankSeen(
                host, int(process.name), parse_cores(allowed)
            )
