"""The small files by which the processes of a run act on each other: its lease, `stop`, and `job_end.json`.

`stop`: from the moment on that it is there, the stages are to end by themselves. `workflow.stage` looks for it at each
step; any other program may. Its text is the reason, for people.

`job_end.json`: the guard of a node has ended the job of the run, whose supervisor was dead. Only jobs that `wf`
submitted for this one run are ended so. The first guard that makes the file ends the job.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from workflow.replace_file import replace_file

LEASE_FILE = "lease.json"
# Between two beats of the supervisor.
BEAT_S = 2.0
# Without a new beat for so long the supervisor is dead. NFS may show a file some seconds late.
SILENCE_S = 10.0


STOP_FILE = "stop"


def write_stop_file(run_dir: Path, reason: str) -> None:
    """Make the file, whole. Raises OSError."""
    replace_file(run_dir / STOP_FILE, f"{reason}\n".encode())


def is_to_stop(run_dir: str) -> bool:
    """Whether the file is there.

    It is opened, not only looked for: an NFS client then asks the server, where it may know for half a minute only that
    the file was missing.
    """
    try:
        os.close(os.open(os.path.join(run_dir, STOP_FILE), os.O_RDONLY | os.O_CLOEXEC))  # noqa: PTH118, cheap
    except OSError:
        return False
    return True


JOB_END_FILE = "job_end.json"


class JobEnd(NamedTuple):
    """`host`: of the guard; `job`: `slurm job 12`; `silent_s`: how long the supervisor was silent; `beat`: the last
    in its lease; `problem`: what the scheduler's command said when it failed."""

    host: str
    job: str
    silent_s: float
    beat: int
    problem: str = ""


def claim_job_end(run_dir: Path, end: JobEnd) -> bool:
    """Make the file. Returns False where another guard has, or where it cannot be made."""
    try:
        number = os.open(run_dir / JOB_END_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except OSError:
        return False
    with os.fdopen(number, "w") as file:
        json.dump(end._asdict(), file)
    return True


def read_job_end(run_dir: Path) -> JobEnd | None:
    """What a guard has done; None where none has ended the job, or its record is not whole yet."""
    try:
        record = json.loads((run_dir / JOB_END_FILE).read_bytes())
        return JobEnd(
            str(record["host"]), str(record["job"]), float(record["silent_s"]), int(record["beat"]),
            str(record["problem"]),
        )  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
