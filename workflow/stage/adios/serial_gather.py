"""One rank for all: with a serial ADIOS2, rank 0 opens the streams and passes the data to and from the others.

All ranks make the same calls in the same order; what rank 0 meets, they all meet: an error there is raised on
every rank. Data travels as raw bytes in pieces that every MPI can count, never pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from workflow.stage.adios.read_engine import Source, Status
from workflow.stage.adios.write_engine import Target
from workflow.stage.data.rank_selection import Blocks
from workflow.stage.data.variables import Array, Block, Info, Selection
from workflow.stage.ranks.communicator import own_communicator
from workflow.stage.ranks.idle_wait import wait_patiently
from workflow.stage.stage_errors import StageError

T = TypeVar("T")
_PIECE = 2**30  # bytes; counts of older MPIs end at 2^31


class RanksDiffer(StageError):  # noqa: N818, as its relatives
    """The ranks of a stage did not make the same call."""

    agreed = True


def together(action: Callable[[], T]) -> T:
    """Do it on rank 0; its (small) result or its exception is that of every rank."""
    comm = own_communicator()
    if comm is None:
        return action()
    result, error = None, None
    if comm.Get_rank() == 0:
        try:
            result = action()
        except Exception as caught:  # handed to all ranks, whatever it is
            error = caught
            error.agreed = True  # type: ignore[attr-defined]
    wait_patiently(comm)
    result, told = comm.bcast((result, error))
    if told is not None:
        raise error or told
    return result  # type: ignore[no-any-return]


class GatheredSource:
    """A source that only rank 0 has opened, for all ranks."""

    def __init__(self, open_source: Callable[[], Source]) -> None:
        self._comm = own_communicator()
        self._source: Any = None
        self._variables: dict[str, Info] = {}
        self._attributes: Mapping[str, Array | list[str]] = {}
        self._bytes = 0

        def open_it() -> None:
            self._source = open_source()

        together(open_it)

    def begin(self, timeout_s: float) -> Status:
        """See `Source`. What the step holds is told to all ranks, so that they can ask without exchange."""

        def look() -> tuple[Status, Any, Any]:
            status = self._source.begin(timeout_s)
            ready = status is Status.READY
            return status, self._source.variables() if ready else {}, self._source.attributes() if ready else {}

        status, self._variables, self._attributes = together(look)
        return status

    def end(self) -> int:
        """See `Source`."""
        if self._source is not None:
            self._source.end()
        total, self._bytes = self._bytes, 0
        return total

    def bytes_of_all(self) -> list[int] | None:
        """See `Source`."""
        return None

    def close(self) -> None:
        """See `Source`."""
        if self._source is not None:
            self._source.close()

    def abandon(self) -> None:
        """See `Source`."""
        if self._source is not None:
            self._source.abandon()

    def variables(self) -> dict[str, Info]:
        """See `Source`."""
        return self._variables

    def info(self, name: str) -> Info | None:
        """See `Source`."""
        return self._variables.get(name)

    def blocks(self, names: Sequence[str]) -> dict[str, Blocks]:
        """See `Source`."""
        found: dict[str, Blocks] = together(lambda: self._source.blocks(names))
        return found

    def attributes(self) -> Mapping[str, Array | list[str]]:
        """See `Source`."""
        return self._attributes

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `Source`. A box that all ranks want is read once, others once for each rank."""
        asked: list[list[Selection]] = self._comm.allgather(list(wanted))
        _check_same("read", [[box.name for box in boxes] for boxes in asked])
        shared = [all(boxes[i] == wanted[i] for boxes in asked) for i in range(len(wanted))]
        owners = [[0] if same else range(len(asked)) for same in shared]
        boxes = [asked[rank][i] for i, ranks in enumerate(owners) for rank in ranks]
        read: list[Array] = []

        def fetch() -> None:
            read.extend(self._source.get(boxes))

        together(fetch)
        arrays = iter(read)
        return [
            self._share(box, arrays) if same else self._deal(box, arrays)
            for box, same in zip(wanted, shared, strict=True)
        ]

    def _share(self, box: Selection, arrays: Any) -> Array:
        """The next array of rank 0, on every rank."""
        kind = self._variables[box.name].type
        if kind == "string":
            text: Array = self._comm.bcast(next(arrays, None))
            return text
        values = next(arrays) if self._source is not None else np.empty(box.extent, kind)
        for piece in _pieces(values):
            self._comm.Bcast(piece)
        self._bytes += values.nbytes * self._comm.Get_size()
        return values

    def _deal(self, box: Selection, arrays: Any) -> Array:
        """The next arrays of rank 0, one to each rank."""
        if self._source is None:
            values = np.empty(box.extent, self._variables[box.name].type)
            for piece in _pieces(values):
                self._comm.Recv(piece, source=0)
            return values
        own: Array = next(arrays)
        self._bytes += own.nbytes
        for rank in range(1, self._comm.Get_size()):
            array = next(arrays)
            self._bytes += array.nbytes
            for piece in _pieces(array):
                self._comm.Send(piece, dest=rank)
        return own


class GatheredTarget:
    """A target that only rank 0 has opened, for all ranks."""

    def __init__(self, open_target: Callable[[], Target]) -> None:
        self._comm = own_communicator()
        self._target: Any = None

        def open_it() -> None:
            self._target = open_target()

        together(open_it)

    def begin(self) -> None:
        """See `Target`."""
        if self._target is not None:
            self._target.begin()

    def put(self, block: Block) -> None:
        """See `Target`."""
        if self._target is not None:
            self._target.put(block)

    def put_share(self, block: Block) -> None:
        """See `Target`. Each block is written as its rank has it: they are not assembled."""
        mine = (block.name, block.type, block.shape, block.start, block.values.shape)
        headers = self._comm.allgather(mine)
        _check_same("write", [header[:3] for header in headers])
        if self._target is None:
            for piece in _pieces(block.values):
                self._comm.Send(piece, dest=0)
            return
        self._target.put_share(block)
        for rank, (name, kind, shape, start, count) in enumerate(headers[1:], start=1):
            values = np.empty(count, kind)
            for piece in _pieces(values):
                self._comm.Recv(piece, source=rank)
            self._target.put_share(Block(name, kind, values, shape, start))

    def end(self) -> None:
        """See `Target`."""
        together(lambda: self._target.end())

    def close(self) -> None:
        """See `Target`."""
        together(lambda: self._target.close())

    def abandon(self) -> None:
        """See `Target`."""
        if self._target is not None:
            self._target.abandon()

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """See `Target`."""
        if self._target is not None:
            self._target.attribute(name, value)


def _check_same(doing: str, calls: Sequence[Any]) -> None:
    """Raise the same RanksDiffer on all ranks when they do not all read or write the same thing."""
    for rank, call in enumerate(calls):
        if call != calls[0]:
            raise RanksDiffer(
                f"rank 0 would {doing} {calls[0]}, but rank {rank} {call}: make the same calls on all ranks"
            )


def _pieces(array: Array) -> list[Any]:
    """The bytes of a contiguous array, in pieces."""
    flat = array.reshape(-1).view(np.uint8)
    return [flat[first : first + _PIECE] for first in range(0, flat.size, _PIECE)]
