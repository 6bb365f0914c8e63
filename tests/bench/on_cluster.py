"""What the benchmarks on the Slurm of isolated nodes share: its start, and jobs whose moments are files.

All nodes are this machine: four of them have its cores together. So what is compared takes turns, and has no more busy
processes at a time than the machine has cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench import streams
from tests.support.slurm_cluster import ClusterSettings, SlurmCluster, missing_for_cluster

ROOT = Path(__file__).parents[2]
SITE = "test-slurm"
DEADLINE_S = 180.0


@contextmanager
def four_nodes() -> Iterator[SlurmCluster]:
    """A cluster that is stopped in the end. Raises NotMeasured where none can be started."""
    if missing := missing_for_cluster():
        raise streams.NotMeasured("; ".join(missing))
    if "mpi" not in streams.planes():
        raise streams.NotMeasured("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    cluster = SlurmCluster("bench", ClusterSettings())
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def run_job(cluster: SlurmCluster, script: str, folder: Path, nodes: int) -> str:
    """Run lines of a shell as a batch job that has whole nodes; what it printed. Raises RuntimeError when it fails."""
    file = folder / "lines.sh"
    # Modules that were changed since the last time would be compiled anew each time.
    file.write_text(f"set -e\nunset PYTHONDONTWRITEBYTECODE\n{script}\n")
    done = cluster.run_job(
        ["sh", str(file)], folder / "job", f"--nodes={nodes}", "--exclusive", deadline_s=DEADLINE_S,
        PYTHONPATH=str(ROOT), TMPDIR="/tmp",
    )  # fmt: skip
    if done.state != "COMPLETED":
        raise RuntimeError(f"job {done.number}: {done.state}\n{done.printed}")
    return done.printed


def wf_run(pipeline: Path, run_dir: Path, *options: str) -> str:
    """The line that runs a pipeline inside a job."""
    return f"{streams.PYTHON} -m workflow.cli run {pipeline} --site {SITE} --run-dir {run_dir} -q {' '.join(options)}"
