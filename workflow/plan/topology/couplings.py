"""Live or after: how the two ends of each stream follow each other."""

from __future__ import annotations

from collections.abc import Iterable

from workflow.plan.plan_model import Coupling
from workflow.plan.plan_notes import Notes
from workflow.plan.topology.port_matching import JoinedStream
from workflow.spec.models.engine import Engine
from workflow.spec.origins import Origins


def choose_couplings(streams: Iterable[JoinedStream], origins: Origins, notes: Notes) -> dict[str, Coupling]:
    """The coupling of every stream: as written, or the engine's default."""
    return {stream.name: _choose(stream, origins, notes) for stream in streams}


def _choose(stream: JoinedStream, origins: Origins, notes: Notes) -> Coupling:
    engine, written = stream.engine, stream.spec.coupling
    key = f"streams.{stream.name}.coupling"
    default = engine.couplings[0]
    if written is None:
        notes.why(key, f"{default} is the default of {engine.engine}")
        return default
    if written not in engine.couplings:
        notes.not_used(key, stream.spec.via, _why_not(engine, written))
        return default
    notes.why(key, f"written at {origins.of(key)}")
    return written


def _why_not(engine: Engine, written: Coupling) -> str:
    if written == "after":
        return (
            f"{engine.engine} moves steps from memory to memory, and nothing is left for a reader that starts after "
            "the writer has ended: both run at the same time"
        )
    return f"{engine.engine} cannot be read while it is written: the reader starts when the writer has ended"
