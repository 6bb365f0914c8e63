"""The writing end of a stream: steps, each with its variables, and attributes."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow.distribution.boxes import Shape, volume
from workflow.formats.stage_file import StreamEnd
from workflow.stage.adios.open_engine import adios_message
from workflow.stage.api.notes import note
from workflow.stage.api.stopping import end_if_requested
from workflow.stage.rank_times import rank_times
from workflow.stage.ranks import own_communicator, rank
from workflow.stage.stage_errors import ContractError, StageError, StreamFailed, exit_reason
from workflow.stage.stream_engines import GivesRoom, WriteEngine
from workflow.stage.telemetry import process_metrics
from workflow.stage.uncaught_errors import leave_together, note_early_exit
from workflow.stage.variables import (
    CONVERTED,
    Array,
    BlockData,
    Info,
    VariableForm,
    check_contract,
    check_unchanged,
    fresh_array,
    to_array,
    unit_of,
)

if TYPE_CHECKING:
    from workflow.stage.compressed_variables import Operators, Sampler
    from workflow.stage.devices.staging import Staging


class Writer:
    """Writes the steps of a stream. Use it in a `with` statement.

    `name`: of the stream; `steps`: how many steps are written so far, those of earlier attempts of the stage included.
    Of steps that an attempt writes again, because it began before them, the first ones stay: the others are suppressed.
    Call its methods on all ranks.

    Leaving the `with` block normally closes the stream, and its readers see the end. Leaving it by an exception does
    not: live readers raise StreamFailed.
    """

    def __init__(self, end: StreamEnd, engine: WriteEngine, stage: str) -> None:
        self.name = end.stream
        self.steps = end.first_step - end.repeated
        self._end, self._engine, self._stage = end, engine, stage
        self._inside = self._closed = self._broken = False
        self._written: dict[str, Info] = {}
        self._without_blocks: set[str] = set()  # of this rank; other ranks may have some
        self._forms: dict[str, VariableForm] = {}
        self._told = set[str]()  # variables of which it is said that they are converted
        self._buffers: list[tuple[str, Array, Any, Any]] = []  # to be written at the end of the step
        self._attributes: dict[str, Array | list[str]] = {}
        self._units = dict(end.units)  # those that are not in the data yet
        self._metrics = process_metrics()
        self._is_file = not end.traits.in_memory
        self._blocks_from = None if self._is_file else _first_blocking_step(end)
        self._rank = rank()
        self._bytes, self._io_s, self._device_s = 0, 0.0, 0.0
        self._local_bytes = 0  # of this rank's blocks of arrays without a global shape
        self._stagings: list[Staging] = []  # one for each device that something was written from
        self._same = SameValues()
        self._operators: Operators | None = None
        self._sampler: Sampler | None = None
        if end.operators:
            self._prepare_samples()

    def attribute(self, name: str, value: Any, variable: str | None = None) -> None:
        """Set an attribute of the stream, or of one of its variables; a new value holds from the current step on.

        `value`: a string, a number, or a one-dimensional list or array of either. With several ranks, rank 0's value
        is written. Raises TypeError for other values.
        """
        full = name if variable is None else f"{variable}/{name}"
        content = _attribute_content(full, value)
        if full in self._attributes and _same(self._attributes[full], content):
            return
        self._attributes[full] = content
        if self._rank == 0:
            self._engine.attribute(full, content)

    def step(self) -> WritingStep:
        """A context manager: the variables written inside it are one step, which is sent when the block is left.

        `with` returns the writer. A block left by an exception is not sent, and no further step can follow. Leaving
        it blocks while the queue is full; raises ContractError when the first step does not have the variables that
        the component declares, StreamFailed when the step could not be written.
        """
        return WritingStep(self)

    def write(self, name: str, value: Any, shape: Any = None, start: Any = None, *, lend: bool = False) -> None:
        """Write a variable of this step.

        With `shape`, the shape of the global array in elements: every rank writes its block `value`, which begins at
        the index `start` (by default the origin). Blocks may be empty, and all sizes may change from step to step.
        Without `shape`: rank 0's `value` is the whole variable, a scalar, a string or an array. An array must be the
        same on all ranks that write it, or the step fails with StageError: the other ranks' arrays would be lost.
        `lend`: the caller does not change the array before the step ends, so that a file engine need not copy it.

        An array in the memory of a device, a tensor of PyTorch, an array of CuPy, or any other one with DLPack, is
        copied to the host first.

        Raises StageError outside a step or when the block does not lie inside `shape`, or when no library here can copy
        from the device, TypeError for types that ADIOS2 does not have.
        """
        self._check_inside(name)
        staged = not isinstance(value, np.ndarray) and hasattr(value, "__dlpack_device__")
        if staged:
            from workflow.stage.devices.find_device import is_on_device  # only arrays of other libraries pay for it

            if staged := is_on_device(value):
                # Of an array without a shape the other ranks send nothing.
                value, is_there = self._to_host(name, value, shape is not None or self._rank == 0)
                staged, lend = not is_there, is_there
        begin = self._metrics.enter()
        self._tell_converted(name, value)
        array, kind = to_array(name, value)
        whole, first = self._box(name, array, shape, start)
        # A copy that to_array had to make is not used elsewhere; memory that was copied to is used again.
        lent = not staged and (lend or (array is not value and isinstance(value, np.ndarray)))
        if name not in self._written:
            self._written[name] = Info(kind, whole)
            self._bytes += 0 if kind == "string" else array.itemsize * volume(whole)
        block = BlockData(name, kind, array, whole, first, lent)
        try:
            self._check_form(block)
            if self.is_suppressing:
                pass
            elif shape is not None:
                self._engine.put_share(block)
            else:
                self._same.take(name, array)
                if self._rank == 0:
                    self._engine.put(block)
        except StageError as error:
            raise type(error)(f"stream {self.name}: step {self.steps}: {error}") from None
        except (RuntimeError, ValueError) as error:
            raise StageError(f"stream {self.name}: {name} could not be written: {adios_message(error)}") from error
        if self._sampler is not None and self._operators is not None and not self.is_suppressing:
            self._sampler.take(block, self._operators.of(block), self.steps)
        self._io_s += self._metrics.leave() - begin

    def write_local(self, name: str, blocks: Iterable[Any], *, lend: bool = False) -> None:
        """Write this rank's blocks of an array without a global shape: arrays of one type and number of dimensions.

        Ranks may write different numbers of blocks of different sizes. Whether a variable is such an array cannot
        change. `lend`: as for `write`. Raises what `write` raises, and ContractError where the engine has no such
        arrays: HDF5.
        """
        self._check_inside(name)
        begin = self._metrics.enter()
        blocks = [*blocks]
        for each in blocks[:1]:
            self._tell_converted(name, each)
        found = [(each, *to_array(name, each)) for each in blocks]
        mine = [
            BlockData(name, kind, array, (), (), lend or array is not value, local=True) for value, array, kind in found
        ]
        if not self._end.traits.holds_local_blocks:
            raise ContractError(
                f"stream {self.name}: step {self.steps}: {name} is an array in local blocks, without a global shape, "
                f"which {self._end.traits.name} does not have; use BP5 or SST, or leave the variable out"
            )
        if mine:
            self._written[name] = Info(mine[0].type, (), local=True)
            self._local_bytes += sum(block.values.nbytes for block in mine)
        else:
            self._without_blocks.add(name)
        try:
            for block in mine:
                self._check_form(block)
            if not self.is_suppressing:
                self._engine.put_local(name, mine)
        except StageError as error:
            raise type(error)(f"stream {self.name}: step {self.steps}: {error}") from None
        except (RuntimeError, ValueError) as error:
            raise StageError(f"stream {self.name}: {name} could not be written: {adios_message(error)}") from error
        self._io_s += self._metrics.leave() - begin

    def buffer(self, name: str, count: Any, dtype: Any = np.float64, shape: Any = None, start: Any = None) -> Array:
        """An uninitialised array of shape `count`, which is written as variable `name` when the step ends.

        Fill it inside the step, and do not use it later. With `via: shm` it is the memory that the readers see: the
        step is not copied. `shape` and `start` are those of `write`, which raises what is wrong with them when the step
        ends. Raises StageError outside a step, TypeError for types that ADIOS2 does not have.

        >>> with out.step():
        ...     field = out.buffer("V", (nz, ny, nx))
        ...     np.add(old, change, out=field)
        """
        self._check_inside(name)
        _, kind = to_array(name, np.empty(0, dtype))
        if isinstance(engine := self._engine, GivesRoom) and not self.is_suppressing:
            room, _ = engine.room(tuple(count), kind)
        else:
            room = fresh_array(tuple(count), kind)
        self._buffers.append((name, room, shape, start))
        return room

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave_together(error, self._end.step_timeout_s)
        self.close(exit_reason(error))
        note_early_exit(error)

    def close(self, error: str = "") -> None:
        """End the stream. With `error`, leave it without an end: live readers raise StreamFailed. Idempotent."""
        if self._closed:
            return
        self._closed = True
        error = error or ("a step was left by an exception" if self._broken else "")
        self._metrics.enter()
        ranks = None
        if error:
            self._engine.abandon()
        else:
            self._engine.close()
            ranks = rank_times(self.name, "write")
        self._metrics.leave()
        if self._sampler is not None and self._sampler.names:
            self._metrics.write("compressed", stream=self.name, side="write", variables=sorted(self._sampler.names))
        self._stagings.clear()
        steps = max(0, self.steps - self._end.first_step)
        self._metrics.close(self.name, "write", steps=steps, error=error, ranks=ranks)

    def begin_step(self) -> None:
        """What entering `step()` does. Raises RunStopped when the run is to be stopped."""
        if self._closed or self._inside or self._broken:
            broken = "the last step was left by an exception" if self._broken else "the last step is still open"
            raise StageError(f"stream {self.name}: no new step: {'the stream is closed' if self._closed else broken}")
        end_if_requested(self)
        begin = self._metrics.enter()
        if not self.is_suppressing:
            self._engine.begin()
        self._io_s = self._metrics.leave() - begin
        self._inside, self._bytes, self._local_bytes, self._device_s = True, 0, 0, 0.0
        self._written.clear()
        self._without_blocks.clear()

    def end_step(self) -> None:
        """What leaving `step()` does."""
        buffers, self._buffers = self._buffers, []
        try:
            for name, room, shape, start in buffers:
                self.write(name, room, shape, start, lend=True)
        except BaseException:
            self.break_step()
            raise
        self._inside = False
        if self.is_suppressing:
            self.steps += 1
            return
        if self.steps == self._end.first_step and self._end.variables:
            self._check()
        self._check_same()
        if self._units:
            self._set_units()
        begin = self._metrics.enter()
        if self._blocks_from is not None and self.steps - self._end.first_step >= self._blocks_from:
            self._metrics.blocks(self.name, "write")
        try:
            if self._sampler is not None and (samples := self._sampler.block()) is not None:
                self._engine.put(samples)
            self._engine.end()
        except RuntimeError as error:
            self._broken = True
            raise self._record(
                StreamFailed(f"stream {self.name}: step {self.steps} could not be written: {adios_message(error)}")
            ) from error
        seconds = self._metrics.leave() - begin
        # Of a file EndStep writes; of a stream it queues the step, and blocks while the queue is full.
        wait_s, io_s = (0.0, self._io_s + seconds) if self._is_file else (seconds, self._io_s)
        self._metrics.step(self.name, "write", self._bytes, wait_s, io_s, self._device_s)
        self.steps += 1

    def break_step(self) -> None:
        """What leaving `step()` by an exception does: the step is not sent, and no further step can follow."""
        self._inside, self._broken = False, True

    @property
    def steps_begun(self) -> int:
        """How many steps are written."""
        return self.steps

    @property
    def is_suppressing(self) -> bool:
        """Whether the next step, or the present one, is there already."""
        return self.steps < self._end.first_step

    def _set_units(self) -> None:
        """The units that only the pipeline knows, of the variables of this step: files then have them too.

        A unit of the data themselves, openPMD's `unitSI` among them, comes first.
        """
        for name in self._written.keys() & self._units.keys():
            unit = self._units.pop(name)
            if not unit_of(name, self._attributes):
                self.attribute("unit", unit, variable=name)

    def _to_host(self, name: str, value: Any, is_sent: bool) -> tuple[Array, bool]:
        """An array of a device, and whether it is in the memory of this step already.

        Else it is in pinned memory that the next array but one is copied to.
        """
        from workflow.stage.devices.find_device import find_array_device
        from workflow.stage.devices.staging import staging_of

        try:
            device, array = find_array_device(value)
            shape, kind = device.describe(array)
        except (StageError, TypeError) as error:
            raise type(error)(f"stream {self.name}: {name}: {error}") from error
        staging = staging_of(device, self._stagings)
        device.synchronize()  # which counts as computing
        # Truth values are sent as another type.
        is_there = is_sent and not self.is_suppressing and kind != "bool"
        begin = self._metrics.enter()
        if is_there and isinstance(engine := self._engine, GivesRoom):
            room, segment = engine.room(shape, kind)
            segment.will_copy(room.nbytes, device.pin)
        else:
            room, is_there = staging.room(shape, kind), False
        device.copy_to_host(array, room)
        self._device_s += self._metrics.leave() - begin
        return room, is_there

    def _prepare_samples(self) -> None:
        from workflow.stage.compressed_variables import Operators, Sampler  # only writers that compress pay for these

        self._operators, self._sampler = Operators(self._end), Sampler(own_communicator())

    def _check_inside(self, name: str) -> None:
        if not self._inside:
            raise StageError(f"stream {self.name}: {name!r} must be written inside `with writer.step():`")

    def _box(self, name: str, array: Array, shape: Any, start: Any) -> tuple[Shape, Shape]:
        if shape is None:
            if start is not None:
                raise StageError(f"stream {self.name}: {name} has a start but no shape")
            return array.shape, (0,) * array.ndim
        whole = tuple(int(n) for n in shape)
        first = (0,) * len(whole) if start is None else tuple(int(n) for n in start)
        fits = len(whole) == len(first) == array.ndim and all(
            s >= 0 and s + n <= w for s, n, w in zip(first, array.shape, whole, strict=True)
        )
        if not fits:
            raise StageError(
                f"stream {self.name}: {name}: a block of shape {array.shape} at {first} does not lie inside {whole}"
            )
        return whole, first

    def tell_once(self, name: str, text: str) -> None:
        """Say what becomes of a variable that the stream cannot have as it is: once, on rank 0."""
        if name not in self._told and self._rank == 0:
            self._told.add(name)
            note(text)
            print(f"note: {text}", file=sys.stderr, flush=True)

    def _tell_converted(self, name: str, value: Any) -> None:
        """Say once that what is written has another type."""
        letter = getattr(getattr(value, "dtype", None), "char", "")
        if letter in CONVERTED and letter != "?":
            known = f"{name} is {value.dtype}, which ADIOS2's Python cannot write"
            self.tell_once(name, f"{known}: it becomes {CONVERTED[letter]}")

    def _check_form(self, block: BlockData) -> None:
        """Here and not in an engine, which only rank 0 may have: so that all ranks raise it."""
        if self._end.traits.keeps_form:
            check_unchanged(block.name, self._forms.setdefault(block.name, block.form), block.form)

    def _check_same(self) -> None:
        try:
            self._bytes += self._same.check(self._local_bytes)
        except StageError as error:
            self._broken = True
            raise self._record(StageError(f"stream {self.name}: {error}")) from None

    def _check(self) -> None:
        try:
            check_contract(self._end, self._stage, self._written, may_lack=self._without_blocks)
        except StageError as error:
            self._broken = True
            raise self._record(error) from None

    def _record(self, error: StageError) -> StageError:
        self._metrics.error(self.name, error)
        return error


class WritingStep:
    """The `with` block of one step."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __enter__(self) -> Writer:
        self._writer.begin_step()
        return self._writer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._writer.end_step()
        else:
            self._writer.break_step()


def _first_blocking_step(end: StreamEnd) -> int | None:
    """The first step for which the queue may have no room; None where a step never waits for room."""
    limit, discards = end.queue
    return None if not end.traits.in_memory or discards or not limit else limit


def _attribute_content(name: str, value: Any) -> Array | list[str]:
    array = np.asarray(value)
    if array.dtype.kind == "U":
        return [str(item) for item in array] if array.ndim == 1 else to_array(name, value)[0]
    if array.ndim > 1:
        raise TypeError(f"attribute {name}: it has {array.ndim} dimensions, but at most one is possible; flatten it")
    return to_array(name, array)[0]


def _same(one: Array | list[str], other: Array | list[str]) -> bool:
    if isinstance(one, list) or isinstance(other, list):
        return one is other or (isinstance(one, list) and isinstance(other, list) and one == other)
    return one.dtype == other.dtype and np.array_equal(one, other)


# Arrays that a program with several ranks writes without a shape: only rank 0's is stored, so all must be the same.

# What another rank than 0 contributes that has written none.
_NOTHING = np.iinfo(np.int64).min


class SameValues:
    """Compares those arrays of a step by their checksums, once a step: one reduction of 24 bytes.

    In each step, because arrays that are the same at first (zeros) may differ later. Another rank than 0 that
    has written none is not compared: a program may write them on rank 0 alone.
    """

    def __init__(self) -> None:
        self._comm: Any = own_communicator()
        self._checksums: dict[str, int] = {}

    def take(self, name: str, values: NDArray[Any]) -> None:
        """Note an array that this rank has written without a shape."""
        if self._comm is not None and values.ndim:
            kind = f"{name} {values.dtype.str} {values.shape}".encode()
            self._checksums[name] = zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data, zlib.crc32(kind))

    def check(self, local_bytes: int) -> int:
        """The sum over all ranks of the bytes that each has written in local blocks, which no other rank knows.

        Raises StageError on all ranks when an array differs between them. Collective, at the end of a step.
        """
        if self._comm is None:
            return local_bytes
        from mpi4py import MPI

        checksums, self._checksums = self._checksums, {}
        # Positive, so that its negative exists; the maximum of both is equal only where all are.
        mine = zlib.crc32(repr(checksums).encode())
        is_compared = checksums or self._comm.Get_rank() == 0
        bounds = np.array([*([mine, -mine] if is_compared else [_NOTHING] * 2), local_bytes], np.int64)
        self._comm.Allreduce(MPI.IN_PLACE, bounds, op=MPI.MAX)
        if bounds[0] != -bounds[1] and (different := _different(self._comm.allgather(checksums))):
            raise StageError(
                f"the ranks have different values of {', '.join(map(repr, different))}, written without a shape: only "
                "rank 0's would be stored. Give `shape`, that of the whole array, and `start`, where this rank's part "
                "begins; or write the same array on all ranks, or on rank 0 alone"
            )
        return int(self._comm.allreduce(local_bytes)) if bounds[2] else 0


def _different(ranks: list[dict[str, int]]) -> list[str]:
    """The names whose checksums differ between the ranks that wrote them, or that rank 0 has not written."""
    names = dict.fromkeys(name for rank in ranks for name in rank)
    found = ({rank[name] for rank in ranks if name in rank} for name in names)
    return [name for name, values in zip(names, found, strict=True) if len(values) > 1 or name not in ranks[0]]
