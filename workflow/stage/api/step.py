"""One step of a stream that is being read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from workflow.stage.adios.read_engine import Source
from workflow.stage.data.contract_check import near
from workflow.stage.data.rank_selection import Piece, share_out
from workflow.stage.data.sample_check import NAME as SAMPLES
from workflow.stage.data.variables import Array, Info, Selection, Shape, selection
from workflow.stage.stage_errors import StageError

if TYPE_CHECKING:
    from workflow.stage.api.reader import Reader
    from workflow.stage.api.writer import Writer

Box = tuple[Any, Any]


class TakesAttributes(Protocol):
    """Anything that attributes can be copied to."""

    def attribute(self, name: str, value: Any) -> None:
        """Takes one: a list of strings, or an array, 0-dimensional for a single value."""


class Step:
    """The data of one step, while the loop is at it. `index` counts from 0 what this reader has seen."""

    def __init__(self, reader: Reader, source: Source, index: int) -> None:
        self.index = index
        self._reader, self._source = reader, source
        self._over = False

    @property
    def number(self) -> int:
        """The same as `index`."""
        return self.index

    def __contains__(self, name: str) -> bool:
        self._now()
        return self._source.info(name) is not None

    def names(self) -> list[str]:
        """The variables of this step, sorted."""
        return sorted(self.variables())

    def variables(self) -> dict[str, Info]:
        """Type (NumPy's name, or `string`) and global shape of every variable of this step."""
        self._now()
        return {name: info for name, info in self._source.variables().items() if name != SAMPLES}

    def info(self, name: str) -> Info:
        """Type and global shape of one variable. Raises StageError when this step does not have it."""
        self._now()
        found = self._source.info(name)
        if found is None:
            missing = f"stream {self._reader.name}: step {self.index} has no variable {name!r}"
            raise StageError(missing + near(name, self._source.variables()))
        return found

    def shape(self, name: str) -> Shape:
        """Global shape of a variable; () for a scalar."""
        return self.info(name).shape

    def read(self, name: str, start: Any = None, count: Any = None) -> Array:
        """The box of shape `count` at `start` (all of the variable by default) as an array of this rank's own.

        A scalar comes as a NumPy scalar, a string as a NumPy string. Call it on all ranks: where ADIOS2
        is serial, rank 0 reads for them all. Raises IndexError when the box does not lie inside the
        variable, StreamFailed when the writer dies meanwhile.
        """
        return self._read([selection(name, self.info(name).shape, start, count)])[0]

    def read_many(self, wanted: Iterable[str] | Mapping[str, Box | None]) -> dict[str, Array]:
        """Several variables in one exchange, which is faster than one by one: names, or name → (start, count).

        >>> step.read_many(["position", "box"])
        >>> step.read_many({"position": ((first, 0), (n, 3)), "box": None})
        """
        boxes = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted)
        selections = [selection(name, self.info(name).shape, *(box or (None, None))) for name, box in boxes.items()]
        return dict(zip(boxes, self._read(selections), strict=True))

    def share(self, name: str, strategy: str | None = None) -> list[Piece]:
        """This rank's share of a variable, as `shares` gives it."""
        return self.shares([name], strategy)[name]

    def shares(
        self, names: Iterable[str], strategy: str | None = None, like: str | None = None
    ) -> dict[str, list[Piece]]:
        """This rank's share of several variables, in one exchange: for programs to which it is all the same which.

        Each piece has `values`, an array of shape [n, m, …] that is this rank's own, and `start`, where it begins in
        the global array. All ranks' pieces together are the variable, once (with the strategy `all`: once each). Which
        are whose is the stream's `strategy:` in the pipeline, or `strategy`; by hand slabs along the first axis. All
        ranks get equally many pieces, at least one, some of them empty, so that loops over them can make collective
        calls. `like`: one of `names`; the others have the same first axis, and come in the same rows.

        >>> atoms = step.shares(["position", "type"], like="position")
        >>> mine = np.concatenate([piece.values for piece in atoms["position"]])

        A scalar or a string is one piece, on every rank. An array in local blocks comes in whole blocks.
        Call it on all ranks. Raises StageError for what is not there, StreamFailed when the writer dies meanwhile.
        """
        wanted = list(names)
        shared = share_out(self._source, {name: self.info(name) for name in wanted}, self._reader.end, strategy, like)
        found = iter(self._read([box for name in wanted for box in shared[name]]))
        return {
            name: [Piece(next(found), box.start, box.block) for box in shared[name]]
            for name in wanted
        }  # fmt: skip

    def attributes(self, variable: str | None = None) -> dict[str, Any]:
        """The attributes known by now: strings, lists of strings, numbers, arrays.

        An attribute of a variable is called `variable/name`; with `variable`, only its own, without that prefix.
        """
        self._now()
        prefix = "" if variable is None else f"{variable}/"
        found = self._source.attributes().items()
        return {name.removeprefix(prefix): _plain(value) for name, value in found if name.startswith(prefix)}

    def copy_attributes_to(self, writer: Writer | TakesAttributes) -> None:
        """Give all attributes to a writer, types kept. Cheap when they have not changed since the last step."""
        self._now()
        for name, value in self._source.attributes().items():
            writer.attribute(name, value)

    def finish(self) -> None:
        """The loop has moved on: the step cannot be used any more."""
        self._over = True

    def _read(self, selections: list[Selection]) -> list[Array]:
        # NumPy scalars format and compare like numbers, which 0-dimensional arrays do not.
        return [array if array.ndim else array[()] for array in self._reader.fetch(selections)]

    def _now(self) -> None:
        if self._over:
            raise StageError(
                f"stream {self._reader.name}: step {self.index} is over; read what you need inside the loop"
            )


def _plain(value: Array | list[str]) -> Any:
    return value.item() if isinstance(value, np.ndarray) and not value.ndim else value
