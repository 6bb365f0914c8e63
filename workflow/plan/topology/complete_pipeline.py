"""The pipeline that the plan is made of: what the user wrote, with its pipes, relays and taps as stages and streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workflow.spec.models.component import Component
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import PipelineSpec
from workflow.spec.origins import Origins

Role = Literal["pipe", "relay", "tap"]


@dataclass(frozen=True)
class ImplicitStage:
    """A stage that the user asked for without writing it. `asked` is the key that asks for it; `is_optional`: whether
    the run succeeds without it."""

    role: Role
    stream: str
    asked: str
    is_optional: bool = False


@dataclass(frozen=True)
class CompletePipeline:
    """A pipeline with its implicit stages and streams. The other attributes are those of `Loaded`."""

    spec: PipelineSpec = field(repr=False)
    path: Path
    components: Mapping[str, Component] = field(repr=False)
    component_dirs: Mapping[str, Path] = field(repr=False)
    parameters: Mapping[str, Mapping[str, Any]] = field(repr=False)
    engines: Mapping[str, Engine] = field(repr=False)
    templates: Mapping[str, Mapping[str, str]] = field(repr=False)
    origins: Origins = field(repr=False)
    implicit_stages: Mapping[str, ImplicitStage] = field(default_factory=dict)
    """By name, in the order in which the data pass through them."""
    implicit_streams: frozenset[str] = frozenset()
    renamed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Stage → stream in the stage's command, environment and files → the stream that the stage writes to its pipe."""
