"""Jobs of PBS Professional and OpenPBS: qstat(1B), qselect(1B), qdel(1B)."""

from __future__ import annotations

from workflow.site.jobs.job_word import Command, JobCommands, JobWord, Phase

# PBS Professional Reference Guide, Job States
_PHASES: dict[str, Phase] = {
    **dict.fromkeys("QHWTM", "pending"),
    **dict.fromkeys("RBESU", "running"),
    **dict.fromkeys("FX", "ended"),
}


def _of_job(job: str) -> Command:
    # -x: with those that have ended, as long as the server keeps its history.
    return ["qstat", "-x", "-f", job]


def _of_name(name: str) -> Command:
    return ["qselect", "-x", "-N", name]


def _cancel(job: str) -> Command:
    return ["qdel", job]


def read_pbs_jobs(text: str) -> list[JobWord]:
    """What `qstat -f` has printed, or the job ids of `qselect`, which tell nothing else."""
    found: list[JobWord] = []
    # Long values go on in lines that begin with a tab.
    for block in text.replace("\n\t", "").split("Job Id:"):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if not lines:
            continue
        values = dict(line.split(" = ", 1) for line in lines[1:] if " = " in line)
        if "job_state" not in values:
            found += [JobWord(line, "unknown", "", line) for line in lines if line[:1].isdigit() and " " not in line]
            continue
        state, code = values["job_state"], values.get("Exit_status", "")
        raw = " ".join(f"{key} = {values[key]}" for key in ("job_state", "Exit_status", "comment") if key in values)
        exit_code = int(code) if code.lstrip("-").isdigit() else None
        phase = _PHASES.get(state, "unknown")
        found.append(JobWord(lines[0], phase, state, raw, values.get("comment", ""), exit_code))
    return found


PBS_JOBS = JobCommands(_of_job, _of_name, read_pbs_jobs, _cancel, absent=("Unknown Job Id", "Unknown Job ID"))
