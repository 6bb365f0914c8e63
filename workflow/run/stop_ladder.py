"""The order in which stages are asked, and then forced, to end when a run stops. Pure."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable
from typing import Literal, NamedTuple

from workflow.launch.allocation import Allocation
from workflow.plan.batch_job import DEFAULT_GRACE_S, LARGEST_GRACE
from workflow.plan.plan_model import Plan, StagePlan
from workflow.run.events import StopPlanned
from workflow.run.state import RunState

# Not a signal: the stages are told that the run is to be stopped (`workflow.formats.control_files`), and get the signal
# that their `stop_signal` names.
TELL = 0
# After the telling, at a request to stop or after a failure: a program of `workflow.stage` looks twice a second, and
# ends at its next step.
SIGINT_AFTER_S = 10.0
# After SIGINT, by which programs end their step. SIGTERM is for those that ignore SIGINT, or write a checkpoint on
# SIGTERM: they have the rest of `deadlines.stop` for it.
SIGTERM_AFTER_S = 5.0
# A scheduler that ends a job sends SIGKILL after the SIGTERM: Slurm 30 s (KillWait), PBS and LSF 10 s by default. The
# verdict must be written before.
SCHEDULER_S = 8.0
# What starts the ranks of a lost node waits for them for ever: it gets SIGTERM at once, by which srun ends the ranks on
# other nodes, and SIGKILL so much later.
LOST_S = 3.0


class Rung(NamedTuple):
    """One step of a stop: when to send which signal, and to whom."""

    at: float
    number: int
    stages: Literal["all", "unaffected", "affected"] = "all"


def ladder(state: RunState) -> list[Rung]:
    """When to send which signal, in order of time; the last rung is SIGKILL."""
    begin, stop_s = state.stopping or 0.0, state.plan.deadlines.stop
    if state.cause == "end_of_allocation" and state.ends_at is not None:
        return _before_end(begin, state.ends_at)
    if state.unaffected:
        told = [state.plan.stage(name) for name in state.unaffected]
        apart = [rung._replace(stages="unaffected") for rung in _tell_first(begin, stop_s, told)]
        at_once = [rung._replace(stages="affected") for rung in _at_once(begin, stop_s)]
        return [*sorted([*apart, *at_once], key=lambda rung: rung.at), Rung(begin + stop_s, signal.SIGKILL)]
    if state.is_told:
        return [*_tell_first(begin, stop_s, state.plan.stages), Rung(begin + stop_s, signal.SIGKILL)]
    if state.job and state.interrupted == "SIGTERM":
        stop_s = min(stop_s, SCHEDULER_S)
    return [*_at_once(begin, stop_s), Rung(begin + stop_s, signal.SIGKILL)]


def _at_once(begin: float, stop_s: float) -> list[Rung]:
    return [Rung(begin, signal.SIGINT), Rung(begin + min(stop_s / 3, SIGTERM_AFTER_S), signal.SIGTERM)]


def _tell_first(begin: float, stop_s: float, stages: Iterable[StagePlan]) -> list[Rung]:
    """Some time for programs that end by themselves when they are told: srun passes on no single SIGINT, and kills its
    ranks at the SIGTERM. None where no program is known to do so."""
    tells = any(stage.observed == "metrics" or stage.stop_signal is not None for stage in stages)
    interrupt = begin + (min(stop_s / 3, SIGINT_AFTER_S) if tells else 0.0)
    return [
        Rung(begin, TELL),
        Rung(interrupt, signal.SIGINT),
        Rung(interrupt + min(stop_s / 6 if tells else stop_s / 3, SIGTERM_AFTER_S), signal.SIGTERM),
    ]


def _before_end(begin: float, end: float) -> list[Rung]:
    """Half of the time for programs that end by themselves when they are told; the last tenth, of 2 s at least where
    there is so much, to end what is left and to write the verdict."""
    left = max(0.0, end - begin)
    rest = min(left / 4, max(left / 10, 2.0))
    return [
        Rung(begin, TELL),
        Rung(end - left / 2, signal.SIGINT),
        Rung(end - left / 3, signal.SIGTERM),
        Rung(end - rest, signal.SIGKILL),
    ]


def plan_stop(plan: Plan, allocation: Allocation, now: float) -> list[StopPlanned]:
    """When a run that begins now is to be stopped; nothing where the end of its allocation is not known, or past.

    A plan may be made for a longer job than the one that it got: of a short one half is left to the stages.
    """
    end = allocation.end_time
    if end is None or end <= now:
        return []
    left = end - now
    grace_s = plan.allocation.grace_s if plan.allocation is not None else math.inf
    return [StopPlanned(now, end - (grace_s if grace_s <= left / 2 else default_grace_s(left)), end)]


def default_grace_s(walltime_s: float) -> float:
    """How long before the end a run is stopped where the pipeline does not say."""
    return min(DEFAULT_GRACE_S, LARGEST_GRACE * walltime_s)
