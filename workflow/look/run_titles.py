"""What runs and their files are called on the page, from their plans: by what differs, not by ids and paths. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from workflow.errors import shortened
from workflow.plan.plan_model import RUN_DIR, Plan

_MOST_SETTINGS = 3


class RunTitles(NamedTuple):
    """The title of the page, and what each run is called."""

    title: str
    runs: list[str]


def run_titles(names: Sequence[str], plans: Sequence[Plan | None]) -> RunTitles:
    """`gray-scott: F=0.03 and F=0.04`; of one run its pipeline. Runs without a plan have `names`, which differ."""
    known = [plan for plan in plans if plan is not None]
    if len(known) < len(plans):
        return RunTitles(" and ".join(names), list(names))
    pipelines = [plan.pipeline for plan in known]
    if len(known) == 1:
        return RunTitles(pipelines[0], list(names))
    if len(set(pipelines)) > 1:
        return RunTitles(" and ".join(pipelines), pipelines)
    runs = _differences([_settings(plan) for plan in known])
    if len(set(runs)) < len(runs):
        runs = list(names)
    return RunTitles(f"{pipelines[0]}: {' and '.join(runs)}", runs)


def file_titles(plan: Plan | None) -> dict[str, str]:
    """Path in the run directory → `stream field of simulation`, `pattern.bp of keep`."""
    if plan is None:
        return {}
    titles = {_inside(stream.path): f"stream {stream.name} of {stream.writer}" for stream in plan.streams}
    for stage in plan.stages:
        for name, side in stage.file_parameters.items():
            path = stage.parameters.get(name)
            if side == "write" and isinstance(path, str) and path.startswith(f"{RUN_DIR}/"):
                titles[_inside(path)] = f"{_inside(path)} of {stage.name}"
    return titles


def _inside(path: str) -> str:
    return path.removeprefix(f"{RUN_DIR}/")


def _settings(plan: Plan) -> dict[str, str]:
    """What users set: parameters and ranks of stages, engines and transports of streams."""
    found: dict[str, str] = {}
    for stage in plan.stages:
        given = {name: value for name, value in stage.parameters.items() if name not in stage.file_parameters}
        found |= {f"{stage.name}.{name}": _text(value) for name, value in given.items()}
        found[f"{stage.name}.ranks"] = str(stage.ranks)
    for stream in plan.streams:
        found[f"{stream.name}.via"] = stream.via
        found[f"{stream.name}.transport"] = stream.transport or "none"
    return found


def _differences(settings: Sequence[dict[str, str]]) -> list[str]:
    """For each run the settings that are not the same in all of them; empty texts where none differs."""
    keys = list(dict.fromkeys(key for each in settings for key in each))
    keys = [key for key in keys if len({each.get(key) for each in settings}) > 1]
    # Another engine has another transport.
    keys = [key for key in keys if not (key.endswith(".transport") and f"{key.rpartition('.')[0]}.via" in keys)]
    lasts = [key.rpartition(".")[2] for key in keys]
    texts = [list(dict.fromkeys(_setting(key, each, lasts) for key in keys)) for each in settings]
    more = max(map(len, texts)) - _MOST_SETTINGS
    return [", ".join(each[:_MOST_SETTINGS] + ([f"{more} more"] if more > 0 else [])) for each in texts]


def _setting(key: str, settings: dict[str, str], lasts: Sequence[str]) -> str:
    """`F=0.03`; of an engine and a transport the value says enough: `sst`."""
    _, _, last = key.rpartition(".")
    value = settings.get(key, "none")
    if last in ("via", "transport"):
        return value
    return f"{last if lasts.count(last) == 1 else key}={value}"


def _text(value: object) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 30)
