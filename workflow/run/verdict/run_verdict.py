"""The verdict on a run: its state, its cause and the stage that it began with, whatever was known when it was stopped.

Pure. All verdicts of a supervisor are made here; those on runs without one, in `control.missing_verdict`. What is
certain from outside comes before what a stage seems to have done: a lost node, then the words of the scheduler on the
whole job, then the stage that was found first.
"""

from __future__ import annotations

from collections.abc import Sequence

from workflow.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_RUN_FAILED, EXIT_STOPPED, Problem
from workflow.formatting import plural
from workflow.launch.rank_ends import SchedulerCause, is_of_scheduler
from workflow.run.state.events import NodeLost
from workflow.run.state.lifecycle_events import RunCause, RunFinished
from workflow.run.state.run_state import RunState
from workflow.run.verdict.broken_streams import losses, with_all_losses
from workflow.run.verdict.end_causes import OUTER, first_end, job_text, loss_text, quoted
from workflow.run.verdict.failed_stages import lacking, required_failures
from workflow.run.verdict.failure_origin import live_writers
from workflow.run.verdict.transport_check import with_transport
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named


def make_verdict(state: RunState, t: float) -> RunFinished:
    """The verdict on a run whose stages have all ended, or been given up."""
    if state.stopping is None:
        return _unstopped(state, t)
    if state.cause == "end_of_allocation":
        if all(stage.status == "succeeded" for stage in state.stages.values()):
            return RunFinished(t, "succeeded", EXIT_OK, "", "")
        return RunFinished(t, "stopped", EXIT_STOPPED, state.reason, "", state.cause)
    words = _words(state)
    if lost := causing_losses(state):
        return RunFinished(t, "failed", EXIT_RUN_FAILED, *loss_reason(state, lost), "node_lost", words)
    if (end := job_end(state)) is not None:
        cause, text = end
        reason = "; ".join([text, *losses(state)])
        # Somebody wanted it to end, as by Ctrl-C.
        if cause == "cancelled":
            return RunFinished(t, "interrupted", EXIT_INTERRUPTED, reason, "", cause, words)
        return RunFinished(t, "failed", EXIT_RUN_FAILED, reason, "", cause, words)
    if state.interrupted and not state.culprit:
        return RunFinished(t, "interrupted", EXIT_INTERRUPTED, state.reason, "", state.cause, words)
    reason = with_transport(state, with_all_losses(state, state.reason))
    return RunFinished(t, "failed", EXIT_RUN_FAILED, reason, state.culprit, state.cause, words)


def unstarted_verdict(problems: Sequence[Problem], t: float) -> RunFinished:
    """The verdict on a run that does not start because its allocation has less than the plan needs."""
    reason = "; ".join(": ".join(filter(None, (each.message, each.hint))) for each in problems)
    return RunFinished(t, "failed", EXIT_RUN_FAILED, reason, "")


def abandoned_verdict(reason: str, t: float) -> RunFinished:
    """The verdict on a run whose supervisor ends before it: by an error of its own, or because its caller left."""
    return RunFinished(t, "interrupted", EXIT_INTERRUPTED, reason, "")


def job_end(state: RunState) -> tuple[SchedulerCause, str] | None:
    """What has ended the whole job, and the words that say so; None where that is not known.

    While Slurm ends a job it says COMPLETING, and not why; but slurmstepd says so of each step.
    """
    said, source = state.scheduler, "" if state.allocation is None else state.allocation.source
    if source not in SCHEDULERS or not state.job or (said is None and state.interrupted != "SIGTERM"):
        return None
    scheduler, words = scheduler_named(source), [quoted(said)] if said is not None else []
    if said is not None and (cause := scheduler.cause_of(said.state)) is not None:
        return cause, ": ".join([job_text(state.job, cause), *words])
    if said is not None and not scheduler.says_ending(said.state) and state.interrupted != "SIGTERM":
        return None
    ends = sorted(state.ended_steps, key=lambda end: end.cause == "cancelled")
    if not ends and said is not None and said.state == scheduler.cancelled_state and state.interrupted == "SIGTERM":
        # It has ended the job while its script runs, and names neither a time limit nor a node.
        return "cancelled", ": ".join([job_text(state.job, "cancelled"), *words])
    if not ends or (said is not None and scheduler.goes_on(said.state)):
        return None
    first = ends[0]
    if not is_of_scheduler(first.cause):
        return None
    return first.cause, ": ".join([job_text(state.job, first.cause), ", ".join([f"`{first.words}`", *words])])


def causing_losses(state: RunState) -> list[NodeLost]:
    """The lost nodes on which something ran, of those that were silent before the run was stopped."""
    stopping = state.stopping if state.stopping is not None else state.t
    early = [lost for lost in state.lost if lost.silent_since <= stopping]
    return [lost for lost in early if stages_of(state, lost)]


def stages_of(state: RunState, lost: NodeLost) -> list[str]:
    """The stages that had ranks on a node when it fell silent."""
    return [name for name in state.stages if lost in state.lost_under(name)]


def loss_reason(state: RunState, lost: list[NodeLost]) -> tuple[str, str]:
    """(what was lost with these nodes, the first stage on them)."""
    stages = list(dict.fromkeys(name for node in lost for name in stages_of(state, node)))
    head = f"{loss_text(lost)}; {'stage' if len(stages) == 1 else 'stages'} on it: {', '.join(stages)}"
    return "; ".join([head, *losses(state)]), stages[0]


def cause_of(state: RunState, stage: str) -> RunCause:
    """What has ended a stage, where that is more than its own failure."""
    kill, first = state.stages[stage].kill, first_end(state.stages[stage].said)
    if kill is not None and kill.guard:
        return "node_lost"  # it had lost its supervisor
    return first.cause if first is not None and (first.cause in OUTER or first.cause == "killed") else ""


def was_cut(state: RunState, name: str) -> bool:
    """Whether a stage has ended before its work was done because the stages were told that the run is stopped: it
    says so, it got a signal, or one from which it reads was cut. One that was only told may have been done anyway."""
    found: set[str] = set()
    left = [name] if state.is_told else []
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += live_writers(state, each)
    return any(state.stages[each].cut for each in found)


def _unstopped(state: RunState, t: float) -> RunFinished:
    if taps := required_failures(state):
        said = f"{taps[0]} {state.stages[taps[0]].reason}; it is a tap, and the stages beside the taps succeeded"
        return RunFinished(t, "failed", EXIT_RUN_FAILED, said, taps[0])
    if lost := _lost_ensemble(state):
        count, first = plural(len(lost), "member"), state.stages[lost[0]]
        said = f"none of the {count} has done its work; {lost[0]} {first.reason or 'failed'}"
        return RunFinished(t, "failed", EXIT_RUN_FAILED, said, lost[0])
    return RunFinished(t, "succeeded", EXIT_OK, "", "", lacks=lacking(state))


def _lost_ensemble(state: RunState) -> list[str]:
    """The members of an ensemble of which all have been ignored: then there is no result. [] where each ensemble has
    one that has done its work."""
    members: dict[str, list[str]] = {}
    for stage in state.plan.stages:
        if stage.member is not None:
            members.setdefault(stage.member.ensemble, []).append(stage.name)
    return next((each for each in members.values() if all(state.stages[name].ignored for name in each)), [])


def _words(state: RunState) -> list[str]:
    """What the scheduler and the launcher of the first stage have said."""
    first = first_end(state.stages[state.culprit].said) if state.culprit in state.stages else None
    said = [state.scheduler.raw or state.scheduler.state] if state.scheduler is not None else []
    return said + ([first.words] if first is not None else [])
