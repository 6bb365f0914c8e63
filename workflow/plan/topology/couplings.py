"""Live or after: how the two ends of each stream follow each other."""

from __future__ import annotations

from workflow.plan.making import Making
from workflow.plan.plan_model import Coupling
from workflow.spec.models.engine import Engine


def choose_couplings(making: Making) -> dict[str, Coupling]:
    """The coupling of every stream: as written, or the engine's default."""
    return {name: _choose(name, making) for name in making.loaded.spec.streams}


def _choose(name: str, making: Making) -> Coupling:
    engine, written = making.loaded.engines[name], making.loaded.spec.streams[name].coupling
    key = f"streams.{name}.coupling"
    default: Coupling = engine.couplings[0] if engine.couplings else "after"
    if written is None:
        making.notes.why(key, f"{default} is the default of {engine.engine}")
        return default
    if written not in engine.couplings:
        making.problems.add(key, *_refusal(engine, written))
        return default
    making.notes.why(key, f"written at {making.loaded.origins.of(key)}")
    return written


def _refusal(engine: Engine, written: Coupling) -> tuple[str, str]:
    """(what is wrong, the way out)"""
    if written == "after":
        return (
            f"{engine.engine} hands steps from memory to memory: nothing is left for a reader that starts after "
            "the writer has ended",
            "use `coupling: live`, or a file: `via: bp5`",
        )
    return (
        f"{engine.engine} cannot be read while it is written",
        "use `coupling: after`, or `via: bp5` or `via: sst` to read live",
    )
