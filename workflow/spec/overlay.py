"""Profiles, `--via`, `--site` and `--set` applied to the pipeline file; every value keeps its place.

Strongest first: `--set`, `--via` and `--site`, the profiles (a later one overrides an earlier one), the file. `*`
stands for every stage or stream; in one profile a name beats `*`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from workflow.engines import traits_of
from workflow.errors import Problem, SpecError
from workflow.spec import pipeline_parameters
from workflow.spec.pipeline_parameters import PARAMS
from workflow.spec.shipped import is_path
from workflow.spec.suggest import did_you_mean, listing
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import KeyPath, Node, SourcePosition, key_path, relabelled
from workflow.spec.yaml_tree.parse import parse_value

SECTIONS = ("stages", "streams")
# What makes an entry of a profile a whole new stage or stream rather than a change of an existing one.
_COMPLETE = {"stages": ({"component"}, {"command"}), "streams": ({"from", "to"},)}
_EXAMPLE = "stages.md.ranks=4"


class Setting(NamedTuple):
    """A value that a campaign gives to a key of the pipeline, e.g. `stages.md.ranks`; it has its place there."""

    key: str
    value: Node


@dataclass
class Overlaid:
    """The pipeline's tree with all overlays, and what was wrong with them."""

    root: Node
    problems: list[Problem] = field(default_factory=list)


def overlay(
    root: Node,
    profiles: Sequence[str],
    via: str | None,
    sets: Sequence[str],
    site: str | None = None,
    settings: Sequence[Setting] = (),
) -> Overlaid:
    """The file with its overlays. Problems are collected; what is wrong is left out."""
    result = Overlaid(root)
    for name in profiles:
        lay_profile(result, name)
    if via is not None:
        _lay_via(result, via)
    if site is not None:
        _lay_site(result, site)
    for setting in settings:
        _lay_setting(result, setting)
    for text in sets:
        _lay_set(result, text)
    return result


def lay_profile(result: Overlaid, name: str) -> None:
    """Apply one profile of the file."""
    section = result.root.child("profiles")
    known = section.mapping() if section else {}
    if name not in known:
        hint = did_you_mean(name, known) or f"profiles of this file: {listing(known)}"
        result.problems.append(Problem(f"--profile {name}", 0, 0, "", "no such profile", hint))
        return
    profile = relabelled(known[name], f"profile {name}")
    if "profiles" in profile.mapping():
        path, message = ("profiles", name, "profiles"), "a profile cannot hold profiles"
        result.problems.append(problem_at(result.root, path, message, "remove it", at_key=True))
        profile = Node({key: child for key, child in profile.mapping().items() if key != "profiles"}, profile.place)
    for key in SECTIONS:
        if (part := profile.child(key)) is not None:
            profile = profile.with_child(key, _named(result, part, ("profiles", name, key), key))
    if (part := profile.child(PARAMS)) is not None and isinstance(part.value, dict):
        _lay_parameters(result, part, ("profiles", name))
        profile = Node({key: child for key, child in profile.mapping().items() if key != PARAMS}, profile.place)
    if isinstance(profile.value, dict):  # else the schema check reports it
        result.root = merged(result.root, profile)


def _lay_parameters(result: Overlaid, part: Node, at: KeyPath) -> None:
    """The values that a profile gives to parameters."""
    for name, value in part.mapping().items():
        setting = Setting(f"{PARAMS}.{name}", value)
        wrong = _key_mistake(result.root, setting.key) or _value_mistake(result.root, setting)
        if wrong is None:
            _lay_value(result, setting.key, value)
        else:
            result.problems.append(problem_at(result.root, (*at, PARAMS, name), *wrong))


def _named(result: Overlaid, part: Node, at: KeyPath, section: str) -> Node:
    """`stages` or `streams` of a profile with `*` expanded, and without names that the file does not have."""
    existing = result.root.child(section)
    known = existing.mapping() if existing else {}
    star = part.child("*")
    named = dict.fromkeys(known, star) if star is not None else {}
    for name, change in part.mapping().items():
        if name == "*":
            continue
        if name not in known and not any(keys <= set(change.mapping()) for keys in _COMPLETE[section]):
            one = section.removesuffix("s")
            message, hint = f"there is no {one} `{name}`", did_you_mean(name, known) or f"{section}: {listing(known)}"
            result.problems.append(problem_at(result.root, (*at, name), message, hint, at_key=True))
            continue
        named[name] = merged(named[name], change) if name in named else change
    return Node(named, part.place, part.key, part.layer) if isinstance(part.value, dict) else part


def merged(below: Node, above: Node) -> Node:
    """Mappings are merged key by key; anything else is replaced."""
    if not (isinstance(below.value, dict) and isinstance(above.value, dict)):
        return above
    both = dict(below.value)
    for key, child in above.value.items():
        both[key] = merged(both[key], child) if key in both else child
    return Node(both, below.place, below.key, below.layer)


def _lay_via(result: Overlaid, via: str) -> None:
    place = SourcePosition(f"--via {via}")
    streams = result.root.child("streams")
    for name, stream in (streams.mapping() if streams else {}).items():
        given = stream.child("via")
        # A file that is only handed over stays one: `--via` would turn it into something that no program writes.
        if given is None or traits_of(str(given.value)).has_steps:
            result.root = with_value(result.root, ("streams", name, "via"), Node(via, place, place, "--via"))


def _lay_site(result: Overlaid, site: str) -> None:
    result.root = with_value(result.root, ("site",), given_site(site))


def given_site(site: str) -> Node:
    """`--site`: a path on the command line is relative to the user's directory, one in the file to its folder."""
    place = SourcePosition(f"--site {site}")
    value = os.path.abspath(Path(site).expanduser()) if is_path(site) else site  # noqa: PTH100 - it may hold a NUL byte
    return Node(value, place, place, "--site")


def _lay_set(result: Overlaid, text: str) -> None:
    given = read_set(text)
    if isinstance(given, Setting):
        wrong = _key_mistake(result.root, given.key) or _value_mistake(result.root, given)
        if wrong is None:
            _lay_value(result, given.key, given.value)
            return
        given = Problem(given.value.place.source, 0, 0, "", *wrong)
    result.problems.append(given)


def read_set(text: str, example: str = _EXAMPLE) -> Setting | Problem:
    """`--set KEY=VALUE`: the key, and the value with the option as its place; or what is wrong with it."""
    key, equals, value_text = text.partition("=")
    place = SourcePosition(f"--set {text}")
    if not equals or not _is_key(key):
        return Problem(place.source, 0, 0, "", "expected KEY=VALUE", f"for example `--set {example}`")
    try:
        # Nothing after the `=` is an empty string; null is written `null`. In one line `>` begins no text of several.
        is_text = not value_text or value_text[0] in ">|"
        value = Node(value_text, place) if is_text else parse_value(value_text, place.source)
    except SpecError as error:
        message = f"the value is not valid YAML: {error.problems[0].message}"
        return Problem(place.source, 0, 0, "", message, error.problems[0].hint)
    return Setting(key, relabelled(value, "--set", place))


def _lay_setting(result: Overlaid, setting: Setting) -> None:
    place = setting.value.key or setting.value.place
    if _is_key(setting.key):
        wrong = _key_mistake(result.root, setting.key)
        if wrong is None and (wrong := _value_mistake(result.root, setting)) is not None:
            place = setting.value.place
    else:
        wrong = "expected a key of the pipeline", "write the key as in the pipeline: `stages.md.ranks`"
    if wrong is not None:
        result.problems.append(Problem(*place, setting.key, *wrong))
        return
    _lay_value(result, setting.key, relabelled(setting.value, "campaign"))


def _lay_value(result: Overlaid, key: str, value: Node) -> None:
    for path in _starred(result.root, key_path(result.root, key)):
        if path[0] == PARAMS:
            result.root = pipeline_parameters.with_parameter(result.root, str(path[1]), value)
            continue
        result.root = with_value(result.root, path, value)


def _is_key(text: str) -> bool:
    return re.fullmatch(r"[^.\s]+(\.[^.\s]+)*", text) is not None


def _key_mistake(root: Node, key: str) -> tuple[str, str] | None:
    """What is wrong with a key such as `stages.md.ranks`, apart from what the schema checks."""
    path = key_path(root, key)
    if path[0] == PARAMS:
        return pipeline_parameters.key_mistake(root, path)
    if path[0] == "profiles":
        return "profiles cannot be set", "choose one with `--profile NAME`"
    if not all(isinstance(part, str) for part in path):
        return "an entry of a list cannot be set", "give the whole list, for example `[a, b]`"
    if "*" in path and (path[0] not in SECTIONS or path.index("*") != 1 or len(path) < 3):
        return "`*` stands for every stage or stream", "for example `--set streams.*.via=bp5`"
    if path[0] in SECTIONS and len(path) > 1 and path[1] != "*":
        section, name = root.child(str(path[0])), str(path[1])
        known = section.mapping() if section else {}
        if name not in known:
            taps = [key for key, each in _streams(root).items() if name in _taps(each)]
            asked = f"it is a tap: `--set streams.{taps[0]}.tap.{name}.…`" if taps and path[0] == "stages" else ""
            hint = asked or did_you_mean(name, known) or f"{path[0]}: {listing(known)}"
            return f"there is no {str(path[0]).removesuffix('s')} `{name}`", hint
    return None


def _value_mistake(root: Node, setting: Setting) -> tuple[str, str] | None:
    """What is wrong with a value whose key is right, apart from what the schema checks: another type of a parameter."""
    section, _, name = setting.key.partition(".")
    return pipeline_parameters.value_mistake(root, name, setting.value) if section == PARAMS else None


def _streams(root: Node) -> dict[str, Node]:
    streams = root.child("streams")
    return streams.mapping() if streams is not None else {}


def _taps(stream: Node) -> dict[str, Node]:
    taps = stream.child("tap")
    return taps.mapping() if taps is not None else {}


def _starred(root: Node, path: KeyPath) -> list[KeyPath]:
    if path[1:2] != ("*",):
        return [path]
    section = root.child(str(path[0]))
    return [(path[0], name, *path[2:]) for name in (section.mapping() if section else {})]


def with_value(node: Node, path: KeyPath, value: Node) -> Node:
    """The tree with the value at `path` replaced; missing mappings on the path are created."""
    if not path:
        return value
    key = str(path[0])
    if not isinstance(node.value, dict):
        node = Node({}, value.place, value.key or value.place, value.layer)
    below = node.child(key) or Node({}, value.place, value.key or value.place, value.layer)
    return node.with_child(key, with_value(below, path[1:], value))
