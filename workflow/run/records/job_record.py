"""The batch job of a run, `job.json`: written before the submission, and again with the job's id after it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from workflow.formats.read_json import read_json
from workflow.formats.typed_fields import from_fields
from workflow.replace_file import replace_file
from workflow.run.records.run_directory import ALLOCATION_FILE

JOB_FILE = "job.json"


@dataclass(frozen=True)
class JobRecord:
    """`name` is the job's name in the scheduler, which no other job has: by it a job is found whose id is not known.

    `job` is empty until the scheduler has given an id; with `;CLUSTER` behind it where it named one. `submitted`: Unix
    seconds. `exit_code_file` is written by the job's script at its end, if it comes so far; `{job}` in it stands for
    the id. `accepted`: what the submit command printed where it has accepted the job and named no id.
    """

    scheduler: str
    name: str
    job: str = ""
    submitted: float = 0.0
    wf_version: str = ""
    exit_code_file: str = ""
    accepted: str = ""

    @property
    def number(self) -> str:
        """The id as the job itself knows it."""
        return self.job.partition(";")[0]

    @property
    def text(self) -> str:
        """`slurm job 12`, `slurm job 12 on cluster nautilus`."""
        return f"{self.scheduler} job {self.job.replace(';', ' on cluster ') or self.name}"


def read_job(run_dir: Path) -> JobRecord | None:
    """The job of a run; None for a run without one."""
    try:
        record = read_json((run_dir / JOB_FILE).read_bytes())
        return from_fields(JobRecord, record)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def job_of_allocation(run_dir: Path) -> str:
    """The job in which a run was started: `slurm job 12`. Empty without one, and before its start."""
    try:
        record = read_json((run_dir / ALLOCATION_FILE).read_bytes())
        return f"{record['source']} job {record['job']}" if record["job"] else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def write_job(run_dir: Path, job: JobRecord) -> None:
    """Write the job of a run. Raises OSError."""
    replace_file(run_dir / JOB_FILE, (json.dumps(asdict(job), indent=2) + "\n").encode())
