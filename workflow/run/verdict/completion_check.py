"""Whether a stage did what the plan says, by its exit code and by counts: steps read = steps written. Pure.

An exit code of 0 proves little: a writer whose reader died goes on and exits 0, and ADIOS2's own Python
loop ends quietly, with exit code 0, when the writer died.
"""

from __future__ import annotations

from workflow.plan.plan_model import EndPlan
from workflow.run.state.run_state import EndState, RunState
from workflow.run.verdict.broken_streams import awaits_readers, gone_reader, losses
from workflow.run.verdict.end_causes import exit_text, loss_text
from workflow.run.verdict.failed_stages import does_without_writer


def why_incomplete(state: RunState, name: str) -> str | None:
    """What is wrong with a stage that has exited: "" when nothing is, None while that depends on others: on a writer
    that must end first, on readers that have not taken all that was written, or on a silent node.

    The text is a predicate: `ended with exit code 1`.
    """
    stage = state.stages[name]
    if stage.signal is not None or stage.code != 0:
        return exit_text(stage) + _trouble(state, name)
    ends = state.ends_of(name)
    problems = [_problem(state, end) for end in ends]
    if first := next(filter(None, problems), None):
        return f"ended with exit code 0, but {first}"
    if not any(end.counted for end in ends):
        # Nothing but the exit code says that it was done, and `srun` reports 0 for ranks whose node it has lost.
        if lost := state.lost_under(name):
            return f"ended with exit code 0, but {loss_text(lost)}"
        if any(state.runs_on(name, node) for node in state.silent):
            return None
    if None in problems:
        return None
    if reader := gone_reader(state, name):
        return f"ended with exit code 0, but {'; '.join(losses(state, reader))}"
    return None if awaits_readers(state, name) else ""


def through_reader(state: RunState, name: str) -> str:
    """The reader without whose end a stage that has exited would not have failed; "" where it failed by itself."""
    stage = state.stages[name]
    if stage.signal is not None or stage.code != 0 or any(_problem(state, end) for end in state.ends_of(name)):
        return ""
    return gone_reader(state, name) or ""


def _trouble(state: RunState, name: str) -> str:
    ends = state.ends_of(name)
    texts = [end.trouble_text for end in ends if end.trouble_text]
    if not texts:  # a reader that its writer did not wait for
        writers = [(end, state.writer(end.stream)) for end in ends if end.side == "read"]
        texts = [writer.hint for end, writer in writers if writer.hint and end.steps < writer.steps]
    return f": {texts[0]}" if texts else ""


def _problem(state: RunState, end: EndState) -> str | None:
    if does_without_writer(state, end):
        return ""
    if not end.counted:
        missing = end.closed is not None and not end.complete
        return f"left no {state.plan.stream(end.stream).path}{_hint(end)}" if missing else ""
    if end.closed is None and state.is_log_missing(end):
        return ""
    if end.closed is None:
        if end.live and end.opened is None:
            log = not end.reported and state.plan.stream(end.stream).traits.counted_by == "log"
            evidence = f": {end.trouble_text}" if end.trouble_text else _hint(end)
            how = " through workflow.stage" if end.reported and not state.plan.stage(end.stage).component else ""
            return f"never opened {end.stream}{how}" + (evidence or ", according to SST's log in its stderr" * log)
        verb = "writing" if end.side == "write" else "reading"
        return f"left {end.stream} without closing it, {verb} {_steps(end.steps)}"
    if not end.complete:
        return f"{end.stream} broke off after {_steps(end.steps)}{': ' if end.trouble_text else ''}{end.trouble_text}"
    return _left_early(state, end) or _miscount(state, end)


def _left_early(state: RunState, end: EndState) -> str:
    """That a program has closed its stream in order, with fewer steps than its component declares; nothing where it was
    asked to."""
    if state.stages[end.stage].cut:
        return ""
    declared = next(each.steps for each in state.plan.stage(end.stage).ends if _is(each, end))
    if declared is None or end.steps >= declared:
        return ""
    return f"wrote only {end.steps} of the {_steps(declared)} of {end.stream} that its parameters request"


def _is(plan: EndPlan, end: EndState) -> bool:
    return (plan.stream, plan.side) == (end.stream, end.side)


def _miscount(state: RunState, end: EndState) -> str | None:
    """What is wrong with the number of steps read; nothing at the writing end, whose number is what counts."""
    writer, queue = state.writer(end.stream), state.plan.stream(end.stream).queue
    if not writer.counted or state.is_log_missing(writer):
        return ""
    # What there is of one that is left out is all.
    ended = writer.closed is not None or state.goes_without(writer.stage)
    if ended and _may_reopen(state, writer):
        return None
    if ended and end.steps > writer.steps:
        return f"read {_steps(end.steps)} of {end.stream}, although {writer.stage} wrote only {writer.steps}"
    if queue is not None and queue.when_full == "discard":
        return "" if ended else None
    if end.steps < writer.steps:
        # A reader that saw the end of the stream has all steps; this one left before.
        wrote, then = ("wrote", "") if ended else ("had written", " by then")  # it may go on
        text = f"read only {end.steps} of the {_steps(writer.steps)} that {writer.stage} {wrote} to {end.stream}{then}"
        return text + (_REOPENED if end.complete and _is_seen_in_index(state, writer) else _hint(writer))
    return "" if ended else None


def _hint(end: EndState) -> str:
    return f": {end.hint}" if end.hint else ""


_REOPENED = (
    ", which it opened anew after it had closed it: a reader of a file that still grows takes that for the end; leave "
    "`coupling: live` out, or keep it open"
)


def _may_reopen(state: RunState, writer: EndState) -> bool:
    """Whether a file that is closed may still grow: a program may open its output anew for each dump."""
    return _is_seen_in_index(state, writer) and state.stages[writer.stage].exited is None


def _is_seen_in_index(state: RunState, writer: EndState) -> bool:
    return writer.live and not writer.reported and state.plan.stream(writer.stream).traits.counted_by == "index"


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"
