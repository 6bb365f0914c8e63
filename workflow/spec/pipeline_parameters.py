"""The parameters of a pipeline: `params:`, and `${{ params.NAME }}` wherever a value stands.

They are filled in on the tree, after the overlays and before the schema is checked: what comes later sees values only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from workflow.errors import Problem
from workflow.spec.models.units import Scalar
from workflow.spec.placeholder_syntax import Placeholder, PlaceholderError, joined, names_in, parse, scalar_text
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.validation_messages import problem_at, shown
from workflow.spec.yaml_tree.node import KeyPath, Node, key_text, walk

PARAMS = "params"
_BEGIN = f"{PARAMS}."
# Profiles are filled when they are laid over the file.
_NOT_FILLED = (PARAMS, "profiles")
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass
class Filled:
    """The pipeline's tree with its parameters filled in, and what was wrong with them."""

    root: Node
    problems: list[Problem] = field(default_factory=list)
    unfilled: set[str] = field(default_factory=set)
    """Keys whose parameter does not exist or has no value: other messages on them would only repeat that."""
    texts: dict[str, str] = field(default_factory=dict)
    """Parameter → its value as it was written, where that is no text."""


def fill_parameters(root: Node) -> Filled:
    """Every `${{ params.NAME }}` of the tree as the value of the parameter.

    A value that is exactly one placeholder takes the parameter's type; within a text it becomes text.
    """
    filled = Filled(root, list(_value_problems(root)))
    values = {name: _value(declared) for name, declared in _section(root).items()}
    filled.texts = {name: value.text for name, value in values.items() if value is not None and value.text}
    parts = root.mapping().items()
    whole = {key: part if key in _NOT_FILLED else _filled(part, (key,), filled) for key, part in parts}
    filled.root = root._replace(value=whole)
    return filled


def unused_parameters(root: Node, forms: Iterable[Node], templates: Iterable[str]) -> list[Problem]:
    """A warning for each parameter of the file `root` that neither a template nor one of these trees uses."""
    parts = (part for form in forms for key, part in form.mapping().items() if key != PARAMS)
    texts = [node.value for part in parts for _, node in walk(part) if isinstance(node.value, str)]
    used = {name for text in (*texts, *templates) if "${{" in text for name in names_in(text)}
    hint = "write `${{{{ params.{} }}}}` where its value belongs, or remove it"
    unused = (name for name in _section(root) if _BEGIN + name not in used)
    found = (problem_at(root, (PARAMS, name), "is not used", hint.format(name), at_key=True) for name in unused)
    return [each._replace(level="warning") for each in found]


def key_mistake(root: Node, path: KeyPath) -> tuple[str, str] | None:
    """What is wrong when an overlay sets `path`, which is `params` or below: (message, hint)."""
    if len(path) < 2:
        return "parameters are set one by one", "for example `--set params.NAME=VALUE`"
    name = str(path[1])
    if name not in _section(root):
        return _unknown(name, root)
    if len(path) > 2:
        return "of a parameter only the value can be set", f"write `--set params.{name}=VALUE`"
    return None


def value_mistake(root: Node, name: str, value: Node) -> tuple[str, str] | None:
    """What is wrong with the value that an overlay gives to a parameter of the file: (message, hint)."""
    default = _value(_section(root)[name])
    expected, got = (_KINDS.get(type(each.value)) if each else None for each in (default, value))
    # Where the default itself is no value, the schema check says so.
    if default is None or expected is None or expected == got or (expected, got) == (_KINDS[float], _KINDS[int]):
        return None
    # The value itself is not shown: it may be a secret.
    message = f"expected {expected}, as the default of `{name}` is, got {got or shown(value.value)}"
    if (expected, got) == (_KINDS[int], _KINDS[float]):
        return message, f"for a parameter that takes fractions write its default as `{float(default.value)}`"
    if expected == _KINDS[str] and got:
        return message, f"""put the value into quotes: `--set 'params.{name}="…"'`"""
    return message, f"for example `--set params.{name}={scalar_text(default.value)}`"


def with_parameter(root: Node, name: str, value: Node) -> Node:
    """The tree with another value of a parameter, which keeps its unit, bounds and text. See `value_mistake`."""
    section = root.mapping()[PARAMS]
    declared, default = section.mapping()[name], _value(section.mapping()[name])
    if default is not None and isinstance(default.value, float) and type(value.value) is int:
        value = value._replace(value=float(value.value))
    changed = declared.with_child("value", value) if isinstance(declared.value, dict) else value
    return root.with_child(PARAMS, section.with_child(name, changed))


def _section(root: Node) -> dict[str, Node]:
    section = root.child(PARAMS)
    return section.mapping() if section is not None else {}


def _value(declared: Node) -> Node | None:
    """The value of a parameter, in the short form or the long one."""
    return declared.child("value") if isinstance(declared.value, dict) else declared


def _unknown(name: str, root: Node) -> tuple[str, str]:
    """(message, hint) for a parameter that the file does not have."""
    known = _section(root)
    example = f"add `params: {{{name}: VALUE}}` at the top of the file"
    hint = did_you_mean(name, known) or (f"parameters: {listing(known)}" if known else example)
    return f"there is no parameter `{shortened(name)}`", hint


def _filled(node: Node, path: KeyPath, filled: Filled) -> Node:
    """A part of the tree with its parameters filled in; the same node where there are none."""
    if isinstance(node.value, dict):
        return node._replace(value={key: _filled(child, (*path, key), filled) for key, child in node.value.items()})
    if isinstance(node.value, list):
        return node._replace(value=[_filled(child, (*path, at), filled) for at, child in enumerate(node.value)])
    if not isinstance(node.value, str) or "${{" not in node.value:
        return node
    try:
        parts = [part for part in parse(node.value) if part]
    except PlaceholderError:  # said where all other placeholders are filled
        return node
    names = list(dict.fromkeys(part.name for part in parts if _is_parameter(part)))
    if not names:
        return node
    values: dict[str, Scalar] = {}
    for name in names:
        declared = _section(filled.root).get(name.removeprefix(_BEGIN))
        value = _value(declared) if declared is not None else None
        if value is not None and isinstance(value.value, bool | int | float | str) and not _text_mistake(value.value):
            values[name] = value.value
            continue
        filled.unfilled.add(key_text(path))
        if declared is None:
            filled.problems.append(problem_at(filled.root, path, *_unknown(name.removeprefix(_BEGIN), filled.root)))
    texts = {_BEGIN + name: text for name, text in filled.texts.items()}
    return node if len(values) < len(names) else with_values(node, values, texts)


def with_values(node: Node, values: Mapping[str, Scalar], texts: Mapping[str, str]) -> Node:
    """A text with the placeholders of these names as their values; exactly one placeholder takes the type of its value.

    `texts`: name → its value as it was written, where that is known and no text. The same node where it has none of
    these placeholders. Raises PlaceholderError.
    """
    parts = [part for part in parse(node.value) if part]
    names = list(dict.fromkeys(part.name for part in parts if isinstance(part, Placeholder) and part.name in values))
    if not names:
        return node
    if len(parts) == 1:
        return node._replace(
            value=values[names[0]], parameters=(*node.parameters, *names), text=texts.get(names[0], "")
        )
    pieces = [
        parse(texts.get(part.name) or scalar_text(values[part.name]))
        if isinstance(part, Placeholder) and part.name in values
        else [part]
        for part in parts
    ]
    filled = joined(each for piece in pieces for each in piece)
    return node._replace(value=filled, parameters=(*node.parameters, *names))


def _is_parameter(part: str | Placeholder) -> TypeGuard[Placeholder]:
    return isinstance(part, Placeholder) and part.name.startswith(_BEGIN)


def _value_problems(root: Node) -> Iterator[Problem]:
    """Values that are out of bounds, or that are no plain values. Their forms are checked with the schema."""
    for name, declared in _section(root).items():
        value = _value(declared)
        wrong = None if value is None else _text_mistake(value.value) or _number_mistake(name, value.value, declared)
        if value is not None and wrong is not None:
            yield Problem(*value.place, _BEGIN + name, *wrong)


def _text_mistake(value: object) -> tuple[str, str] | None:
    """What is wrong with the value of a parameter as a text, whether it is one or not."""
    if not isinstance(value, str):
        return None
    try:
        placeholders = [part.name for part in parse(value) if isinstance(part, Placeholder)]
    except PlaceholderError as error:
        return str(error), error.hint
    if not placeholders:
        return None
    hint = f"write `${{{{ {placeholders[0]} }}}}` where the parameter is used"
    return "the value of a parameter cannot hold a placeholder", hint


def _number_mistake(name: str, value: object, declared: Node) -> tuple[str, str] | None:
    """What is wrong with the value of a parameter as a number, whether it is one or not."""
    if not _is_number(value):
        return None
    if not math.isfinite(value):
        return f"expected a finite number, got {value}", f"for example `params.{name}: 1.0`"
    lowest, highest = (declared.child(key) for key in ("minimum", "maximum"))
    about, unit = (child.value if (child := declared.child(key)) is not None else "" for key in ("text", "unit"))
    hint = f"`{name}`: {about}{f', in {unit}' if unit else ''}" if about else f"its bounds stand at `params.{name}`"
    if lowest is not None and _is_number(lowest.value) and value < lowest.value:
        return f"expected at least {lowest.value}, got {value}", hint
    if highest is not None and _is_number(highest.value) and value > highest.value:
        return f"expected at most {highest.value}, got {value}", hint
    return None


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
