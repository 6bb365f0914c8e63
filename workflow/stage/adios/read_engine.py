"""Reading through ADIOS2: one engine, its steps and its boxes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Protocol

import numpy as np

from workflow.formats.stage_file import StreamEnd
from workflow.stage.adios.byte_counter import Tally
from workflow.stage.adios.open_engine import bindings, is_parallel, open_engine
from workflow.stage.adios.tcp_nodelay import Connections
from workflow.stage.data.aligned_arrays import fresh_array
from workflow.stage.data.rank_selection import Blocks, told_blocks
from workflow.stage.data.variables import NUMPY_TYPES, STRING_LISTS, Array, Info, Selection
from workflow.stage.ranks.communicator import own_communicator
from workflow.stage.stage_errors import StageError

_SLICE_S = 1.0
_LONGEST_PAUSE_S = 5e-3
_SHORTEST_PAUSE_S = 5e-5  # what the operating system makes of a sleep of no length, about


class Status(Enum):
    """What became of the wait for a step."""

    READY = "ready"
    LATE = "late"
    ENDED = "ended"
    FAILED = "failed"


class Source(Protocol):
    """What a reader reads from: ADIOS2 here, rank 0 for all ranks in `gather`, an HDF5 file in `hdf5`."""

    def begin(self, timeout_s: float) -> Status:
        """Wait for the next step. Collective, with the same answer on all ranks."""

    def end(self) -> int | None:
        """Give the step back. Collective. Returns, on rank 0, the bytes that all ranks have read in it, if known."""

    def bytes_of_all(self) -> list[int] | None:
        """The bytes that all ranks have read in each step, on rank 0 and where `end` does not know them. Collective."""

    def close(self) -> None:
        """Let the stream go."""

    def abandon(self) -> None:
        """Let the stream go in whatever state it is. Not collective."""

    def variables(self) -> dict[str, Info]:
        """The variables of this step."""

    def info(self, name: str) -> Info | None:
        """One variable of this step; None if it is not there."""

    def blocks(self, names: Sequence[str]) -> dict[str, Blocks]:
        """How the writer's ranks put these variables, as far as known. Collective where one rank reads for all."""

    def attributes(self) -> Mapping[str, Array | list[str]]:
        """All attributes, as one-dimensional arrays or lists of strings; single values are 0-dimensional."""

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """The values of all these boxes, in one go; collective where one rank reads for all."""


class AdiosSource:
    """One engine opened for reading by this process."""

    def __init__(self, end: StreamEnd) -> None:
        self._adios2 = bindings()
        self._adios, self._io, self._engine = open_engine(end, "Read")
        self._comm = own_communicator() if is_parallel() else None
        self._is_stream = end.engine.upper() == "SST"
        self._connections = Connections()
        self._tally = Tally(self._comm)
        self._first = not self._is_stream  # the step to come may be the one of a file of none
        self._empty = False  # this step is one of nothing, and ADIOS2 has been asked for the next already:
        self._ahead: Status | None = None  # with this answer
        self._local = self._adios2.ShapeID.LocalArray
        self._statuses = {
            self._adios2.StepStatus.OK: Status.READY,
            self._adios2.StepStatus.NotReady: Status.LATE,
            self._adios2.StepStatus.EndOfStream: Status.ENDED,
            self._adios2.StepStatus.OtherError: Status.FAILED,
        }

    def begin(self, timeout_s: float) -> Status:
        """See `Source`. ADIOS2 waits deaf to Ctrl-C: in slices, it gets its turn.

        With ranks in parallel all must ask equally often, so that time is counted, not measured.
        """
        if self._is_stream:
            self._connections.send_at_once()
            return self._poll(timeout_s)
        status, self._ahead = self._ahead or self._wait(timeout_s), None
        if status is Status.READY and self._first and not self._io.AvailableVariables():
            status = self._look_ahead(timeout_s)
        self._first = False
        return status

    def _look_ahead(self, timeout_s: float) -> Status:
        """The answer for a first step without variables.

        Into a file closed without any step ADIOS2 (2.12.1) writes one of nothing: it is none if it is the only one.
        """
        if self._io.AvailableAttributes():
            return Status.READY
        self._engine.EndStep()
        ahead = self._wait(timeout_s)
        if ahead is Status.ENDED:
            return Status.ENDED
        self._empty, self._ahead = True, ahead if ahead is Status.READY else None
        return Status.READY

    def _wait(self, timeout_s: float) -> Status:
        status = Status.LATE
        for _ in range(max(1, math.ceil(timeout_s / _SLICE_S))):
            if status is Status.LATE:
                status = self._ask(min(timeout_s, _SLICE_S))
        return status

    def _poll(self, timeout_s: float) -> Status:
        """Ask for the next step again and again, without letting ADIOS2 wait.

        SST's own waiting with a timeout (2.12.1) crashes when a step comes just as its timer goes off, and makes MPI
        spin on all ranks but the first. Asking takes a microsecond.
        """
        started, waited = time.monotonic(), 0.0
        while (status := self._ask(0.0)) is Status.LATE and waited < timeout_s:
            # A small part of what the step takes anyway.
            pause = min(_LONGEST_PAUSE_S, waited / 50)
            time.sleep(pause)
            waited = time.monotonic() - started if self._comm is None else waited + pause + _SHORTEST_PAUSE_S
        return status

    def _ask(self, timeout_s: float) -> Status:
        return self._statuses[self._engine.BeginStep(self._adios2.StepMode.Read, timeout_s)]

    def end(self) -> int | None:
        """See `Source`."""
        if self._empty:
            self._empty = False
        else:
            self._engine.EndStep()
        return self._tally.end_step()

    def bytes_of_all(self) -> list[int] | None:
        """See `Source`."""
        return self._tally.of_all()

    def close(self) -> None:
        """See `Source`."""
        self._engine.Close()

    def abandon(self) -> None:
        """See `Source`. Where closing is collective the end of the process must do."""
        if self._comm is None:
            with suppress(RuntimeError):
                if self._engine.BetweenStepPairs():
                    self._engine.EndStep()
            with suppress(RuntimeError):
                self._engine.Close()

    def variables(self) -> dict[str, Info]:
        """See `Source`. Costs more than `info`, because ADIOS2 looks at the extremes of everything for it."""
        if self._empty:
            return {}
        found = {name: self.info(name) for name in self._io.AvailableVariables()}
        return {name: info for name, info in found.items() if info is not None}

    def info(self, name: str) -> Info | None:
        """See `Source`."""
        variable = None if self._empty else self._io.InquireVariable(name)
        if not variable:
            return None
        kind = variable.Type()
        return Info(NUMPY_TYPES.get(kind, kind), tuple(variable.Shape()))

    def blocks(self, names: Sequence[str]) -> dict[str, Blocks]:
        """See `Source`."""
        found, now = {}, self._engine.CurrentStep()
        for name in names:
            local = self._io.InquireVariable(name).ShapeID() == self._local
            found[name] = Blocks(told_blocks(self._engine.BlocksInfo(name, now), local), local)
        return found

    def attributes(self) -> dict[str, Array | list[str]]:
        """See `Source`."""
        found: dict[str, Array | list[str]] = {}
        for name, told in ({} if self._empty else self._io.AvailableAttributes()).items():
            attribute = self._io.InquireAttribute(name)
            if attribute.Type() == "string":
                strings = attribute.DataString()
                found[name] = np.array(strings[0]) if attribute.SingleValue() else list(strings)
            elif attribute.Type() == "long double":
                # As openPMD-api writes some. ADIOS2's Python layer (2.12.1) gives them as text only, with six digits.
                values = np.array([float(word) for word in told["Value"].strip("{ }").split(",")])
                found[name] = values.reshape(()) if attribute.SingleValue() else values
            else:
                values = np.array(attribute.Data())
                found[name] = values.reshape(()) if attribute.SingleValue() else values
        for name in json.loads(str(found.pop(STRING_LISTS, "[]"))):
            found[name] = json.loads(str(found[name]))
        return found

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `Source`. From files all boxes are asked for before any is waited for: ADIOS2 fetches them at once."""
        found, deferred = [], self._adios2.Mode.Deferred
        for name, start, extent, block in wanted:
            variable = self._io.InquireVariable(name)
            kind = NUMPY_TYPES.get(variable.Type())
            if kind is None or (block is None and variable.ShapeID() == self._local):
                what = (
                    f"of type {variable.Type()}; workflow.stage cannot read it"
                    if kind is None
                    else "an array in local blocks, without a global shape; read it by step.share"
                )
                raise StageError(f"variable {name} is {what}")
            if kind == "string":
                found.append(np.array(self._engine.Get(variable, self._adios2.Mode.Sync)))
                continue
            values = fresh_array(extent, kind)
            if block is not None:
                variable.SetBlockSelection(block)
            elif extent:
                variable.SetSelection((start, extent))
            if values.size:
                self._engine.Get(variable, values, deferred)
                self._tally.add(values.nbytes)
                # A writer that is not ours may not send at once (see `connections`): several answers to requests made
                # together took 44 ms a step for ten small variables, against 0.7 ms one after the other.
                if self._is_stream:
                    self._engine.PerformGets()
            found.append(values)
        self._engine.PerformGets()
        return found
