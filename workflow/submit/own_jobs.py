"""Jobs by scripts of wf's own, submitted by the scheduler's command.

PSI/J carries neither LSF nor Flux: its bsub does not read the directives of the script, and its executor for Flux needs
Flux's Python modules, and passes on little more than the number of nodes and the time
(docs/decisions/0052-lsf-and-flux.md).
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from workflow.schedulers.scheduler import JobOrder, SubmitCommand
from workflow.schedulers.schedulers import scheduler_named
from workflow.submit.submission_errors import NotSubmittedError, SubmissionRefusedError

SCRIPT_FILE = "job.sh"
# bsub waits for ever while LSF is down.
SUBMIT_S = 60.0


def own_script(order: JobOrder) -> str:
    """The whole script."""
    scheduler = scheduler_named(order.allocation.scheduler)
    options = [f"{scheduler.mark} {option}" for option in scheduler.directives(order)]
    # exec: a signal to the job reaches the supervisor.
    body = [*order.prelude, f"cd {order.run_dir}", f"exec {shlex.join(order.command)}"]
    return "\n".join(["#!/bin/bash", *options, "", *body, ""])


def submit_own(order: JobOrder) -> str:
    """Write the script into the directory of the run, and submit it. Returns the id of the job.

    Raises NotSubmittedError when the scheduler's command was not executed, SubmissionRefusedError when it fails, gives
    no answer, or says nothing of a job, which does not prove that it has not accepted it.
    """
    command = scheduler_named(order.allocation.scheduler).submit
    script = order.run_dir / SCRIPT_FILE
    try:
        script.write_text(own_script(order))
        script.chmod(0o755)
        printed = _execute(command, script)
    except OSError as error:
        raise NotSubmittedError(str(error)) from error
    assert command.accepted is not None, "PSI/J does not submit to it"
    accepted = command.accepted.findall(printed)
    if not accepted:
        name = " ".join(command.words)
        raise SubmissionRefusedError(f"{name} names no job: {' '.join(printed.split())[:200] or 'it printed nothing'}")
    return str(accepted[-1])


def _execute(command: SubmitCommand, script: Path) -> str:
    """What the submit command prints. Raises OSError when it cannot be executed, SubmissionRefusedError."""
    name = " ".join(command.words)
    words = [*command.words] if command.by_input else [*command.words, str(script)]
    try:
        answer = subprocess.run(
            words, input=script.read_text() if command.by_input else "", capture_output=True, encoding="utf-8",
            errors="replace", timeout=SUBMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SubmissionRefusedError(f"{name} gave no answer within {SUBMIT_S:.0f} s") from None
    if answer.returncode:
        said = " ".join((answer.stderr or answer.stdout).split()) or "no message"
        raise SubmissionRefusedError(f"{name} failed with exit code {answer.returncode}: {said}")
    return answer.stdout
