"""Compares what the two ends of a stream declare about its variables, before anything starts.

Only what is certain is refused: a name that the writer does not have, types that exclude each other,
another number of dimensions, other fixed sizes, other units. The rest is checked when the first step is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from workflow.physical_units import same_unit
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, StagePort
from workflow.spec.file_formats import chosen_format, suffixes_of_all
from workflow.spec.models.component import Component, FileFormats, PortVariable
from workflow.spec.models.pipeline import StreamSpec, TypeAndShape, Variable
from workflow.spec.suggest import did_you_mean, listing

_FLOATS = ("float32", "float64")
_INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FAMILIES: dict[str, tuple[str, ...]] = {"float": _FLOATS, "int": _INTS, "number": _FLOATS + _INTS}
TYPES = (*_FLOATS, *_INTS, "complex64", "complex128", "string")

Variables = Mapping[str, PortVariable]


class Contract(NamedTuple):
    """What the ends of a stream may rely on; the readers by stage.

    `unsure`: variable → why only the first step shows whether it is there. `units`: of all variables that have one.
    """

    writer: dict[str, TypeAndShape]
    readers: dict[str, dict[str, TypeAndShape]]
    unsure: dict[str, str]
    units: dict[str, str]


def stream_contract(stream: JoinedStream, notes: Notes) -> Contract | None:
    """What the ends of a stream may rely on; None where an end is missing or the stream is not an ADIOS2 stream."""
    if stream.writer is None or not stream.engine.traits.has_steps:
        return None
    contract = check_contract(stream.name, stream.spec.variables, stream.writer, stream.readers, notes.problems)
    for name, why in contract.unsure.items():
        notes.why(f"streams.{stream.name}.variables.{name}", why)
    return contract


def check_declared_types(
    stages: Mapping[str, DeclaredStage], streams: Mapping[str, StreamSpec], problems: Problems
) -> None:
    """Notes every unknown type of a variable that a program's port or a stream declares."""
    for name, stage in stages.items():
        for side, declared in (("writes", stage.spec.writes), ("reads", stage.spec.reads)):
            for port, program_port in declared.items():
                check_types(f"stages.{name}.{side}.{port}.variables", program_port.variables, problems)
    for name, stream in streams.items():
        check_types(f"streams.{name}.variables", stream.variables, problems)


def check_types(key: str, variables: Mapping[str, Variable], problems: Problems) -> None:
    """Notes every type that is neither ADIOS2's nor a family."""
    known = (*TYPES, *FAMILIES)
    for name, variable in variables.items():
        if variable.type is not None and variable.type not in known:
            hint = _C_TYPES.get(variable.type) or did_you_mean(variable.type, known) or f"types: {listing(known, 30)}"
            problems.add(f"{key}.{name}.type", f"unknown type `{variable.type}`", hint)


_C_TYPES = {
    "double": "write float64",
    "integer": "write int32, int64 or the family int",
    "long": "write int64",
    "short": "write int16",
    "str": "write string",
    "complex": "write complex128",
    "char": "write int8",
}


def check_contract(
    stream: str, own: Mapping[str, Variable], writer: StagePort, readers: list[StagePort], problems: Problems
) -> Contract:
    """Checks every reader against the writer, and the writer against the stream's own `variables:`.

    Mistakes are noted at the stream, naming both ends. Where the writer declares nothing, names that the
    stream does not list may exist all the same.
    """
    key, unsure = f"streams.{stream}", dict[str, str]()
    wanted = {name: PortVariable(**dict(value)) for name, value in own.items()}
    written = writer.variables or {}
    complete = writer.variables is not None
    wrong: set[str] = set()
    if complete:
        who = f"the contract of stream {stream}"
        wrong = _check_end(f"{key}.variables", who, wanted, writer, written, complete, problems)
    agreed = {name: _narrowed(need, written.get(name, need)) for name, need in wanted.items() if name not in wrong}
    offered = {**written, **agreed}
    relied: dict[str, dict[str, TypeAndShape]] = {}
    for reader in readers:
        if reader.variables is None:
            relied[reader.stage] = _certain(offered)
            continue
        needs = reader.variables
        _check_end(key, reader.end, needs, writer, offered, complete, problems, reader.named_at)
        for name, need in needs.items():
            if not need.optional and name in offered and offered[name].optional:
                unsure[name] = f"{reader.end} needs it; {writer.end} writes it with some parameters only"
        merged = {name: _narrowed(need, offered.get(name, need)) for name, need in needs.items()}
        relied[reader.stage] = _certain({**agreed, **merged})
    units = _units(wanted, written, *(reader.variables or {} for reader in readers))
    return Contract(_certain(offered), relied, unsure, units)


def _check_end(
    key: str,
    who: str,
    needs: Variables,
    writer: StagePort,
    offered: Variables,
    complete: bool,
    problems: Problems,
    named_at: Mapping[str, str] = MappingProxyType({}),
) -> set[str]:
    """Notes what the end needs and does not get, at `key` or where the file names the variable; returns the names of
    these variables."""
    wrong: set[str] = set()
    sizes: dict[str, tuple[int, str]] = {}
    for name, need in needs.items():
        have = offered.get(name)
        if have is None:
            if complete and not need.optional:
                wrong.add(name)
                hint = did_you_mean(name, offered) or f"{writer.end} writes: {listing(offered)}"
                text = f"{who} needs `{name}`, which {writer.end} does not write"
                problems.add(named_at.get(name, key), text, hint)
            continue
        mismatch = _mismatch(need, have) or _size_conflict(name, need, have, sizes)
        if mismatch:
            wrong.add(name)
            said = f"{who} needs `{name}` as {_said(need)}, but {writer.end} writes it as {_said(have)}"
            problems.add(key, f"{said}: {mismatch}", f"change one end, or read another variable of: {listing(offered)}")
    return wrong


def _units(*declared: Variables) -> dict[str, str]:
    """Variable → unit, from the first that declares one."""
    found: dict[str, str] = {}
    for variables in declared:
        for name, variable in variables.items():
            if variable.unit:
                found.setdefault(name, variable.unit)
    return found


def _mismatch(need: Variable, have: Variable) -> str:
    if need.unit and have.unit and not same_unit(need.unit, have.unit):
        return "the units differ"
    if need.type and have.type and not set(_types(need.type)) & set(_types(have.type)):
        return "the types differ"
    if need.shape is None or have.shape is None:
        return ""
    if len(need.shape) != len(have.shape):
        return f"{_dimensions(len(need.shape))} against {_dimensions(len(have.shape))}"
    for axis, (wanted, offered) in enumerate(zip(need.shape, have.shape, strict=True)):
        if isinstance(wanted, int) and isinstance(offered, int) and wanted != offered:
            return f"dimension {axis} is {wanted} against {offered}"
    return ""


def _size_conflict(name: str, need: Variable, have: Variable, sizes: dict[str, tuple[int, str]]) -> str:
    """One name of a size stands for one number throughout an end."""
    for wanted, offered in zip(need.shape or [], have.shape or [], strict=False):
        if isinstance(wanted, str) and isinstance(offered, int):
            first, where = sizes.setdefault(wanted, (offered, name))
            if first != offered:
                return f"{wanted} is already {first} in `{where}`"
    return ""


def _types(name: str) -> tuple[str, ...]:
    return FAMILIES.get(name, (name,))


def _dimensions(count: int) -> str:
    return "a scalar" if count == 0 else f"{count} dimension{'s' if count > 1 else ''}"


def _said(variable: Variable) -> str:
    shape = "" if variable.shape is None else " [" + ", ".join(map(str, variable.shape)) + "]"
    return (variable.type or "any type") + shape + (f" in {variable.unit}" if variable.unit else "")


def _narrowed(need: PortVariable, have: PortVariable) -> PortVariable:
    """What is certain of a variable when both ends meet their declarations."""
    return PortVariable(
        type=_narrower(need.type, have.type),
        shape=_narrower_shape(need.shape, have.shape),
        unit=need.unit or have.unit,
        optional=need.optional and have.optional,
    )


def _narrower(need: str | None, have: str | None) -> str | None:
    if need is None or have is None:
        return need or have
    return min(have, need, key=lambda name: len(_types(name)))


def _narrower_shape(need: list[int | str] | None, have: list[int | str] | None) -> list[int | str] | None:
    if need is None or have is None or len(need) != len(have):
        return need if need is not None else have
    return [b if isinstance(b, int) else a for a, b in zip(need, have, strict=True)]


def _certain(variables: Variables | None) -> dict[str, TypeAndShape]:
    """Type and shape of the variables that are there in any case."""
    return {
        name: TypeAndShape(type=variable.type, shape=variable.shape)
        for name, variable in (variables or {}).items()
        if not variable.optional
    }


# Compares what a stream is declared to hold with what the file format of a sink can hold, before anything starts.
#
# Only what is certain is refused. The rules are those of components/archive: particles are arrays beside a `position`
# (workflow/particle_species.py), and without one the arrays of one dimension and one length.

_AXES = ("x", "y", "z")


class _File(NamedTuple):
    """A file that a sink writes: the key that asks for its format, the stream, and what is written of it."""

    stage: str
    key: str
    format: str
    stream: str
    arrays: Mapping[str, PortVariable]
    others: str
    """The suffixes of formats that hold any data."""

    @property
    def has(self) -> str:
        """Its arrays with their shapes, for messages."""
        shapes = {name: variable.shape for name, variable in self.arrays.items() if variable.shape != []}
        said = (f"{name} {_shown(shape)}".strip() for name, shape in shapes.items())
        return ", ".join(said) or "none"


def check_file_contents(streams: Iterable[JoinedStream], stages: Mapping[str, DeclaredStage], notes: Notes) -> None:
    """Notes every file whose format cannot hold the stream that it is written from."""
    for stream in streams:
        for reader in stream.readers:
            component = stages[reader.stage].component
            if component is not None and component.file_formats is not None:
                _check_sink(stream, stages[reader.stage], component, component.file_formats, notes)


def _check_sink(
    stream: JoinedStream, stage: DeclaredStage, component: Component, known: FileFormats, notes: Notes
) -> None:
    if stream.writer is None or stream.writer.variables is None:
        return
    wanted, offered = stage.parameters[known.variables], dict(stream.writer.variables)
    offered |= {name: PortVariable(**dict(each)) for name, each in stream.spec.variables.items()}
    for name in wanted:
        if name not in offered:
            hint = did_you_mean(name, offered) or f"{stream.writer.end} writes: {listing(offered)}"
            message = f"{stream.writer.end} writes no `{name}`"
            notes.problems.add(f"stages.{stage.name}.with.{known.variables}", message, hint)
    chosen = chosen_format(component, stage.parameters)
    if chosen is None or chosen[1].holds is None:
        return
    arrays = {name: variable for name, variable in offered.items() if not wanted or name in wanted}
    key = f"stages.{stage.name}.with.{known.format if known.format in stage.spec.with_ else known.path}"
    file = _File(stage.name, key, chosen[0], stream.name, arrays, suffixes_of_all(known, of_any_data=True))
    if chosen[1].holds == "grid":
        _check_grid(file, notes)
        return
    species = certain_species(arrays)
    if len(species) > 1:
        message = f"a file of format {file.format} holds one species, but stream {stream.name} has {listing(species)}"
        hint = f"list the arrays of one in `{known.variables}`, or use another format: {file.others}"
        notes.problems.add(key, message, hint)
    elif any(may_be_position(name, variable) for name, variable in arrays.items()):
        return
    elif chosen[1].holds == "particles":
        _check_particles(file, known.variables, notes)
    elif left := [name for name, variable in arrays.items() if _is_no_field(variable)]:
        notes.advise(
            f"stage {stage.name}: {listing(left)} of stream {stream.name} will be left out of the file: "
            f"format {file.format} holds particles and fields of 2 or 3 dimensions"
        )


def _check_grid(file: _File, notes: Notes) -> None:
    """At least one array must be a field. The sink chooses among several grids: sizes may be names here."""
    if all(_is_no_field(variable) or variable.shape == [] for variable in file.arrays.values()):
        message = f"format {file.format} holds fields of 2 or 3 dimensions, and stream {file.stream} has none"
        notes.problems.add(file.key, f"{message}: its arrays are {file.has}", f"use another format: {file.others}")


def _check_particles(file: _File, variables: str, notes: Notes) -> None:
    """Without a position: there must be arrays of one dimension, all of one length."""
    shapes = {name: variable.shape for name, variable in file.arrays.items()}
    lengths = {name: shape[0] for name, shape in shapes.items() if shape is not None and len(shape) == 1}
    certain = {size for name, size in lengths.items() if isinstance(size, int) and not file.arrays[name].optional}
    hint = f"list arrays of one length in `{variables}`, or use another format: {file.others}"
    if not lengths and None not in shapes.values():
        message = f"a file of format {file.format} holds particles, and stream {file.stream} has none"
        notes.problems.add(file.key, f"{message}: its arrays are {file.has}", f"use another format: {file.others}")
    elif len(certain) > 1:
        message = f"no array of stream {file.stream} is called `position`, so it is unclear which ones hold particles"
        notes.problems.add(file.key, f"{message}: {file.has}", hint)
    elif len(set(lengths.values())) > 1:
        notes.advise(
            f"stage {file.stage}: format {file.format} holds arrays of one length, and those of stream {file.stream} "
            f"may have several ({file.has}); {hint}"
        )


def certain_species(arrays: Mapping[str, PortVariable]) -> list[str]:
    """The folders of positions that every step has, for messages without their last slash."""
    found = [_folder(name, variable) for name, variable in arrays.items() if not variable.optional]
    return list(dict.fromkeys(folder.strip("/") or "/" for folder in found if folder is not None))


def _folder(name: str, variable: PortVariable) -> str | None:
    """The path before a `position` that is one for certain; None for all other arrays."""
    parts, shape = name.split("/"), variable.shape
    if parts[-1] == "position" and shape is not None and len(shape) == 2 and shape[1] in (2, 3):
        return name[: -len("position")]
    if parts[-2:-1] == ["position"] and parts[-1] in _AXES and shape is not None and len(shape) == 1:
        return name[: -len("position/x")]
    return None


def may_be_position(name: str, variable: PortVariable) -> bool:
    """Whether an array may hold the positions of particles, as far as its declaration tells."""
    parts, shape = name.split("/"), variable.shape
    if parts[-1] == "position":
        return shape is None or (len(shape) == 2 and (isinstance(shape[1], str) or shape[1] in (2, 3)))
    return parts[-2:-1] == ["position"] and parts[-1] in _AXES and (shape is None or len(shape) == 1)


def _is_no_field(variable: PortVariable) -> bool:
    return variable.shape is not None and len(variable.shape) not in (0, 2, 3, 4)


def _shown(shape: list[int | str] | None) -> str:
    return "" if shape is None else "[" + ", ".join(map(str, shape)) + "]"
