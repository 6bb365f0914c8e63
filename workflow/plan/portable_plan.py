"""The plan without the facts of a machine: equal on every machine, so that CI can compare it. Pure.

It is made by the same passes as any plan, from a site whose `auto` facts have fixed values (`site.load_site`) and from
paths that stand for those of this machine. Use it to compare plans; it cannot be executed.

>>> site, stated = any_machine(read_site_file("local"))
>>> text = portable_plan(loaded, site, stated)
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow.plan.make import make_plan
from workflow.plan.topology.declared_stages import CompletePipeline
from workflow.plan.topology.implicit_stages import complete_pipeline
from workflow.site.site_model import Site
from workflow.site.this_machine import ALLOCATOR_VARIABLES
from workflow.spec.models.component import Component

if TYPE_CHECKING:
    from workflow.spec.load import Loaded

PORTABLE_PLAN_VERSION = 1
# Paths that no machine has, each with the placeholder that takes its place in the end.
_PIPELINE_DIR = "/wf-portable-plan/pipeline.dir"
_COMPONENTS_DIR = "/wf-portable-plan/components.dir"
_PYTHON = "/wf-portable-plan/wf.python"
_LAUNCHER = "/wf-portable-plan/site.launcher_path"
_PLACEHOLDERS = {
    _PIPELINE_DIR: "${{ pipeline.dir }}",
    _COMPONENTS_DIR: "${{ wf.components }}",
    _PYTHON: "${{ wf.python }}",
    _LAUNCHER: "${{ site.launcher_path }}",
}
# Facts of the site on which the memory policy depends.
_OF_MEMORY = {"memory_per_node", "memory_policy", "glibc", "cores_per_node"}
# Versions and texts for people, which change without any decision; and facts of the site.
_LEFT_OUT = dict.fromkeys(("plan_version", "wf_version", "reasons", "advice", "node", "launch_options"), True)
# A comment in the file moves the places of all that follows.
_PLACES = {"expectations": {"__all__": {"source", "line", "column"}}}


def portable_plan(loaded: Loaded, site: Site, stated: Collection[str]) -> str:
    """The decisions for a pipeline as JSON, with placeholders for what depends on the machine.

    Args:
        site: with fixed values where its file leaves them to the machine.
        stated: the facts that its file states.

    Raises:
        SpecError: all mistakes found, with their places.
    """
    moved = _moved(loaded)
    machine = site if "launcher_path" in stated else site.model_copy(update={"launcher_path": _LAUNCHER})
    plan = make_plan(moved, machine, python=_PYTHON, wf_version="")
    found = plan.model_dump(mode="json", exclude={**_LEFT_OUT, **_PLACES})
    if not _OF_MEMORY.issubset(stated):
        _hide_memory(found["stages"], complete_pipeline(moved))
    whole = {"portable_plan": PORTABLE_PLAN_VERSION, **found}
    return json.dumps(_with_placeholders(whole), indent=2, ensure_ascii=False) + "\n"


def _moved(loaded: Loaded) -> Loaded:
    """The same pipeline, at paths that stand for those of this machine."""
    base = loaded.path.parent
    folders = {name: _folder(name) for name in loaded.component_dirs}
    parameters = dict(loaded.parameters)
    stages: dict[str, Any] = dict(loaded.spec.stages)
    for stream in loaded.spec.streams.values():
        stages |= stream.tap
    for name, stage in stages.items():
        if stage.component is not None and name in parameters:
            component, own = loaded.components[stage.component], loaded.component_dirs[stage.component]
            places = {base: _PIPELINE_DIR, own: str(folders[stage.component])}
            parameters[name] = _moved_files(component, parameters[name], stage.with_, places)
    path = Path(_PIPELINE_DIR) / loaded.path.name
    return replace(loaded, path=path, component_dirs=folders, parameters=parameters)


def _folder(component: str) -> Path:
    """The folder of a component: one that comes with wf, or that of the user as written in the pipeline file."""
    own = "/" in component
    return Path(os.path.normpath(f"{_PIPELINE_DIR}/{component}")) if own else Path(_COMPONENTS_DIR) / component


def _moved_files(
    component: Component, values: Mapping[str, Any], written: Mapping[str, Any], places: Mapping[Path, str]
) -> dict[str, Any]:
    """The parameters of a component; files that were found relative to one of `places` (folder → its new name)."""
    found = dict(values)
    for name, parameter in component.parameters.items():
        if parameter.type != "file" or values.get(name) is None:
            continue
        given, path = str(written.get(name, "")), Path(str(values[name]))
        if given.startswith(("/", "~")):
            found[name] = given
            continue
        for folder, other in places.items():
            if path.is_relative_to(folder):
                found[name] = f"{other}/{path.relative_to(folder)}"
                break
    return found


def _hide_memory(stages: list[dict[str, Any]], pipeline: CompletePipeline) -> None:
    """Placeholders for the settings of the allocator that the machine decides; those that are written stay."""
    for stage in stages:
        wanted = pipeline.spec.stages[stage["name"]].memory
        if stage["memory"] is None:
            continue
        hidden = [
            name
            for name, value in (("huge_pages", wanted.huge_pages), ("keep_freed", wanted.keep_freed))
            if value is None or (name == "keep_freed" and value is True)
        ]
        stage["memory"] |= {name: f"${{{{ site.{name} }}}}" for name in hidden}
        for variable in ALLOCATOR_VARIABLES if hidden else ():
            if variable in stage["env"]:
                stage["env"][variable] = "${{ site.memory_policy }}"


def _with_placeholders(value: Any) -> Any:
    if isinstance(value, str):
        for path, placeholder in _PLACEHOLDERS.items():
            value = value.replace(path, placeholder)
        return value
    if isinstance(value, dict):
        return {_with_placeholders(key): _with_placeholders(item) for key, item in value.items()}
    return [_with_placeholders(item) for item in value] if isinstance(value, list) else value
