"""Ensembles: a stage with `members:` as that many stages, and the streams that collect them. Pure, on the tree.

It is done when parameters are filled in, and before the schema is checked: what comes later knows ordinary stages and
streams. What several members send to one reader goes through a stage that merges their streams. Unless `via` says
otherwise these are files, which it reads as they grow: members come and go, and it does without one that is ignored.

A member that may be drawn again is several stages: itself, and those of which each begins in its place, with newly
drawn values, when the one before it has failed. The rule of each is then to be ignored.
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
from workflow.spec.models.stage_policies import FailureRule
from workflow.spec.models.units import Scalar
from workflow.spec.origins import WrittenKey
from workflow.spec.pipeline_parameters import with_values
from workflow.spec.placeholder_syntax import PlaceholderError, names_in
from workflow.spec.references import may_redraw, section, text_at
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
    it starts; `stands_in_for`: the one that must have failed for that."""

    ensemble: str
    index: int
    values: Mapping[str, Scalar]
    renamed: Mapping[str, str]
    after: tuple[str, ...] = ()
    stands_in_for: str = ""

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


@dataclass(frozen=True)
class MemberPlace:
    """One of those that may run in the place of a member: it, or the `redraw`-th with newly drawn values. `count`: of
    the members."""

    index: int
    redraw: int
    count: int

    @property
    def number(self) -> int:
        """`member.index`: of those that are drawn again it goes on where that of the members ends."""
        return self.redraw * self.count + self.index

    def name(self, of: str) -> str:
        """The name of its stage, or of its stream: `sim-07` of 16, `sim-07-redrawn-1`."""
        return f"{of}-{self.index:0{len(str(self.count - 1))}}" + (f"-redrawn-{self.redraw}" if self.redraw else "")


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
    ensembles: dict[str, Ensemble] = {}
    for name, node in counts.items():
        if node is not None:
            found, problems = validated(Ensemble, _long_form(node))
            if found is None or problems:
                return expanded
            values[name], ensembles[name] = list(found.each), found
    redraws = {name: times for name, stage in stages.items() if (times := _redraws(stage))}
    collects = {name: _collect(stream) for name, stream in streams.items()}
    unclear = [name for name, stream in streams.items() if stream.child("collect") and collects[name] is None]
    if unclear or any(text_at(stream, "from") is None or not _readers(stream) for stream in streams.values()):
        return expanded
    _add_readers(root, streams, collects, values, expanded.problems)
    expanded.problems += _problems(root, streams, collects, values)
    expanded.problems += _redraw_problems(root, streams, collects, ensembles, redraws)
    if not expanded.problems:
        _Expansion(root, expanded, streams, collects, values, ensembles, redraws, ports_of).run()
    return expanded


def _redraws(stage: Node) -> int:
    """How often a member of a stage may be drawn again; 0 also where its rule is wrong."""
    node = stage.child("on_failure")
    if node is None or not may_redraw(stage):
        return 0
    rule, problems = validated(FailureRule, node if isinstance(node.value, dict) else Node({"do": node}, node.place))
    return 0 if rule is None or problems else rule.redraws


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


def _end(stage: str, port: str) -> str:
    return f"{stage}.{port}" if port else stage


def _ignored_in_the_end(rule: Node) -> Node:
    """The rule of a stage that is drawn again, for one member."""
    if not isinstance(rule.value, dict):
        return rule._replace(value="ignore")
    changed = {
        key: node._replace(value="ignore") if key in ("do", "then") and node.value == "redraw" else node
        for key, node in rule.value.items()
    }
    return rule._replace(value={key: node for key, node in changed.items() if key != "redraws"})


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


def _redraw_problems(
    root: Node,
    streams: Mapping[str, Node],
    collects: Mapping[str, str | int | None],
    ensembles: Mapping[str, Ensemble],
    redraws: Mapping[str, int],
) -> Iterator[Problem]:
    """Of stages that are to be drawn again, and cannot."""
    for name in redraws:
        at = ("stages", name, "on_failure")
        if name not in ensembles or not ensembles[name].draw:
            text = f"`redraw`: {name} has no drawn values, and with the same ones it would fail again"
            hint = "add `members: {count: 16, draw: {F: {from: 0.03, to: 0.05}}}`, or use `ignore`"
            yield problem_at(root, at, text, hint)
            continue
        for stream, node in streams.items():
            if name in map(_stage, _readers(node)):
                text = f"`redraw`: {name} reads {stream}, and a member that begins later would lack steps of it"
                yield problem_at(root, at, text, "use `ignore`")
            if _stage(text_at(node, "from") or "") == name and collects[stream] in ("each", "all"):
                text = {
                    "each": f"`each`: a member of {name} that is drawn again would have no reader",
                    "all": f"`all` has the same step of all members, and one of {name} that is drawn again begins with "
                    "its first one",
                }[str(collects[stream])]
                hint = f"use `collect: any`, or `ignore` in place of `redraw` in stage `{name}`"
                yield problem_at(root, ("streams", stream, "collect"), text, hint)


class _Expansion:
    """Writes the stages and streams of the members into the tree."""

    def __init__(
        self,
        root: Node,
        expanded: Expanded,
        streams: Mapping[str, Node],
        collects: Mapping[str, str | int | None],
        values: Mapping[str, Sequence[Mapping[str, Scalar]]],
        ensembles: Mapping[str, Ensemble],
        redraws: Mapping[str, int],
        ports_of: PortsOf,
    ) -> None:
        self._root, self._expanded, self._streams, self._collects = root, expanded, streams, collects
        self._values, self._ports_of = values, ports_of
        self._ensembles, self._redraws = ensembles, redraws
        self._new: dict[str, dict[str, Node]] = {"stages": {}, "streams": {}}

    def run(self) -> None:
        for name, node in self._root.mapping()["stages"].mapping().items():
            if name in self._values:
                self._add_members(name, node)
            else:
                self._add("stages", name, self._beside(node, None), ("stages", name))
        streams = self._root.child("streams")  # a pipeline of stages alone has none
        for name, stream in streams.mapping().items() if streams is not None else ():
            if name in self._streams:
                self._add_stream(name, stream)
            else:
                self._add("streams", name, stream, ("streams", name))
        if not self._expanded.problems:
            for part, entries in self._new.items():
                if (written := self._root.child(part)) is not None:
                    self._expanded.root = self._expanded.root.with_child(part, written._replace(value=entries))

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

    def _places(self, ensemble: str, index: int) -> list[MemberPlace]:
        """Those that may run in the place of a member, itself first."""
        count = len(self._values[ensemble])
        return [MemberPlace(index, redraw, count) for redraw in range(self._redraws.get(ensemble, 0) + 1)]

    def _name(self, ensemble: str, index: int) -> str:
        return self._places(ensemble, index)[0].name(ensemble)

    def _add_members(self, name: str, node: Node) -> None:
        members, together = self._values[name], self._together(name)
        limits = [self._ensembles[each].at_once for each in together if each in self._ensembles]
        most = min((limit for limit in limits if limit is not None), default=None)
        plain_node = node._replace(value={key: child for key, child in node.value.items() if key != "members"})
        if name in self._redraws:
            plain_node = plain_node.with_child("on_failure", _ignored_in_the_end(node.mapping()["on_failure"]))
        has_placeholders = any(isinstance(each.value, str) and "${{" in each.value for _, each in walk(plain_node))
        for index, values in enumerate(members):
            after: tuple[str, ...] = ()
            if most is not None and index >= most:
                after = tuple(self._places(each, index - most)[-1].name(each) for each in together)
            before = ""
            for place in self._places(name, index):
                if place.redraw:
                    values, after = self._ensembles[name].drawn(index, place.redraw), (before,)
                member = EnsembleMember(name, place.number, values, self._renamed(name, place), after, before)
                stage, own = place.name(name), plain_node
                self._expanded.members[stage] = member
                if has_placeholders:
                    own = self._filled(own, ("stages", name), member.placeholders, place.number)
                self._add("stages", stage, self._beside(own, index), ("stages", name, "members"))
                before = stage

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

    def _renamed(self, ensemble: str, place: MemberPlace) -> dict[str, str]:
        """The streams of single members that this one writes or reads, by the name that the user gave them."""
        found = {}
        for name, stream in self._streams.items():
            writer, how = _stage(text_at(stream, "from") or ""), self._collects[name]
            is_reader = ensemble in map(_stage, _readers(stream))
            if writer == ensemble or (how == "each" and is_reader):
                found[name] = place.name(name)
            elif isinstance(how, int) and is_reader:
                found[name] = group_name(name, place.index)
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
                named = own.with_child("from", self._writer(stream, MemberPlace(index, 0, count), name))
                named = named.with_child("to", self._made(ends[0] if len(ends) == 1 else ends, asked))
                self._add("streams", MemberPlace(index, 0, count).name(name), named, asked)
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
        places = [place for index in members for place in self._places(writer, index)]
        for each in places:
            own = made._replace(value={**made.value, "from": self._writer(stream, each, name), **alike})
            self._add("streams", each.name(name), own, asked)
        # It waits most of the time.
        place = {"cores_per_rank": 0, "share": self._name(writer, members[0])}
        parameters = {"together": how == "all", "members": [each.number for each in places]}
        stage = self._made({"component": MERGE, "place": place, "with": parameters}, asked)
        if self._root.mapping()["stages"].mapping()[writer].child("checkpoint") is not None:
            # Where members go on from a state, it must not begin with their first steps.
            stage = stage.with_child("checkpoint", self._made({"every": _SAVE_EVERY}, asked))
        if isinstance(how, int):
            place_of_group = int(merged.rpartition("-")[2])
            self._expanded.members[merge] = EnsembleMember(merge_name(name), place_of_group, {}, {})
        self._add("stages", merge, stage, asked)

    def _writer(self, stream: Node, place: MemberPlace, name: str) -> Node:
        """The writing end of a member."""
        node = stream.mapping()["from"]
        writer, _, port = str(node.value).partition(".")
        return node._replace(value=_end(place.name(writer), port or self._port(writer, "writes", name)))

    def _reader(self, end: str, index: int, name: str) -> str:
        reader, _, port = end.partition(".")
        return _end(self._name(reader, index), port or self._port(reader, "reads", name))

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
