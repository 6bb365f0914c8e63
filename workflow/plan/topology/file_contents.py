"""Compares what a stream is declared to hold with what the file format of a sink can hold, before anything starts.

Only what is certain is refused. The rules are those of components/archive: particles are arrays beside a `position`
(workflow/particle_species.py), and without one the arrays of one dimension and one length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workflow.plan.plan_notes import Notes
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.port_matching import JoinedStream
from workflow.spec.file_formats import chosen_format, suffixes_of_all
from workflow.spec.models.component import Component, FileFormats, PortVariable
from workflow.spec.suggest import did_you_mean, listing

_AXES = ("x", "y", "z")


@dataclass(frozen=True)
class _File:
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
