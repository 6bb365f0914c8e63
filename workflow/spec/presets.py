"""Engines and sites from `configs/`, as checked models. A mistake in such a file is told with its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workflow.errors import Problem, SpecError, WfError
from workflow.spec.engine import Engine
from workflow.spec.machine import interfaces, look
from workflow.spec.messages import problem_at, validated
from workflow.spec.node import Node
from workflow.spec.shipped import find_config, known_configs
from workflow.spec.site import Site, SiteFile
from workflow.spec.suggest import did_you_mean, listing
from workflow.spec.yamlfile import read_yaml


def known_engines() -> list[str]:
    """What `via:` may name."""
    return known_configs("engines")


def load_engine(via: str) -> Engine:
    """The engine or preset of that name, with everything that it takes from what it is based on.

    Raises:
        WfError: there is none of that name.
        SpecError: its file is wrong.
    """
    node = _engine_node(via, [])
    engine, problems = validated(Engine, node)
    if engine is not None:
        problems = _value_problems(engine, node)
    if engine is None or problems:
        raise SpecError(problems)
    return engine


def load_site(name: str) -> Site:
    """The site of that name; `auto` is filled from this machine.

    Raises:
        WfError: there is none of that name.
        SpecError: its file is wrong.
    """
    node = _read("sites", name)
    file, problems = validated(SiteFile, node)
    if file is None or problems:
        raise SpecError(problems)
    known: dict[str, Any] = file.model_dump()
    if file.cores_per_node == "auto":
        known["cores_per_node"] = len(os.sched_getaffinity(0))
        known["interfaces"] = interfaces()  # stages run here: elsewhere they may be others
    if file.memory_per_node == "auto":
        known["memory_per_node"] = _memory_bytes()
    return Site(**look(known))


def _read(kind: str, name: str) -> Node:
    file = find_config(kind, name)
    if file is None:
        one, known = kind.removesuffix("s"), known_configs(kind)
        raise WfError(f"there is no {one} `{name}`", did_you_mean(name, known) or f"{kind}: {listing(known)}")
    return read_yaml(file)[0]


def _engine_node(via: str, seen: list[str]) -> Node:
    """The file's tree over the trees of what it is based on: mappings are merged, anything else is exchanged."""
    node = _read("engines", via)
    base = node.child("based_on")
    if base is None or not isinstance(base.value, str):
        return node
    if base.value in (*seen, via):
        raise SpecError([problem_at(node, ("based_on",), f"engine {via} is based on itself", "remove it")])
    if find_config("engines", base.value) is None:
        hint = did_you_mean(base.value, known_engines()) or f"engines: {listing(known_engines())}"
        raise SpecError([problem_at(node, ("based_on",), f"there is no engine `{base.value}`", hint)])
    below = _engine_node(base.value, [*seen, via]).mapping()
    merged = dict(below)
    for key, child in node.mapping().items():
        is_table = key in ("parameters", "write", "read") and key in below
        merged[key] = Node({**below[key].mapping(), **child.mapping()}, child.place, child.key) if is_table else child
    return Node(merged, node.place)


def _value_problems(engine: Engine, node: Node) -> list[Problem]:
    """Values that a preset sets must be parameters of that end."""
    problems = []
    for side, values in (("write", engine.write), ("read", engine.read)):
        for name in values:
            known = engine.parameters.get(name)
            if known is None or known.side not in (side, "both"):
                here = [each for each, info in engine.parameters.items() if info.side in (side, "both")]
                hint = did_you_mean(name, here) or f"parameters there: {listing(here, 40)}"
                message = f"engine {engine.engine} has no parameter `{name}` for the end that {side}s"
                problems.append(problem_at(node, (side, name), message, hint, at_key=True))
    return problems


def _memory_bytes() -> int:
    """Memory of this machine, or of the container that we are in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total
