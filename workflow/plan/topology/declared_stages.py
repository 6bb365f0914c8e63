"""The pipeline from which the plan is made: what the user wrote, with pipes, relays and taps as stages and streams.

Also each of its stages with what it refers to: component, parameters, files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from workflow.errors import Problem
from workflow.spec.models.component import Component
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import PipelineSpec, StageSpec
from workflow.spec.origins import Origins

if TYPE_CHECKING:
    from workflow.spec.ensembles import EnsembleMember

Role = Literal["pipe", "relay", "tap", "spool"]


class ImplicitStage(NamedTuple):
    """A stage that the user asked for without writing it. `asked` is the key that asks for it; `is_optional`: whether
    the run succeeds without it."""

    role: Role
    stream: str
    asked: str
    is_optional: bool = False


class CompletePipeline(NamedTuple):
    """A pipeline with its implicit stages and streams. The other attributes are those of `Loaded`."""

    spec: PipelineSpec
    path: Path
    components: Mapping[str, Component]
    component_dirs: Mapping[str, Path]
    parameters: Mapping[str, Mapping[str, Any]]
    engines: Mapping[str, Engine]
    templates: Mapping[str, Mapping[str, str]]
    origins: Origins
    warnings: Sequence[Problem]
    implicit_stages: Mapping[str, ImplicitStage]
    """By name, in the order in which the data pass through them."""
    implicit_streams: frozenset[str]
    renamed: Mapping[str, Mapping[str, str]]
    """Stage → stream in the stage's command, environment and files → the stream that is meant: the one that the stage
    writes to its pipe, or that of the steps that were selected for it."""
    members: Mapping[str, EnsembleMember]
    """Stage → which member of an ensemble it is; those that are one."""


class DeclaredStage(NamedTuple):
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
    """Stream in its command, environment and files → the stream that is meant: the one that it writes to its pipe, its
    own one of those of an ensemble, or that of the steps that were selected for it."""
    member: EnsembleMember | None = None
    """Which member of an ensemble it is."""


def declared_stages(pipeline: CompletePipeline, operators: Mapping[str, Sequence[str]]) -> dict[str, DeclaredStage]:
    """All stages by name, in the order of the file. `operators`: of each stage's ADIOS2, where they are known."""
    found = {}
    for name, stage in pipeline.spec.stages.items():
        implicit, member = pipeline.implicit_stages.get(name), pipeline.members.get(name)
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
            renamed={**(member.renamed if member is not None else {}), **pipeline.renamed.get(name, {})},
            member=member,
        )
    return found
