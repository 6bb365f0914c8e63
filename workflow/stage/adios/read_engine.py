"""Reading through an ADIOS2 engine: steps, boxes and attributes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workflow.distribution.boxes import Block, Shape, is_covered, is_tiled, volume
from workflow.formats.reader_profile import remove_profile
from workflow.formats.stage_file import StreamEnd
from workflow.formats.step_files import is_numbered, read_closed, step_file
from workflow.stage.adios.open_engine import (
    Connections,
    bindings,
    declare_io,
    is_parallel,
    make_adios,
    open_engine,
    open_path,
)
from workflow.stage.openpmd_iterations import WholeFile
from workflow.stage.ranks import own_communicator
from workflow.stage.stage_errors import StageError
from workflow.stage.stream_engines import ByteCounter, StepStatus
from workflow.stage.variables import (  # fmt: skip
    NUMPY_TYPES,
    STRING_LISTS,
    Array,
    BlockTable,
    Info,
    Selection,
    fresh_array,
    pairs_to_complex,
)

_SLICE_S = 1.0
_LONGEST_PAUSE_S = 5e-3
_SHORTEST_PAUSE_S = 5e-5  # about how long a sleep of length 0 takes
# Filling fewer bytes with zeros takes less time than to ask which blocks there are; of more the kernel makes zeros.
_LITTLE, _MUCH = 1 << 22, 1 << 25


class BlocksOf(NamedTuple):
    """The blocks of a variable in one step. `is_value`: it is a single value, which BP4's readers cannot tell else."""

    blocks: tuple[Block, ...]
    is_value: bool


class AdiosReadEngine:
    """One engine opened for reading by this process. `mode`: a member of adios2's Mode."""

    def __init__(self, end: StreamEnd, mode: str = "Read") -> None:
        self._adios2 = bindings()
        self._comm = own_communicator() if is_parallel() else None
        self._files = NumberedFiles(end, self._comm) if is_numbered(end.path) else None
        self._io: Any = None
        self._engine: Any = None  # until the first step, where each has its own
        if self._files is None:
            self._adios, self._io, self._engine = open_engine(end, mode)
        self._over_network = end.traits.over_network
        self._connections = Connections()
        self._counter = ByteCounter(self._comm)
        # The next step may be the empty one of a file without steps.
        self._first = not self._over_network and self._files is None
        # What an earlier attempt of the stage has done. Not by the parameter SelectSteps, with which ADIOS2 (2.12.1)
        # does not read the attributes that were set in the steps left out.
        self._skipped = max(0, end.first_step - end.before) if end.traits.resumable else 0
        self._empty = False  # this step holds nothing, and ADIOS2 has already been asked for the next one:
        self._ahead: StepStatus | None = None  # the answer
        self._local, self._single = self._adios2.ShapeID.LocalArray, self._adios2.ShapeID.GlobalValue
        self._is_bp4: bool | None = None
        # Of this step: a question to ADIOS2 takes the longer the more blocks there are.
        self._block_tables: dict[str, BlocksOf | None] = {}
        self._statuses = {
            self._adios2.StepStatus.OK: StepStatus.READY,
            self._adios2.StepStatus.NotReady: StepStatus.LATE,
            self._adios2.StepStatus.EndOfStream: StepStatus.ENDED,
            self._adios2.StepStatus.OtherError: StepStatus.FAILED,
        }

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`. Waits in slices, because ADIOS2 does not react to Ctrl-C while it waits."""
        if self._over_network:
            self._connections.send_at_once()
            return self._poll(timeout_s)
        if self._files is not None:
            return self._begin_file(self._files, timeout_s)
        while self._skipped:
            if (status := self._wait(timeout_s)) is not StepStatus.READY:
                return status
            self._engine.EndStep()
            self._skipped, self._first = self._skipped - 1, False
        status, self._ahead = self._ahead or self._wait(timeout_s), None
        if status is StepStatus.READY and self._first and not self._io.AvailableVariables():
            status = self._look_ahead(timeout_s)
        self._first = False
        return status

    def _begin_file(self, files: NumberedFiles, timeout_s: float) -> StepStatus:
        """The status for the step in the next file."""
        if (end := files.open_next()) is not None:
            return end
        self._io, self._engine = files.io, files.engine
        status = self._wait(timeout_s)
        return StepStatus.FAILED if status is StepStatus.ENDED else status

    def _look_ahead(self, timeout_s: float) -> StepStatus:
        """The status for a first step without variables.

        ADIOS2 (2.12.1) writes one empty step into a file that is closed without any: an empty step counts unless it is
        the only one.
        """
        if self._io.AvailableAttributes():
            return StepStatus.READY
        self._engine.EndStep()
        ahead = self._wait(timeout_s)
        if ahead is StepStatus.ENDED:
            return StepStatus.ENDED
        self._empty, self._ahead = True, ahead if ahead is StepStatus.READY else None
        return StepStatus.READY

    def _wait(self, timeout_s: float) -> StepStatus:
        status, waited = self._ask(min(timeout_s, _SLICE_S)), _SLICE_S
        while status is StepStatus.LATE and waited < timeout_s:
            status, waited = self._ask(min(timeout_s, _SLICE_S)), waited + _SLICE_S
        return status

    def _poll(self, timeout_s: float) -> StepStatus:
        """Poll for the next step, without letting ADIOS2 wait. A poll takes a microsecond.

        SST's own wait with a timeout (2.12.1) crashes when a step arrives just as its timer expires, and makes MPI
        spin on all ranks but the first. With ranks in parallel all must poll equally often: there the time waited is
        added up from the pauses, not measured.
        """
        started, waited = time.monotonic(), 0.0
        while (status := self._ask(0.0)) is StepStatus.LATE and waited < timeout_s:
            # A small part of the time that the step takes anyway.
            pause = min(_LONGEST_PAUSE_S, waited / 50)
            time.sleep(pause)
            waited = time.monotonic() - started if self._comm is None else waited + pause + _SHORTEST_PAUSE_S
        return status

    def _ask(self, timeout_s: float) -> StepStatus:
        self._block_tables = {}
        return self._statuses[self._engine.BeginStep(self._adios2.StepMode.Read, timeout_s)]

    def end(self) -> int | None:
        """See `ReadEngine`."""
        if self._empty:
            self._empty = False
        else:
            self._engine.EndStep()
            if self._files is not None:
                _close(self._engine)
                self._engine = None
        return self._counter.end_step()

    def bytes_of_all(self) -> list[int] | None:
        """See `ReadEngine`."""
        return self._counter.of_all()

    def close(self) -> None:
        """See `ReadEngine`."""
        if self._files is None:
            _close(self._engine)

    def abandon(self) -> None:
        """See `ReadEngine`. Where closing is collective, the stream is left open until the process ends."""
        if self._comm is None and self._engine is not None:
            with suppress(RuntimeError):
                if self._engine.BetweenStepPairs():
                    self._engine.EndStep()
            with suppress(RuntimeError):
                _close(self._engine)

    def variables(self) -> dict[str, Info]:
        """See `ReadEngine`. Costs more than `info`: ADIOS2 determines the minimum and maximum of every variable."""
        if self._empty:
            return {}
        found = {name: self.info(name) for name in self._io.AvailableVariables()}
        return {name: info for name, info in found.items() if info is not None}

    def info(self, name: str) -> Info | None:
        """See `ReadEngine`."""
        variable = None if self._empty else self._io.InquireVariable(name)
        if not variable:
            return None
        kind = variable.Type()
        shape = self._hidden_shape(variable)
        if shape is None:
            shape = tuple(variable.Shape())
        return Info(NUMPY_TYPES.get(kind, kind), shape, variable.ShapeID() == self._local)

    def _hidden_shape(self, variable: Any) -> Shape | None:
        """The shape of an array that BP4 calls a single value: of one dimension, without elements in the first step."""
        if self._is_bp4 is None:
            self._is_bp4 = self._engine.Type() == "BP4Reader"
        if not self._is_bp4 or variable.ShapeID() != self._single:
            return None
        known = self._blocks_of(variable.Name(), local=False)
        return (tuple(variable.Shape()) or (0,)) if known and known.blocks and not known.is_value else None

    def blocks(self, names: Sequence[str]) -> dict[str, BlockTable]:
        """See `ReadEngine`."""
        found = {}
        for name in names:
            variable = self._io.InquireVariable(name)
            local, shape = variable.ShapeID() == self._local, tuple(variable.Shape())
            known = self._blocks_of(name, local)
            # Where they are not known, as if one rank had written all of it.
            found[name] = BlockTable((Block((0,) * len(shape), shape),) if known is None else known.blocks, local)
        return found

    def _blocks_of(self, name: str, local: bool) -> BlocksOf | None:
        """The blocks of a variable in this step; None where they are not known."""
        if name not in self._block_tables:
            info = self._blocks_info(name)
            if info is None and local:
                info = _local_blocks(self._io.InquireVariable(name))
            self._block_tables[name] = (
                None
                if info is None
                else BlocksOf(to_blocks(info, local), any(each.get("IsValue") == "True" for each in info[:1]))
            )
        return self._block_tables[name]

    def _blocks_info(self, name: str) -> list[dict[str, str]] | None:
        """What ADIOS2 says of the blocks of a variable in this step; None where its Python bindings (2.12.1) cannot
        return it: they take the largest value of bytes as a character, which above 127 is no text."""
        try:
            return list(self._engine.BlocksInfo(name, self._engine.CurrentStep()))
        except UnicodeDecodeError:
            return None

    def attributes(self) -> Mapping[str, Array | list[str]]:
        """See `ReadEngine`."""
        found: dict[str, Array | list[str]] = {}
        for name, shown in ({} if self._empty else self._io.AvailableAttributes()).items():
            attribute = self._io.InquireAttribute(name)
            if attribute.Type() == "string":
                strings = attribute.DataString()
                found[name] = np.array(strings[0]) if attribute.SingleValue() else list(strings)
            elif attribute.Type() == "long double":
                # openPMD-api writes some. ADIOS2's Python bindings (2.12.1) return them only as text, with six digits.
                values = np.array([float(word) for word in shown["Value"].strip("{ }").split(",")])
                found[name] = values.reshape(()) if attribute.SingleValue() else values
            else:
                values = np.array(attribute.Data())
                found[name] = values.reshape(()) if attribute.SingleValue() else values
        for name in json.loads(str(found.pop(STRING_LISTS, "[]"))):
            content = json.loads(str(found[name]))
            found[name] = content if isinstance(content, list) else pairs_to_complex(content)
        return found

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`. From files all boxes are requested first: ADIOS2 then fetches them together."""
        in_blocks: list[Any] = []
        try:
            return self._request(wanted, in_blocks)
        finally:
            try:
                # After an error, too: what was requested would be read later, into memory that is no longer there.
                self._engine.PerformGets()
            finally:
                for variable in in_blocks:
                    # ADIOS2 (2.12.1) ends the process when the next step has fewer blocks than the selected one's
                    # number.
                    variable.SetBlockSelection(0)

    def _request(self, wanted: Sequence[Selection], in_blocks: list[Any]) -> list[Array]:
        """The arrays that the next PerformGets fills. `in_blocks` gets the variables of which a block is selected."""
        found, deferred = [], self._adios2.Mode.Deferred
        for name, start, extent, block, _, into in wanted:
            variable = self._io.InquireVariable(name)
            kind = NUMPY_TYPES.get(variable.Type())
            if kind is None:
                raise StageError(f"variable {name} is of type {variable.Type()}; workflow.stage cannot read it")
            if self._hidden_shape(variable) and volume(extent):
                raise StageError(
                    f"variable {name} had no elements in the first step; BP4 files of such arrays cannot be read: "
                    "write BP5"
                )
            if kind == "string":
                found.append(np.array(self._engine.Get(variable, self._adios2.Mode.Sync)))
                continue
            values = self._room(name, start, extent, kind, block) if into is None else into
            if into is not None and block is None and not self._will_fill(name, Block(start, extent), into.nbytes):
                into[...] = 0
            if block is not None:
                in_blocks.append(variable)
                variable.SetBlockSelection(block)
            elif extent:
                variable.SetSelection((start, extent))
            if values.size:
                self._engine.Get(variable, values, deferred)
                self._counter.add(values.nbytes)
                # A writer without workflow.stage may not set TCP_NODELAY (see `open_engine`): ten small variables took
                # 44 ms a step when they were requested together, 0.7 ms one after the other.
                if self._over_network:
                    self._engine.PerformGets()
            found.append(values)
        return found

    def _room(self, name: str, start: Shape, extent: Shape, kind: str, block: int | None) -> Array:
        """An array to read into: of zeros, unless the writer's ranks have written all of it. ADIOS2 fills no gaps."""
        nbytes = volume(extent) * np.dtype(kind).itemsize
        if block is not None or (nbytes < _MUCH and self._will_fill(name, Block(start, extent), nbytes)):
            return fresh_array(extent, kind)
        return fresh_array(extent, kind, np.zeros)

    def _will_fill(self, name: str, box: Block, nbytes: int) -> bool:
        """Whether it is known that reading a box leaves no gap."""
        return nbytes >= _LITTLE and self._is_covered(name, box)

    def _is_covered(self, name: str, box: Block) -> bool:
        """Whether the writer's ranks have written all of a box."""
        if not box.extent:
            return True  # a value
        if (known := self._blocks_of(name, local=False)) is None:
            return False
        shape = tuple(self._io.InquireVariable(name).Shape())
        return is_tiled(known.blocks, shape) or is_covered(box, known.blocks)


def _close(engine: Any) -> None:
    path = engine.Name()
    engine.Close()
    remove_profile(path, os.getpid())


def _local_blocks(variable: Any) -> list[dict[str, str]]:
    """What `BlocksInfo` would say of an array without a global shape, asked for block by block; not who has written
    them."""
    found: list[dict[str, str]] = []
    with suppress(ValueError):  # there are no more
        while True:
            variable.SetBlockSelection(len(found))
            found.append({"Count": ",".join(str(length) for length in variable.Count())})
    variable.SetBlockSelection(0)
    return found


def to_blocks(info: Sequence[Mapping[str, str]], local: bool) -> tuple[Block, ...]:
    """ADIOS2's `BlocksInfo`, in numbers. `local`: of an array without a global shape."""
    found = []
    dimensions = max((each["Count"].count(",") for each in info if each["Count"]), default=-1) + 1
    for each in info:
        # BP4 gives no numbers for a local block without elements.
        extent = _numbers(each["Count"]) or (0,) * dimensions
        start = (0,) * len(extent) if local else _numbers(each["Start"])
        found.append(Block(start, extent, int(each.get("WriterID", 0))))
    return tuple(found)


def _numbers(text: str) -> Shape:
    return tuple(int(word) for word in text.split(",") if word)


def read_whole(end: StreamEnd) -> WholeFile:
    """What a complete file has in all its steps together. Collective where ADIOS2 is parallel."""
    engine = AdiosReadEngine(end, "ReadRandomAccess")
    try:
        return WholeFile(tuple(engine.variables()), engine.attributes())
    finally:
        engine.close()


# Reading a stream that has one file per step: the files one after the other.


class NumberedFiles:
    """The files of a stream in the order of its steps. `io` and `engine` are those of the file opened last."""

    def __init__(self, end: StreamEnd, comm: Any | None) -> None:
        self.io: Any = None
        self.engine: Any = None
        self._end, self._comm = end, comm
        self._adios = make_adios()
        self._opened = 0

    def open_next(self) -> StepStatus | None:
        """Opens the next file. Returns None when that is done, else how the stream has ended. Collective."""
        status = None
        # One rank looks: on a parallel file system others may see a file later.
        if self._comm is None or self._comm.Get_rank() == 0:
            status = self._look()
        if self._comm is not None:
            status = self._comm.bcast(status)
        if status is StepStatus.READY:
            # An IO of its own: it knows the variables and attributes of one file.
            if self._opened:
                self._adios.RemoveIO(self._name())
            self._opened += 1
            self.io = declare_io(self._adios, self._end, self._name())
            self.engine = open_path(self.io, self._end, step_file(self._end.path, self._opened - 1), "Read")
            return None
        return status

    def _look(self) -> StepStatus:
        index = Path(step_file(self._end.path, self._opened)) / "md.idx"
        # ADIOS2 creates its files before it fills them.
        if index.exists() and index.stat().st_size:
            return StepStatus.READY
        return StepStatus.ENDED if read_closed(self._end.path) == self._opened else StepStatus.FAILED

    def _name(self) -> str:
        return f"{self._end.port}.{self._opened}"
