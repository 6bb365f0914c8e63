"""Stages join a run on isolated nodes, from the login node and on free nodes of its job, and are ended at random.

`make reliability TABLES=tests/cluster` does it 100 times.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.test_attach_on_slurm import ROOT, attach_argv
from tests.faults.test_attach_cycles import LOOK, SIM, STOPPED_S
from tests.support.packed_runs import MPI_PYTHON
from tests.support.reliability import note
from tests.support.slurm_cluster import SlurmCluster
from tests.support.waiting import wait_until
from workflow.report.report_files import compute_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
PIPELINE = """
wf: 1
name: cycles
site: test-slurm
deadlines: {{start: 60 s, step: 60 s, run: 1 h, stop: 3 s}}
stages:
  sim: {{command: ["${{{{ wf.python }}}}", "{folder}/sim.py", "{folder}/end"], writes: {{data: {{}}}}}}
  look: {{command: ["${{{{ wf.python }}}}", "{folder}/look.py"], reads: {{data: {{}}}}}}
streams:
  data: {{from: sim, to: look, keep: true}}
"""
CYCLES = 100
# From the start of what joins, or from the opening of its stream.
LONGEST_S = 2.0


def its_processes(run_dir: Path, name: str) -> list[int]:
    """All processes of what was attached by this name, on whatever node: its `wf attach`, its launcher, its stages."""
    mark, found = f"WF_STAGE={run_dir}/attached/{name}/".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            words = (folder / "cmdline").read_bytes().split(b"\0")
            is_verb = b"attach" in words and name.encode() in words
            if is_verb or any(each.startswith(mark) for each in (folder / "environ").read_bytes().split(b"\0")):
                found.append(int(folder.name))
    return found


def send(run_dir: Path, name: str, number: signal.Signals) -> None:
    for pid in its_processes(run_dir, name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def has_opened(run_dir: Path, name: str) -> bool:
    """Whether the stage that was attached has opened its stream."""
    metrics = run_dir / "attached" / name / "stages/archive/metrics.jsonl"
    return metrics.exists() and '"open"' in metrics.read_text()


def has_joined(process: subprocess.Popen[str], run_dir: Path, name: str) -> bool:
    return process.poll() is not None or has_opened(run_dir, name)


@pytest.mark.reliability
def test_whatever_joins_from_wherever_the_run_loses_nothing(cluster: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SIM)
    (tmp_path / "look.py").write_text(LOOK)
    pipeline, run_dir = tmp_path / "pipeline.yaml", tmp_path / "run"
    pipeline.write_text(PIPELINE.format(folder=tmp_path))
    argv = [MPI_PYTHON, "-m", "workflow.cli", "run", str(pipeline), "--run-dir", str(run_dir), "-q"]
    job = cluster.start_job(argv, tmp_path / "job.out", "--nodes=4", "--exclusive", "--time=55", PYTHONPATH=str(ROOT))
    spool = run_dir / "streams/data-spool.bp/md.idx"
    wait_until(lambda: spool.exists() and spool.stat().st_size > 200, "steps are kept")
    environment = {**os.environ, **cluster.environment, "PYTHONPATH": str(ROOT)}
    dice, counts, joined = random.Random(1), dict[str, int](), 0
    for number in range(CYCLES):
        how, after_s = dice.choice(["detach", "kill", "stop"]), dice.random() * LONGEST_S
        where, name = dice.choice(["login", "n3", "n4"]), f"cycle{number}"
        counts[f"{where} {how}"] = counts.get(f"{where} {how}", 0) + 1
        inside = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={where}"]
        more = ["--set", "oversubscribe=true"] if where == "login" else ["--site", "test-slurm"]
        words = [*([] if where == "login" else inside), *attach_argv(run_dir, name), *more]
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if dice.random() < 0.5:
            wait_until(partial(has_joined, process, run_dir, name), f"{name} has joined from {where}")
        time.sleep(after_s)  # the moment at which it is hit
        assert process.poll() is None, process.communicate()[0]
        if how == "stop":
            send(run_dir, name, signal.SIGSTOP)
            time.sleep(STOPPED_S)
        argv = [MPI_PYTHON, "-m", "workflow.cli", "detach", str(run_dir), name]
        # Before it has a directory there is nothing to be detached.
        if how != "detach" or subprocess.run(argv, env=environment, capture_output=True, check=False).returncode:
            send(run_dir, name, signal.SIGKILL)
        said, _ = process.communicate(timeout=120)
        assert "AssertionError" not in said, said
        joined += has_opened(run_dir, name)
    (tmp_path / "end").touch()
    cluster.wait_for_job(job, "COMPLETED")
    stream = compute_report(run_dir).stream("data")
    read = {reader.stage: reader.steps for reader in stream.readers}
    note("attached on nodes", cycles=CYCLES, joined=joined, counts=counts, steps=stream.steps)
    assert joined > CYCLES / 4
    assert stream.steps and read == {"look": stream.steps, "data-spool": stream.steps}
