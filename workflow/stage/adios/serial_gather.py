"""Several ranks with a serial ADIOS2: rank 0 opens the streams and passes the data to and from the other ranks.

All ranks make the same calls in the same order. An error on rank 0 is raised on every rank. Data is sent as raw bytes,
never pickled, in chunks whose size every MPI can count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from workflow.stage.ranks import idle_barrier, own_communicator
from workflow.stage.stage_errors import RanksDiffer
from workflow.stage.stream_engines import ReadEngine, StepStatus, WriteEngine
from workflow.stage.variables import Array, BlockData, BlockTable, Info, Selection

T = TypeVar("T")
_CHUNK = 2**30  # bytes; counts of older MPI libraries end at 2^31


def together(action: Callable[[], T]) -> T:
    """Call `action` on rank 0; its (small) result is returned, or its exception raised, on every rank. Collective."""
    comm = own_communicator()
    if comm is None:
        return action()
    result, error = None, None
    if comm.Get_rank() == 0:
        try:
            result = action()
        except Exception as caught:  # raised on all ranks, whatever it is
            error = caught
            error.agreed = True  # type: ignore[attr-defined]
    idle_barrier(comm)
    result, received = comm.bcast((result, error))
    if received is not None:
        raise error or received
    return result  # type: ignore[no-any-return]


class GatheredReadEngine:
    """A read engine that only rank 0 has opened, for all ranks."""

    def __init__(self, open_engine: Callable[[], ReadEngine]) -> None:
        self._comm = own_communicator()
        self._engine: Any = None
        self._variables: dict[str, Info] = {}
        self._attributes: Mapping[str, Array | list[str]] = {}
        self._bytes = 0

        def open_it() -> None:
            self._engine = open_engine()

        together(open_it)

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`. All ranks receive the variables and attributes: later queries need no messages."""

        def begin_on_rank_0() -> tuple[StepStatus, Any, Any]:
            status = self._engine.begin(timeout_s)
            ready = status is StepStatus.READY
            return status, self._engine.variables() if ready else {}, self._engine.attributes() if ready else {}

        status, self._variables, self._attributes = together(begin_on_rank_0)
        return status

    def end(self) -> int:
        """See `ReadEngine`."""
        if self._engine is not None:
            self._engine.end()
        total, self._bytes = self._bytes, 0
        return total

    def bytes_of_all(self) -> list[int] | None:
        """See `ReadEngine`."""
        return None

    def close(self) -> None:
        """See `ReadEngine`."""
        if self._engine is not None:
            self._engine.close()

    def abandon(self) -> None:
        """See `ReadEngine`."""
        if self._engine is not None:
            self._engine.abandon()

    def variables(self) -> dict[str, Info]:
        """See `ReadEngine`."""
        return self._variables

    def info(self, name: str) -> Info | None:
        """See `ReadEngine`."""
        return self._variables.get(name)

    def blocks(self, names: Sequence[str]) -> dict[str, BlockTable]:
        """See `ReadEngine`."""
        found: dict[str, BlockTable] = together(lambda: self._engine.blocks(names))
        return found

    def attributes(self) -> Mapping[str, Array | list[str]]:
        """See `ReadEngine`."""
        return self._attributes

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`. A box that all ranks request is read once, others once for each rank."""
        wanted = [box._replace(into=None) for box in wanted]
        asked: list[list[Selection]] = self._comm.allgather(wanted)
        _check_same("read", [[box.name for box in boxes] for boxes in asked])
        shared = [all(boxes[i] == wanted[i] for boxes in asked) for i in range(len(wanted))]
        owners = [[0] if same else range(len(asked)) for same in shared]
        boxes = [asked[rank][i] for i, ranks in enumerate(owners) for rank in ranks]
        read: list[Array] = []

        def fetch() -> None:
            read.extend(self._engine.get(boxes))

        together(fetch)
        arrays = iter(read)
        return [
            self._broadcast(box, arrays) if same else self._scatter(box, arrays)
            for box, same in zip(wanted, shared, strict=True)
        ]

    def _broadcast(self, box: Selection, arrays: Any) -> Array:
        """The next array of rank 0, on every rank."""
        kind = self._variables[box.name].type
        if kind == "string":
            text: Array = self._comm.bcast(next(arrays, None))
            return text
        values = next(arrays) if self._engine is not None else np.empty(box.extent, kind)
        for chunk in _chunks(values):
            self._comm.Bcast(chunk)
        self._bytes += values.nbytes * self._comm.Get_size()
        return values

    def _scatter(self, box: Selection, arrays: Any) -> Array:
        """The next arrays of rank 0, one to each rank."""
        if self._engine is None:
            values = np.empty(box.extent, self._variables[box.name].type)
            for chunk in _chunks(values):
                self._comm.Recv(chunk, source=0)
            return values
        own: Array = next(arrays)
        self._bytes += own.nbytes
        for rank in range(1, self._comm.Get_size()):
            array = next(arrays)
            self._bytes += array.nbytes
            for chunk in _chunks(array):
                self._comm.Send(chunk, dest=rank)
        return own


class GatheredWriteEngine:
    """A write engine that only rank 0 has opened, for all ranks."""

    def __init__(self, open_engine: Callable[[], WriteEngine]) -> None:
        self._comm = own_communicator()
        self._engine: Any = None

        def open_it() -> None:
            self._engine = open_engine()

        together(open_it)

    def begin(self) -> None:
        """See `WriteEngine`."""
        if self._engine is not None:
            self._engine.begin()

    def put(self, block: BlockData) -> None:
        """See `WriteEngine`."""
        if self._engine is not None:
            self._engine.put(block)

    def put_share(self, block: BlockData) -> None:
        """See `WriteEngine`. Each block is written as it is: they are not assembled into one array."""
        mine = (block.name, block.type, block.shape, block.start, block.values.shape)
        headers = self._comm.allgather(mine)
        _check_same("write", [header[:3] for header in headers])
        if self._engine is None:
            for chunk in _chunks(block.values):
                self._comm.Send(chunk, dest=0)
            return
        self._engine.put_share(block)
        for rank, (name, kind, shape, start, count) in enumerate(headers[1:], start=1):
            values = np.empty(count, kind)
            for chunk in _chunks(values):
                self._comm.Recv(chunk, source=rank)
            self._engine.put_share(BlockData(name, kind, values, shape, start))

    def put_local(self, name: str, blocks: Sequence[BlockData]) -> None:
        """See `WriteEngine`. Ranks may have different numbers of blocks."""
        mine = [(block.type, block.values.shape) for block in blocks]
        of_all = self._comm.allgather((name, mine))
        _check_same("write", [name for name, _ in of_all])
        if self._engine is None:
            for block in blocks:
                for chunk in _chunks(block.values):
                    self._comm.Send(chunk, dest=0)
            return
        self._engine.put_local(name, blocks)
        for rank, (_, theirs) in enumerate(of_all[1:], start=1):
            for kind, extent in theirs:
                values = np.empty(extent, kind)
                for chunk in _chunks(values):
                    self._comm.Recv(chunk, source=rank)
                self._engine.put_local(name, [BlockData(name, kind, values, (), (), local=True)])

    def end(self) -> None:
        """See `WriteEngine`."""
        together(lambda: self._engine.end())

    def close(self) -> None:
        """See `WriteEngine`."""
        together(lambda: self._engine.close())

    def abandon(self) -> None:
        """See `WriteEngine`."""
        if self._engine is not None:
            self._engine.abandon()

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """See `WriteEngine`."""
        if self._engine is not None:
            self._engine.attribute(name, value)


def _check_same(doing: str, calls: Sequence[Any]) -> None:
    """Raise the same RanksDiffer on all ranks unless all of them read or write the same variables."""
    for rank, call in enumerate(calls):
        if call != calls[0]:
            raise RanksDiffer(
                f"rank 0 called {doing} for {calls[0]}, but rank {rank} for {call}: make the same calls on all ranks"
            )


def _chunks(array: Array) -> list[Any]:
    """The bytes of a contiguous array, in chunks that MPI can count."""
    flat = array.reshape(-1).view(np.uint8)
    return [flat[first : first + _CHUNK] for first in range(0, flat.size, _CHUNK)]
