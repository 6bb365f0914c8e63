"""The agreement of the ranks about a stop, as real ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")
# The exit function of the program comes first, so that it runs last, just before MPI ends.
PROGRAM = """
import atexit, sys
from mpi4py import MPI
from workflow.stage.api import stopping

def tell():
    word = "complete" if requests[0]._pending in (None, MPI.REQUEST_NULL) else "pending"
    sys.stdout.write(word + "\\n")  # one write: the ranks share the pipe
    sys.stdout.flush()

requests = []
atexit.register(tell)
stopping.own_communicator = lambda: MPI.COMM_WORLD.Dup()
requests.append(stopping.StopRequest(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    assert not requests[0].ask()
"""


def said(tmp_path: Path, asked: int) -> list[str]:
    done = subprocess.run(
        [MPIEXEC, "-n", "2", sys.executable, "-c", PROGRAM, tmp_path, str(asked)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_no_reduction_is_pending_when_mpi_ends(tmp_path: Path) -> None:
    """MPI_Finalize does not allow it."""
    for asked in (0, 1, 3):
        assert said(tmp_path, asked) == ["complete", "complete"], asked
