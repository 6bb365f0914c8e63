"""What a run gets of the allocation that it is started in: its nodes, their cores, and until when.

The nodes of a batch job are divided among the runs in it: a second run gets nodes that the first leaves free. A run
claims its nodes by a record below the user's state directory, `wf/jobs/slurm-frontier-12/3.json`. It counts while the
supervisor of its run lives, and may be removed at any time. Where none can be written, the record is one of this host,
in its folder for temporary files; a note of the run says that runs on other hosts do not see it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from workflow.core_set import CoresMissingError, real_cores
from workflow.errors import Problem, RunError, WfError
from workflow.formats.json_lines import read_json_lines
from workflow.formats.lease_file import DEAD_S, LEASE_FILE
from workflow.formats.run_variables import RUN_VARIABLE
from workflow.formatting import duration, plural
from workflow.launch.allocation import Allocation
from workflow.launch.host_lists import short_host
from workflow.launch.launchers import LAUNCHERS
from workflow.own_process import temporary_folder
from workflow.plan.allocation_check import job_text
from workflow.plan.launch_requests import GrantedNodes
from workflow.plan.plan_model import Plan
from workflow.replace_file import create_whole, replace_file
from workflow.run.control.lease import examine_leases
from workflow.run.guard.own_node import node_name
from workflow.run.records.attached_runs import attached_to
from workflow.run.records.find_runs import state_dir
from workflow.run.records.job_record import JobRecord
from workflow.run.state.events import AllocationReceived
from workflow.schedulers.schedulers import cluster_here
from workflow.site.discover import discover_allocation

# Records of a job that began so long ago are removed.
_OLD_S = 60 * 86400.0


def find_allocation() -> Allocation:
    """The allocation of this process; one without hosts where they are not known, with the reason in its notes."""
    try:
        return discover_allocation()
    except WfError as error:
        return Allocation("local", "", (), notes=(error.message,))


def with_planned_end(found: Allocation, plan: Plan, job: JobRecord | None, now: float) -> Allocation:
    """The allocation of a run that begins now, with an end if this is the job that was submitted for the run.

    Such a job has the walltime that the plan asks for, and the supervisor is the first that it executes. `now`: Unix
    seconds. Of any other job nothing is guessed.
    """
    if found.end_time is not None or plan.allocation is None or job is None or job.scheduler != found.source:
        return found
    walltime_s = plan.allocation.walltime_s
    note = f"the end of the job is estimated: the requested walltime of {duration(walltime_s)}, from now on"
    return replace(found, end_time=now + walltime_s, notes=(*found.notes, note))


@contextlib.contextmanager
def claimed_nodes(run_dir: Path, plan: Plan, allocation: Allocation) -> Iterator[Allocation]:
    """The part of a batch job that no other run uses, claimed for this one until the end.

    Without hosts, and with the reason as a note, where that is less than the plan needs.
    """
    if not allocation.job:
        yield allocation
        return
    record, free = _claim(run_dir, plan, allocation)
    try:
        yield free
    finally:
        # It is emptied, not removed: its number is not to be given again.
        if record is not None:
            with contextlib.suppress(OSError):
                replace_file(record, b"{}\n")


def free_part(plan: Plan, allocation: Allocation, used: Mapping[str, str], own: str) -> Allocation:
    """The allocation without hosts that other runs use. Pure.

    Args:
        used: short name of a host → directory of the run that uses it.
        own: this host, on which programs without a launcher run.
    """
    taken = {host.name: used[short_host(host.name)] for host in allocation.hosts if short_host(host.name) in used}
    if not taken:
        return allocation
    free = tuple(host for host in allocation.hosts if host.name not in taken)
    runs = sorted(set(taken.values()))
    who = "; ".join(f"run {run} uses {', '.join(name for name in taken if taken[name] == run)}" for run in runs)
    job, total, wanted = job_text(allocation), plural(len(allocation.hosts), "node"), plan.nodes_of_stages
    text, ways = f"{job} has {total}: {who}", f"wait for it, or end it: `wf cancel {runs[0]}`"
    if runs_here(plan) and short_host(own) in used:
        text = f"stages without a launcher run on {own}, which another run uses: {text}; {ways}"
        return replace(allocation, hosts=(), notes=(text,))
    if len(free) < wanted:
        text = (
            f"the plan needs {plural(wanted, 'node')}, and {job} has {total}, {len(free)} of them free: {who}; {ways}"
        )
        return replace(allocation, hosts=(), notes=(f"{text}; or ask for {plural(len(taken) + wanted, 'node')}",))
    return replace(allocation, hosts=free, notes=(*allocation.notes, text))


def runs_here(plan: Plan) -> bool:
    """Whether a stage is started without a launcher: it runs where the supervisor does."""
    return any(not LAUNCHERS[stage.launch.launcher].starts_ranks for stage in plan.stages)


def _claim(run_dir: Path, plan: Plan, allocation: Allocation) -> tuple[Path | None, Allocation]:
    """The record that was written, None where there is none, and what the run may use."""
    # Clusters of a centre may share a home.
    cluster = cluster_here(allocation.source, os.environ)
    job = quote("-".join(filter(None, (allocation.source, cluster, allocation.job))), safe="")
    # The second is of this host alone.
    shared, own = state_dir() / "jobs" / job, Path(temporary_folder(), f"wf-{os.getuid()}", "jobs", job)
    try:
        return _claim_in(shared, (shared, own), run_dir, plan, allocation)
    except OSError as error:
        place, sees = f"{error.filename or shared}: {error.strerror}", f"only those that were started on {node_name()}"
    try:
        _check_owner(own.parents[1])
        record, free = _claim_in(own, (shared, own), run_dir, plan, allocation)
    except OSError:
        record, free, sees = None, allocation, "none of them"
    note = f"of the other runs of {job_text(allocation)} wf sees {sees}, and may use the same nodes: {place}"
    return record, replace(free, notes=(*free.notes, note))


def _check_owner(folder: Path) -> None:
    """Raises OSError where a folder for everybody has one of this name that is somebody else's."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(folder))


def _claim_in(
    folder: Path, all_folders: Sequence[Path], run_dir: Path, plan: Plan, allocation: Allocation
) -> tuple[Path | None, Allocation]:
    """The same with a record in this folder. Raises OSError where none can be written."""
    own = node_name()
    if not folder.exists():
        _remove_old(folder.parent)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        records = [path for each in all_folders for path in each.glob("*.json") if path.stem.isdigit()]
        used = _used(records)
        joined = attached_to(run_dir)
        beside = joined is not None and runs_here(plan) and used.get(short_host(own)) == str(joined)
        # What is attached to a run may be on its nodes: its plan leaves the cores of that run alone.
        free = allocation if beside else free_part(plan, allocation, used, own)
        hosts = [host.name for host in free.hosts[: plan.nodes_of_stages]] + ([own] if runs_here(plan) else [])
        if not free.hosts:
            return None, free
        record = folder / f"{max((int(path.stem) for path in records if path.parent == folder), default=0) + 1}.json"
        # Where the name exists, another run has claimed nodes meanwhile.
        with contextlib.suppress(FileExistsError):
            create_whole(record, f"{json.dumps({'run': str(run_dir), 'hosts': hosts})}\n".encode())
            return record, free


def _used(records: Iterable[Path]) -> dict[str, str]:
    """Short name of each host that a run uses whose supervisor lives → the directory of the run.

    A run that was started by a stage of another one is inside of that one's nodes.
    """
    above = os.environ.get(RUN_VARIABLE)
    claims: list[tuple[Path, list[str]]] = []
    for path in records:
        for claim in read_json_lines(path).records:
            run, hosts = claim.get("run"), claim.get("hosts")
            if isinstance(run, str) and run != above and isinstance(hosts, list):
                claims.append((Path(run), [short_host(name) for name in hosts if isinstance(name, str)]))
    alive = examine_leases([run for run, _ in claims], DEAD_S)
    in_use = [lives.alive or _is_hidden(run) for (run, _), lives in zip(claims, alive, strict=True)]
    return {name: str(run) for (run, hosts), used in zip(claims, in_use, strict=True) if used for name in hosts}


def _is_hidden(run_dir: Path) -> bool:
    """Whether this process cannot see if the supervisor of a run lives: its lease may be there."""
    try:
        (run_dir / LEASE_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return False


def _remove_old(jobs: Path) -> None:
    with contextlib.suppress(OSError):
        for folder in jobs.iterdir():
            if folder.stat().st_mtime < time.time() - _OLD_S:
                shutil.rmtree(folder, ignore_errors=True)


def granted_nodes(plan: Plan, allocation: Allocation) -> GrantedNodes:
    """The hosts of the allocation, and the cores of this process, for the plan.

    Raises RunError where stages are bound to cores of this machine that this process may not use.
    """
    needed = len(plan.node.usable)
    threads = plan.node.threads_per_core
    counts = [allocation.cores_of(host, threads) for host in allocation.hosts]
    whole = all(count is None or count >= needed for count in counts)
    cpus = threads if allocation.counts_threads else 1
    if not hasattr(os, "sched_getaffinity"):
        return GrantedNodes(allocation.host_names, whole, cpus, binds=False)
    here = [stage.placement for stage in plan.stages if not LAUNCHERS[stage.launch.launcher].other_machines]
    planned = sorted({core for placement in here for core in placement.cores})
    try:
        numbers = real_cores(planned, sorted(os.sched_getaffinity(0)), by_index=plan.node.is_whole)
    except CoresMissingError as error:
        hint = f"correct `cores_per_node` and `reserved_cores` of site {plan.site}, or ask for whole nodes"
        if plan.node.others:
            hint = "other runs use the same nodes: give each repetition whole ones with `side_by_side: nodes`"
        raise RunError(f"this is not what the plan asks for: {error}", hint) from error
    return GrantedNodes(allocation.host_names, whole, cpus, dict(zip(planned, numbers, strict=True)))


def to_event(allocation: Allocation, problems: Sequence[Problem], now: float) -> AllocationReceived:
    """What the run has got, with what `allocation_problems` found that does not keep it from starting."""
    notes = [*allocation.notes, *(each.message for each in problems if each.level != "error")]
    hosts = len(allocation.hosts)
    return AllocationReceived(now, allocation.source, allocation.job, hosts, allocation.end_time, notes)
