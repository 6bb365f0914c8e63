"""Names in the pipeline file that must mean something: stages, ports, files, programs.

Works on the tree, not on the models, so that these mistakes show together with those of the schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from workflow.errors import Problem
from workflow.spec.models.component import Component
from workflow.spec.suggest import did_you_mean, listing
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import KeyPath, Node

_VERB = {"from": "writes", "to": "reads"}


def section(root: Node, name: str) -> dict[str, Node]:
    """The entries of `stages` or `streams` that are mappings; the schema check says what the others are."""
    part = root.child(name)
    entries = part.mapping() if part else {}
    return {key: node for key, node in entries.items() if isinstance(node.value, dict)}


def programs(root: Node) -> dict[KeyPath, Node]:
    """The stages, then the taps of all streams, by path; those that are mappings."""
    stages: dict[KeyPath, Node] = {("stages", name): node for name, node in section(root, "stages").items()}
    return stages | {
        ("streams", name, "tap", tap): node
        for name, stream in section(root, "streams").items()
        for tap, node in section(stream, "tap").items()
    }


def text_at(node: Node, key: str) -> str | None:
    """The text below a key; None when there is none."""
    child = node.child(key)
    return child.value if child is not None and isinstance(child.value, str) else None


def reference_problems(
    root: Node, components: Mapping[str, Component], added: Collection[str], base: Path
) -> Iterator[Problem]:
    """What refers to nothing.

    Args:
        components: those of stages and taps, by the name of the stage or tap.
        added: names of stages that wf adds, which may be referred to as well.
        base: the pipeline file's folder.
    """
    by_path = programs(root)
    stages = {str(path[-1]): stage for path, stage in reversed(by_path.items())}
    for path, stage in by_path.items():
        yield from _stage_problems(root, path, stage, {*stages, *added}, base)
    for name, stream in section(root, "streams").items():
        for path, end in _ends(("streams", name), stream):
            if end.partition(".")[0] not in added:
                yield from _end_problems(root, path, end, stages, components)


def _stage_problems(root: Node, path: KeyPath, stage: Node, stages: Collection[str], base: Path) -> Iterator[Problem]:
    place = stage.child("place")
    share = text_at(place, "share") if place is not None else None
    if share is not None and share not in stages:
        yield problem_at(root, (*path, "place", "share"), f"there is no stage `{share}`", _stage_hint(share, stages))
    elif share is not None and share == path[-1]:
        yield problem_at(root, (*path, "place", "share"), "a stage shares nodes with another one", "remove it")
    files = stage.child("files")
    for name, file in files.mapping().items() if files is not None else ():
        if isinstance(file.value, str) and not (base / file.value).is_file():
            at = (*path, "files", name)
            yield problem_at(root, at, f'there is no file "{file.value}"', f"relative paths start at {base}")


def _ends(path: KeyPath, stream: Node) -> Iterator[tuple[KeyPath, str]]:
    for key in ("from", "to"):
        child = stream.child(key)
        if child is None:
            continue
        if isinstance(child.value, str):
            yield (*path, key), child.value
        for index, item in enumerate(child.value if isinstance(child.value, list) else []):
            if isinstance(item.value, str):
                yield (*path, key, index), item.value


def _end_problems(
    root: Node, path: KeyPath, end: str, stages: Mapping[str, Node], components: Mapping[str, Component]
) -> Iterator[Problem]:
    stage, _, port = end.partition(".")
    side: Literal["from", "to"] = "from" if "from" in path[2:3] else "to"
    if stage not in stages:
        yield problem_at(root, path, f"there is no stage `{stage}`", _stage_hint(stage, stages))
        return
    component = components.get(stage)
    here, other = _ports(stages[stage], component, side)
    if component is not None and not here:
        hint = f"it {_VERB['to' if side == 'from' else 'from']} {listing(other)}: are `from` and `to` exchanged?"
        message = f"stage `{stage}` (component {component.component}) {_VERB[side]} nothing"
        yield problem_at(root, path, message, hint if other else f"component {component.component} joins no streams")
    elif port and here and port not in here:
        turned = f"it {_VERB['to' if side == 'from' else 'from']} `{port}`; " if port in other else ""
        hint = turned + (did_you_mean(port, here) or f"it {_VERB[side]} {listing(here)}")
        yield problem_at(root, path, f"stage `{stage}` {_VERB[side]} no `{port}`", hint)


def _ports(stage: Node, component: Component | None, side: Literal["from", "to"]) -> tuple[set[str], set[str]]:
    """Names of the ports on this side and on the other one."""
    if component is not None:
        writes, reads = set(component.writes), set(component.reads)
    else:
        writes, reads = (set(part.mapping() if (part := stage.child(key)) else {}) for key in ("writes", "reads"))
    return (writes, reads) if side == "from" else (reads, writes)


def _stage_hint(name: str, stages: Collection[str]) -> str:
    return did_you_mean(name, stages) or f"stages: {listing(stages)}"
