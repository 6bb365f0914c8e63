"""The stage with which a failure began, and the evidence for it. Pure.

Failure travels downstream: a reader ends because its writer has died, and its own end may be noticed first: a launcher
needs a while to report the death of its ranks. So a failed reader is not blamed while its writer may have been first.
"""

from __future__ import annotations

import math
import signal

from workflow.launch.launchers import LAUNCHERS
from workflow.run.state.events import REPORTED_S
from workflow.run.state.run_state import EndState, RunState, StageState
from workflow.run.verdict.end_causes import first_end, is_outer
from workflow.run.verdict.failed_stages import failing_since, tolerated_failures

# A writer whose ranks are gone, or that its reader has lost, will end: its launcher, or the program on its way out,
# needs no longer than this. After that the reader is blamed.
DYING_S = 10.0
# Of a writer whose processes cannot be seen here, and whose reader says nothing, so little is known that this must do.
UNKNOWN_S = 0.3
# The same where ranks are on other nodes: their launcher reports an end when the other ranks have been killed.
FAR_S = 3.0


def blame(state: RunState) -> str:
    """The failed stage with which the failure began.

    Failure travels downstream: a reader sees its writer die, a writer does not see its reader die. So it is
    a failed stage none of whose live writers failed; of several, one that did not exit 0, then the first. But first of
    all it is one that was ended from outside, by what was said of its ranks: no writer does that to its reader.
    """
    spare = tolerated_failures(state)
    failed = [stage for stage in state.stages.values() if stage.status == "failed" and stage.name not in spare]
    failed = [stage for stage in failed if not stage.through] or failed
    names = {stage.name for stage in failed}
    outer = [stage for stage in failed if is_outer(stage)]
    origins = outer or [stage for stage in failed if not names & set(live_writers(state, stage.name))]
    return min(origins or failed, key=lambda stage: (stage.code == 0, _seen_to_end(stage))).name


def _seen_to_end(stage: StageState) -> float:
    """When a stage ended: a launcher reports the end of a rank before it ends itself."""
    first = first_end(stage.said)
    return (stage.exited or 0.0) if first is None else first.t


def live_writers(state: RunState, name: str) -> list[str]:
    """The stages from which this one reads while they write."""
    return [stream.writer for stream in state.plan.streams if name in stream.readers and stream.coupling == "live"]


def lost_writers(state: RunState, name: str) -> list[str]:
    """Writers that this stage says are gone, but that have not been seen to end."""
    return [
        writer.stage
        for end in state.ends_of(name)
        if end.side == "read" and end.trouble == "failed"
        and state.stages[(writer := state.writer(end.stream)).stage].runs
    ]  # fmt: skip


def evidence_s(state: RunState) -> float:
    """How long after the first failure to wait for what may have caused it; 0 when it is settled who is to blame."""
    return _evidence_s(state, blame(state))


def settled_at(state: RunState, name: str) -> float | None:
    """When it is certain that a stage has failed by itself without which the others go on (Unix s).

    Until then it may have lost its writer, with which it is started again. None: that depends on what has failed.
    """
    stage = state.stages[name]
    if stage.ignored or not state.plan.may_restart(name):
        return -math.inf
    return None if failing_since(state) is not None else (stage.failed or 0.0) + _evidence_s(state, name)


def _evidence_s(state: RunState, failed: str) -> float:
    culprit = state.stages[failed]
    # No stage is killed by SIGKILL because its writer has died.
    if state.interrupted or culprit.signal == signal.SIGKILL or is_outer(culprit):
        return 0.0
    if state.silent and any(_near(state, culprit.name, node) for node in state.silent):
        return REPORTED_S  # by then it is lost (`doubted_nodes`), or back
    lost = lost_writers(state, culprit.name)
    if lost:
        return 0.0 if all(_goes_on(state, name, culprit.exited or 0.0) for name in lost) else DYING_S
    suspects = [name for name in live_writers(state, culprit.name) if state.stages[name].runs]
    if any(name in culprit.dying or state.stages[name].said for name in suspects):
        return DYING_S
    # A reader whose records are complete would have said that it lost its writer; not one that a library has aborted.
    # UCX does that to a reader whose writer dies while its memory is read, and the writer still counts as alive then.
    speaks = _reports_all(state, culprit.name) and culprit.signal != signal.SIGABRT
    unsure = [name for name in suspects if name not in culprit.alive or not speaks]
    far = any(LAUNCHERS[state.plan.stage(name).launch.launcher].other_machines for name in unsure)
    return (FAR_S if far else UNKNOWN_S) if unsure else 0.0


def doubted_nodes(state: RunState) -> frozenset[int]:
    """The silent nodes near which a stage has failed, or is why the run is stopped, as where SST has dropped a reader
    whose connection was closed: so a short silence is enough."""
    failed = [name for name in state.stages if state.stages[name].status == "failed" or name == state.culprit]
    return frozenset(node for node in state.silent if any(_near(state, name, node) for name in failed))


def _near(state: RunState, name: str, node: int) -> bool:
    """Whether a stage, or one that is joined to it by a stream, has ranks on this node."""
    streams = [state.plan.stream(end.stream) for end in state.plan.stage(name).ends]
    joined = {name, *(each for stream in streams for each in (stream.writer, *stream.readers))}
    return any(state.runs_on(each, node) for each in joined)


def _goes_on(state: RunState, name: str, since: float) -> bool:
    """Whether a stage has made a step since then: its processes live."""
    return any(end.last_step is not None and end.last_step > since for end in state.ends_of(name))


def _reports_all(state: RunState, name: str) -> bool:
    """Whether a stage reports its errors itself, on all streams that it reads."""
    reading: list[EndState] = [end for end in state.ends_of(name) if end.side == "read"]
    return all(end.reported for end in reading)
