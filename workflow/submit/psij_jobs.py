"""Jobs of Slurm and PBS by PSI/J: the only file that imports it, which takes half a second and sets signal handlers.

PSI/J renders the script. The template is ours, a file beside the scheduler's module. It has options that PSI/J does not
write, and traps, because PSI/J's shells would die of SIGTERM and take the supervisor with them. PSI/J neither submits
it, since it takes the last word that sbatch prints for the id and waits for ever, nor is asked for the state of a job
(docs/decisions/0028-submission.md).
"""

from __future__ import annotations

import io
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow import schedulers
from workflow.errors import RunError
from workflow.installation import install_command
from workflow.schedulers.scheduler import PSIJ_DIR, JobOrder
from workflow.schedulers.schedulers import scheduler_named

if TYPE_CHECKING:
    import psij

# The file that PSI/J's shells read: with a trap they outlive SIGTERM, and with them the job's processes. Their log ends
# by that signal; they must not end by writing to it, but with the exit code of the supervisor.
KEEP_SHELLS = "keep-shells.sh"
KEEP_SHELLS_TEXT = """# Shells of this job wait for the supervisor when the job is to end: it closes the stages.
trap : TERM USR1 PIPE
trap 'exit "${_PSI_J_EC:-$?}"' EXIT
"""
# With cgroups Slurm signals the first process of a job only, the script: it waits for the supervisor, and passes on to
# its process group that the job is to end. `set -m`, before: what a shell starts by `&` would otherwise ignore SIGINT.
# `wait` also returns at a signal, and when the supervisor was suspended with the job.
PASS_ON = (
    "launch=$!",
    """trap 'kill -TERM -- "-$launch" 2> /dev/null' TERM""",
    '[ -n "$asked" ] && kill -TERM -- "-$launch" 2> /dev/null',
    'while wait "$launch"; code=$?; kill -0 "$launch" 2> /dev/null; do sleep 0.2; done',
    # Interrupted as it ended: bash may still know its exit code; -1 and 127 say that it does not.
    'if [ "$code" -gt 128 ]; then wait "$launch" 2> /dev/null; again=$?; fi',
    'case "${again:--1}" in -1 | 127) ;; *) code=$again ;; esac',
)

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


def write_psij_script(order: JobOrder) -> Path:
    """Write the script into the directory of the run. Raises OSError, RunError when PSI/J is missing or refuses it."""
    psij = require_psij()
    folder = order.run_dir / PSIJ_DIR
    folder.mkdir(exist_ok=True)
    (folder / KEEP_SHELLS).write_text(KEEP_SHELLS_TEXT)
    job = to_psij_job(order)
    script = exit_code_file(order).with_name(f"{job.id}.job")
    script.parent.mkdir(exist_ok=True)
    try:
        script.write_text(_script(order, job, folder))
    except psij.InvalidJobException as error:
        raise RunError(" ".join(str(error).split())) from error
    return script


def render_order(order: JobOrder) -> str:
    """The script that would be submitted, with `JOB_ID` for the name of PSI/J's job. Raises RunError without PSI/J."""
    require_psij()
    job = to_psij_job(order)
    with tempfile.TemporaryDirectory() as place:
        text = _script(order, job, Path(place)).replace(place, str(order.run_dir / PSIJ_DIR))
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


def _script(order: JobOrder, job: psij.Job, folder: Path) -> str:
    """By PSI/J's executor for this scheduler, with our template of the script. Launchers are written to `folder`."""
    from psij import JobExecutor
    from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig
    from psij.executors.batch.script_generator import TemplatedScriptGenerator

    settings = BatchSchedulerExecutorConfig(
        work_directory=folder, keep_files=True, queue_polling_error_threshold=_NEVER_S,
        initial_queue_polling_delay=_NEVER_S, queue_polling_interval=_NEVER_S,
    )  # fmt: skip
    executor: Any = JobExecutor.get_instance(order.allocation.scheduler, config=settings)
    template = Path(schedulers.__file__).with_name(scheduler_named(order.allocation.scheduler).psij_template)
    context = {**executor._create_script_context(job), **script_lines(order)}
    script = io.StringIO()
    TemplatedScriptGenerator(settings, template).generate_submit_script(job, context, script)
    return script.getvalue()


def script_lines(order: JobOrder) -> dict[str, list[str]]:
    """What a template gets beside PSI/J's own values: options, and lines before and after the supervisor's start."""
    keep = order.run_dir / PSIJ_DIR / KEEP_SHELLS
    before = [
        *order.prelude, f"cd {order.run_dir}", "trap : USR1", 'export WF_BASH_ENV="${BASH_ENV:-}"',
        f"export BASH_ENV={keep}", "asked=", "trap 'asked=1' TERM", "set -m",
    ]  # fmt: skip
    options = list(scheduler_named(order.allocation.scheduler).directives(order))
    return {"options": options, "before": before, "after": list(PASS_ON)}
