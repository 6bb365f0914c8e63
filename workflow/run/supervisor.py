"""The process that starts the stages of a run, watches them and stops them.

`python -m workflow.run.supervisor RUN_DIR` supervises a run whose directory has been written.

The loop runs in a thread of its own: whoever shows the run may be as slow as a terminal that accepts no output.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path

from workflow.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_RUN_FAILED, RunError, WfError, to_message
from workflow.interrupts import own_signals
from workflow.launch.allocation import Allocation
from workflow.messages import to_text
from workflow.own_process import set_home
from workflow.plan.plan_model import Plan
from workflow.run.control.lease import Heartbeat
from workflow.run.control.missing_verdict import record_failed_start, was_taken
from workflow.run.newest_state import NewestState
from workflow.run.processes.signals import Signals
from workflow.run.processes.stage_processes import StageProcesses
from workflow.run.records.job_record import read_job
from workflow.run.records.run_directory import has_started, read_filled_plan
from workflow.run.run_allocation import claimed_nodes, find_allocation, with_planned_end
from workflow.run.run_loop import RunLoop
from workflow.run.state.run_state import RunState


def supervise(
    run_dir: Path, allocation: Allocation | None = None, *, shares_job: bool = False
) -> Generator[RunState, None, None]:
    """Run the plan in `run_dir` to its end; yield the newest state whenever there is one, the last with the verdict.

    `allocation` has the hosts by the plan's node index; without it that of this process is found. With `shares_job`
    only those that no other run of the batch job uses: a campaign, which places its runs itself, goes without.
    The run goes on while the caller works on a state: it then misses states, never the last one. Ctrl-C, SIGTERM
    and SIGHUP stop the run in order, a second one at once; where this is not the main thread they are left alone. So
    does a request in control.jsonl. A caller that closes the generator ends the run at once. Raises RunError when the
    directory cannot be used. A plan that does not fit the allocation fails before any stage starts.
    """
    set_home()
    run_dir = run_dir.absolute()
    plan = read_filled_plan(run_dir)
    found = find_allocation() if allocation is None else allocation
    if has_started(run_dir):
        raise RunError(f"{run_dir}: this run has been started before", "start a new one: wf run PIPELINE")
    found = with_planned_end(found, plan, read_job(run_dir), time.time())
    nodes = claimed_nodes(run_dir, plan, found) if shares_job else contextlib.nullcontext(found)
    with Heartbeat(run_dir), Signals() as signals, nodes as granted:
        newest = NewestState()
        # A daemon: a caller that drops the generator must be able to exit; the run's guard then ends the stages.
        work = (run_dir, plan, granted, signals, newest)
        thread = threading.Thread(target=_work, args=work, name="supervisor", daemon=True)
        thread.start()
        try:
            yield from newest.states()
        finally:
            newest.leave()
            thread.join()
            newest.close()
            if newest.error is not None:  # also when the caller closes the generator
                raise newest.error


def _work(run_dir: Path, plan: Plan, allocation: Allocation, signals: Signals, newest: NewestState) -> None:
    """The thread that supervises."""
    try:
        with StageProcesses(run_dir, len(plan.stages)) as processes:
            loop = RunLoop(run_dir, plan, allocation, signals, processes, newest)
            reason = "the caller left"
            try:
                loop.run()
            except Exception as error:
                reason = f"the supervisor failed: {error}"
                raise
            finally:
                loop.close(reason)
    except Exception as error:
        newest.error = error
    finally:
        signals.release()
        newest.end()


def main(arguments: list[str]) -> int:
    """Supervise the run in the directory given; the exit code is the run's."""
    own_signals()
    if len(arguments) != 1:
        usage = "usage: python -m workflow.run.supervisor RUN_DIR"
        sys.stderr.write(to_text([to_message("error", "expected one run directory", usage)]))
        return EXIT_BAD_INPUT
    run_dir = Path(arguments[0]).absolute()
    taken_before, found = was_taken(run_dir), find_allocation()
    try:
        with contextlib.closing(supervise(run_dir, found, shares_job=True)) as run:
            states = list(deque(run, maxlen=1))
    except WfError as error:
        sys.stderr.write(to_text(error.problems))
        record_failed_start(run_dir, error, found, taken_before)
        return error.exit_code
    except KeyboardInterrupt:  # after the verdict
        return EXIT_INTERRUPTED
    return states[-1].finished.exit_code if states and states[-1].finished else EXIT_RUN_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
