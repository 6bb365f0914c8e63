"""One repetition in a worker process: planned for its part of the nodes, run there, and returned as an attempt."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workflow.campaign.execution.repetition import StartedAttempt, run_repetition
from workflow.campaign.ledger import Attempt
from workflow.errors import WfError
from workflow.launch.allocation import Allocation
from workflow.launch.host_list import is_same_host
from workflow.plan.plan_model import Plan
from workflow.provenance.collect import host_context, to_provenance
from workflow.provenance.provenance_model import HostContext, StartContext
from workflow.site.discover import discover_allocation
from workflow.site.site_model import Site
from workflow.spec.loaded_pipeline import Loaded

DecideOnSite = Callable[[Loaded, Site], Plan]


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
    try:
        with _kept_to(order):
            plan = _plan_on_cores(order) if order.cores else order.plan
            provenance = to_provenance(order.common, plan, order.loaded)
            return run_repetition(order.start, plan, order.loaded, order.allocation, provenance, _nothing)
    except WfError as error:
        return _failed(order.start, "; ".join(problem.message for problem in error.problems))
    except Exception as error:
        return _failed(order.start, f"{type(error).__name__}: {error}")


def _failed(start: StartedAttempt, reason: str) -> Attempt:
    wall_s = max(0.0, time.time() - start.t)
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
    import workflow.run.nodes.node_guards
    import workflow.run.proof.prove  # noqa: F401

    return discover_allocation(), host_context()
