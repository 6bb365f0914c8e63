"""Spools that keep the newest steps of a stream only: which steps are dropped. Pure.

How their disk space is freed: `workflow.formats.bp_holes`.
"""

from __future__ import annotations

from workflow.plan.plan_model import StreamPlan
from workflow.run.state.run_state import RunState

# How often the supervisor looks: in this time a spool may grow beyond what it is to keep.
LOOK_S = 2.0
# Of the time that a look takes, the least until the next one.
LOOK_SHARE = 20.0
# Of what is kept: fewer steps are not worth a look at the index.
_SHARE = 0.25


def droppable(state: RunState, stream: StreamPlan) -> int:
    """Up to which step the spool of a stream has more than it is to keep; 0 where that is not worth it yet. Pure."""
    written, first = state.writer(stream.spool), state.spool_first.get(stream.name, 0)
    kept = stream.spool_steps
    end = 0 if kept is None else written.steps - kept
    # Whatever the rules say, nobody is robbed of what it is about to read.
    end = min([end, *(reader.steps for reader in state.readers(stream.name) if reader.from_spool)])
    return end if end - first >= max(1, _SHARE * (kept or 0)) else 0


def units_behind(state: RunState, stream: StreamPlan) -> list[list[str]]:
    """The stages that go on together, of each restart in which one that reads this stream would read it again. Pure."""
    rules = [stage.restart for stage in state.plan.stages if stage.restart is not None]
    return [list(rule.stages) for rule in rules if {*rule.stages} & {*stream.readers}]
