"""Ensembles: a stage with `members:` as that many stages, and the streams that collect them. Pure, on the tree.

It is done when parameters are filled in, and before the schema is checked: what comes later knows ordinary stages and
streams. What several members send to one reader goes through a stage that merges their streams. Unless `via` says
otherwise these are files, which it reads as they grow: members come and go, and it does without one that is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from workflow.engines import KEPT_VIA
from workflow.errors import Problem
from workflow.formatting import plural
from workflow.spec.models.pipeline import Ensemble, Groups
from workflow.spec.models.units import Scalar
from workflow.spec.origins import WrittenKey
from workflow.spec.pipeline_parameters import with_values
from workflow.spec.placeholder_syntax import PlaceholderError, names_in
from workflow.spec.references import section, text_at
from workflow.spec.suggest import listing, nearest_name
from workflow.spec.validation_messages import problem_at, validated
from workflow.spec.yaml_tree.node import KeyPath, Node, key_text, relabelled, walk
from workflow.spec.yaml_tree.parse import parse_yaml

MERGE = "merge"
_SAVE_EVERY = "1 s"
# Of the component `merge`.
_INPUT, _OUTPUT = "members", "merged"
# What the streams of the members have in common with the stream that they are collected in.
_ALIKE = ("via", "coupling", "queue", "transport", "interface", "step_size", "keep")


@dataclass(frozen=True)
class EnsembleMember:
    """One member of an ensemble. `renamed`: stream in its texts → the member's own; `after`: the stages in whose place
    it starts."""

    ensemble: str
    index: int
    values: Mapping[str, Scalar]
    renamed: Mapping[str, str]
    after: tuple[str, ...] = ()

    @property
    def placeholders(self) -> dict[str, Scalar]:
        """Placeholder → value."""
        return {"member.index": self.index, **{f"member.{name}": value for name, value in self.values.items()}}


@dataclass
class Expanded:
    """The pipeline's tree without ensembles, and what was wrong with them. `members`: by the name of the stage."""

    root: Node
    problems: list[Problem] = field(default_factory=list)
    members: dict[str, EnsembleMember] = field(default_factory=dict)
    keys: dict[str, WrittenKey] = field(default_factory=dict)
    """Key of a stage or stream in the new tree → the one that the user wrote."""


PortsOf = Callable[[Node, Literal["reads", "writes"]], Collection[str]]
"""Stage → the names of its ports on a side, as far as they are known."""


def member_name(name: str, index: int, count: int) -> str:
    """The name of a member, or of its stream: `sim-07` of 16."""
    return f"{name}-{index:0{len(str(count - 1))}}"


def group_name(stream: str, group: int) -> str:
    """The name of the stream of a group of members."""
    return f"{stream}-group-{group}"


def merge_name(stream: str) -> str:
    """The name of the stage that merges the streams of members into this one."""
    return f"{stream}-merge"


def expand_ensembles(root: Node, ports_of: PortsOf) -> Expanded:
    """The pipeline with one stage for each member. Where `members` or `collect` is wrong it is left as it is: the
    schema check says so."""
    expanded = Expanded(root)
    stages, streams = section(root, "stages"), section(root, "streams")
    counts = {name: node.child("members") for name, node in stages.items()}
    values: dict[str, list[Mapping[str, Scalar]]] = {}
    at_once: dict[str, int] = {}
    for name, node in counts.items():
        if node is not None:
            found, problems = validated(Ensemble, _long_form(node))
            if found is None or problems:
                return expanded
            values[name] = list(found.each)
            at_once |= {} if found.at_once is None else {name: found.at_once}
    collects = {name: _collect(stream) for name, stream in streams.items()}
    unclear = [name for name, stream in streams.items() if stream.child("collect") and collects[name] is None]
    if unclear or any(text_at(stream, "from") is None or not _readers(stream) for stream in streams.values()):
        return expanded
    _add_readers(root, streams, collects, values, expanded.problems)
    expanded.problems += _problems(root, streams, collects, values)
    if not expanded.problems:
        _Expansion(root, expanded, streams, collects, values, at_once, ports_of).run()
    return expanded


def _long_form(node: Node) -> Node:
    key = "count" if isinstance(node.value, int) else "values" if isinstance(node.value, list) else ""
    return Node({key: node}, node.place, node.key) if key else node


def _collect(stream: Node) -> str | int | None:
    """`each`, `any`, `all`, a number of groups; None where nothing, or something wrong, is written."""
    node = stream.child("collect")
    if node is None:
        return None
    if isinstance(node.value, dict):
        found, problems = validated(Groups, node)
        return None if found is None or problems else found.groups
    return node.value if node.value in ("each", "any", "all") else None


def _readers(stream: Node) -> list[str]:
    """The reading ends, `STAGE` or `STAGE.PORT`; [] where they are wrong."""
    node = stream.child("to")
    if node is None:
        return []
    ends = [each.value for each in node.value] if isinstance(node.value, list) else [node.value]
    return ends if all(isinstance(end, str) for end in ends) else []


def _stage(end: str) -> str:
    return end.partition(".")[0]


def _add_readers(
    root: Node,
    streams: Mapping[str, Node],
    collects: Mapping[str, str | int | None],
    values: dict[str, list[Mapping[str, Scalar]]],
    problems: list[Problem],
) -> None:
    """The stages that have members because each member, or each group, has a reader of its own."""
    for _ in streams:  # a chain of stages is followed to its end
        before = len(values)
        for name, stream in streams.items():
            writer, how = _stage(text_at(stream, "from") or ""), collects[name]
            if writer not in values or how in (None, "any", "all"):
                continue
            wanted = values[writer] if how == "each" else [{} for _ in range(int(how or 0))]
            for reader in map(_stage, _readers(stream)):
                if len(values.setdefault(reader, wanted)) != len(wanted):
                    text = f"{writer} has {plural(len(wanted), 'member')}, {reader} {len(values[reader])}"
                    hint = "give both as many, or use `collect: any`"
                    problem = problem_at(root, ("streams", name, "collect"), text, hint)
                    problems += [] if problem in problems else [problem]
        if len(values) == before:
            return


def _problems(
    root: Node,
    streams: Mapping[str, Node],
    collects: Mapping[str, str | int | None],
    values: Mapping[str, Sequence[Mapping[str, Scalar]]],
) -> Iterator[Problem]:
    for name, stream in streams.items():
        writer, how, at = _stage(text_at(stream, "from") or ""), collects[name], ("streams", name)
        written = stream.child("collect")
        if writer in values and written is None:
            text = f"{writer} has {plural(len(values[writer]), 'member')}, and nothing says how its reader gets them"
            yield problem_at(root, (*at, "from"), text, "add `collect: any`, or `each`, `all`, `{groups: N}`")
        elif writer not in values and written is not None:
            hint = f"remove it, or add `members: 16` to stage `{writer}`"
            yield problem_at(root, (*at, "collect"), f"stage `{writer}` has no members", hint)
        if isinstance(how, int) and writer in values and how > len(values[writer]):
            text = f"{how} groups of {plural(len(values[writer]), 'member')}"
            yield problem_at(root, (*at, "collect"), text, f"use at most {len(values[writer])}")
        if how == "each" and stream.child("tap") is not None:
            hint = "use `collect: any`, or let a stage read the stream"
            yield problem_at(root, (*at, "tap"), "the streams of single members have no taps", hint, at_key=True)


class _Expansion:
    """Writes the stages and streams of the members into the tree."""

    def __init__(
        self,
        root: Node,
        expanded: Expanded,
        streams: Mapping[str, Node],
        collects: Mapping[str, str | int | None],
        values: Mapping[str, Sequence[Mapping[str, Scalar]]],
        at_once: Mapping[str, int],
        ports_of: PortsOf,
    ) -> None:
        self._root, self._expanded, self._streams, self._collects = root, expanded, streams, collects
        self._values, self._ports_of = values, ports_of
        self._at_once = at_once
        self._new: dict[str, dict[str, Node]] = {"stages": {}, "streams": {}}

    def run(self) -> None:
        for name, node in self._root.mapping()["stages"].mapping().items():
            if name in self._values:
                self._add_members(name, node)
            else:
                self._add("stages", name, self._beside(node, None), ("stages", name))
        for name, stream in self._root.mapping()["streams"].mapping().items():
            if name in self._streams:
                self._add_stream(name, stream)
            else:
                self._add("streams", name, stream, ("streams", name))
        if not self._expanded.problems:
            for part, entries in self._new.items():
                node = self._root.mapping()[part]._replace(value=entries)
                self._expanded.root = self._expanded.root.with_child(part, node)

    def _add(self, part: Literal["stages", "streams"], name: str, node: Node, asked: KeyPath) -> None:
        """Add a stage or a stream that follows from the key `asked`."""
        is_written = asked == (part, name)
        if name in self._new[part] or (not is_written and name in section(self._root, part)):
            text = f"there is already a {part.removesuffix('s')} `{name}`, and wf would add one of that name"
            self._expanded.problems.append(problem_at(self._root, asked, text, f"rename `{name}`", at_key=True))
        self._new[part][name] = node
        if not is_written:
            # What is below `members` belongs to the stage, what is below `collect` to no stream.
            is_member = asked[-1] == "members"
            key = key_text(asked[:-1] if is_member else asked)
            self._expanded.keys[f"{part}.{name}"] = WrittenKey(key, below=is_member)

    def _name(self, ensemble: str, index: int) -> str:
        return member_name(ensemble, index, len(self._values[ensemble]))

    def _add_members(self, name: str, node: Node) -> None:
        members, together = self._values[name], self._together(name)
        most = min((self._at_once[each] for each in together if each in self._at_once), default=None)
        plain_node = node._replace(value={key: child for key, child in node.value.items() if key != "members"})
        has_placeholders = any(isinstance(each.value, str) and "${{" in each.value for _, each in walk(plain_node))
        for index, values in enumerate(members):
            stage = self._name(name, index)
            after = () if most is None or index < most else tuple(self._name(each, index - most) for each in together)
            member = EnsembleMember(name, index, values, self._renamed(name, index), after)
            self._expanded.members[stage] = member
            own = plain_node
            if has_placeholders:
                own = self._filled(own, ("stages", name), member.placeholders, index)
            self._add("stages", stage, self._beside(own, index), ("stages", name, "members"))

    def _together(self, name: str) -> list[str]:
        """The ensembles whose members of one number run together, because one reads what the other writes."""
        found = [name]
        for ensemble in found:
            for stream, how in self._collects.items():
                node = self._streams[stream]
                ends = [_stage(end) for end in (text_at(node, "from") or "", *_readers(node))]
                if how == "each" and ensemble in ends:
                    found += [end for end in ends if end not in found]
        return found

    def _renamed(self, ensemble: str, index: int) -> dict[str, str]:
        """The streams of single members that this one writes or reads, by the name that the user gave them."""
        found = {}
        for name, stream in self._streams.items():
            writer, how = _stage(text_at(stream, "from") or ""), self._collects[name]
            is_reader = ensemble in map(_stage, _readers(stream))
            if writer == ensemble or (how == "each" and is_reader):
                found[name] = member_name(name, index, len(self._values[writer]))
            elif isinstance(how, int) and is_reader:
                found[name] = group_name(name, index)
        return found

    def _filled(self, node: Node, at: KeyPath, values: Mapping[str, Scalar], index: int) -> Node:
        """The node with the placeholders of a member. What is wrong is said of the first member."""
        if isinstance(node.value, dict):
            return node._replace(
                value={key: self._filled(child, (*at, key), values, index) for key, child in node.value.items()}
            )
        if isinstance(node.value, list):
            return node._replace(
                value=[self._filled(child, (*at, place), values, index) for place, child in enumerate(node.value)]
            )
        if not isinstance(node.value, str) or "${{" not in node.value:
            return node
        try:
            filled = with_values(node, values)
        except PlaceholderError:  # said where all other placeholders are filled
            return node
        unknown = [name for name in names_in(str(filled.value)) if name.startswith("member.")]
        if unknown and index == 0:
            # The names behind the dot: all begin alike.
            near = nearest_name(unknown[0].partition(".")[2], (name.partition(".")[2] for name in values))
            hint = f"did you mean `member.{near}`?" if near else f"members have {listing(values)}"
            text = f"there is no `{unknown[0]}`"
            self._expanded.problems.append(problem_at(self._root, at, text, hint))
        return filled

    def _beside(self, node: Node, index: int | None) -> Node:
        """The stage with `place.share: ENSEMBLE` as the name of a member: the one of the same number, or the first."""
        place = node.child("place")
        share = place.child("share") if place is not None else None
        if place is None or share is None or share.value not in self._values:
            return node
        number = index if index is not None and index < len(self._values[share.value]) else 0
        named = share._replace(value=self._name(share.value, number))
        return node.with_child("place", place.with_child("share", named))

    def _add_stream(self, name: str, stream: Node) -> None:
        how, start = self._collects[name], text_at(stream, "from") or ""
        writer = _stage(start)
        own = stream._replace(value={key: child for key, child in stream.value.items() if key != "collect"})
        if writer not in self._values:
            self._add("streams", name, own.with_child("to", self._all_readers(stream)), ("streams", name))
            return
        count = len(self._values[writer])
        asked: KeyPath = ("streams", name, "collect")
        if how == "each":
            for index in range(count):
                ends = [self._reader(end, index, name) for end in _readers(stream)]
                named = own.with_child("from", self._writer(stream, index, name))
                named = named.with_child("to", self._made(ends[0] if len(ends) == 1 else ends, asked))
                self._add("streams", member_name(name, index, count), named, asked)
            return
        groups = [(name, list(range(count)))]
        if isinstance(how, int):
            groups = [(group_name(name, group), list(range(group, count, how))) for group in range(how)]
        for group, (merged, members) in enumerate(groups):
            self._add_merge(name, stream, merged, members)
            to = self._all_readers(stream)
            if isinstance(how, int):
                to = self._made([self._reader(end, group, name) for end in _readers(stream)], asked)
            node = own.with_child("from", self._made(f"{merge_name(merged)}.{_OUTPUT}", asked)).with_child("to", to)
            self._add("streams", merged, node, ("streams", name) if merged == name else asked)

    def _add_merge(self, name: str, stream: Node, merged: str, members: Sequence[int]) -> None:
        """The streams of these members, and the stage that merges them."""
        asked: KeyPath = ("streams", name, "collect")
        writer, how = _stage(text_at(stream, "from") or ""), self._collects[name]
        merge = merge_name(merged)
        alike = {key: child for key in _ALIKE if (child := stream.child(key)) is not None}
        # Steps are merged as they come, whatever is the usual way of an engine.
        made = self._made({"to": f"{merge}.{_INPUT}", "via": KEPT_VIA, "coupling": "live"}, asked)
        for index in members:
            own = made._replace(value={**made.value, "from": self._writer(stream, index, name), **alike})
            self._add("streams", member_name(name, index, len(self._values[writer])), own, asked)
        # It waits most of the time.
        place = {"cores_per_rank": 0, "share": self._name(writer, members[0])}
        parameters = {"together": how == "all", "members": list(members)}
        stage = self._made({"component": MERGE, "place": place, "with": parameters}, asked)
        if self._root.mapping()["stages"].mapping()[writer].child("checkpoint") is not None:
            # Where members go on from a state, it must not begin with their first steps.
            stage = stage.with_child("checkpoint", self._made({"every": _SAVE_EVERY}, asked))
        if isinstance(how, int):
            place_of_group = int(merged.rpartition("-")[2])
            self._expanded.members[merge] = EnsembleMember(merge_name(name), place_of_group, {}, {})
        self._add("stages", merge, stage, asked)

    def _writer(self, stream: Node, index: int, name: str) -> Node:
        """The writing end of a member."""
        node = stream.mapping()["from"]
        writer, _, port = str(node.value).partition(".")
        return node._replace(value=self._named_end(writer, index, port or self._port(writer, "writes", name)))

    def _reader(self, end: str, index: int, name: str) -> str:
        reader, _, port = end.partition(".")
        return self._named_end(reader, index, port or self._port(reader, "reads", name))

    def _named_end(self, ensemble: str, index: int, port: str) -> str:
        return f"{self._name(ensemble, index)}{f'.{port}' if port else ''}"

    def _port(self, stage: str, side: Literal["reads", "writes"], stream: str) -> str:
        """The port that has the name of the stream: the streams of the members have others."""
        node = self._root.mapping()["stages"].mapping().get(stage)
        return stream if node is not None and stream in self._ports_of(node, side) else ""

    def _all_readers(self, stream: Node) -> Node:
        """The readers of one stream: every member of an ensemble that reads it."""
        node = stream.mapping()["to"]
        ends = _readers(stream)
        if not any(_stage(end) in self._values for end in ends):
            return node
        named: list[str] = []
        for end in ends:
            reader = _stage(end)
            each = range(len(self._values[reader])) if reader in self._values else ()
            named += [self._reader(end, index, "") for index in each] or [end]
        return relabelled(parse_yaml(json.dumps(named), node.place.source), node.layer, node.place)

    def _made(self, value: Any, asked: KeyPath) -> Node:
        """A value that follows from the key `asked`."""
        node: Node = self._root
        for key in asked:
            node = node.children[key]
        return relabelled(parse_yaml(json.dumps(value), node.place.source), node.layer, node.place)
