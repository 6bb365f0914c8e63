"""What each stage is: simulation, analysis or sink."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.port_matching import JoinedStream

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
