"""What tests see of the machine that runs them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.same_machine import PROGRAMS, WHOLE_PATH, machine_program, without_programs
from workflow.site.this_machine import find_program

ROOT = Path(__file__).parents[2]
SEEN = """
import os, shutil, signal
from tests.support import same_machine
same_machine.see_the_same_everywhere()
print(os.environ.get("SLURM_JOB_ID"), shutil.which("sbatch"), shutil.which("tool") is not None, end=" ")
print(same_machine.machine_program("sbatch"), signal.getsignal(signal.SIGINT) is signal.default_int_handler, end=" ")
os.kill(os.getpid(), signal.SIGHUP)
os.execvp("sh", ["sh", "-c", "kill -HUP $$; echo ignored"])
"""


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """As of a machine with Slurm and Open MPI."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sbatch", "srun", "mpirun.openmpi", "perf", "tool", "mpicc"):
        (folder / name).write_text("#!/bin/sh\necho it\n")
        (folder / name).chmod(0o755)
    return folder


def test_this_session_sees_none_of_them() -> None:
    named = [name for name in PROGRAMS if "*" not in name and shutil.which(name)]
    own = Path(sys.executable).parent
    assert [name for name in named if not (own / name).exists()] == []
    assert not [name for name in os.environ if name.startswith(("SLURM_", "PBS_", "LMOD_"))]
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert find_program("mpiexec") == str(own / "mpiexec"), "the project's own launcher stays"


def test_a_folder_without_the_programs_of_a_machine(bin_folder: Path, tmp_path: Path) -> None:
    links = Path(without_programs(bin_folder))
    assert sorted(file.name for file in links.iterdir()) == ["mpicc", "tool"]
    assert subprocess.run([links / "tool"], capture_output=True, text=True, check=True).stdout == "it\n"
    assert without_programs(links) == str(links), "nothing to hide: the folder itself"
    assert without_programs(tmp_path / "absent") == str(tmp_path / "absent")
    assert without_programs(Path(sys.executable).parent) == str(Path(sys.executable).parent)


def test_a_machine_with_slurm_in_a_job_with_signals_ignored(bin_folder: Path) -> None:
    """As `nohup make test &` from a shell script on a cluster's node."""
    whole = os.environ.get(WHOLE_PATH, os.environ["PATH"])
    env = {**os.environ, "PATH": f"{bin_folder}:{whole}", "SLURM_JOB_ID": "12", "PYTHONPATH": str(ROOT)}
    del env[WHOLE_PATH]
    line = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", sys.executable, "-u", "-c", SEEN]
    ended = subprocess.run(line, env=env, capture_output=True, text=True)
    assert ended.stdout.split() == ["None", "None", "True", str(bin_folder / "sbatch"), "True"], ended.stderr
    assert ended.returncode == -signal.SIGHUP, "it survives a hangup, what it executes does not"


def test_who_asks_gets_what_the_machine_has(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHOLE_PATH, str(bin_folder))
    assert machine_program("sbatch") == str(bin_folder / "sbatch")
    assert shutil.which("sbatch") is None
