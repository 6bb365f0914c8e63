"""How a program of `workflow.stage` ends when the run is to be stopped: its allocation ends, or somebody cancels it.

A program that reads live streams ends when these end. Any other would go on: it gets RunStopped at its next step.
The answer is the same on all ranks at the same step: rank 0 looks for the file; what it has seen reaches the other
ranks with the next call, by a reduction that goes on in the background between the two. No rank waits for one that is
less than a step behind.
"""

from __future__ import annotations

import atexit
import time
from typing import Any

import numpy as np

from workflow.formats.stop_file import is_to_stop
from workflow.stage import settings
from workflow.stage.ranks import own_communicator
from workflow.stage.stage_errors import RunStopped
from workflow.stage.telemetry import process_metrics

# The stream whose steps begin each turn of the program's loop: the first one that made a step. A stop at another one
# would leave streams with different numbers of steps.
_leader: object | None = None
_recorded = False
# Whether the program saves a state that it has not yet saved for the stop. With several ranks the request may come
# between the saving and the step that follows: then that step is done, too, and the program ends at the next one.
_unsaved = False


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
    global _leader, _unsaved
    if not settings.current().stops_itself:
        return
    _leader = _leader or stream
    if stream is _leader and stop_requested():
        if _unsaved:
            _unsaved = False
            return
        raise RunStopped


def expect_state() -> None:
    """From now on the program saves a state before it ends."""
    global _unsaved
    _unsaved = True


def state_is_due() -> bool:
    """Whether a state is to be saved because the run is to be stopped. Collective, as `stop_requested`."""
    global _unsaved
    if not stop_requested():
        return False
    _unsaved = False
    return True


def _record() -> None:
    """Let the supervisor know, once, that the work is not done."""
    global _recorded
    if not _recorded and settings.current().stops_itself:
        _recorded = True
        process_metrics().write("cut")


# How often rank 0 looks.
_LOOK_S = 0.5
# How long a rank waits at its end for the others to ask as often as it did.
_END_S = 10.0


class StopRequest:
    """Asked at each step, by all ranks in the same order."""

    def __init__(self, run_dir: str) -> None:
        self.came = False
        self._run_dir = run_dir
        self._comm: Any = own_communicator()
        self._due = 0.0
        self._seen = False
        self._pending: Any = None
        self._flag = np.zeros(1, np.int32)
        if self._comm is not None:
            atexit.register(self._complete)

    def ask(self) -> bool:
        """Whether the program is to end now. Collective over the ranks."""
        if self.came:
            return True
        if self._comm is None:
            self.came = self._look()
            return self.came
        if self._pending is not None:
            self._pending.Wait()
            self.came = bool(self._flag[0])
        if not self.came:
            self._post()
        return self.came

    def _post(self) -> None:
        from mpi4py import MPI

        self._flag[0] = self._comm.Get_rank() == 0 and self._look()
        self._pending = self._comm.Iallreduce(MPI.IN_PLACE, self._flag, op=MPI.MAX)

    def _complete(self) -> None:
        """At exit: MPI_Finalize allows no operation that is pending. Ranks that asked less often are not waited for."""
        deadline = time.monotonic() + _END_S
        while self._pending is not None and time.monotonic() < deadline:
            if self._pending.Test():
                self._pending = None
            else:
                time.sleep(0.001)

    def _look(self) -> bool:
        now = time.monotonic()
        if not self._seen and now >= self._due:
            self._due = now + _LOOK_S
            self._seen = is_to_stop(self._run_dir)
        return self._seen


_request: StopRequest | None = None


def process_stop_request() -> StopRequest | None:
    """The one of this process; None where it runs by hand."""
    global _request
    current = settings.current()
    if _request is None and not current.by_hand and current.run_dir:
        _request = StopRequest(current.run_dir)
    return _request
