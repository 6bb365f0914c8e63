"""The stages of the pipeline, each with what it refers to: component, parameters, files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from workflow.plan.topology.implicit_stages import CompletePipeline, Role
from workflow.plan.topology.ports import JoinedStream
from workflow.spec.models.component import Component
from workflow.spec.models.pipeline import StageSpec


@dataclass(frozen=True)
class DeclaredStage:
    """One stage before anything is decided about it."""

    name: str
    spec: StageSpec
    component: Component | None
    """None for a `command:`."""
    component_dir: Path | None
    """The directory of the component's program, absolute."""
    parameters: Mapping[str, Any]
    """Of the component, complete: defaults filled in, seconds and bytes, files absolute."""
    templates: Mapping[str, str]
    """Name in the stage's directory → text in which placeholders are filled."""
    sources: Mapping[str, Path]
    """Name in the stage's directory → the user's file, absolute. All `files:`, templates included."""
    operators: Sequence[str] | None
    """The operators of its ADIOS2; None: not known."""
    role: Role | None
    """Why `wf` added the stage; None for a stage that the user wrote."""
    is_optional: bool
    """Whether the run succeeds without it."""
    renamed: Mapping[str, str]
    """Stream in its command, environment and files → the stream that it writes to its pipe."""


def declared_stages(pipeline: CompletePipeline, operators: Mapping[str, Sequence[str]]) -> dict[str, DeclaredStage]:
    """All stages by name, in the order of the file. `operators`: of each stage's ADIOS2, where they are known."""
    found = {}
    for name, stage in pipeline.spec.stages.items():
        implicit = pipeline.implicit_stages.get(name)
        found[name] = DeclaredStage(
            name=name,
            spec=stage,
            component=None if stage.component is None else pipeline.components[stage.component],
            component_dir=None if stage.component is None else pipeline.component_dirs[stage.component],
            parameters=pipeline.parameters.get(name, {}),
            templates=pipeline.templates.get(name, {}),
            sources={target: pipeline.path.parent / source for target, source in stage.files.items()},
            operators=operators.get(name),
            role=None if implicit is None else implicit.role,
            is_optional=implicit is not None and implicit.is_optional,
            renamed=pipeline.renamed.get(name, {}),
        )
    return found


# What each stage is: simulation, analysis or sink.

StageKind = Literal["simulation", "analysis", "sink"]


def stage_kinds(stages: Mapping[str, DeclaredStage], streams: Collection[JoinedStream]) -> dict[str, StageKind]:
    """By stage: a component declares its kind; that of a command follows from the streams it reads and writes."""
    reading = {port.stage for stream in streams for port in stream.readers}
    writing = {stream.writer.stage for stream in streams if stream.writer is not None}
    return {name: _kind(stage, name in reading, name in writing) for name, stage in stages.items()}


def _kind(stage: DeclaredStage, reads: bool, writes: bool) -> StageKind:
    if stage.component is not None:
        return stage.component.kind
    if not reads:
        return "simulation"
    return "analysis" if writes else "sink"
