"""Which values of two plans differ, or of other JSON-like data, as text for people. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from workflow.plan.plan_model import Plan, StagePlan
from workflow.plan.visible_steps import LOG_LEVEL
from workflow.spec.suggest import shortened

# Characters: a text that is longer is cut, and what is kept of it before the first difference.
_LONG, _BEFORE = 40, 8
# What follows from other values of a stream, or of the variables in it.
_DERIVED = {"step_size", "queue_memory", "on_disk"}


def changed_settings(before: Plan, now: Plan) -> list[str]:
    """What a user has changed between two parts of a run, from what to what: `stages.sim.parameters.n: 32 → 64`.

    Both plans have the same stages and streams, with the placeholder of the run directory. What follows from another
    change is left out.
    """
    switched = {stream.name for stream in before.streams if stream.via != now.stream(stream.name).via}
    old, new = (dict(leaves(_settings(plan, switched))) for plan in (before, now))
    return list(changed_values(old, new))


def _settings(plan: Plan, switched: Collection[str]) -> dict[str, Any]:
    """`switched`: the streams that have another `via`, from which all else of them follows."""
    stages = {stage.name: _settings_of_stage(stage) for stage in plan.stages}
    streams = {
        stream.name: {"via": stream.via}
        if stream.name in switched
        else stream.model_dump(mode="json", exclude=_DERIVED)
        for stream in plan.streams
    }
    params = {name: each.value for name, each in plan.params.items()}
    return {"params": params, "stages": stages, "streams": streams}


def _settings_of_stage(stage: StagePlan) -> dict[str, Any]:
    taken = {"parameters", "program", "ranks", "env", "checkpoint"}
    # A part may have started it in another way, from a checkpoint.
    if stage.checkpoint is not None and stage.checkpoint.program:
        taken -= {"program"}
    found = stage.model_dump(mode="json", include=taken)
    return {**found, "env": {name: value for name, value in stage.env.items() if name != LOG_LEVEL}}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Key → each value, lists of plain values whole; parts of lists by their names, where they have some."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            name = item.get("name", index) if isinstance(item, dict) else index
            yield from leaves(item, f"{path}.{name}")
    else:
        yield path, value


def changed_values(old: Mapping[str, Any], new: Mapping[str, Any], begin: str = "") -> Iterator[str]:
    """`KEY: old → new` of each that differs."""
    for name in dict.fromkeys([*old, *new]):
        was, now = (_text(side[name]) if name in side else "none" for side in (old, new))
        if was != now:
            # What is equal at the beginning is left out of long texts: it would hide the difference.
            same = next((at for at, (one, other) in enumerate(zip(was, now, strict=False)) if one != other), 0)
            cut = same - _BEFORE if max(len(was), len(now)) > _LONG and same > _BEFORE else 0
            was, now = (f"…{text[cut:]}" if cut else text for text in (was, now))
            yield f"{begin}{name}: {shortened(was)} → {shortened(now)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
