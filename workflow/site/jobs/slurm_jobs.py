"""Jobs of Slurm: squeue(1), sacct(1), scancel(1)."""

from __future__ import annotations

from workflow.site.jobs.job_word import Command, JobCommands, JobWord, Phase, phase_of

# https://slurm.schedmd.com/job_state_codes.html and squeue(1), JOB STATE CODES
_PHASES: dict[str, Phase] = {
    **dict.fromkeys(
        (
            "PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT",
            "POWER_UP_NODE",
        ),
        "pending",
    ),
    **dict.fromkeys(
        (
            "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "EXPEDITING",
            "LAUNCH_FAILED", "RECONFIG_FAIL", "UPDATE_DB",
        ),
        "running",
    ),
    **dict.fromkeys(
        (
            "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
            "OUT_OF_MEMORY", "REVOKED",
        ),
        "ended",
    ),
}  # fmt: skip
_QUEUE = ["squeue", "--noheader", "--states=all", "--format=%i|%T|%r"]


def _of_job(job: str) -> Command:
    return [*_QUEUE, f"--jobs={job}"]


def _of_name(name: str) -> Command:
    return [*_QUEUE, "--me", f"--name={name}"]


def _history(job: str) -> Command:
    return ["sacct", "--noheader", "--allocations", "--parsable2", f"--jobs={job}", "--format=JobID,State,ExitCode"]


def _cancel(job: str) -> Command:
    return ["scancel", job]


def read_slurm_jobs(text: str) -> list[JobWord]:
    """What squeue or sacct has printed: `12|PENDING|Priority`, `12|FAILED|2:0`. Other lines are left out."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|", 2)]
        if len(fields) < 3 or not fields[0][:1].isdigit():
            continue
        job, state, last = fields
        code, _, number = last.partition(":")
        exit_code = int(code) if code.isdigit() and number.isdigit() else None
        reason = "" if exit_code is not None or last == "None" else last
        found.append(JobWord(job, phase_of(state, _PHASES), state, line.strip(), reason, exit_code))
    return found


SLURM_JOBS = JobCommands(
    _of_job, _of_name, read_slurm_jobs, _cancel, absent=("Invalid job id specified",), history=_history
)
