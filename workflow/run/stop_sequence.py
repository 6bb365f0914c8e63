"""How a run is stopped: in which order and when its stages are told, signalled and killed; then its verdict. Pure."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, NamedTuple

from workflow.launch.allocation import Allocation
from workflow.plan.job_request import DEFAULT_GRACE_S, LARGEST_GRACE
from workflow.plan.plan_model import Plan, StagePlan
from workflow.run.actions import AskScheduler, Decisions, FinishRun, KillStage, SignalStages, TellStages
from workflow.run.chain import submission_s
from workflow.run.state.events import StopPlanned
from workflow.run.state.lifecycle_events import StageFailed, StageStopped
from workflow.run.state.reducer import with_stage
from workflow.run.state.run_state import RunState, StageState
from workflow.run.verdict.end_causes import loss_text
from workflow.run.verdict.failure_origin import live_writers
from workflow.run.verdict.run_verdict import make_verdict

# Not a signal: the stages are told that the run is to be stopped (`workflow.formats.stop_file`), and get the signal
# that their `stop_signal` names, or the one on which they write a checkpoint.
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
# What has ended one stage may be about to end the whole job: it leaves seconds.
ENDS_JOB = ("cancelled", "preempted", "requeued", "time_limit")
# A process that survives SIGKILL for so long is stuck in the kernel: report without it.
GIVE_UP_S = 1.0
# For the scheduler's answer about the job: it is asked once.
ANSWER_S = 3.5
# How long the guards of other nodes may take to see that the run has ended, and to remove its spools. They look every
# 2 s; a file system may show them the request later.
FREE_S = 15.0
# The same where the verdict cannot wait.
SHORT_FREE_S = 4.0


def is_hurried(state: RunState) -> bool:
    """Whether what ends the run may be about to end its supervisor."""
    return bool(state.interrupted and not state.cancelled) or state.cause in ENDS_JOB


def free_within_s(state: RunState, t: float) -> float:
    """How long the verdict waits until the guards have removed what spools have on other nodes. The launcher of the
    guards waits for the one of a lost node for ever, and the others need no longer than this."""
    hurries = is_hurried(state) or state.cause == "end_of_allocation" or bool(state.lost)
    longest = SHORT_FREE_S if hurries else FREE_S
    if state.ends_at is None:
        return longest
    begin = t if state.stopping is None else state.stopping
    left = state.ends_at - submission_s(state.plan, state.ends_at - begin) - t
    # Half of it is for what follows: the files, the verdict.
    return min(longest, max(0.0, left / 2))


class Rung(NamedTuple):
    """One step of a stop: when to send which signal, and to whom."""

    at: float
    number: int
    stages: Literal["all", "unaffected", "affected"] = "all"


def ladder(state: RunState) -> list[Rung]:
    """When to send which signal, in order of time; the last rung is SIGKILL."""
    begin, stop_s = state.stopping or 0.0, state.plan.deadlines.stop
    if state.cause == "end_of_allocation" and state.ends_at is not None:
        return _before_end(begin, state.ends_at - submission_s(state.plan, state.ends_at - begin))
    if not is_hurried(state):  # what waits for the same file system may still write
        begin += state.paused_s(begin)
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
    tells = any(stage.observed == "metrics" or stage.told_by is not None for stage in stages)
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


# So long a stage may take to end after it was asked before that is worth a line.
_SOON_S = 1.0


def unended(state: RunState) -> tuple[list[str], Rung] | None:
    """The stages that do not react to what they were sent, and what comes next; None while there is nothing to say."""
    if state.stopping is None or state.finished is not None or state.rung == 0:
        return None
    rungs = ladder(state)
    past, left = rungs[: state.rung], rungs[state.rung :]
    # Who is only told ends at its next step.
    if not left or past[-1].number == TELL or state.t - past[-1].at < _SOON_S:
        return None
    running = [name for name, stage in state.stages.items() if stage.runs]
    for rung in left:
        names = [name for name in running if _is_meant(rung, name, state)]
        if names:
            return names, rung
    return None


def _is_meant(rung: Rung, name: str, state: RunState) -> bool:
    return rung.stages == "all" or (name in state.unaffected) == (rung.stages == "unaffected")


def stop_stages(decisions: Decisions) -> None:
    """Tell or signal the stages that run, as far as it is time for that."""
    state = decisions.state
    if state.stopping is None:
        return
    if state.rung == 0 and _tells_apart(state):
        decisions.state = state = replace(state, unaffected=unaffected(state))
    # Who merges the streams of members would wait for these until it gets a signal.
    for name in [name for name, stage in state.stages.items() if _begins_no_more(state, stage)]:
        written = [end.stream for end in state.plan.stage(name).ends if end.side == "write"]
        decisions.decide(StageStopped(decisions.t, name, written))
    running = [stage.name for stage in state.stages.values() if stage.runs]
    for rung in ladder(state)[state.rung :]:
        if decisions.t >= rung.at and running:
            decisions.state = replace(decisions.state, rung=decisions.state.rung + 1)
            some = tuple(name for name in running if _is_meant(rung, name, state))
            if some:
                _signal(decisions, some, rung.number)
    _end_lost(decisions)


def _begins_no_more(state: RunState, stage: StageState) -> bool:
    """Whether it would have begun, for the first time or again, but for the stop."""
    between = stage.status == "restarting" and not stage.runs and not state.lost_nodes(stage.name)
    return stage.status == "waiting" or between


def _tells_apart(state: RunState) -> bool:
    """Whether stages that could go on are told first, after a failure: not where somebody, or the scheduler, is about
    to end them all."""
    hurries = is_hurried(state)
    return bool(state.culprit) and not hurries


def _signal(decisions: Decisions, stages: tuple[str, ...], number: int) -> None:
    if number == TELL:
        decisions.actions.append(TellStages(stages, decisions.state.reason))
        stages = tuple(name for name in stages if decisions.state.plan.stage(name).told_by is not None)
    else:
        # What starts the ranks of a lost node waits for them: by SIGTERM srun ends those that it can reach.
        lost = tuple(name for name in stages if number == signal.SIGINT and decisions.state.lost_nodes(name))
        others = tuple(name for name in stages if name not in lost)
        decisions.actions += [SignalStages(others, number)] if others else []
        decisions.actions += [SignalStages(lost, signal.SIGTERM)] if lost else []
    for name in stages:
        decisions.state = with_stage(decisions.state, name, cut=True)


def _end_lost(decisions: Decisions) -> None:
    """Kill what started ranks on a lost node: it may wait for them for ever."""
    for name in _unended(decisions.state) if decisions.t >= _lost_due(decisions.state) else []:
        decisions.state = with_stage(decisions.state, name, killed=True)
        decisions.actions.append(KillStage(name))


def finish_run(decisions: Decisions) -> None:
    """Bring the verdict when nothing runs any more, or nothing that can be ended."""
    state = decisions.state
    if state.stopping is None and state.going:
        return
    stages = list(state.stages.values())
    stuck = state.stopping is not None and decisions.t >= ladder(state)[-1].at + GIVE_UP_S
    given_up = decisions.t - state.plan.deadlines.stop - GIVE_UP_S
    left = [stage for stage in stages if not (stage.killed and (stage.failed or 0.0) < given_up)]
    if any(stage.runs or (stage.status == "starting" and stage.exited is None) for stage in left) and not stuck:
        return
    if _awaits_answer(state):
        return
    for stage in stages:
        if not stage.is_over and (lost := state.lost_nodes(stage.name)) and stage.started is not None:
            decisions.decide(StageFailed(decisions.t, stage.name, loss_text(lost)))
        elif not stage.is_over:
            decisions.decide(StageStopped(decisions.t, stage.name))
    decisions.actions.append(FinishRun(make_verdict(decisions.state, decisions.t)))


def next_stop(state: RunState) -> float:
    """When the next of all this is due by time alone, in a run that is to stop."""
    rungs = ladder(state)
    due = [rungs[state.rung].at if state.rung < len(rungs) else rungs[-1].at + GIVE_UP_S]
    due += [_lost_due(state)] if _unended(state) else []
    return min(due + ([state.asked + ANSWER_S] if _awaits_answer(state) and state.asked is not None else []))


def kill_all(decisions: Decisions) -> None:
    """Leave out what the ladder would do before."""
    decisions.actions.append(SignalStages(tuple(decisions.state.stages), signal.SIGKILL))
    decisions.state = replace(decisions.state, rung=len(ladder(decisions.state)))


def request_job_state(decisions: Decisions) -> None:
    """A scheduler that ends a job says why only when it is asked."""
    if decisions.state.job and decisions.state.asked is None:
        decisions.state = replace(decisions.state, asked=decisions.t)
        decisions.actions.append(AskScheduler())


def _unended(state: RunState) -> list[str]:
    """The stages with ranks on lost nodes whose launchers run and have not been killed."""
    running = (stage for stage in state.stages.values() if stage.runs and not stage.killed)
    return [stage.name for stage in running if state.lost_nodes(stage.name)]


def _lost_due(state: RunState) -> float:
    """When these launchers are to be killed."""
    return max([state.stopping or 0.0, *(lost.t for lost in state.lost)]) + LOST_S


def _awaits_answer(state: RunState) -> bool:
    return state.asked is not None and state.scheduler is None and state.t < state.asked + ANSWER_S


# A writer whose reader has died goes on: SST drops the steps of that reader. A reader whose writer has died cannot, nor
# what reads from it in turn.


def unaffected(state: RunState) -> frozenset[str]:
    """The stages that run, have opened their streams, and depend on no stage that has failed."""
    running = {stage.name for stage in state.stages.values() if stage.runs}
    affected = {name for name in running if _is_stuck(state, name)}
    affected |= {name for name, stage in state.stages.items() if name == state.culprit or _has_failed(stage)}
    affected |= {name for name in state.stages if state.lost_nodes(name)}
    while more := {name for name in running - affected if affected.intersection(live_writers(state, name))}:
        affected |= more
    return frozenset(running - affected)


def _is_stuck(state: RunState, name: str) -> bool:
    """Whether a stage waits, or is about to, for what does not come: it has not opened its streams, or its queue waits
    for a reader on a lost node, of which SST notices nothing."""
    if state.stages[name].opened is None:
        return True
    streams = [stream for stream in state.plan.streams if stream.writer == name and stream.queue is not None]
    blocking = [stream for stream in streams if stream.queue is not None and stream.queue.when_full == "block"]
    return any(state.lost_nodes(reader) for stream in blocking for reader in stream.readers)


def _has_failed(stage: StageState) -> bool:
    return stage.status == "failed" or stage.signal is not None or stage.code not in (None, 0)


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
