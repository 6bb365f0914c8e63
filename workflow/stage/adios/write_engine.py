"""Writing through an ADIOS2 engine: steps, this process's blocks, and attributes."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from workflow.distribution.boxes import Shape, volume
from workflow.formats.node_folder import make_here
from workflow.formats.stage_file import APPEND_AFTER, StreamEnd
from workflow.formats.step_files import is_numbered, step_file, write_closed
from workflow.stage import settings
from workflow.stage.adios.open_engine import (
    Connections,
    bindings,
    declare_io,
    forget_contact_files,
    is_parallel,
    make_adios,
    open_engine,
    open_path,
)
from workflow.stage.ranks import rank
from workflow.stage.stage_errors import StageError
from workflow.stage.variables import STRING_LISTS, Array, BlockData, VariableForm, check_unchanged, complex_to_pairs

if TYPE_CHECKING:
    from workflow.stage.compressed_variables import Operators, VariableOperator


class _Known(NamedTuple):
    """A variable that is defined in ADIOS2, and its current selection."""

    variable: Any
    form: VariableForm
    shape: Shape
    start: Shape
    extent: Shape


class AdiosWriteEngine:
    """One engine opened for writing by this process; of a stream with a file per step, one after the other."""

    def __init__(self, end: StreamEnd) -> None:
        self._adios2 = bindings()
        self._operators: Operators | None = None
        if end.operators:
            from workflow.stage.compressed_variables import Operators  # only writers that compress pay for it

            self._operators = Operators(end)
            self._operators.check_built()
        self._end, self._steps = end, 0
        self._numbered = is_numbered(end.path)
        self._engine: Any = None
        self._connections = Connections(end.silence_limit_s)
        if end.on_node:
            _make_on_node(end)
        if self._numbered:
            # Variables, operators and attributes are those of the IO, which all files share.
            self._adios = make_adios()
            self._io = declare_io(self._adios, end, end.port)
        else:
            self._adios, self._io, self._engine = open_engine(
                end, "Append" if APPEND_AFTER in end.parameters else "Write"
            )
        self._sync, self._deferred = self._adios2.Mode.Sync, self._adios2.Mode.Deferred
        self._variables: dict[str, _Known] = {}
        self._lent: list[Array] = []
        self._over_network = end.traits.over_network
        suffix = end.traits.contact_suffix
        self._contact = Path(end.path + suffix) if suffix else None
        self._lists: set[str] = set()
        # Attributes set before the first step: a file closed without a step must stay empty, or readers see a step.
        self._early: dict[str, Array | list[str]] | None = {}

    def begin(self) -> None:
        """See `WriteEngine`."""
        if self._over_network:
            self._connections.send_at_once()
        if self._numbered:
            self._engine = open_path(self._io, self._end, step_file(self._end.path, self._steps), "Write")
        self._engine.BeginStep()
        early, self._early = self._early or {}, None
        for name, value in early.items():
            self.attribute(name, value)

    def put(self, block: BlockData) -> None:
        """See `WriteEngine`. Raises StageError when a variable changes its type or its number of dimensions."""
        name, kind, values, shape, start, lent, _ = block
        count = values.shape
        known = self._variables.get(name)
        operator = self._operator_of(block)
        if known is None:
            variable = self._define(block, operator)
        else:
            variable = known.variable
            check_unchanged(name, known.form, block.form)
            if shape != known.shape:
                variable.SetShape(shape)
            if start != known.start or count != known.extent:
                variable.SetSelection((start, count))
        self._variables[name] = _Known(variable, block.form, shape, start, count)
        if kind == "string":
            self._engine.Put(variable, str(values[()]))
        elif lent:
            self._lent.append(values)
            self._engine.Put(variable, values, self._deferred)
        else:
            self._engine.Put(variable, values, self._sync)

    def put_share(self, block: BlockData) -> None:
        """See `WriteEngine`. Empty blocks are left out, unless the whole array has no elements."""
        if block.values.size or not volume(block.shape):
            self.put(block)

    def put_local(self, name: str, blocks: Sequence[BlockData]) -> None:
        """See `WriteEngine`."""
        del name
        for block in blocks:
            self.put(block)

    def end(self) -> None:
        """See `WriteEngine`."""
        self._engine.EndStep()
        if self._numbered:
            self._engine.Close()
        self._steps += 1
        self._lent.clear()

    def close(self) -> None:
        """See `WriteEngine`."""
        if not self._numbered:
            self._engine.Close()
        elif rank() == 0:
            write_closed(self._end.path, self._steps)

    def abandon(self) -> None:
        """See `WriteEngine`. Deletes ADIOS2's objects: a file stays readable, the readers of a stream fail. A file that
        the next attempt of this stage goes on with is not closed.

        Where that would be collective, the stream is left open until the process ends.
        """
        if is_parallel():
            return
        if settings.current().restarts and self._contact is None:
            # Destroyed, it would close the file, and readers would see the end of the stream.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._engine))
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._adios))
            return
        self._variables.clear()
        del self._engine, self._io, self._adios
        if self._contact is not None:
            self._contact.unlink(missing_ok=True)
            forget_contact_files()

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """See `WriteEngine`."""
        if self._early is not None:
            self._early[name] = value
        elif self._over_network and (isinstance(value, list) or value.dtype.kind == "c"):  # SST loses them
            self._lists.add(name)
            self._define_attribute(STRING_LISTS, json.dumps(sorted(self._lists)))
            content = value if isinstance(value, list) else complex_to_pairs(value)
            self._define_attribute(name, json.dumps(content))
        elif isinstance(value, list) or value.dtype.kind != "U":
            self._define_attribute(name, value)
        else:
            self._define_attribute(name, str(value[()]))

    def _define_attribute(self, name: str, value: Array | list[str] | str) -> None:
        # ADIOS2 refuses a second value for a defined name; removing an undefined one has no effect.
        self._io.RemoveAttribute(name)
        self._io.DefineAttribute(name, value)

    def _operator_of(self, block: BlockData) -> VariableOperator | None:
        operator = None if self._operators is None or block.local else self._operators.of(block)
        if operator is not None and self._operators is not None:
            self._operators.check_block(operator, block)
        return operator

    def _define(self, block: BlockData, operator: VariableOperator | None) -> Any:
        if block.type == "string":
            return self._io.DefineVariable(block.name)
        # ADIOS2 takes the type from the array; without shape, start and count it is a single value.
        variable = self._io.DefineVariable(block.name, block.values, block.shape, block.start, block.values.shape)
        if operator is not None:
            variable.AddOperation(operator.type, dict(operator.parameters))
        return variable


def _make_on_node(end: StreamEnd) -> None:
    """Make the folder of the run on this node, and the link at the path of the end."""
    try:
        make_here(Path(end.path), settings.current().run_dir, end.on_node)
    except OSError as error:
        raise StageError(
            f"stream {end.stream}: cannot be written to {end.on_node} of this node: "
            f"{error.filename}: {error.strerror}; `keep` without `where` keeps it in the run directory"
        ) from error
