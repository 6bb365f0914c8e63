"""Jobs of LSF and Flux: scripts of wf's own, submitted by bsub(1) and flux-batch(1).

PSI/J carries neither: its bsub does not read the directives of the script, and its executor for Flux needs Flux's
Python modules, and passes on little more than the number of nodes and the time (docs/decisions/0052-lsf-and-flux.md).
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from workflow.submit.job_order import JobOrder, flux_script, lsf_script
from workflow.submit.submission_errors import NotSubmittedError, SubmissionRefusedError

SCRIPT_FILE = "job.sh"
# bsub waits for ever while LSF is down.
SUBMIT_S = 60.0


@dataclass(frozen=True)
class _SubmitCommand:
    """`accepted`: what it prints of a job that it has taken, with the job's id. `by_input`: it reads the script from
    its standard input."""

    words: tuple[str, ...]
    accepted: re.Pattern[str]
    by_input: bool = False


_COMMANDS = {
    "lsf": _SubmitCommand(("bsub",), re.compile(r"^Job <(\d+)> is submitted", re.MULTILINE), by_input=True),
    # flux-batch(1): the id, in a line of its own; with `f` for `ƒ` where the locale has no such letter.
    "flux": _SubmitCommand(("flux", "batch"), re.compile(r"^([ƒf][1-9A-HJ-NP-Za-km-z]+)$", re.MULTILINE)),
}


def own_script(order: JobOrder) -> str:
    """The whole script."""
    return lsf_script(order) if order.allocation.scheduler == "lsf" else flux_script(order)


def submit_own(order: JobOrder) -> str:
    """Write the script into the directory of the run, and submit it. Returns the id of the job.

    Raises NotSubmittedError when the scheduler's command was not executed, SubmissionRefusedError when it fails, gives
    no answer, or says nothing of a job, which does not prove that it has not accepted it.
    """
    command = _COMMANDS[order.allocation.scheduler]
    script = order.run_dir / SCRIPT_FILE
    try:
        script.write_text(own_script(order))
        script.chmod(0o755)
        printed = _execute(command, script)
    except OSError as error:
        raise NotSubmittedError(str(error)) from error
    accepted = command.accepted.findall(printed)
    if not accepted:
        name = " ".join(command.words)
        raise SubmissionRefusedError(f"{name} names no job: {' '.join(printed.split())[:200] or 'it printed nothing'}")
    return str(accepted[-1])


def _execute(command: _SubmitCommand, script: Path) -> str:
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
