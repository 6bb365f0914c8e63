"""Whether a failed stage stops the run, or the others go on without it. Pure.

The run goes on without a stage that nobody needs, such as a tap, and warns of it; any other failure stops it.
"""

from __future__ import annotations

from workflow.plan.plan_model import Plan, StagePlan
from workflow.run.state.run_state import EndState, RunState


def failing_since(state: RunState) -> float | None:
    """Since when the run fails: since the first failure of a stage without which the others do not go on. After that
    no stage is started, and the run stops as soon as it is known with which stage the failure began."""
    for name in state.failed:
        if not others_go_on(state, name):
            return state.stages[name].failed
    return None


def others_go_on(state: RunState, name: str) -> bool:
    """Whether the others go on without a stage if it fails.

    Of one that is required the run fails in the end, and at once where it fails before its stream is open.
    """
    if name not in state.stages or not _is_spare(state.plan, name):
        return False
    stage = state.plan.stage(name)
    if stage.restart is not None:  # until it is not started again any more
        return state.stages[name].ignored
    return stage.optional or (stage.added == "tap" and state.stages[name].opened is not None)


def _is_spare(plan: Plan, name: str) -> bool:
    """Whether nothing else depends on a stage: a tap, a relay of taps, or one that may be ignored, from
    which only such stages read, or those that do without it."""
    stage = plan.stage(name)
    if not (stage.added in ("tap", "relay") or stage.optional):
        return False
    readers = {
        reader for stream in plan.streams if stream.writer == name for reader in stream.readers
        if not plan.stage(reader).end(stream.name, "read").does_without
    }  # fmt: skip
    return all(plan.stage(each).added != "relay" and _is_spare(plan, each) for each in readers)


def may_be_ignored(state: RunState, name: str) -> bool:
    """Whether the others can go on without a stage that is not started again any more."""
    rule = state.plan.stage(name).restart
    return rule is not None and rule.then == "ignore" and _is_spare(state.plan, name)


def can_do_without(state: RunState, name: str) -> bool:
    """Whether the others can go on without a stage that cannot be started: only it is concerned."""
    stage = state.plan.stage(name)
    alone = stage.restart is None or (stage.restart.stages == [name] and stage.restart.then == "ignore")
    return stage.optional and alone and _is_spare(state.plan, name)


def does_without_writer(state: RunState, end: EndState) -> bool:
    """Whether a reader goes on without the writer of this stream, which has failed."""
    writer = state.plan.stream(end.stream).writer
    if end.side == "write" or writer not in state.stages or not state.stages[writer].ignored:
        return False
    return state.plan.stage(end.stage).end(end.stream, "read").does_without


def tolerated_failures(state: RunState) -> list[str]:
    """Failed stages without which the others went on: taps, relays of taps, spools, and those that may be ignored."""
    return [name for name in state.failed if others_go_on(state, name)]


def required_failures(state: RunState) -> list[str]:
    """Those of them that let the run fail in the end."""
    return [name for name in tolerated_failures(state) if not state.plan.stage(name).optional]


def can_be_ended(state: RunState, name: str) -> bool:
    """Whether a stage that hangs can be ended alone: the others go on without it, and none of them waits for it.

    The others do wait for one with `when_full: block`; those that wait fail when the deadline passes.
    """
    queues = [state.plan.stream(end.stream).queue for end in state.ends_of(name)]
    waited = any(queue is not None and queue.when_full == "block" for queue in queues)
    return others_go_on(state, name) and state.stages[name].runs and not waited


def failure_warnings(state: RunState) -> list[str]:
    """What to say of those without which the run succeeds."""
    found = []
    for stage in (state.plan.stage(name) for name in tolerated_failures(state)):
        why = "`on_failure: ignore`" if stage.restart is None else "`on_failure.then: ignore`"
        if stage.added is not None:
            why = "`required: true` in the tap makes this a failure"
        if stage.added == "spool":
            why = "stages behind it are not started again any more"
        who = f"{stage.added} {stage.name}" if stage.added else stage.name
        if stage.optional:
            found.append(f"{who} {state.stages[stage.name].reason}; the others went on without it ({why})")
    return found


def lacking(state: RunState) -> str:
    """What a run that succeeds has lost: `5 of 6 members, without look`."""
    members: dict[str, list[StagePlan]] = {}
    for stage in state.plan.stages:
        if stage.member is not None:
            members.setdefault(stage.member.ensemble, []).append(stage)
    texts = []
    for name, stages in members.items():
        done = sum(state.stages[stage.name].status == "succeeded" for stage in stages)
        if done < len(stages):
            texts.append(f"{done} of {len(stages)} members" + (f" of {name}" if len(members) > 1 else ""))
    failed = [
        stage.name for stage in state.plan.stages
        if stage.member is None and state.stages[stage.name].status == "failed"
    ]  # fmt: skip
    return ", ".join([*texts, *([f"without {', '.join(failed)}"] if failed else [])])


def awaited_streams(state: RunState, name: str) -> list[str]:
    """The streams that a failed stage has not opened, for which their writers wait in open."""
    return [
        end.stream for end in state.ends_of(name)
        if end.side == "read" and end.opened is None and state.plan.stream(end.stream).traits.in_memory
        and _awaits(state, end)
    ]  # fmt: skip


def _awaits(state: RunState, end: EndState) -> bool:
    """Whether the writer of a stream waits for this reader: its next attempt is told how many readers come."""
    writer = state.plan.stream(end.stream).writer
    return not (end.not_awaited or state.is_gone(writer) or state.stages[writer].status == "restarting")


def lost_input(state: RunState, name: str) -> str:
    """The stage that is left out for good from which nothing more comes to this one; "" where there is none.

    A live stream that is open breaks off, which the reader notices by itself. What there is of one that is kept is read
    to its end first.
    """
    for end in state.ends_of(name):
        stream = state.plan.stream(end.stream)
        if end.side == "write" or stream.coupling != "live" or end.closed is not None:
            continue
        writer = state.writer(stream.name)
        is_kept = stream.is_kept or (stream.spool and writer.opened is not None)
        has_all = end.steps >= writer.steps if is_kept else end.opened is None
        if has_all and state.goes_without(writer.stage) and not does_without_writer(state, end):
            return writer.stage
    return ""


def lost_text(writer: str) -> str:
    """Why a stage is not started that would read from this one."""
    return f"{writer}, from which it reads, was left out"
