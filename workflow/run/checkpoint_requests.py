"""When a program is asked for a checkpoint that it writes on a signal. Pure."""

from __future__ import annotations

from workflow.run.actions import Decisions, PassSignal
from workflow.run.state.lifecycle_events import CheckpointRequested
from workflow.run.state.run_state import RunState


def request_checkpoints(decisions: Decisions) -> None:
    """Ask the programs for which it is time."""
    for name, (at, word) in _due(decisions.state).items():
        if decisions.t >= at:
            decisions.decide(CheckpointRequested(decisions.t, name))
            decisions.actions.append(PassSignal(name, word))


def next_request(state: RunState) -> float | None:
    """When the next one is due."""
    return min((at for at, _ in _due(state).values()), default=None)


def _due(state: RunState) -> dict[str, tuple[float, str]]:
    """Stage → when it is to get which signal next.

    Not before one of its streams has been seen to open, nor when it has closed them: a program that has no handler for
    a signal is ended by it.
    """
    found = {}
    for stage in state.plan.signalled_stages:
        checkpoint, now = stage.checkpoint, state.stages[stage.name]
        if checkpoint is None or not now.runs or now.opened is None:
            continue
        ends = state.ends_of(stage.name)
        # Where no end is seen live, a stage counts as open from its start.
        if any(end.opened is not None for end in ends) and any(end.closed is None for end in ends):
            found[stage.name] = (max(now.opened, now.checkpoint_asked or 0.0) + checkpoint.every_s, checkpoint.signal)
    return found
