"""One step of a stream that is being read, and which boxes of its variables this rank reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, overload

import numpy as np

from workflow.distribution.boxes import Shape, merged
from workflow.distribution.strategies import ALL, HYPERSLAB, STRATEGIES, Ranks, distribute
from workflow.formats.stage_file import StreamEnd
from workflow.stage.ranks import rank as this_rank
from workflow.stage.ranks import size as all_ranks
from workflow.stage.stage_errors import ContractError, StageError
from workflow.stage.stream_engines import ReadEngine
from workflow.stage.variables import SAMPLES, Array, BlockTable, Info, Selection, label_of, near, selection, unit_of

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
        self,
        end: StreamEnd,
        engine: ReadEngine,
        fetch: Callable[[list[Selection]], list[Array]],
        fetch_to: Callable[[list[Selection], Any], list[Any]],
        index: int,
    ) -> None:
        self.index = index
        self._stream, self._stream_end, self._engine = end.stream, end, engine
        self._fetch, self._fetch_to = fetch, fetch_to
        self._ended = False
        self._known: Mapping[str, Array | list[str]] | None = None

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

    @overload
    def read(self, name: str, start: Any = None, count: Any = None, *, device: None = None) -> Array: ...
    @overload
    def read(self, name: str, start: Any = None, count: Any = None, *, device: object) -> Any: ...
    def read(self, name: str, start: Any = None, count: Any = None, *, device: Any = None) -> Any:
        """Read the box of shape `count` that begins at `start`; by default the whole variable.

        `start` and `count` have one integer per axis, in elements. Without `count`: everything from `start` on.
        Returns a new array of shape `count` and the variable's type; a scalar or a string as a NumPy scalar.

        `device`: the array is copied to this device, and returned as a tensor of PyTorch or an array of CuPy when it is
        there; a scalar has no axes. A text, `"cuda"` or `"cuda:1"`, means the one of these libraries that the program
        has imported, PyTorch first; a `torch.device` or a `cupy.cuda.Device` names it.

        >>> field = step.read("V", device="cuda")

        Call it on all ranks, with a device (each its own) or without one on all of them: with a serial ADIOS2 rank 0
        reads for all ranks. Raises IndexError when the box does not lie inside the variable, StageError when the step
        does not have it, or there is no such device, or the device does not have its type, StreamFailed when the
        writer dies meanwhile.
        """
        return self._read([self._box(name, start, count)], device)[0]

    def view(self, name: str, start: Any = None, count: Any = None) -> Array:
        """Read as `read` does, but without a copy where the box is in memory that the writer shares (`via: shm`).

        That is so for a box within the block of one writing rank. The array is then read-only, and holds the values
        until the step ends: keep a copy of what is needed later. Otherwise it is a new one. Raises what `read` raises.
        """
        found: Array = self._read([self._box(name, start, count)._replace(shared=True)])[0]
        return found

    @overload
    def read_many(
        self, wanted: Iterable[str] | Mapping[str, StartAndCount | None], *, device: None = None
    ) -> dict[str, Array]: ...
    @overload
    def read_many(
        self, wanted: Iterable[str] | Mapping[str, StartAndCount | None], *, device: object
    ) -> dict[str, Any]: ...
    def read_many(
        self, wanted: Iterable[str] | Mapping[str, StartAndCount | None], *, device: Any = None
    ) -> dict[str, Any]:
        """Read several variables together, which is faster than reading them one by one.

        `wanted`: names; or name → (start, count), with None for the whole variable. Returns name → array, each as
        `read` returns it, and raises what `read` raises. To a `device` one variable is copied while the next one is
        read. With a serial ADIOS2 that is a call of all ranks for each variable, and without `device` one for all
        variables: so ranks that differ in it would get an error, or wait for each other.

        >>> step.read_many(["position", "box"])
        >>> step.read_many({"position": ((first, 0), (n, 3)), "box": None})
        """
        boxes = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted)
        selections = [self._box(name, *(box or (None, None))) for name, box in boxes.items()]
        return dict(zip(boxes, self._read(selections, device), strict=True))

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

        A scalar or a string is one piece, on every rank. An array in local blocks is read in whole blocks; a piece
        whose `block` is None is none of them. Call it on all ranks. Raises StageError for an unknown variable or
        strategy or for rows that do not match, StreamFailed when the writer dies meanwhile.
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

    def axes(self, name: str) -> tuple[str, ...]:
        """The names of a variable's axes, as the pipeline or the component declares them, e.g. `nz`, `ny`, `nx`.

        An axis without a name is called after the variable and its number: `V_0`. Raises StageError as `info` does.
        """
        number, declared = len(self.shape(name)), self._stream_end.variables.get(name, {}).get("shape") or ()
        known = [*declared] if len(declared) == number else [None] * number
        return tuple(
            each if isinstance(each, str) and known.count(each) == 1 else f"{name}_{i}" for i, each in enumerate(known)
        )

    def copy_attributes_to(self, writer: TakesAttributes) -> None:
        """Copy all attributes to a writer, with their types. Cheap when none has changed since the last step."""
        for name, value in self._attributes().items():
            writer.attribute(name, value)

    def finish(self) -> None:
        """Mark the step as ended; the reader calls this when the loop asks for the next step."""
        self._ended = True

    def _attributes(self) -> Mapping[str, Array | list[str]]:
        """Those of the stream, and `unit` of variables that have one in the pipeline only. Read once: there may be
        thousands, and each label asks for them."""
        self._check_valid()
        if self._known is None:
            self._known = self._read_attributes()
        return self._known

    def _read_attributes(self) -> Mapping[str, Array | list[str]]:
        found = self._engine.attributes()
        declared = {
            f"{name}/unit": np.asarray(unit)
            for name, unit in self._stream_end.units.items()
            if self._engine.info(name) is not None and not unit_of(name, found)
        }
        return {**found, **declared} if declared else found

    def _box(self, name: str, start: Any, count: Any) -> Selection:
        info = self.info(name)
        if info.local:
            text = f"{name} is an array in local blocks, without a global shape; `step.share` reads its blocks"
            raise ContractError(f"stream {self._stream}: step {self.index}: {text}")
        return selection(name, info.shape, start, count)

    def _read(self, selections: list[Selection], device: Any = None) -> list[Any]:
        if device is not None:
            return self._fetch_to(selections, device)
        # NumPy scalars format and compare like numbers, which 0-dimensional arrays do not.
        return [array if array.ndim else array[()] for array in self._fetch(selections)]

    def _check_valid(self) -> None:
        if self._ended:
            raise StageError(
                f"stream {self._stream}: step {self.index} has ended; read all that is needed of it inside the loop"
            )


def _plain(value: Array | list[str]) -> Any:
    return value.item() if isinstance(value, np.ndarray) and not value.ndim else value


BLOCKS_UNUSED = (HYPERSLAB, ALL)  # strategies that do not depend on the writer's blocks


class Piece(NamedTuple):
    """One box of a variable: `values` is an array of shape [n, m, …], `start` is where it begins in the global array.

    Of an array in local blocks, which has no global shape, `start` is zeros and `block` the number of the block; None
    where a rank has fewer blocks than another one.
    """

    values: Array
    start: Shape
    block: int | None = None


class Sharing(NamedTuple):
    """How the reader's ranks share a variable: a strategy, and the ranks of both sides by node, as far as known."""

    strategy: str
    writers: Ranks
    readers: Ranks


def select_boxes(
    engine: ReadEngine, wanted: Mapping[str, Info], end: StreamEnd, strategy: str | None, like: str | None
) -> dict[str, list[Selection]]:
    """The boxes of this rank by variable; the same number of boxes on every rank. See `Step.shares`."""
    sharing = _sharing(end, strategy)
    if like is not None and like not in wanted:
        raise StageError(f"stream {end.stream}: like={like!r} is none of the variables {', '.join(wanted)}")
    leaders = {name: info.shape for name, info in wanted.items() if like in (None, name)}
    # A query takes time. Where the strategy does not need blocks, it only tells local arrays, without a shape, from
    # scalars.
    queried = [name for name, shape in leaders.items() if not shape or sharing.strategy not in BLOCKS_UNUSED]
    known = engine.blocks(queried) if queried else {}
    own = {name: _own_boxes(name, shape, known.get(name), sharing) for name, shape in leaders.items()}
    if like is None:
        return own
    shape = leaders[like]
    return own | {name: _same_rows(name, info.shape, own[like], shape) for name, info in wanted.items() if name != like}


def _sharing(end: StreamEnd, strategy: str | None) -> Sharing:
    """The plan's strategy for this end, or slabs; `strategy` instead where it is given."""
    if strategy is not None and strategy not in STRATEGIES:
        raise StageError(f"stream {end.stream}: there is no strategy {strategy!r}{near(strategy, STRATEGIES)}")
    planned = end.share or {}
    writers, readers = (Ranks(**planned[side]) if side in planned else Ranks(1) for side in ("writers", "readers"))
    # By hand the number of ranks may be another one than the plan's: every rank that exists gets its share.
    return Sharing(strategy or planned.get("strategy", HYPERSLAB), writers, readers._replace(number=all_ranks()))


def _own_boxes(name: str, shape: Shape, found: BlockTable | None, sharing: Sharing) -> list[Selection]:
    """This rank's boxes of one variable, filled up with empty ones to the largest number that any rank has."""
    blocks, local = found or BlockTable()
    strategy = sharing.strategy if found or sharing.strategy in BLOCKS_UNUSED else HYPERSLAB
    dealt = distribute(strategy, blocks, None if local else shape, sharing.writers, sharing.readers)
    shares = [share if local else merged(share) for share in dealt]
    boxes = [Selection(name, part.start, part.extent, part.block if local else None) for part in shares[this_rank()]]
    rest = blocks[0].extent[1:] if local and blocks else shape[1:]
    empty = Selection(name, (0,) * (len(rest) + 1), (0, *rest))
    return boxes + [empty] * (max(1, *map(len, shares)) - len(boxes))


def _same_rows(name: str, shape: Shape, leading: Sequence[Selection], like: Shape) -> list[Selection]:
    """The boxes of variable `name` that have the same indices along the first axis as the boxes `leading`."""
    leader = leading[0].name
    if not like or not shape or like[0] != shape[0]:
        raise StageError(f"{name} has shape {shape}, {leader} has {like}: they do not have the same rows")
    if any(box.extent[0] and box.extent[1:] != like[1:] for box in leading):
        raise StageError(
            f"the blocks of {leader} hold only parts of rows, so the matching rows of {name} are not defined; "
            "use the strategy `hyperslab`"
        )
    rest = shape[1:]
    return [Selection(name, (box.start[0], *(0 for _ in rest)), (box.extent[0], *rest)) for box in leading]
