"""One step of a stream that is being read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from workflow.distribution import Shape
from workflow.formats.stage_file import StreamEnd
from workflow.stage.api.rank_selection import Piece, select_boxes
from workflow.stage.data.contract_check import near
from workflow.stage.data.quantities import label_of, unit_of
from workflow.stage.data.variables import SAMPLES, Array, Info, Selection, selection
from workflow.stage.stage_errors import StageError
from workflow.stage.stream_engines import ReadEngine

StartAndCount = tuple[Any, Any]


class TakesAttributes(Protocol):
    """Anything that attributes can be copied to, a `Writer` for example."""

    def attribute(self, name: str, value: Any) -> None:
        """Take one attribute: a list of strings, or an array, 0-dimensional for a single value."""


class Step:
    """The data of one step. Valid inside the loop over the reader, until the loop asks for the next step.

    `index`: the number of this step, counted from 0 by the reader. Every method raises StageError after the step
    has ended.
    """

    def __init__(
        self, end: StreamEnd, engine: ReadEngine, fetch: Callable[[list[Selection]], list[Array]], index: int
    ) -> None:
        self.index = index
        self._stream, self._stream_end, self._engine, self._fetch = end.stream, end, engine, fetch
        self._ended = False

    def __contains__(self, name: str) -> bool:
        self._check_valid()
        return self._engine.info(name) is not None

    def names(self) -> list[str]:
        """The names of the variables of this step, sorted."""
        return sorted(self.variables())

    def variables(self) -> dict[str, Info]:
        """Type (NumPy's name, or `string`) and global shape of every variable of this step."""
        self._check_valid()
        return {name: info for name, info in self._engine.variables().items() if name != SAMPLES}

    def info(self, name: str) -> Info:
        """Type and global shape of one variable. Raises StageError when this step does not have it."""
        self._check_valid()
        found = self._engine.info(name)
        if found is None:
            missing = f"stream {self._stream}: step {self.index} has no variable {name!r}"
            raise StageError(missing + near(name, self.variables()))
        return found

    def shape(self, name: str) -> Shape:
        """Global shape of a variable, in elements per axis; () for a scalar. Raises StageError as `info` does."""
        return self.info(name).shape

    def read(self, name: str, start: Any = None, count: Any = None) -> Array:
        """Read the box of shape `count` that begins at `start`; by default the whole variable.

        `start` and `count` have one integer per axis, in elements. Without `count`: everything from `start` on.
        Returns a new array of shape `count` and the variable's type; a scalar or a string as a NumPy scalar.

        Call it on all ranks: with a serial ADIOS2 rank 0 reads for all of them. Raises IndexError when the box does
        not lie inside the variable, StageError when the step does not have it, StreamFailed when the writer dies
        meanwhile.
        """
        return self._read([selection(name, self.info(name).shape, start, count)])[0]

    def read_many(self, wanted: Iterable[str] | Mapping[str, StartAndCount | None]) -> dict[str, Array]:
        """Read several variables together, which is faster than reading them one by one.

        `wanted`: names; or name → (start, count), with None for the whole variable. Returns name → array, each as
        `read` returns it, and raises what `read` raises.

        >>> step.read_many(["position", "box"])
        >>> step.read_many({"position": ((first, 0), (n, 3)), "box": None})
        """
        boxes = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted)
        selections = [selection(name, self.info(name).shape, *(box or (None, None))) for name, box in boxes.items()]
        return dict(zip(boxes, self._read(selections), strict=True))

    def share(self, name: str, strategy: str | None = None) -> list[Piece]:
        """Read this rank's share of one variable. See `shares`."""
        return self.shares([name], strategy)[name]

    def shares(
        self, names: Iterable[str], strategy: str | None = None, like: str | None = None
    ) -> dict[str, list[Piece]]:
        """Read this rank's share of several variables together, for programs that can work on any part.

        Returns name → pieces. Each piece has `values`, a new array of shape [n, m, …], and `start`, the index in the
        global array at which it begins. The pieces of all ranks together cover the variable exactly once (with the
        strategy `all`: once per rank). All ranks get the same number of pieces, at least one; some may be empty. So a
        loop over the pieces can make collective calls.

        `strategy`: which rank reads what; by default `strategy:` of the stream in the pipeline, and without a run slabs
        along the first axis. `like`: one of `names`; the other variables must have the same first axis and are
        read in the same rows as this one.

        >>> atoms = step.shares(["position", "type"], like="position")
        >>> mine = np.concatenate([piece.values for piece in atoms["position"]])

        A scalar or a string is one piece, on every rank. An array in local blocks is read in whole blocks. Call it on
        all ranks. Raises StageError for an unknown variable or strategy or for rows that do not match, StreamFailed
        when the writer dies meanwhile.
        """
        wanted = list(names)
        boxes = select_boxes(self._engine, {name: self.info(name) for name in wanted}, self._stream_end, strategy, like)
        found = iter(self._read([box for name in wanted for box in boxes[name]]))
        return {
            name: [Piece(next(found), box.start, box.block) for box in boxes[name]]
            for name in wanted
        }  # fmt: skip

    def attributes(self, variable: str | None = None) -> dict[str, Any]:
        """The attributes known at this step, by name: strings, lists of strings, numbers or one-dimensional arrays.

        An attribute of a variable is called `variable/name`. With `variable`: only the attributes of that variable,
        without this prefix.
        """
        prefix = "" if variable is None else f"{variable}/"
        found = self._attributes().items()
        return {name.removeprefix(prefix): _plain(value) for name, value in found if name.startswith(prefix)}

    def label(self, name: str) -> str:
        """A variable's name for people: `long_name`; of openPMD data `momentum x of electrons`; else its own."""
        return label_of(name, self._attributes())

    def unit(self, name: str) -> str:
        """A variable's unit as text, e.g. `angstrom/ps`; "" if none is known.

        The unit in the data takes precedence: the attribute `unit`, or openPMD's unitSI and unitDimension, which give
        e.g. `5.47e-24 kg*m/s` if the values are in the program's own units. Otherwise it is the unit that the pipeline
        or the component declares.
        """
        return unit_of(name, self._attributes())

    def copy_attributes_to(self, writer: TakesAttributes) -> None:
        """Copy all attributes to a writer, with their types. Cheap when none has changed since the last step."""
        for name, value in self._attributes().items():
            writer.attribute(name, value)

    def finish(self) -> None:
        """Mark the step as ended; the reader calls this when the loop asks for the next step."""
        self._ended = True

    def _attributes(self) -> Mapping[str, Array | list[str]]:
        """Those of the stream, and `unit` of variables that have one in the pipeline only."""
        self._check_valid()
        found = self._engine.attributes()
        declared = {
            f"{name}/unit": np.asarray(unit)
            for name, unit in self._stream_end.units.items()
            if self._engine.info(name) is not None and not unit_of(name, found)
        }
        return {**found, **declared} if declared else found

    def _read(self, selections: list[Selection]) -> list[Array]:
        # NumPy scalars format and compare like numbers, which 0-dimensional arrays do not.
        return [array if array.ndim else array[()] for array in self._fetch(selections)]

    def _check_valid(self) -> None:
        if self._ended:
            raise StageError(
                f"stream {self._stream}: step {self.index} has ended; read all that is needed of it inside the loop"
            )


def _plain(value: Array | list[str]) -> Any:
    return value.item() if isinstance(value, np.ndarray) and not value.ndim else value
