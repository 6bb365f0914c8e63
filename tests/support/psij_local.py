"""Runs a pipeline as a job of PSI/J's local executor, and follows it: `python -m tests.support.psij_local PIPELINE`."""

from __future__ import annotations

import sys
from pathlib import Path

import psij

from workflow import load_pipeline, make_plan
from workflow.api.runs import create_run
from workflow.cli.following import show_to_the_end
from workflow.plan.plan_model import AllocationPlan
from workflow.run.control.detached import OUTPUT_FILE, supervisor_command
from workflow.schedulers.scheduler import JobOrder
from workflow.submit.psij_jobs import to_psij_job


def main(pipeline: Path) -> int:
    loaded = load_pipeline(pipeline)
    run_dir = create_run(loaded, make_plan(loaded))
    allocation = AllocationPlan(scheduler="slurm", nodes=1, walltime_s=600, grace_s=10)
    order = JobOrder(
        allocation, "contract", run_dir, tuple(supervisor_command(run_dir)), (), 1, output=run_dir / OUTPUT_FILE
    )
    config = psij.JobExecutorConfig(work_directory=run_dir / "psij")
    executor = psij.JobExecutor.get_instance("local", config=config)
    executor.submit(to_psij_job(order))
    return show_to_the_end(run_dir)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
