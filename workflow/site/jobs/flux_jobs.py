"""Jobs of Flux: flux-jobs(1), flux-cancel(1)."""

from __future__ import annotations

from workflow.site.jobs.job_word import Command, JobCommands, JobWord, Phase

# flux-jobs(1), JOB STATUS
_PHASES: dict[str, Phase] = {
    **dict.fromkeys(("NEW", "DEPEND", "PRIORITY", "SCHED"), "pending"),
    **dict.fromkeys(("RUN", "CLEANUP"), "running"),
    **dict.fromkeys(("COMPLETED", "FAILED", "CANCELED", "TIMEOUT", "INACTIVE"), "ended"),
}
_QUEUE = ["flux", "jobs", "-a", "--no-header", "--format={id.f58}|{status}|{returncode}|{exception.note}"]


def _of_job(job: str) -> Command:
    return [*_QUEUE, job]


def _of_name(name: str) -> Command:
    return [*_QUEUE, f"--name={name}"]


def _cancel(job: str) -> Command:
    return ["flux", "cancel", job]


def read_flux_jobs(text: str) -> list[JobWord]:
    """What `flux jobs` has printed: `ƒ2oLkTLb|FAILED|127|`."""
    found = []
    for line in text.splitlines():
        job, *fields = [field.strip() for field in line.split("|")]
        if not fields:
            continue
        state, code, reason = [*fields, "", ""][:3]
        exit_code = int(code) if code.lstrip("-").isdigit() else None
        found.append(JobWord(job, _PHASES.get(state, "unknown"), state, line.strip(), reason, exit_code))
    return found


FLUX_JOBS = JobCommands(_of_job, _of_name, read_flux_jobs, _cancel, absent=("unknown job", "unknown id"))
