"""The tree of a site file over that of the site that it `extends`. Places survive: messages show the right file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from workflow.errors import Problem, SpecError
from workflow.spec.config_dirs import find_configs, is_path, known_configs, no_config
from workflow.spec.overlay import Overlaid, Setting, with_value
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import Node, key_path
from workflow.spec.yaml_tree.parse import read_yaml

# In these tables single keys are replaced; anything else is replaced as a whole.
_TABLES = {"queues": 2, "submit": 1, "env": 1, "cost": 1}
# What belongs to one site and not to its relatives.
_OWN = ("site", "extends")


def read_site_tree(name: str, base: Path | None = None) -> tuple[Node, Path]:
    """(the whole tree of a site, its own file).

    Raises:
        WfError: there is no such site.
        SpecError: a file is no YAML, or extends what it may not.
    """
    files = find_configs("sites", name, base)
    if not files:
        raise no_config("sites", name)
    return _tree(files[0], []), files[0]


def lay_settings(node: Node, settings: Sequence[Setting]) -> Overlaid:
    """The tree with the values that a campaign gives to keys of the site. What is wrong is left out."""
    result = Overlaid(node)
    for setting in settings:
        path = key_path(result.root, setting.key)
        if path[0] in _OWN:
            place = setting.value.key or setting.value.place
            message, hint = "this key of the site cannot vary", "vary the site: `site: [NAME, NAME]`"
            result.problems.append(Problem(*place, f"site.{setting.key}", message, hint))
        else:
            result.root = with_value(result.root, path, setting.value)
    return result


def site_files(site: str, written: str, base: Path) -> list[Path]:
    """The file of a site, and those that it extends, the strongest first.

    Args:
        site: its name.
        written: the pipeline's `site:`, which may be a path relative to `base`.
    """
    files = find_configs("sites", written if is_path(written) else site, base)[:1]
    while files and (below := _below(files[-1], _extended(files[-1]), files)) is not None:
        files.append(below)
    return files


def _extended(file: Path) -> str | None:
    """The site that a file which was read without mistakes extends: its line is found faster than its tree."""
    found = re.search(r"^extends:[ \t]*['\"]?([^\s'\"#]+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else None


def _below(file: Path, name: str | None, seen: list[Path]) -> Path | None:
    """The file of that name that a site file means: not itself, nor one that has led to it."""
    if name is None:
        return None
    return next((each for each in find_configs("sites", name, file.parent) if each not in seen), None)


def _tree(file: Path, seen: list[Path]) -> Node:
    node = read_yaml(file)[0]
    extends = node.child("extends")
    if extends is None or not isinstance(extends.value, str):
        return node
    name, seen = extends.value, [*seen, file]
    below = _below(file, name, seen)
    if below is None and find_configs("sites", name, file.parent):
        message = f"{shortened(name)} extends this site itself"
        raise SpecError([problem_at(node, ("extends",), message, "extend another site, or remove it")])
    if below is None:
        known = [each for each in known_configs("sites") if each != file.stem]
        hint = did_you_mean(name, known) or f"sites: {listing(known)}"
        raise SpecError([problem_at(node, ("extends",), f"there is no site `{shortened(name)}`", hint)])
    return _over(node, _tree(below, seen))


def _over(node: Node, below: Node) -> Node:
    """`node` with what it lacks from `below`."""
    base = {key: child for key, child in below.mapping().items() if key not in _OWN}
    merged = dict(base)
    for key, child in node.mapping().items():
        merged[key] = _merged(child, base.get(key), _TABLES.get(key, 0))
    return Node(merged, node.place)


def _merged(node: Node, below: Node | None, depth: int) -> Node:
    if below is None or not depth or not isinstance(node.value, dict) or not isinstance(below.value, dict):
        return node
    children = {key: _merged(child, below.value.get(key), depth - 1) for key, child in node.value.items()}
    return Node({**below.value, **children}, node.place, node.key)
