"""The stages of the plan before anything is decided, each with what it refers to: component, parameters, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow.plan.plan_notes import Notes
from workflow.spec.loaded_pipeline import CompletePipeline, ImplicitStage, Role
from workflow.spec.models.component import Component
from workflow.spec.models.pipeline import StageSpec
from workflow.spec.origins import Origins


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


def explain_implicit_stages(
    stages: Mapping[str, DeclaredStage], implicit: Mapping[str, ImplicitStage], origins: Origins, notes: Notes
) -> None:
    """Why each added stage is there: with `wf plan`, and `wf plan --explain stages.NAME`."""
    for name, insertion in implicit.items():
        stream, where = insertion.stream, origins.of(insertion.asked)
        said = {
            "pipe": f"receives the steps of {stream} by SST and writes its file instead of the writer",
            "relay": f"receives every step of {stream} at once and offers it to the taps, which may be slow",
            "tap": f"a tap of stream {stream}",
            "spool": f"keeps the steps of {stream}, from which stages go on that are started again",
        }[insertion.role]
        notes.why(f"stages.{name}", f"{said}: {insertion.asked} ({where})")
    for name, stage in stages.items():
        if stage.spec.output.async_ != "pipe":
            continue
        pipes = [each for each, found in implicit.items() if found.asked == f"stages.{name}.output.async"]
        nodes, ranks = stage.spec.place.nodes or 1, stage.spec.output.pipe.ranks
        if pipes and nodes > ranks:
            notes.advise(
                f"stage {name} runs on {nodes} nodes, and {' and '.join(pipes)} receives all its data on {ranks} of "
                f"them: with an ADIOS2 built with MPI, `stages.{name}.output.pipe.ranks: {nodes}` puts one rank on each"
            )
