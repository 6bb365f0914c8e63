"""Finds stages that have closed their streams, and neither end nor use CPU time. Pure.

It may hang in MPI_Finalize, in the teardown of a GPU, in a flush; or somebody has stopped it. One that uses CPU time
works: it may write its own files. So an MPI that spins while it waits looks busy here.
"""

from __future__ import annotations

from collections.abc import Iterator

from workflow.formatting import duration
from workflow.run.state.run_state import RunState
from workflow.run.verdict.stall_detection import Stall

# So long a stage may take to end after it has closed its streams, before `wf status` says so.
LATE_S = 5.0


def idle_since(state: RunState) -> dict[str, float]:
    """Stage that has closed its streams and runs → since when it has not been seen to use CPU time."""
    return {
        name: max(left, state.stages[name].worked or left)
        for name in state.stages if name in state.going and (left := state.left_since(name)) is not None
    }  # fmt: skip


def find_unended(state: RunState, before: float, t: float) -> Iterator[Stall]:
    """Those that have not been seen to use CPU time since before that time; `t` is now."""
    for name, since in idle_since(state).items():
        if since < before and not state.stages[name].is_over:
            yield Stall(name, name, since, unended_text(state, name, t))


def late_ends(state: RunState) -> list[str]:
    """What to say of those that still run a while after closing their streams, if no warning speaks of them."""
    left = {name: since for name in state.stages if (since := state.left_since(name)) is not None}
    late = [name for name, since in left.items() if state.t - since > LATE_S and state.stages[name].silence is None]
    return [unended_text(state, name, state.t) for name in late] if state.finished is None else []


def unended_text(state: RunState, name: str, t: float) -> str:
    """`md closed its streams 12 min ago and has not ended`."""
    return f"{name} closed its streams {duration(t - (state.left_since(name) or t))} ago and has not ended"
