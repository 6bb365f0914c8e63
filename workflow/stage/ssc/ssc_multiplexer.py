"""Which of several writers a reader serves next.

A writer that sends a step or closes is inside SSC until its readers enter SSC too. A stage that reads several streams
may be waiting for another one meanwhile, and reader and writer would wait for each other without limit. So while it
waits for a step of one stream, a reader enters SSC for whichever writer has sent a message.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from workflow.stage.ranks.communicator import own_communicator
from workflow.stage.ranks.idle_wait import pause
from workflow.stage.ssc.ssc_messages import Partner

_TAG = 900
_NONE = -1


def next_writer(writers: Mapping[int, Partner], preferred: int, timeout_s: float) -> int | None:
    """The number of a writer that has sent a message, `preferred` first; None when none does within `timeout_s`.

    Collective over the reader's ranks, with the same result: SSC's calls are collective, so rank 0 chooses for all.
    """
    comm = own_communicator()
    if comm is None or comm.Get_rank() == 0:
        chosen = _choose(writers, preferred, timeout_s)
        for rank in range(1, 1 if comm is None else comm.Get_size()):
            comm.Send(np.array([chosen], np.int32), rank, _TAG)
    else:
        chosen = _receive_choice(comm)
    return None if chosen == _NONE else chosen


def _choose(writers: Mapping[int, Partner], preferred: int, timeout_s: float) -> int:
    begin = time.monotonic()
    others = [number for number in writers if number != preferred]
    while True:
        for number in (preferred, *others):
            if writers[number].has_message():
                return number
        waited = time.monotonic() - begin
        if waited >= timeout_s:
            return _NONE
        pause(waited)


def _receive_choice(comm: Any) -> int:
    begin, chosen = time.monotonic(), np.zeros(1, np.int32)
    while not comm.Iprobe(0, _TAG):
        pause(time.monotonic() - begin)
    comm.Recv(chosen, 0, _TAG)
    return int(chosen[0])
