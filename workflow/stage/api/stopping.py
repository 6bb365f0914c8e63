"""How a program of `workflow.stage` ends when the run is to be stopped: its allocation ends, or somebody cancels it.

A program that reads live streams ends when these end. Any other would go on: it gets RunStopped at its next step.
"""

from __future__ import annotations

from workflow.stage import settings
from workflow.stage.ranks.stop_request import process_stop_request
from workflow.stage.stage_errors import RunStopped
from workflow.stage.telemetry import process_metrics

# The stream whose steps begin each turn of the program's loop: the first one that made a step. A stop at another one
# would leave streams with different numbers of steps.
_leader: object | None = None
_recorded = False


def stop_requested() -> bool:
    """Whether the run is to be stopped soon (its allocation ends, or `wf cancel`): for programs that save a checkpoint.

    Collective: call it on all ranks, for example once a step. Once it has returned True the program should end. Its
    next step of a stream raises RunStopped, unless it reads live streams, which end first.
    """
    request = process_stop_request()
    if request is None or not request.ask():
        return False
    _record()
    return True


def end_if_requested(stream: object) -> None:
    """At the beginning of a step of this stream, on all ranks: raise RunStopped when the program is to end."""
    global _leader
    if not settings.current().stops_itself:
        return
    _leader = _leader or stream
    if stream is _leader and stop_requested():
        raise RunStopped


def _record() -> None:
    """Let the supervisor know, once, that the work is not done."""
    global _recorded
    if not _recorded and settings.current().stops_itself:
        _recorded = True
        process_metrics().write("cut")
