"""Faults of SST's transports that only a line in a stage's stderr tells of: ADIOS2 goes on, and waits for ever.

Sources, of ADIOS2 2.12.1: thirdparty/EVPath/EVPath/cm.c (CMact_on_data), source/adios2/toolkit/sst/dp/ucx_dp.c
(UcxReadRemoteMemory) and rdma_dp.c (PostRead). They are printed at any level of SST's log from 1 on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from workflow.formats.json_lines import Tail
from workflow.run.state.events import Fault, TransportFault

# The name of each group is the fault.
_LINE = re.compile(
    r'(?P<misdirected>CM - No handler for incoming data of this version of format "[^"\n]*")'
    r"|(?P<unreachable>UCX Error during ucp_get_nbx\(\) with: [^\n]*|fi_read failed with code [^\n]*)"
)
# How often to look: programs may print much, and these lines are rare.
LOOK_S = 1.0


@dataclass
class TransportFaultFollower:
    """The stderr of one stage with SST streams."""

    stage: str
    tail: Tail
    fresh: bool = False  # whether to look at once, even if the file seems unchanged
    _due: float = 0.0
    _found: set[str] = field(default_factory=set)

    def poll(self, now: float) -> Iterator[TransportFault]:
        """Each kind of fault, the first time that it is seen."""
        if now < self._due and not self.fresh:
            return
        self._due = now + LOOK_S
        for match in _LINE.finditer(self.tail.read(fresh=self.fresh)):
            fault = cast(Fault, match.lastgroup)
            if fault not in self._found:
                self._found.add(fault)
                yield TransportFault(now, self.stage, fault, match[0].rstrip(". "))
