"""Jobs of LSF: bjobs(1), bkill(1)."""

from __future__ import annotations

from workflow.site.jobs.job_word import Command, JobCommands, JobWord, Phase

# bjobs(1), STAT
_PHASES: dict[str, Phase] = {
    **dict.fromkeys(("PEND", "PSUSP", "WAIT", "PROV"), "pending"),
    **dict.fromkeys(("RUN", "USUSP", "SSUSP"), "running"),
    **dict.fromkeys(("DONE", "EXIT"), "ended"),
}
_QUEUE = ["bjobs", "-a", "-noheader", "-o", "jobid stat exit_code exit_reason delimiter='|'"]


def _of_job(job: str) -> Command:
    return [*_QUEUE, job]


def _of_name(name: str) -> Command:
    return [*_QUEUE, "-J", name]


def _cancel(job: str) -> Command:
    return ["bkill", job]


def read_lsf_jobs(text: str) -> list[JobWord]:
    """What bjobs has printed: `12|EXIT|130|TERM_OWNER: job killed by owner`."""
    found = []
    for line in text.splitlines():
        job, *fields = [field.strip() for field in line.split("|")]
        if not job.isdigit() or not fields:
            continue
        state, code, reason = [*fields, "", ""][:3]
        exit_code = int(code) if code.isdigit() else 0 if state == "DONE" else None
        phase = _PHASES.get(state, "unknown")
        found.append(JobWord(job, phase, state, line.strip(), "" if reason == "-" else reason, exit_code))
    return found


LSF_JOBS = JobCommands(_of_job, _of_name, read_lsf_jobs, _cancel, absent=("is not found", "No matching job found"))
