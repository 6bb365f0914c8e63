"""`wf cancel`: end a run through its control file; if its supervisor has died, end what is left of it on this host."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path

from workflow.errors import EXIT_INTERRUPTED, RunError
from workflow.plan.plan_model import Plan
from workflow.run.control.follow import follow
from workflow.run.control.lease import Liveness, examine_leases, has_lease
from workflow.run.control.missing_verdict import write_missing_verdict
from workflow.run.processes.process_reaper import end_members, find_members
from workflow.run.records.control_requests import Control, requester, send_request
from workflow.run.records.find_runs import typed_name
from workflow.run.records.run_directory import read_allocation

# From a request until the supervisor has read it and, after the stop, until it has written the verdict.
REACTION_S = 15.0
# A supervisor that is starting takes the lease within this time.
TAKE_S = 1.0


@dataclass(frozen=True)
class CleanUp:
    """What was done about a run without a supervisor: how many processes of it were ended on this host, those that
    did not end, and the other hosts of the run, which cannot be reached from here."""

    ended: int = 0
    left: tuple[int, ...] = ()
    unreachable: tuple[str, ...] = ()


def stop_run(run_dir: Path, plan: Plan, request: Control) -> Liveness:
    """Ask the supervisor of a run to stop it, and wait until the run has a verdict or its supervisor is dead.

    The request is written first: whether a supervisor on another host lives shows only after seconds. One that is
    silent there counts as dead, since somebody wants the end: it reads the request when it goes on. Raises RunError
    when the supervisor lives and does not end the run in time, or the request cannot be written.
    """
    problem: RunError | None = None
    try:
        send_request(run_dir, request)
    except RunError as error:
        problem = error
    (lives,) = examine_leases([run_dir])
    if lives.lease is not None and not lives.alive:
        return lives
    if problem is not None:
        raise problem
    deadline = time.monotonic() + (plan.deadlines.stop + REACTION_S if lives.alive else TAKE_S)
    for state in follow(run_dir, plan):
        if lives.lease is None and has_lease(run_dir):
            return stop_run(run_dir, plan, request)  # it has started meanwhile
        if state.finished is not None:
            return lives
        if time.monotonic() > deadline:
            break
    (lives,) = examine_leases([run_dir])
    if lives.alive:
        assert lives.lease is not None
        where = f"its supervisor on {lives.lease.host} (process {lives.lease.pid})"
        raise RunError(
            f"{where} has not ended the run within {plan.deadlines.stop + REACTION_S:.0f} s",
            f"wf cancel --now {typed_name(run_dir)}",
        )
    return lives


def clean_up(run_dir: Path, lives: Liveness, of_job: str = "") -> CleanUp:
    """End what is left on this host of a run whose supervisor is dead, or that was never started, and write the
    verdict, with what is known of its job. Raises RunError when its supervisor lives, OSError when the verdict cannot
    be written."""
    lease = lives.lease
    if lives.alive and lease is not None:
        text = f"its supervisor on {lease.host} (process {lease.pid}) is still running it"
        raise RunError(text, f"wf cancel --now {typed_name(run_dir)}")
    name = str(run_dir) if lease is None else lease.run_dir
    found = find_members(name)
    left = end_members(name)
    why = "before it was started" if lease is None else f"after its supervisor on {lease.host} had died"
    reason = f"cancelled by {requester()}, {why}" + (f"; {of_job}" if of_job else "")
    write_missing_verdict(run_dir, lives, "interrupted", EXIT_INTERRUPTED, reason)
    allocation = read_allocation(run_dir)
    names = [] if allocation is None else [host.name for host in allocation.hosts]
    hosts = {*names, *([lease.host] if lease else [])} - {socket.gethostname()}
    return CleanUp(len(found) - len(left), tuple(sorted(left)), tuple(sorted(hosts)) if lease else ())
