"""The lifecycle of a run: `step(state, *events)` → the state after these events, and the actions to take.

Pure: no clock, no processes; time arrives in the events. The supervisor performs the actions and brings
back what came of them as further events. Every deadlock or wrong verdict becomes a test of this first.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import replace

from workflow.formatting import clock_time, duration, plural
from workflow.run.actions import Action, Decisions, KillStage, ReplaceReader, RestartStages, SignalStages, StartStage
from workflow.run.checkpoint_requests import next_request, request_checkpoints
from workflow.run.state.events import (
    Event,
    Interrupted,
    NodeLost,
    ProofTaken,
    RecordsLost,
    Requested,
    RunStarted,
    StageStarted,
    SteeringAsked,
    StreamClosed,
    StreamOpened,
    StreamOpening,
    StreamProgress,
)
from workflow.run.state.lifecycle_events import (
    DeadlinePassed,
    DeadlockFound,
    RestartDecided,
    StageFailed,
    StageIgnored,
    StageOpen,
    StageSilent,
    StageStopped,
    StageSucceeded,
    StopRequested,
)
from workflow.run.state.reducer import fold, with_stage
from workflow.run.state.run_state import EndState, RunState, StageState
from workflow.run.steering_requests import pass_values
from workflow.run.stop_sequence import finish_run, kill_all, next_stop, request_job_state, stop_stages
from workflow.run.verdict.broken_streams import can_be_read_again, losses
from workflow.run.verdict.completion_check import through_reader, why_incomplete
from workflow.run.verdict.end_causes import loss_text
from workflow.run.verdict.failed_stages import (
    awaited_streams,
    can_be_ended,
    can_do_without,
    failing_since,
    lost_input,
    lost_text,
    may_be_ignored,
    tolerated_failures,
)
from workflow.run.verdict.failure_checks import RunFailure, failure_by_deadlock, failure_by_loss, failure_reported
from workflow.run.verdict.failure_origin import blame, evidence_s, settled_at
from workflow.run.verdict.passed_deadlines import (  # fmt: skip
    failure_by_deadline,
    first_open_limit,
    opening_stages,
    reopened_streams,
)
from workflow.run.verdict.restarts import broken_spool, can_restart, due_restarts, next_restart, restarts_at
from workflow.run.verdict.run_verdict import cause_of, causing_losses, loss_reason, was_cut
from workflow.run.verdict.spare_nodes import find_spares, stages_to_move
from workflow.run.verdict.stall_detection import Silences, find_silences, find_stalls, find_unended, idle_since
from workflow.run.verdict.wait_diagnosis import next_deadlock_check

# A SIGTERM that follows the stop so soon was sent with it.
_TOGETHER_S = 2.0


def step(state: RunState, *events: Event) -> tuple[RunState, list[Action]]:
    """The state after these events with all that follows from it, and the actions to take, in order.

    Events that were found together are given together: what is decided then does not depend on their order.
    """
    decisions = Decisions(fold(state, events), max(event.t for event in events))
    if decisions.state.finished is not None or decisions.state.started is None:
        return decisions.state, []
    for event in events:
        if isinstance(event, Interrupted):
            _interrupt(decisions, event.signal)
        if isinstance(event, ProofTaken) and event.state == "refused" and decisions.state.stopping is None:
            decisions.decide(StopRequested(decisions.t, to_refusal(event), event.stage))
        if isinstance(event, Requested):
            _take_request(decisions, event)
        if isinstance(event, SteeringAsked):
            pass_values(decisions, event)
        if isinstance(event, StageStarted) and state.stopping is not None:
            decisions.actions.append(SignalStages((event.stage,), signal.SIGTERM))
    _check_nodes(decisions, events)
    if decisions.state.stopping is None:
        # A stage may open its streams, or report a timeout, and exit before the supervisor reads its files again.
        _mark_open(decisions, events)
        _check_reports(decisions, events)
    _judge(decisions)
    if decisions.state.stopping is None:
        _start_ready(decisions, events)
        for check in (_check_deadlock, _check_deadlines, _check_counts, _check_end, _check_spools):
            if not _fails_or_stops(decisions.state):
                check(decisions)
        if decisions.state.failed:
            _end_tolerated_failures(decisions)
            _end_orphans(decisions)
            _stop_after_failure(decisions)
        if decisions.state.restarting:
            _start_again(decisions)
        if decisions.state.plan.signalled_stages and not _fails_or_stops(decisions.state):
            request_checkpoints(decisions)
    stop_stages(decisions)
    finish_run(decisions)
    return decisions.state, decisions.actions


def wake_at(state: RunState) -> float | None:
    """When the next decision is due by time alone (but for deadlines, which can wait for the next look)."""
    if state.stopping is not None:
        return next_stop(state)
    failing = failing_since(state)
    due = [] if failing is None else [failing + evidence_s(state)]
    due += [restarts_at(state, each) for each in state.restarting]
    settled = (settled_at(state, name) for name in tolerated_failures(state))
    due += [t for t in settled if t is not None and t > state.t]
    # What has failed is decided first.
    due += [] if failing is not None or (asks := next_request(state)) is None else [asks]
    return min(due + ([] if state.stop_at is None else [state.stop_at]), default=None)


def _fails_or_stops(state: RunState) -> bool:
    """Whether the run is stopped, or will be as soon as it is known what has failed first: nothing more is checked."""
    return state.stopping is not None or (bool(state.failed) and failing_since(state) is not None)


def _interrupt(decisions: Decisions, number: str = "") -> None:
    """Stop the run; at the second time at once. Schedulers send SIGTERM to a job's script and to its processes, and
    scripts pass it on: what comes together is one request."""
    if number == "SIGTERM":
        request_job_state(decisions)
    if decisions.state.stopping is not None:
        is_another = decisions.state.reason != _interrupted_by("SIGTERM") or number != "SIGTERM"
        if is_another or decisions.t - decisions.state.stopping >= _TOGETHER_S:
            kill_all(decisions)
        return
    if failing_since(decisions.state) is None:
        decisions.decide(StopRequested(decisions.t, _interrupted_by(decisions.state.interrupted)))


def _interrupted_by(what: str) -> str:
    return f"interrupted by {what}"


def _check_nodes(decisions: Decisions, events: Sequence[Event]) -> None:
    """When a node is lost on which a stage runs, or is about to, whatever has failed until now, it is the cause: start
    its stages again on a spare node, or stop the run."""
    if not any(isinstance(event, NodeLost) for event in events):
        return
    if decisions.state.proving:
        _refuse_lost(decisions, list(decisions.state.stages))
    lost = causing_losses(decisions.state)
    if lost and decisions.state.stopping is None:
        reason, culprit = loss_reason(decisions.state, lost)
        stays = _move_to_spares(decisions, lost)
        if stays is None:
            return
        not_again = f"; it was not started again: {stays}" if stays else ""
        decisions.decide(StopRequested(decisions.t, reason + not_again, culprit, "node_lost"))
    if lost:
        request_job_state(decisions)


def _move_to_spares(decisions: Decisions, lost: Sequence[NodeLost]) -> str | None:
    """Start the stages of lost nodes again on spare ones. Returns why not; "" where that is not their rule; None: they
    are."""
    names = stages_to_move(decisions.state, lost)
    if names is None:
        return ""
    needed = [node for node in lost if any(node in decisions.state.lost_under(name) for name in names)]
    moves = find_spares(decisions.state, needed, decisions.t)
    if isinstance(moves, str):
        return moves
    _fail_lost(decisions, [name for name in decisions.state.stages if decisions.state.plan.stage(name).optional])
    for name in names:
        if decisions.state.stages[name].status == "restarting":
            continue
        # Only these: the others that were lost have restarts of their own.
        rule = decisions.state.plan.stage(name).restart
        _fail_lost(decisions, [name] if rule is None else rule.stages)
        restart = next_restart(decisions.state, name, decisions.t)
        if isinstance(restart, str):
            return restart
        _decide_restart(decisions, restart)
    for move in moves:
        decisions.decide(move)
    return None


def _fail_lost(decisions: Decisions, names: Iterable[str]) -> None:
    """Those of these stages that were lost with their nodes have failed."""
    for name in names:
        stage, nodes = decisions.state.stages[name], decisions.state.lost_under(name)
        if nodes and not stage.is_over and stage.status != "restarting":
            decisions.decide(StageFailed(decisions.t, name, f"was lost: {loss_text(nodes)}"))


def _take_request(decisions: Decisions, request: Requested) -> None:
    """Stop once, however often that is asked for; kill at once."""
    if decisions.state.stopping is None:
        _interrupt(decisions)
    if request.request == "kill":
        _interrupt(decisions)


def to_refusal(proof: ProofTaken) -> str:
    """Why the stages were not started."""
    more = len(proof.differences) - 1
    others = f"; {plural(more, 'more difference')}: proof.json" if more > 0 else ""
    hint = f"to start anyway: `--set proof{f'.{proof.aspect}' if proof.aspect else ''}=warn`"
    return f"the stages were not started: {proof.differences[0]}{others} ({hint})"


def _judge(decisions: Decisions) -> None:
    for stage in [decisions.state.stages[name] for name in decisions.state.unjudged]:
        if stage.exited is None:
            continue
        asked = decisions.state.stopping is not None and stage.exited >= decisions.state.stopping
        problem = why_incomplete(decisions.state, stage.name)
        if problem is None and decisions.state.is_told:
            continue  # it may have had all the time that it needed
        if asked and (lost := decisions.state.lost_nodes(stage.name)):
            decisions.decide(StageFailed(decisions.t, stage.name, loss_text(lost)))
        elif asked and stage.name == decisions.state.culprit:
            decisions.decide(StageFailed(decisions.t, stage.name, decisions.state.reason))
        elif asked and (problem != "" or was_cut(decisions.state, stage.name)):
            decisions.decide(StageStopped(decisions.t, stage.name))
        elif problem == "":
            decisions.decide(StageSucceeded(decisions.t, stage.name))
        elif problem is not None:
            decisions.decide(StageFailed(decisions.t, stage.name, problem, through_reader(decisions.state, stage.name)))
        elif decisions.state.stopping is not None:
            decisions.decide(StageStopped(decisions.t, stage.name))


def _mark_open(decisions: Decisions, events: Sequence[Event]) -> None:
    kinds = StageStarted | StreamOpening | StreamOpened | RecordsLost
    changed = {event.stage for event in events if isinstance(event, kinds)}
    # What one end has done shows that the other one is open, of which there may be no word.
    told = [event for event in events if isinstance(event, StreamOpened | StreamProgress | StreamClosed)]
    moved = {event.stream for event in told if (event.stream, event.stage, event.side) in decisions.state.ends}
    for stream in (decisions.state.plan.stream(name) for name in moved):
        changed |= {name for name in (stream.writer, *stream.readers) if decisions.state.stages[name].opened is None}
    for name in decisions.state.stages if changed else ():
        if name in changed:
            _mark_if_open(decisions, name)


def _mark_if_open(decisions: Decisions, name: str) -> None:
    stage = decisions.state.stages[name]
    if stage.status == "starting" and stage.started is not None and not _unopened(decisions.state, name):
        decisions.decide(StageOpen(decisions.t, name))


def _start_ready(decisions: Decisions, events: Sequence[Event]) -> None:
    """Start the stages whose predecessors have ended. Not after a failure: that will stop the run."""
    begins = any(isinstance(event, RunStarted | ProofTaken) for event in events) and not decisions.state.proving
    if begins or decisions.succeeded:
        _start_waiting(decisions)


def _start_waiting(decisions: Decisions) -> None:
    while failing_since(decisions.state) is None:
        ready = [
            plan.name
            for plan in decisions.state.plan.stages
            if decisions.state.stages[plan.name].status == "waiting"
            and all(_has_ended(decisions.state.stages[name]) for name in plan.starts_after)
        ]
        if not ready or _refuse_lost(decisions, ready):
            return
        _leave_out_orphans(decisions, ready)
        for name in ready:
            if decisions.state.stages[name].status == "waiting":  # else it is ignored, because of a node
                decisions.state = with_stage(decisions.state, name, status="starting")
                decisions.actions.append(StartStage(name))


def _leave_out_orphans(decisions: Decisions, names: Sequence[str]) -> None:
    """Leave out those of these stages to which nothing would come: what they read is sent by one that is left out."""
    left = [name for name in names if not decisions.state.stages[name].ignored]
    while lost := {name: writer for name in left if (writer := lost_input(decisions.state, name))}:
        for name, writer in lost.items():
            decisions.decide(StageFailed(decisions.t, name, f"was not started: {lost_text(writer)}"))
            _leave_out(decisions, name, "")
        left = [name for name in left if name not in lost]


def _end_orphans(decisions: Decisions) -> None:
    """End the stages that wait for one that is left out, in open or for a step of its file."""
    state = decisions.state
    ignored = {name for name in state.failed if state.stages[name].ignored}
    readers = [each for stream in state.plan.streams if stream.writer in ignored for each in stream.readers]
    for name in dict.fromkeys(readers):
        stage = state.stages[name]
        if stage.runs and stage.status in ("starting", "running") and (writer := lost_input(state, name)):
            decisions.decide(StageFailed(decisions.t, name, f"was ended: {lost_text(writer)}"))
            decisions.actions.append(SignalStages((name,), signal.SIGTERM))


def _has_ended(stage: StageState) -> bool:
    """Whether those that wait for a stage may start."""
    return stage.status == "succeeded" or (stage.ignored and not stage.runs)


def _written(state: RunState, name: str) -> list[str]:
    return [end.stream for end in state.plan.stage(name).ends if end.side == "write"]


def _refuse_lost(decisions: Decisions, names: Sequence[str]) -> bool:
    """Stop the run where one of these stages would be started on a lost node, and no spare one takes its place:
    launchers wait there for minutes."""
    for name in names:
        lost = decisions.state.lost_nodes(name) if decisions.state.stopping is None else []
        if not lost:
            continue
        # While the placement is being proved, it is not changed.
        moves = "" if decisions.state.proving else find_spares(decisions.state, lost, decisions.t)
        if isinstance(moves, str) and not decisions.state.proving and can_do_without(decisions.state, name):
            reason = f"was not started: {loss_text(lost)}"
            if decisions.state.stages[name].status != "failed":
                decisions.decide(StageFailed(decisions.t, name, reason))
            _leave_out(decisions, name, moves)
            continue
        if isinstance(moves, str):
            text = "; ".join(filter(None, [f"{loss_text(lost)} before {name} was started", moves]))
            decisions.decide(StopRequested(decisions.t, text, name, "node_lost"))
            return True
        for move in moves:
            decisions.decide(move)
    return False


def _check_reports(decisions: Decisions, events: Sequence[Event]) -> None:
    """Stop the run when something was reported that makes it fail."""
    if _fails_or_stops(decisions.state):
        return
    failure = failure_reported(decisions.state, events, decisions.t)
    if failure is not None:
        _take_failure(decisions, failure)


def _check_deadlock(decisions: Decisions) -> None:
    """Stop the run when stages wait for each other and none can continue."""
    state = decisions.state
    if state.deadlock_check is None or decisions.t < state.deadlock_check:
        return
    failure = failure_by_deadlock(state, decisions.t)
    decisions.state = replace(state, deadlock_check=next_deadlock_check(state, decisions.t))
    if failure is not None:
        decisions.decide(DeadlockFound(decisions.t, failure.text, failure.stage))
        decisions.decide(StopRequested(decisions.t, failure.text, failure.stage))


def _check_deadlines(decisions: Decisions) -> None:
    """Stop the run, or end a tap, when a deadline has passed; warn of what is silent. Not before one can be due."""
    state = decisions.state
    if decisions.t < state.next_deadline:
        return
    silences = find_silences(state)
    failure = failure_by_deadline(state, silences, decisions.t)
    if failure is not None:
        _take_failure(decisions, failure)
    else:
        _warn(decisions, silences)
        decisions.state = replace(
            decisions.state, checked=decisions.t, next_deadline=_next_deadline(decisions.state, silences, decisions.t)
        )


def _take_failure(decisions: Decisions, failure: RunFailure) -> None:
    """Stop the run, or end a tap that hangs. Nothing follows of a stage that is ended already, to be started again."""
    known = decisions.state.stages.get(failure.stage)
    if known is not None and known.status == "restarting":
        return
    if failure.deadline is not None:
        decisions.decide(DeadlinePassed(decisions.t, failure.deadline, failure.text, failure.stage))
    if (
        failure.deadline in ("start", "step", "exit")
        and not failure.reported
        and can_be_ended(decisions.state, failure.stage)
    ):
        decisions.decide(StageFailed(decisions.t, failure.stage, f"was ended: {failure.text}"))
        decisions.actions.append(SignalStages((failure.stage,), signal.SIGTERM))
    elif failure.deadline in ("start", "step", "exit") and can_restart(decisions.state, failure.stage):
        decisions.decide(StageFailed(decisions.t, failure.stage, f"was ended: {failure.text}"))
    else:
        decisions.decide(StopRequested(decisions.t, failure.text, failure.stage))


def _warn(decisions: Decisions, silences: Silences) -> None:
    """Report what has been silent for long, again each time that its silence has doubled."""
    before = decisions.state.back(decisions.state.plan.deadlines.warn)
    stalls = [
        *find_stalls(decisions.state, silences, before, decisions.t),
        *find_unended(decisions.state, before, decisions.t),
    ]
    # All that waits for one stage is one warning: of the silence that began last.
    for stall in {stall.stage: stall for stall in sorted(stalls, key=lambda stall: stall.since)}.values():
        last = decisions.state.stages[stall.stage].silence
        if last is None or last.since < stall.since or decisions.t - stall.since >= 2 * (last.t - last.since):
            left = decisions.state.left_since(stall.stage) is not None
            decisions.decide(StageSilent(decisions.t, stall.stage, stall.since, stall.chain, left))


def _check_counts(decisions: Decisions) -> None:
    """Stop the run when the steps of a stream get lost although all goes on; its reader has failed where it can read
    them again."""
    state = decisions.state
    failure = failure_by_loss(state) if state.behind else None
    if failure is None:
        return
    restart = next_restart(state, failure.stage, decisions.t)
    if can_be_read_again(state, failure.stage) and isinstance(restart, RestartDecided):
        decisions.decide(StageFailed(decisions.t, failure.stage, failure.text.removeprefix(f"{failure.stage} ")))
    else:
        decisions.decide(StopRequested(decisions.t, failure.text, failure.stage, "lost_steps"))


def _check_end(decisions: Decisions) -> None:
    """Stop the run in order before its allocation ends."""
    state = decisions.state
    if state.stop_at is None or decisions.t < state.stop_at:
        return
    if state.ends_at is not None:
        left, end = duration(round(max(0.0, state.ends_at - decisions.t))), clock_time(state.ends_at)
        decisions.decide(
            StopRequested(
                decisions.t, f"stopped {left} before the end of the allocation ({end})", "", "end_of_allocation"
            )
        )


def _check_spools(decisions: Decisions) -> None:
    """Stop the run when a spool has failed from which a stage reads: no more steps would come, and nobody would say
    so."""
    if decisions.state.failed and (broken := broken_spool(decisions.state, decisions.t)) is not None:
        spool, reader = broken
        reason = f"{spool} {decisions.state.stages[spool].reason}, and {reader} reads its steps from there"
        decisions.decide(StopRequested(decisions.t, reason, spool))


def _end_tolerated_failures(decisions: Decisions) -> None:
    """Kill a tap that was signalled to end and has not, and what the launcher of one that has ended may have left. Free
    those who wait for it in open: SST's writer waits until as many readers have come as there should be."""
    for name in tolerated_failures(decisions.state):
        stage = decisions.state.stages[name]
        settled = settled_at(decisions.state, name)
        if not stage.runs and (settled is None or decisions.t < settled):
            continue
        if not stage.ignored and not stage.runs:  # what it wrote until then counts
            _ignore(decisions, name)
        stage = decisions.state.stages[name]
        due = not stage.runs or decisions.t >= (stage.failed or 0.0) + decisions.state.plan.deadlines.stop
        if due and not stage.killed:
            decisions.state = with_stage(decisions.state, name, killed=True)
            decisions.actions.append(KillStage(name))
        if not stage.runs and not stage.replaced and (streams := awaited_streams(decisions.state, name)):
            decisions.state = with_stage(decisions.state, name, replaced=True)
            decisions.actions.append(ReplaceReader(name, tuple(streams)))


def _ignore(decisions: Decisions, name: str, why: str = "") -> None:
    """Let the others go on without a stage that has failed, and start those that wait for its end."""
    _leave_out(decisions, name, why)
    _start_waiting(decisions)


def _leave_out(decisions: Decisions, name: str, why: str) -> None:
    plan, written = decisions.state.plan, _written(decisions.state, name)
    decisions.decide(StageIgnored(decisions.t, name, written, why))
    for reader in (reader for stream in written for reader in plan.stream(stream).readers):
        _mark_if_open(decisions, reader)


def _next_deadline(state: RunState, silences: Silences, t: float) -> float:
    """No deadline can pass before this time, unless a stage or a stream changes more than its number of steps."""
    limits = state.plan.deadlines
    due = [begin + first_open_limit(state) + state.paused_s(begin) for _, begin in opening_stages(state)]
    ends = [since + limits.start + state.paused_s(since) for _, since in reopened_streams(state)]
    due += [end for end in ends if end > t]
    silent, idle = (t, *silences.times()), idle_since(state).values()
    for limit, times in ((limits.warn, (*silent, *idle)), (limits.step, silent), (limits.exit, idle)):
        if limit is not None:
            # A silence that has lasted longer and is no stall is looked at again after a twentieth of the limit.
            passing = (since + limit + state.paused_s(since) for since in times)
            due += [at if at > t else t + limit / 20 for at in passing]
    if limits.run is not None and state.started is not None:
        due.append(state.started + limits.run)
    return min(due)


def _stop_after_failure(decisions: Decisions) -> None:
    """After a failure: name the stage it began with, as soon as that is certain, and stop the others."""
    state = decisions.state
    failing = failing_since(state)
    if failing is None or state.stopping is not None:
        return
    if decisions.t - failing < evidence_s(state) and any(stage.runs for stage in state.stages.values()):
        return
    culprit = blame(state)
    restart = next_restart(state, culprit, decisions.t)
    if isinstance(restart, RestartDecided):
        _decide_restart(decisions, restart)
        return
    if may_be_ignored(state, culprit):
        if not state.stages[culprit].runs:
            _ignore(decisions, culprit, restart)
        elif not state.stages[culprit].killed:
            decisions.state = with_stage(state, culprit, killed=True)
            decisions.actions.append(KillStage(culprit))
        return
    cause = cause_of(state, culprit)
    not_again = [f"it was not started again: {restart}"] if restart else []
    reason = "; ".join([f"{culprit} {state.stages[culprit].reason}", *not_again, *losses(state, culprit)])
    decisions.decide(StopRequested(decisions.t, reason, culprit, cause))
    if cause in ("cancelled", "preempted", "requeued", "time_limit", "node_lost", "out_of_memory"):
        request_job_state(decisions)  # the whole job may be ending


def _decide_restart(decisions: Decisions, restart: RestartDecided) -> None:
    """End what is left of the stages. Also of those that have exited: a launcher that was killed may have left
    ranks."""
    started = [name for name in restart.stages if decisions.state.stages[name].started is not None]
    decisions.decide(restart)
    decisions.actions += [KillStage(name) for name in started]


def _start_again(decisions: Decisions) -> None:
    """Start what has failed again, when all that was joined to it has ended."""
    if _fails_or_stops(decisions.state):
        return
    planned = [name for restart in due_restarts(decisions.state, decisions.t) for name in restart.stages]
    # The node may have been lost since their processes ended.
    if _refuse_lost(decisions, planned):
        return
    _leave_out_orphans(decisions, planned)
    due = due_restarts(decisions.state, decisions.t)
    decisions.actions += [RestartStages(tuple(restart.stages)) for restart in due]
    if any(decisions.state.stages[name].ignored for name in planned):
        _start_waiting(decisions)


def _unopened(state: RunState, name: str) -> bool:
    ends = [end for end in state.ends_of(name) if end.live and end.opened is None]
    return any(not _may_come_later(state, end) and not state.is_log_missing(end) for end in ends)


def _may_come_later(state: RunState, end: EndState) -> bool:
    """Whether a reader does without this stream until it is there: members of an ensemble come and go."""
    does_without = end.side == "read" and state.plan.stage(end.stage).end(end.stream, "read").does_without
    return does_without and not state.plan.stream(end.stream).traits.in_memory
