"""Jobs of Slurm and PBS by PSI/J: the only file that imports it, which takes half a second and sets signal handlers.

PSI/J renders the script and submits it. What it does not write is added to its script: the job's name, options that
are only a word, and a trap, because its shells would die of SIGTERM and take the supervisor with them. It is not asked
for the state of a job (docs/decisions/0028-submission.md).
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from workflow.errors import RunError
from workflow.installation import install_command
from workflow.schedulers.scheduler import PSIJ_DIR, JobOrder
from workflow.schedulers.schedulers import scheduler_named
from workflow.submit.job_scripts import (
    KEEP_SHELLS,
    KEEP_SHELLS_TEXT,
    PASS_ON,
    NotSubmittedError,
    SubmissionRefusedError,
)

if TYPE_CHECKING:
    import psij

# PSI/J polls in a thread; its answers are not used.
_NEVER_S = 10**6
# `exec` in a shell without a script: the trap is gone, and the supervisor has the BASH_ENV of the user again.
_SUPERVISE = ["/bin/bash", "-c", 'BASH_ENV=$WF_BASH_ENV exec "$0" "$@"']


def require_psij() -> Any:
    """PSI/J. Raises RunError where it is not installed."""
    try:
        import psij
    except ImportError as error:
        text = "jobs are submitted by PSI/J, which is not installed in this Python"
        raise RunError(text, install_command("submit")) from error
    return psij


def submit_order(order: JobOrder) -> str:
    """Submit a job. Returns its id.

    Raises NotSubmittedError when the scheduler's command was not executed, SubmissionRefusedError when it fails, which
    does not prove that it has not accepted the job.
    """
    psij = require_psij()
    folder = order.run_dir / PSIJ_DIR
    try:
        folder.mkdir(exist_ok=True)
        (folder / KEEP_SHELLS).write_text(KEEP_SHELLS_TEXT)
        job = to_psij_job(order)
        _executor(order, folder).submit(job)
    except RunError as error:
        raise NotSubmittedError(error.message, error.hint) from error
    except (psij.InvalidJobException, OSError) as error:
        raise NotSubmittedError(_said(error)) from error
    except psij.SubmitException as error:
        raise SubmissionRefusedError(_said(error)) from error
    return str(job.native_id)


def render_order(order: JobOrder) -> str:
    """The script that would be submitted, with `JOB_ID` for the name of PSI/J's job. Raises RunError without PSI/J."""
    require_psij()
    job = to_psij_job(order)
    with tempfile.TemporaryDirectory() as place:
        executor = _executor(order, Path(place))
        script = io.StringIO()
        executor.generate_submit_script(job, executor._create_script_context(job), script)
    text = script.getvalue().replace(place, str(order.run_dir / PSIJ_DIR))
    return text.replace(job.id, "JOB_ID")


def exit_code_file(order: JobOrder) -> Path:
    """Where the job's script writes its exit code, with `{job}` for the id of the job."""
    return order.run_dir / PSIJ_DIR / order.allocation.scheduler / "{job}.ec"


def to_psij_job(order: JobOrder) -> psij.Job:
    """The job in PSI/J's words, which are the same for all its executors."""
    import psij

    allocation = order.allocation
    queue = scheduler_named(allocation.scheduler).queue(allocation)
    attributes = psij.JobAttributes(
        duration=timedelta(seconds=round(allocation.walltime_s)), queue_name=queue, account=allocation.account,
        reservation_id=allocation.reservation,
    )  # fmt: skip
    resources = psij.ResourceSpecV1(
        node_count=allocation.nodes, processes_per_node=1, exclusive_node_use=allocation.exclusive
    )
    executable, *arguments = [*_SUPERVISE, *order.command]
    spec = psij.JobSpec(
        executable=executable, arguments=arguments, resources=resources, attributes=attributes, launcher="single",
        stderr_path=order.output,  # standard output stays empty, and both in one file would overwrite each other
    )  # fmt: skip
    return psij.Job(spec)


def _executor(order: JobOrder, folder: Path) -> Any:
    """PSI/J's executor for this scheduler, whose script is completed."""
    from psij import JobExecutor
    from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

    settings = BatchSchedulerExecutorConfig(
        work_directory=folder, keep_files=True, queue_polling_error_threshold=_NEVER_S,
        initial_queue_polling_delay=_NEVER_S, queue_polling_interval=_NEVER_S,
    )  # fmt: skip
    executor: Any = JobExecutor.get_instance(order.allocation.scheduler, config=settings)
    render = executor.generate_submit_script

    def generate(job: psij.Job, context: dict[str, object], file: IO[str]) -> None:
        text = io.StringIO()
        render(job, context, text)
        file.write(complete_script(text.getvalue(), order))

    executor.generate_submit_script = generate
    return executor


def complete_script(text: str, order: JobOrder) -> str:
    """PSI/J's script with our options after its first line and our lines before the one that starts the supervisor.

    Raises RunError for a script that is not as expected: of another version of PSI/J.
    """
    scheduler = scheduler_named(order.allocation.scheduler)
    own = [f"{scheduler.mark} {option}" for option in scheduler.directives(order)]
    keep = order.run_dir / PSIJ_DIR / KEEP_SHELLS
    before = [
        *order.prelude, f"cd {order.run_dir}", "trap : USR1", 'export WF_BASH_ENV="${BASH_ENV:-}"',
        f"export BASH_ENV={keep}", "asked=", "trap 'asked=1' TERM", "set -m",
    ]  # fmt: skip
    text = _replaced(text, r"^#!/bin/bash\n+", lambda _: "#!/bin/bash\n" + "\n".join(own) + "\n")
    text = _replaced(
        text, r"^/bin/bash .*single_launch.*$", lambda found: "\n".join([*before, f"{found[0].rstrip()} &", *PASS_ON])
    )
    # The job's own exit code is that of the supervisor: the accounting keeps it.
    text = _replaced(text, r'^echo "\$\?" > (.*)$', lambda found: f'echo "$code" > {found[1]}\nexit "$code"')
    assert scheduler.psij_edits is not None, "PSI/J does not submit to it"
    for pattern, new in scheduler.psij_edits(order):
        text = _replaced(text, pattern, lambda _, new=new: new)  # type: ignore[misc]
    return re.sub(r"\n{3,}", "\n\n", text)


def _replaced(text: str, pattern: str, new: Callable[[re.Match[str]], str]) -> str:
    text, count = re.subn(pattern, new, text, flags=re.MULTILINE)
    if count != 1:
        raise RunError(f"PSI/J's job script has {count} lines like `{pattern}`", "install its version 0.9.11")
    return text


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
