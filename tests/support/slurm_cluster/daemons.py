"""The daemons of a cluster outside of its nodes: munged, which authenticates, and slurmctld, the controller."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from pathlib import Path

from tests.support.slurm_cluster.requirements import path_with_daemons
from tests.support.waiting import wait_until

DEADLINE_S = 20


def start_munged(state: Path) -> None:
    """A munged with a key and a socket of its own. It detaches itself."""
    key = state / "munge.key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
    files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid", "seed-file": "munge.seed"}
    options = [f"--{option}={state / name}" for option, name in files.items()]
    _run(state, "munged", *options, f"--log-file={state / 'log' / 'munged.log'}", "--num-threads=2")


def start_slurmctld(state: Path) -> None:
    """Start the controller, with the jobs that it knew when it was stopped. It detaches itself."""
    _run(state, "slurmctld", "-f", str(state / "etc" / "slurm.conf"))
    wait_until(lambda: daemon_pid("slurmctld", state) is not None, "slurmctld", DEADLINE_S)


def stop_daemon(name: str, state: Path, number: signal.Signals) -> None:
    """End `munged` or `slurmctld`, if it runs; returns when it has ended."""
    pid = daemon_pid(name, state)
    if pid is None:
        return
    os.kill(pid, number)
    wait_until(lambda: not _runs(pid, state), f"the end of {name}", DEADLINE_S)


def daemon_pid(name: str, state: Path) -> int | None:
    try:
        pid = int((state / f"{name}.pid").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return pid if _runs(pid, state) else None


def _runs(pid: int, state: Path) -> bool:
    try:  # another process may have got the id since
        return os.fsencode(state) in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def without_core(command: list[str]) -> list[str]:
    """The command line without core dumps. Slurm's daemons set their soft limit to the hard one: both are zero."""
    return ["prlimit", "--core=0:0", *command]


def _run(state: Path, command: str, *arguments: str) -> None:
    environment = {**os.environ, "PATH": path_with_daemons()}
    done = subprocess.run(
        without_core([command, *arguments]), cwd=state, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env=environment, timeout=60,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{command} did not start (exit code {done.returncode}): {done.stderr.strip()}")
