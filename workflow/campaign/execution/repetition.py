"""One repetition: its run directory, its supervisor, and what it measured; in this process or in a worker.

It knows no ledger, and runs in any process.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.campaign.ledger import Attempt, RunEnd
from workflow.core_set import format_cores
from workflow.errors import WfError
from workflow.formats.json_lines import read_json_lines
from workflow.formats.read_json import read_json
from workflow.launch.allocation import Allocation
from workflow.launch.host_lists import is_same_host
from workflow.plan.plan_model import Plan
from workflow.provenance.collect import host_context, to_provenance
from workflow.provenance.provenance_model import HostContext, Provenance, StartContext
from workflow.report.build.met_expectations import figures_of
from workflow.report.read.run_states import keep_expectations
from workflow.report.report_files import compute_report
from workflow.report.report_model import Report
from workflow.run.proof.placement_probe import LOOKING_NODES
from workflow.run.records.control_requests import Control, send_request
from workflow.run.records.events_file import EVENTS_FILE
from workflow.run.records.run_directory import PROOF_FILE, PipelineText, create_run_dir, written_data
from workflow.run.state.lifecycle_events import FROM_OUTSIDE
from workflow.run.supervisor import supervise
from workflow.site.discover import discover_allocation
from workflow.site.site_model import Site
from workflow.spec.load import Loaded

# Of what a stage said, in characters.
_LONGEST_LINE = 200
DecideOnSite = Callable[[Loaded, Site], Plan]


@dataclass(frozen=True)
class StartedAttempt:
    """An attempt that begins: `t` in Unix seconds; `place`: hosts and cores, for people."""

    run_dir: Path
    number: int
    nodes: int
    t: float
    place: str = ""


def run_repetition(
    start: StartedAttempt,
    plan: Plan,
    source: PipelineText,
    allocation: Allocation,
    provenance: Provenance,
    wanted: Callable[[], Control | None],
) -> Attempt:
    """Run one repetition on the hosts of `allocation`, from its directory to its figures.

    `wanted` is asked about twice a second, and answers when the run is to end: `stop` in order, `kill` at once.
    Raises RunError when the directory cannot be used.
    """
    clock, load = time.monotonic(), os.getloadavg()[0]
    create_run_dir(plan, source, start.run_dir, provenance=provenance, latest=False)
    sent: set[Control] = set()
    with contextlib.closing(supervise(start.run_dir, allocation)) as states:
        for _ in states:
            if (request := wanted()) is not None and request not in sent:
                sent.add(request)
                send_request(start.run_dir, request)
    return to_attempt(start, time.monotonic() - clock, load)


def to_attempt(start: StartedAttempt, wall_s: float, load: float | None = None) -> Attempt:
    """What a run that ended is in the ledger, from its directory."""
    report = compute_report(start.run_dir)
    keep_expectations(start.run_dir, report)
    state: RunEnd = "interrupted"
    if report.run.state == "succeeded":
        state = "succeeded"
    elif report.run.state == "failed":
        state = "lost" if report.run.cause in FROM_OUTSIDE else "failed"
    return Attempt(
        state=state,
        attempt=start.number,
        run=start.run_dir.name,
        started=round(start.t, 3),
        wall_s=round(wall_s, 6),
        nodes=start.nodes,
        load=None if load is None else round(load, 2),
        reason=_reason(report),
        place=start.place,
        host=report.run.host,
        figures=figures_of(report),
        figure_problems={each.name: each.figures_problem for each in report.stages if each.figures_problem},
        data_bytes=data_bytes(start.run_dir),
    )


def _reason(report: Report) -> str:
    """Why a run ended, with the last thing that a stage which failed said; of one that succeeded what it lacks."""
    if report.run.state == "succeeded":
        return report.run.lacks
    reason = report.run.reason
    said = next((line.strip() for each in report.stages for line in reversed(each.last_lines) if line.strip()), "")
    return f"{reason}: {said[:_LONGEST_LINE]}" if reason and said and said not in reason else reason


def place_text(hosts: list[str], cores: tuple[int, ...]) -> str:
    """Hosts, and the cores on each in one line: `n1, n2 cores 0-1`; without cores: whole hosts."""
    return ", ".join(hosts) + (f" cores {format_cores(cores)}" if cores else "")


def lost_hosts(run_dir: Path) -> list[str]:
    """The hosts that a run has lost."""
    events = read_json_lines(run_dir / EVENTS_FILE).records
    return [str(each.get("host", "")) for each in events if each.get("event") == "node_lost"]


def silent_hosts(run_dir: Path, hosts: Sequence[str]) -> list[str]:
    """The hosts on which no rank answered before the stages were started; none where the placement was not proved.

    A node that is lost meanwhile may have answered, and not said any more how it sees the run's directory.
    """
    try:
        proof = read_json((run_dir / PROOF_FILE).read_bytes())
        answered = set(proof["nodes"])
        if len(hosts) <= LOOKING_NODES:
            answered &= {each["host"] for each in proof["directory"]}
        refused = proof["state"] == "refused"
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [host for host in hosts if refused and host not in answered]


def data_bytes(run_dir: Path) -> int | None:
    """Bytes of what the stages of a run wrote, not of what links lead to; None where not all can be looked at."""
    try:
        return sum(_bytes_of(path) for path in written_data(run_dir))
    except OSError:
        return None


def _bytes_of(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(_bytes_of(each) for each in path.iterdir())
    return path.lstat().st_size


def remove_data(run_dir: Path) -> None:
    """Remove what the stages of a run wrote; wf's records and the logs stay, and with them the report.

    Empty directories stay: removing them would take longer.
    """
    for path in list(written_data(run_dir)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class RepetitionOrder:
    """All that a worker needs. `cores`: those of each of its nodes that it may use; empty: all."""

    start: StartedAttempt
    loaded: Loaded
    plan: Plan
    site: Site
    cores: tuple[int, ...]
    allocation: Allocation
    """Its hosts only."""
    common: StartContext
    decide: DecideOnSite


def run_order(order: RepetitionOrder) -> Attempt:
    """Run one repetition. What is wrong with it as a whole makes it a failed attempt, whatever it is.

    An exception would reach the driver as the loss of this worker, and the repetition would run again.
    """
    begin = time.monotonic()
    try:
        with _kept_to(order):
            plan = _plan_on_cores(order) if order.cores else order.plan
            provenance = to_provenance(order.common, plan, order.loaded)
            return run_repetition(order.start, plan, order.loaded, order.allocation, provenance, _nothing)
    except WfError as error:
        return _failed(order.start, time.monotonic() - begin, "; ".join(problem.message for problem in error.problems))
    except Exception as error:
        return _failed(order.start, time.monotonic() - begin, f"{type(error).__name__}: {error}")


def _failed(start: StartedAttempt, wall_s: float, reason: str) -> Attempt:
    return Attempt("failed", start.number, start.run_dir.name, start.t, wall_s, start.nodes, reason=reason)


def _plan_on_cores(order: RepetitionOrder) -> Plan:
    """The plan on a node of which other runs use the rest."""
    others = tuple(core for core in order.site.usable_cores if core not in set(order.cores))
    site = order.site.model_copy(update={"others": others})
    return order.decide(order.loaded, site)


@contextlib.contextmanager
def _kept_to(order: RepetitionOrder) -> Iterator[None]:
    """The supervisor stays on the cores of its repetition, where they are on this host: it disturbs no other one."""
    before = os.sched_getaffinity(0)
    here = bool(order.allocation.hosts) and is_same_host(order.allocation.hosts[0].name, platform.node())
    if not order.cores or not here or not set(order.cores) <= before:
        yield
        return
    os.sched_setaffinity(0, order.cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _nothing() -> None:
    """Requests come through the directory of the run, and signals to this process reach its supervisor."""
    return


def introduce(_: object) -> tuple[Allocation, HostContext]:
    """The first task of a pilot: what it has, and where it is. What supervisors import is imported meanwhile.

    Raises WfError where the job does not name its hosts.
    """
    import workflow.run.nodes.guards
    import workflow.run.proof.prove  # noqa: F401

    return discover_allocation(), host_context()
