"""The proof of the placement, and the guards, on four nodes: each mistake of a launcher or a node is caught."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import JobDone, SlurmCluster
from tests.support.waiting import wait_until
from workflow.run.records.events_file import read_events
from workflow.run.state.events import NodeRanks, NodeSeen, NodesUnwatched, ProofTaken, StageStarted
from workflow.run.state.lifecycle_events import RunFinished

ROOT = Path(__file__).parents[2]
# Two stages of two ranks share two nodes of two cores: each rank has a core of its own.
PIPELINE = """\
wf: 1
name: small
site: test-slurm
stages:
  md: {command: [sleep, "SECONDS"], ranks: 2, place: {nodes: 2}}
  saxs: {command: [sleep, "SECONDS"], ranks: 2, place: {share: md}}
"""
# srun with some options changed, for the probes only.
WRAPPER = """#!/bin/sh
case "$*" in *rank_probe.py*) ;; *) exec {srun} "$@" ;; esac
for word; do
  case "$word" in
{cases}
  esac
  set -- "$@" "$word"; shift
done
exec {srun} "$@"
"""


class Job:
    """Runs the small pipeline as a job of all nodes, and reads what came of it."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.run_dir = folder / "runs" / "run"
        self.run_dir.parent.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()

    def argv(self, *options: str, seconds: float = 0.1) -> list[str]:
        file = self.folder / "pipeline.yaml"
        file.write_text(PIPELINE.replace("SECONDS", str(seconds)))
        return [sys.executable, "-m", "workflow.cli", "run", str(file), "--run-dir", str(self.run_dir), *options]

    def change_srun(self, **cases: str) -> None:
        """`change_srun(nodes="--nodes=1")`: what these options are in the lines of the probes."""
        text = "\n".join(f"    --{name.replace('_', '-')}=*) word={word} ;;" for name, word in cases.items())
        script = self.bin / "srun"
        script.write_text(WRAPPER.format(srun="/usr/bin/srun", cases=text))
        script.chmod(0o755)

    def run(self, argv: list[str]) -> JobDone:
        path = f"{self.bin}:{os.environ['PATH']}"
        return self.cluster.run_job(
            argv, self.folder / "job", "--nodes=4", "--exclusive", PATH=path, PYTHONPATH=str(ROOT)
        )

    @property
    def proof(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run_dir / "proof.json").read_text())
        return found

    def differences(self) -> list[tuple[str, str]]:
        return [(each["level"], each["text"]) for each in self.proof["differences"]]

    def refused(self) -> list[tuple[str, str]]:
        """Run, and expect that no stage was started."""
        done = self.run(self.argv())
        events = list(read_events(self.run_dir))
        verdict = next(event for event in events if isinstance(event, RunFinished))
        assert verdict.state == "failed", done.printed
        assert not [event for event in events if isinstance(event, StageStarted)]
        differences = self.differences()
        assert verdict.reason.startswith(f"the stages were not started: {differences[0][1]}"), verdict.reason
        return differences


@pytest.fixture
def job(cluster: SlurmCluster, tmp_path: Path) -> Job:
    return Job(cluster, tmp_path)


def test_placement_as_planned_is_proved(job: Job) -> None:
    done = job.run(job.argv())
    assert done.state == "COMPLETED", done.printed
    assert "placement proved: 2 nodes, 4 ranks, " in done.printed
    (proof,) = (event for event in read_events(job.run_dir) if isinstance(event, ProofTaken))
    assert (proof.state, proof.nodes, proof.ranks, proof.differences) == ("proved", 2, 4, [])
    ranks = {name: [(each["host"], each["cores"]) for each in ranks] for name, ranks in job.proof["stages"].items()}
    assert ranks == {"md": [("n1", "0"), ("n2", "0")], "saxs": [("n1", "1"), ("n2", "1")]}
    assert {each["host"] for each in job.proof["directory"]} == {"n1", "n2"}
    assert all(each["change_seen_s"] is not None for each in job.proof["directory"])
    hosts = {event.host for event in read_events(job.run_dir) if isinstance(event, NodeSeen)}
    assert hosts == {"n1", "n2", "n3", "n4"}


def test_no_probe_takes_no_proof(job: Job) -> None:
    done = job.run(job.argv("--no-probe"))
    assert done.state == "COMPLETED", done.printed
    assert not (job.run_dir / "proof.json").exists()
    assert not [event for event in read_events(job.run_dir) if isinstance(event, ProofTaken)]


def test_launcher_that_ignored_the_binding_is_refused(job: Job) -> None:
    job.change_srun(cpu_bind="--cpu-bind=none")
    assert job.refused() == [
        (
            "error",
            f"rank 0 of {stage} may use all cores 0-1 of n1, the plan binds it to core {core}: its launcher has not "
            "bound it (and 1 more rank)",
        )
        for stage, core in (("md", 0), ("saxs", 1))
    ]


def test_difference_is_a_warning_where_the_pipeline_says_so(job: Job) -> None:
    job.change_srun(cpu_bind="--cpu-bind=none")
    done = job.run(job.argv("--set", "proof=warn"))
    assert done.state == "COMPLETED", done.printed
    assert "its launcher has not bound it" in done.printed
    (event,) = (event for event in read_events(job.run_dir) if isinstance(event, ProofTaken))
    assert (job.proof["state"], event.state) == ("differs", "differs")
    assert {level for level, _ in job.differences()} == {"warning"}


def test_two_stages_on_one_core_are_refused(job: Job) -> None:
    job.change_srun(cpu_bind="--cpu-bind=mask_cpu:0x1")
    texts = job.refused()
    assert ("error", "rank 0 of saxs may use core 0 of n1, the plan binds it to core 1 (and 1 more rank)") in texts
    assert ("error", "core 0 of n1 has rank 0 of md and rank 0 of saxs (and 1 more core)") in texts


def test_ranks_on_the_wrong_node_are_refused(job: Job) -> None:
    job.change_srun(nodelist="--nodelist=n1,n3")
    assert job.refused() == [
        ("error", f"rank 1 of {stage} is on n3, the plan has it on n2") for stage in ("md", "saxs")
    ]


def test_fewer_nodes_than_asked_are_refused(job: Job) -> None:
    job.change_srun(
        nodelist="--nodelist=n1", nodes="--nodes=1", ntasks_per_node="--ntasks-per-node=2", cpu_bind="--cpu-bind=none"
    )
    texts = [text for _, text in job.refused()]
    assert texts[0] == "md runs on 1 node (n1), the plan has 2 (n1, n2)"
    assert "saxs runs on 1 node (n1), the plan has 2 (n1, n2)" in texts


@pytest.fixture
def hidden(job: Job) -> Iterator[Job]:
    """n2 has another directory in the place of that of the runs."""
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(job.run_dir.parent)]
    assert job.cluster.run_on("n2", mount).returncode == 0
    yield job
    assert job.cluster.run_on("n2", ["umount", str(job.run_dir.parent)]).returncode == 0


def test_run_directory_that_a_node_does_not_see_is_refused(hidden: Job) -> None:
    texts = [text for _, text in hidden.refused()]
    assert texts == [
        f"n2 does not see the run directory {hidden.run_dir}: No such file or directory: "
        f"{hidden.run_dir}/proof/nodes/n2.{stage}.1"
        for stage in ("md", "saxs")
        if f"n2.{stage}.1" in texts[0]
    ]


def test_launcher_that_does_not_start_is_refused_with_its_words(job: Job) -> None:
    job.change_srun(nodelist="--nodelist=n9")
    assert any("started no rank (exit code 1): srun: error: " in text for _, text in job.refused())


def test_rank_that_binds_itself_anew_is_a_warning(job: Job) -> None:
    """As OpenMP runtimes do; each rank waits until the supervisor has warned of both, at most a minute.

    The words it waits for are written in two pieces: the events have the command itself too.
    """
    wait = (
        "import os, pathlib, time; os.sched_setaffinity(0, {0, 1}); end = time.monotonic() + 60\n"
        "while pathlib.Path(os.environ['WF_RUN_DIR'], 'events.jsonl').read_text().count('program did ' + 'that') < 2:\n"
        "    assert time.monotonic() < end; time.sleep(0.1)"
    )
    argv = job.argv()
    command = json.dumps([sys.executable, "-c", wait])
    text = PIPELINE.replace('[sleep, "SECONDS"], ranks: 2, place: {nodes', f"{command}, ranks: 2, place: {{nodes")
    Path(argv[4]).write_text(text.replace("SECONDS", "0.1"))
    done = job.run(argv)
    assert done.state == "COMPLETED", done.printed
    texts = {event.text for event in read_events(job.run_dir) if isinstance(event, NodeRanks) and event.stage == "md"}
    assert texts == {
        f"rank {rank} of md now may use cores 0-1 of {host}, the plan binds it to core 0: its launcher or its program "
        "did that"
        for rank, host in enumerate(("n1", "n2"))
    }
    assert "its launcher or its program did that" in done.printed


MPIEXEC_SITE = """\
site: by-mpiexec
summary: nodes of a Slurm job, on which mpiexec starts the ranks
nodes: 4
cores_per_node: 2
memory_per_node: 2 GB
launcher: mpiexec
scheduler: slurm
queues: {debug: {default: true}}
"""


def test_stages_that_mpiexec_starts_run_beside_each_other_and_the_guards(job: Job) -> None:
    """Hydra starts its proxies by srun, whose steps wait for each other unless they overlap."""
    site = job.folder / "by-mpiexec.yaml"
    site.write_text(MPIEXEC_SITE)
    done = job.run(job.argv("--site", str(site), seconds=5))
    assert done.state == "COMPLETED", done.printed
    events = list(read_events(job.run_dir))
    (proof,) = (event for event in events if isinstance(event, ProofTaken))
    assert (proof.state, proof.ranks, proof.differences) == ("proved", 4, [])
    assert {event.host for event in events if isinstance(event, NodeSeen)} == {"n1", "n2", "n3", "n4"}
    # Slurm gives the proxies, which are bound to nothing, the variable that hydra has for ranks.
    assert not [event for event in events if isinstance(event, NodeRanks)]


UCX_SITE = """\
site: with-fabric
summary: nodes of which a site file says that RDMA joins them, which is not so
nodes: 4
cores_per_node: 2
memory_per_node: 2 GB
launcher: srun
launch_single: true
interface: e0
fabric: true
planes: [tcp, ucx]
scheduler: slurm
queues: {debug: {default: true}}
"""


@pytest.mark.slow
@pytest.mark.skipif(not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
def test_transport_that_does_not_cross_is_refused(job: Job) -> None:
    site = job.folder / "with-fabric.yaml"
    site.write_text(UCX_SITE)
    example = ROOT / "examples/01-shock-diffraction/pipeline.yaml"
    argv = [MPI_PYTHON, "-m", "workflow.cli", "run", str(example), "--run-dir", str(job.run_dir), "--site", str(site)]
    done = job.run([*argv, "--set", "streams.atoms.transport=ucx", "--set", "stages.xrd.place.nodes=1"])
    assert done.state == "FAILED", done.printed
    (text,) = (text for level, text in job.differences() if level == "error")
    assert text.startswith(
        "stream atoms: no step crossed from n1 to n2 in 10 s by ucx: step 0 was announced to the reader, "
    ), text
    (atoms,) = (each for each in job.proof["streams"] if each["stream"] == "atoms")
    assert (atoms["seconds"], atoms["taken"]) == (None, "ucx")


def test_nothing_is_left_on_any_node_when_the_supervisor_is_killed(job: Job) -> None:
    """The job goes on, and each rank has started a process that is in no group of Slurm, so that only guards end it."""
    cluster = job.cluster
    argv = job.argv(seconds=300)
    leaving = '[sh, "-c", "setsid --fork sleep 300; exec sleep 300"]'
    Path(argv[4]).write_text(PIPELINE.replace('[sleep, "SECONDS"]', leaving))
    script = job.folder / "script.sh"
    script.write_text(f"#!/bin/sh\n{shlex.join(argv)}\nexec sleep 299\n")
    given = {**cluster.environment, "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    export = f"--export=ALL,{','.join(f'{name}={value}' for name, value in given.items())}"
    number = cluster.submit("--nodes=4", "--exclusive", export, f"--output={job.folder / 'job'}", str(script))
    try:
        processes = {"n1": 4, "n2": 4, "n3": 0, "n4": 0}
        wait_until(lambda: _count(cluster, "sleep 300") == processes, "the start of all ranks", 30)
        # The guards have seen the ranks, and two heartbeats.
        wait_until(lambda: _count(cluster, "node_guard.py") == dict.fromkeys(cluster.hosts, 1), "guards", 10)
        (supervisor,) = (each for each in cluster.processes_on("n1") if "workflow.cli" in each.command)
        os.kill(supervisor.pid, 9)
        wait_until(lambda: not _left(cluster), "the end of all that belongs to the run", 15)
        assert cluster.job_state(number) == "RUNNING", "Slurm has ended the job, and its processes"
    finally:
        cluster.client("scancel", str(number))
        cluster.wait_for_job(number, "CANCELLED", "COMPLETED", "FAILED")


def test_file_system_that_hides_the_heartbeat_from_a_node_ends_nothing(job: Job) -> None:
    """srun passes on what the supervisor writes: the guard of n2 knows that it lives."""
    cluster, go = job.cluster, job.folder / "go"
    argv = job.argv()
    wait = (
        "import pathlib, sys, time; end = time.monotonic() + 90\n"
        "while not pathlib.Path(sys.argv[1]).exists(): assert time.monotonic() < end; time.sleep(0.1)"
    )
    command = json.dumps([sys.executable, "-c", wait, str(go)])
    Path(argv[4]).write_text(PIPELINE.replace('[sleep, "SECONDS"]', command))
    script = job.folder / "script.sh"
    script.write_text(f"#!/bin/sh\nexec {shlex.join(argv)}\n")
    given = {**cluster.environment, "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    export = f"--export=ALL,{','.join(f'{name}={value}' for name, value in given.items())}"
    number = cluster.submit("--nodes=4", "--exclusive", export, f"--output={job.folder / 'job'}", str(script))
    wait_until(lambda: _count(cluster, str(go)) == {"n1": 2, "n2": 2, "n3": 0, "n4": 0}, "the start of all ranks", 30)
    wait_until(lambda: _count(cluster, "node_guard.py") == dict.fromkeys(cluster.hosts, 1), "guards", 10)
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(job.run_dir)]
    assert cluster.run_on("n2", mount).returncode == 0
    try:
        wait_until(lambda: bool(_unwatched(job)), "the warning", 40)
    finally:
        assert cluster.run_on("n2", ["umount", str(job.run_dir)]).returncode == 0
        go.touch()
    cluster.wait_for_job(number, "COMPLETED")
    assert _unwatched(job) == [
        "on n2 the run directory shows no heartbeat of this run: its file system is slow there, or is another one"
    ]


def _unwatched(job: Job) -> list[str]:
    return [event.text for event in read_events(job.run_dir) if isinstance(event, NodesUnwatched)]


def _count(cluster: SlurmCluster, words: str) -> dict[str, int]:
    return {
        host: sum(
            words in " ".join(each.command) and "srun" not in each.command[0] for each in cluster.processes_on(host)
        )
        for host in cluster.hosts
    }


def _left(cluster: SlurmCluster) -> list[str]:
    """What runs on the nodes but for the job's script."""
    commands = [" ".join(each.command) for host in cluster.hosts for each in cluster.processes_on(host)]
    return [command for command in commands if command != "sleep 299" and "slurm_script" not in command]
