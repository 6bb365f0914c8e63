"""Streams whose reader is gone while its writer goes on: SST drops the steps of such a reader without a word. Pure.

Two kinds of evidence. The reader's stage has ended without closing the stream, or a node of it was lost. Or the counts
of both ends: a queue that blocks never lets a writer be further ahead of a reader than its limit, unless SST has given
the reader up. A program reports a step when it has ended, so that counts differ by the limit and one at most.
"""

from __future__ import annotations

import re

from workflow.formatting import plural
from workflow.run.state.run_state import EndState, RunState
from workflow.run.verdict.failed_stages import others_go_on

# For so long a reader must be left behind, in addition to the time that its records may need to become visible: what
# it had taken when its writer was that far ahead is then known.
LEFT_S = 3.0


def broken_stream(state: RunState) -> tuple[str, str] | None:
    """(the reader that is gone, what is lost) where the counts prove it, though nothing else has shown it yet."""
    for (name, reader, side), behind in state.behind.items():
        writer = state.writer(name)
        is_old = state.waited_s(behind.since) > LEFT_S + state.visibility_s
        if is_old and _is_fed(state, writer, state.ends[name, reader, side]):
            lost = _loss(writer.steps - behind.steps, writer, reader)
            return reader, f"{reader} was lost: {lost}; {writer.stage} went on without it"
    return None


def losses(state: RunState, reader: str | None = None) -> list[str]:
    """`28 of 40 steps of field never arrived at hist` of each stream whose reader is gone; of one reader if given."""
    return [
        _loss(count, state.writer(stream.name), name)
        for stream in state.plan.streams
        for name in stream.readers
        if reader in (None, name) and (count := state.untaken(stream.name, name))
    ]


def with_all_losses(state: RunState, text: str) -> str:
    """A reason with the counts of now: a writer goes on for a while after the reason of the stop has been found."""
    for stream in state.plan.streams:
        for name in stream.readers:
            if count := state.untaken(stream.name, name):
                writer = state.writer(stream.name)
                then = rf"\d+ of \d+ steps? of {re.escape(stream.name)} never arrived at {re.escape(name)}(?![\w-])"
                text = re.sub(then, _loss(count, writer, name), text)
    return text


def gone_reader(state: RunState, writer: str) -> str | None:
    """The reader without which a writer's steps were lost, although it ended with exit code 0; None: there is none."""
    for end in _complete_outputs(state, writer):
        for reader in _owed(state, end):
            if state.is_gone(reader.stage):
                return reader.stage
    return None


def awaits_readers(state: RunState, writer: str) -> bool:
    """Whether it is not known yet if all steps of a writer have arrived."""
    return any(_owed(state, end) for end in _complete_outputs(state, writer))


def _complete_outputs(state: RunState, stage: str) -> list[EndState]:
    """The ends at which a stage has written a stream to its end, of streams that are nowhere but in their queue."""
    return [end for end in state.ends_of(stage) if end.side == "write" and end.complete and _is_transient(state, end)]


def _owed(state: RunState, writer: EndState) -> list[EndState]:
    """The readers that have not taken all, and have not closed the stream: then their own count decides."""
    return [
        reader for reader in state.readers(writer.stream)
        if reader.live and reader.closed is None and reader.opened is not None and reader.steps < writer.steps
        and not reader.from_spool and not others_go_on(state, reader.stage) and not _is_read_again(state, reader)
    ]  # fmt: skip


def can_be_read_again(state: RunState, reader: str) -> bool:
    """Whether a stage from which steps were lost finds them in a spool, when it is started again."""
    ends = [end for end in state.ends_of(reader) if end.side == "read" and not end.from_spool]
    return any(_is_read_again(state, end) for end in ends)


def _is_read_again(state: RunState, reader: EndState) -> bool:
    """Whether a reader that fails gets its steps from a spool: its writer owes them to the spool alone."""
    spool = state.plan.stream(reader.stream).spool
    return spool != "" and spool not in state.failed and state.plan.may_restart(reader.stage)


def _is_transient(state: RunState, end: EndState) -> bool:
    return state.plan.stream(end.stream).traits.in_memory


def _is_fed(state: RunState, writer: EndState, reader: EndState) -> bool:
    """Whether a reader is to take each step, and its steps are seen when it does."""
    if not (writer.live and reader.live) or reader.opened is None or reader.closed is not None:
        return False
    stage = state.stages[reader.stage]
    if not stage.runs or stage.status == "restarting" or others_go_on(state, reader.stage):
        return False
    if not (_is_certain(state, writer) and _is_certain(state, reader)):
        return False
    return _takes_all(state, writer, reader)


def _is_certain(state: RunState, end: EndState) -> bool:
    """Whether its steps are surely its own: lines of a log do not always say which of several streams they are of."""
    same = [each for each in state.ends_of(end.stage) if each.side == end.side and not each.reported]
    return end.reported or len(same) == 1


def _takes_all(state: RunState, writer: EndState, reader: EndState) -> bool:
    """Whether the queue gives each step to this reader: other modes leave steps out."""
    given = {**_parameters(state, writer), **_parameters(state, reader)}
    mode = given.get("StepDistributionMode", "AllToAll").lower()
    newest = given.get("AlwaysProvideLatestTimestep", "false").lower()
    return state.plan.stream(reader.stream).traits.in_memory and mode == "alltoall" and newest in ("false", "off", "no")


def _parameters(state: RunState, end: EndState) -> dict[str, str]:
    return state.plan.stage(end.stage).end(end.stream, end.side).parameters


def _loss(count: int, writer: EndState, reader: str) -> str:
    return f"{count} of {plural(writer.steps, 'step')} of {writer.stream} never arrived at {reader}"
