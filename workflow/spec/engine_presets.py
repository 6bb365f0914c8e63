"""Engines and presets from `configs/engines`, as checked models. Mistakes in a file are reported with their place."""

from __future__ import annotations

from contextlib import suppress

from workflow.errors import Problem, SpecError, WfError
from workflow.spec.models.engine import Engine
from workflow.spec.shipped import SHIPPED, find_config, known_configs, read_config
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.validation_messages import problem_at, validated
from workflow.spec.yaml_tree.node import Node
from workflow.spec.yaml_tree.parse import read_yaml


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


def changed_settings(via: str, engine: Engine) -> list[str]:
    """The parameters that a preset of the user's own sets otherwise than the shipped one of that name."""
    file = SHIPPED / "configs/engines" / f"{via}.yaml"
    if find_config("engines", via) == file:
        return []
    shipped, _ = validated(Engine, read_yaml(file)[0])
    if shipped is None:  # wf's own file
        return []
    sides = (engine.write, shipped.write), (engine.read, shipped.read)
    return [key for own, others in sides for key in dict.fromkeys((*own, *others)) if own.get(key) != others.get(key)]


def engines_with(parameter: str) -> list[str]:
    """The engines of ADIOS2 that have a parameter of exactly that name. Reads the files of all engines and presets,
    except those that are wrong."""
    found = []
    for via in known_engines():
        with suppress(WfError):
            engine = load_engine(via)
            found += [engine.engine] if parameter in engine.parameters else []
    return list(dict.fromkeys(found))


def _engine_node(via: str, seen: list[str]) -> Node:
    """The file's tree over the trees of what it is based on: mappings are merged, anything else is replaced."""
    node = read_config("engines", via)
    base = node.child("based_on")
    if base is None or not isinstance(base.value, str):
        return node
    if base.value in (*seen, via):
        raise SpecError([problem_at(node, ("based_on",), f"engine {via} is based on itself", "remove it")])
    if find_config("engines", base.value) is None:
        hint = did_you_mean(base.value, known_engines()) or f"engines: {listing(known_engines())}"
        raise SpecError([problem_at(node, ("based_on",), f"there is no engine `{shortened(base.value)}`", hint)])
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
