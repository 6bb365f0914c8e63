"""Which stages could go on without what has failed: a run that fails tells these to end, and ends the others at once.

Pure. A writer whose reader has died goes on: SST drops the steps of that reader. A reader whose writer has died cannot,
nor what reads from it in turn.
"""

from __future__ import annotations

from workflow.run.state import RunState, StageState
from workflow.run.verdict.failure_origin import live_writers


def unaffected(state: RunState) -> frozenset[str]:
    """The stages that run, have opened their streams, and depend on no stage that has failed."""
    running = {stage.name for stage in state.stages.values() if stage.runs}
    affected = {name for name in running if _is_stuck(state, name)}
    affected |= {name for name, stage in state.stages.items() if name == state.culprit or _has_failed(stage)}
    affected |= {name for name in state.stages if state.lost_nodes(name)}
    while more := {name for name in running - affected if _sources(state, name) & affected}:
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


def _sources(state: RunState, name: str) -> set[str]:
    """The stages without which this one cannot go on: those from which it reads, and those of its launch line."""
    group = state.plan.group_of(name)
    return {*live_writers(state, name), *(group.stages if group is not None else ())}
