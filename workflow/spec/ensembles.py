"""Ensembles: a stage with `members:` as that many stages, and the streams that collect them. Pure, on the tree.

It is done when parameters are filled in, and before the schema is checked: what comes later knows ordinary stages and
streams. What several members send to one reader goes through a stage that merges their streams. Unless `via` says
otherwise these are files, which it reads as they grow: members come and go, and it does without one that is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple

from workflow.engines import KEPT_VIA
from workflow.errors import Problem
from workflow.formatting import plural
from workflow.spec.models.ensembles_and_triggers import Ensemble, NumberedCollect
from workflow.spec.models.units import Scalar
from workflow.spec.origins import MemberName, WrittenKey
from workflow.spec.pipeline_parameters import with_values
from workflow.spec.placeholder_syntax import PlaceholderError, names_in
from workflow.spec.references import section, text_at
from workflow.spec.suggest import listing, nearest_name
from workflow.spec.validation_messages import problem_at, validated
from workflow.spec.yaml_tree.node import KeyPath, Node, key_text, nearest, relabelled, walk
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
    it starts; `written`: value → how it stands in the file."""

    ensemble: str
    index: int
    values: Mapping[str, Scalar]
    renamed: Mapping[str, str]
    after: tuple[str, ...] = ()
    written: Mapping[str, str] = field(default_factory=dict)

    @property
    def placeholders(self) -> dict[str, Scalar]:
        """Placeholder → value."""
        return {"member.index": self.index, **{f"member.{name}": value for name, value in self.values.items()}}

    @property
    def texts(self) -> dict[str, str]:
        """Placeholder → its value as it was written, where that is known and no text."""
        return {f"member.{name}": text for name, text in self.written.items()}


class _Neighbour(NamedTuple):
    """`collect: neighbour`: member i is read by member i + `distance`, in a circle."""

    distance: int = 0


_Collect = str | int | _Neighbour | None
"""`each`, `any`, `all`, a number of groups, neighbours; None where nothing, or something wrong, is written."""


@dataclass
class Expanded:
    """The pipeline's tree without what was expanded, and what was wrong with that. `members`: by the name of the
    stage."""

    root: Node
    problems: list[Problem] = field(default_factory=list)
    members: dict[str, EnsembleMember] = field(default_factory=dict)
    renamed: dict[str, dict[str, str]] = field(default_factory=dict)
    """Stage → stream in its texts → the stream that is meant, where wf has put a stage between."""
    keys: dict[str, WrittenKey] = field(default_factory=dict)
    """Key of a stage or stream in the new tree → the one that the user wrote."""


PortsOf = Callable[[Node, Literal["reads", "writes"]], Collection[str]]
"""Stage → the names of its ports on a side, as far as they are known."""


def member_name(of: str, index: int, count: int) -> str:
    """The name of the stage, or of the stream, of a member: `sim-07` of 16."""
    return f"{of}-{index:0{len(str(count - 1))}}"


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
    collects = {name: _collect(stream) for name, stream in streams.items()}
    unclear = [name for name, stream in streams.items() if stream.child("collect") and collects[name] is None]
    if unclear or any(text_at(stream, "from") is None or not reading_ends(stream) for stream in streams.values()):
        return expanded
    _add_readers(root, streams, collects, values, expanded.problems)
    at_once = {name: found.at_once for name, found in ensembles.items() if found.at_once is not None}
    expanded.problems += _problems(root, streams, collects, values, at_once)
    if not expanded.problems:
        _Expansion(root, expanded, streams, collects, values, ensembles, ports_of).run()
    expanded.problems += _without_effect(root, at_once, values)
    return expanded


def _long_form(node: Node) -> Node:
    key = "count" if isinstance(node.value, int) else "values" if isinstance(node.value, list) else ""
    return Node({key: node}, node.place, node.key) if key else node


def _collect(stream: Node) -> _Collect:
    node = stream.child("collect")
    if node is None:
        return None
    if isinstance(node.value, dict):
        found, problems = validated(NumberedCollect, node)
        if found is None or problems:
            return None
        return found.groups if found.neighbour is None else _Neighbour(found.neighbour)
    if node.value == "neighbour":
        return _Neighbour()
    return node.value if node.value in ("each", "any", "all") else None


def _is_paired(how: _Collect) -> bool:
    """Whether one member reads the stream of one other."""
    return how == "each" or isinstance(how, _Neighbour)


def _distance(how: _Collect) -> int:
    """How much larger the number of the reading member is than that of the writing one."""
    return how.distance if isinstance(how, _Neighbour) else 0


def reading_ends(stream: Node) -> list[str]:
    """The reading ends, `STAGE` or `STAGE.PORT`; [] where they are wrong."""
    node = stream.child("to")
    if node is None:
        return []
    ends = [each.value for each in node.value] if isinstance(node.value, list) else [node.value]
    return ends if all(isinstance(end, str) for end in ends) else []


def taken_over(stream: Node, keys: Iterable[str], *, keep: bool) -> dict[str, Node]:
    """What a stream that has a part of the steps of this one takes over from it, of these keys.

    `keep`: whether its own steps may be read again. Otherwise it takes over `keep: false` only.
    """
    found = {key: child for key in keys if (child := stream.child(key)) is not None}
    if not keep and not _keeps_nothing(stream):
        found.pop("keep", None)
    return found


def _keeps_nothing(stream: Node) -> bool:
    """Whether a stream has `keep: false`, in either form."""
    keep = stream.child("keep")
    steps = None if keep is None else keep.child("steps")
    return keep is not None and (keep.value is False or (steps is not None and steps.value == 0))


def stage_of(end: str) -> str:
    """The stage of an end, `STAGE` or `STAGE.PORT`."""
    return end.partition(".")[0]


def _end(stage: str, port: str) -> str:
    return f"{stage}.{port}" if port else stage


def _add_readers(
    root: Node,
    streams: Mapping[str, Node],
    collects: Mapping[str, _Collect],
    values: dict[str, list[Mapping[str, Scalar]]],
    problems: list[Problem],
) -> None:
    """The stages that have members because each member, or each group, has a reader of its own."""
    for _ in streams:  # a chain of stages is followed to its end
        before = len(values)
        for name, stream in streams.items():
            writer, how = stage_of(text_at(stream, "from") or ""), collects[name]
            groups = how if isinstance(how, int) else 0
            if writer not in values or not (how == "each" or groups):
                continue
            wanted = [{} for _ in range(groups)] if groups else values[writer]
            for reader in map(stage_of, reading_ends(stream)):
                if len(values.setdefault(reader, wanted)) != len(wanted):
                    text = f"{writer} has {plural(len(wanted), 'member')}, but {reader} has {len(values[reader])}"
                    hint = "give both the same number, or use `collect: any`"
                    problem = problem_at(root, ("streams", name, "collect"), text, hint)
                    problems += [] if problem in problems else [problem]
        if len(values) == before:
            return


def _without_effect(
    root: Node, at_once: Mapping[str, int], values: Mapping[str, Sequence[Mapping[str, Scalar]]]
) -> Iterator[Problem]:
    """A warning for each `at_once` that no member waits for."""
    for name, most in at_once.items():
        if most > (count := len(values[name])):
            text = f"{most} at once, of {plural(count, 'member')}: all run at the same time"
            hint = f"use fewer than {count}, or remove it" if count > 1 else "remove it"
            at = ("stages", name, "members", "at_once")
            yield problem_at(root, at, text, hint)._replace(level="warning")


def _together(name: str, streams: Mapping[str, Node], collects: Mapping[str, _Collect]) -> list[str]:
    """The ensembles whose members of one number run together, because one reads what the other writes."""
    found = [name]
    for ensemble in found:
        for stream, how in collects.items():
            ends = [stage_of(end) for end in (text_at(streams[stream], "from") or "", *reading_ends(streams[stream]))]
            if _is_paired(how) and ensemble in ends:
                found += [end for end in ends if end not in found]
    return found


def _problems(
    root: Node,
    streams: Mapping[str, Node],
    collects: Mapping[str, _Collect],
    values: Mapping[str, Sequence[Mapping[str, Scalar]]],
    at_once: Mapping[str, int],
) -> Iterator[Problem]:
    for name, stream in streams.items():
        writer, how, at = stage_of(text_at(stream, "from") or ""), collects[name], ("streams", name)
        written = stream.child("collect")
        if writer in values and written is None:
            text = f"{writer} has {plural(len(values[writer]), 'member')}, and nothing says how its reader gets them"
            yield problem_at(
                root, (*at, "from"), text, "add `collect: any`, or `each`, `all`, `neighbour`, `{groups: N}`"
            )
        elif writer not in values and written is not None:
            many = next((len(values[end]) for end in map(stage_of, reading_ends(stream)) if end in values), 16)
            hint = f"remove it, or add `members: {many}` to stage `{writer}`"
            yield problem_at(root, (*at, "collect"), f"stage `{writer}` has no members", hint)
        if isinstance(how, int) and writer in values and how > len(values[writer]):
            text = f"{how} groups of {plural(len(values[writer]), 'member')}"
            yield problem_at(root, (*at, "collect"), text, f"use at most {len(values[writer])}")
        if isinstance(how, _Neighbour) and writer in values:
            yield from _neighbour_problems(root, name, how.distance, writer, values)
            few = next((each for each in _together(writer, streams, collects) if each in at_once), None)
            if how.distance and few is not None and at_once[few] < len(values[writer]):
                text = f"`at_once` of {few}: a member waits for its neighbour, which begins only after that member"
                yield problem_at(root, (*at, "collect"), text, "remove `at_once`, or use `neighbour`")
        if _is_paired(how) and stream.child("tap") is not None:
            hint = "use `collect: any`, or let a stage read the stream"
            yield problem_at(root, (*at, "tap"), "the streams of single members have no taps", hint, at_key=True)


def _neighbour_problems(
    root: Node, stream: str, distance: int, writer: str, values: Mapping[str, Sequence[Mapping[str, Scalar]]]
) -> Iterator[Problem]:
    at, count = ("streams", stream, "collect"), len(values[writer])
    if abs(distance) >= count:
        text = f"{plural(count, 'member')} have no neighbour at distance {distance}"
        yield problem_at(root, at, text, f"use at most {count - 1}, or `neighbour` for the member of the same number")
        return
    for reader in map(stage_of, reading_ends(section(root, "streams")[stream])):
        if reader in values and len(values[reader]) != count:
            text = f"{writer} has {plural(count, 'member')}, but {reader} has {len(values[reader])}"
            yield problem_at(root, at, text, "give both the same number, or use `collect: any`")
        elif reader in section(root, "stages") and reader not in values:
            text = f"stage `{reader}` has no members, but each member of {writer} needs its own reader"
            hint = f"add `members: {count}` to stage `{reader}`, or use `collect: each`, which adds them"
            yield problem_at(root, at, text, hint)
        elif reader == writer and not distance:
            text = f"each member of {writer} would read its own stream"
            yield problem_at(root, at, text, "use `{neighbour: 1}`, or let another stage read it")


def unused_values(
    root: Node, members: Mapping[str, EnsembleMember], templates: Mapping[str, Mapping[str, str]]
) -> list[Problem]:
    """A warning for each value that is drawn, or of a matrix, of which no text holds the placeholder: members that
    differ in nothing else are the same run. Values of a list may be labels.

    Args:
        root: the tree with its ensembles. members: stage → which member it is. templates: stage → name → text of its
            `files:`.
    """
    stages, found = section(root, "stages"), []
    values = {each.ensemble: each.values for each in members.values()}
    for name, stage in stages.items():
        given = stage.child("members")
        parts = [(word, part) for word in ("draw", "matrix") if given is not None and (part := given.child(word))]
        if name not in values or not parts:
            continue
        # Those that have members because each reads one of these have their values, too.
        alike = {each for each, its in values.items() if its.keys() == values[name].keys() and each in stages}
        users = {name, *(each for each in alike if stages[each].child("members") is None)}
        texts = [node.value for each in users for _, node in walk(stages[each]) if isinstance(node.value, str)]
        texts += [
            text for each, member in members.items() if member.ensemble in users
            for text in templates.get(each, {}).values()
        ]  # fmt: skip
        used = {placeholder for text in texts if "${{" in text for placeholder in names_in(text)}
        for word, value in ((word, value) for word, part in parts for value in part.mapping()):
            if f"member.{value}" not in used:
                hint = f"write `${{{{ member.{value} }}}}` where its value belongs, or remove it"
                at = ("stages", name, "members", word, value)
                found.append(problem_at(root, at, "is not used", hint, at_key=True)._replace(level="warning"))
    return found


def made_node(value: Any, asked: Node) -> Node:
    """A value that follows from what `asked` says, and has its place."""
    return relabelled(parse_yaml(json.dumps(value), asked.place.source), asked.layer, asked.place)


def _written_values(members: Node) -> list[dict[str, str]]:
    """Of each member the values that are no texts → how they are written; [] where there are none written."""
    form = _long_form(members)
    values, matrix = form.child("values"), form.child("matrix")
    chosen: list[dict[str, Node]] = []
    if values is not None and values.value:
        chosen = [each.mapping() for each in values.value]
    elif matrix is not None:
        its = matrix.mapping()
        chosen = [dict(zip(its, each, strict=True)) for each in product(*(node.value for node in its.values()))]
    return [{name: node.text for name, node in each.items() if node.text} for each in chosen]


class _Expansion:
    """Writes the stages and streams of the members into the tree."""

    def __init__(
        self,
        root: Node,
        expanded: Expanded,
        streams: Mapping[str, Node],
        collects: Mapping[str, _Collect],
        values: Mapping[str, Sequence[Mapping[str, Scalar]]],
        ensembles: Mapping[str, Ensemble],
        ports_of: PortsOf,
    ) -> None:
        self._root, self._expanded, self._streams, self._collects = root, expanded, streams, collects
        self._values, self._ensembles, self._ports_of = values, ensembles, ports_of
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

    def _add(
        self,
        part: Literal["stages", "streams"],
        name: str,
        node: Node,
        asked: KeyPath,
        member: MemberName | None = None,
        alike: Collection[str] = (),
    ) -> None:
        """Add a stage or a stream that follows from the key `asked`. `member`: the one that it belongs to; `alike`: the
        keys that it has from the stream that was written, and that are as strong as there."""
        is_written = asked == (part, name)
        if name in self._new[part] or (not is_written and name in section(self._root, part)):
            text = f"there is already a {part.removesuffix('s')} `{name}`, and wf would add one of that name"
            self._expanded.problems.append(problem_at(self._root, asked, text, f"rename `{name}`", at_key=True))
        self._new[part][name] = node
        if not is_written:
            # What is below `members` belongs to the stage, what is below `collect` to no stream.
            is_member = asked[-1] == "members"
            key = key_text(asked[:-1] if is_member else asked)
            self._expanded.keys[f"{part}.{name}"] = WrittenKey(key, below=is_member, member=member)
            for each in alike:
                written = key_text((*asked[:-1], each))
                self._expanded.keys[f"{part}.{name}.{each}"] = WrittenKey(written, member=member)

    def _name(self, ensemble: str, index: int, of: str = "") -> str:
        """The name of a member, or of its stream in place of the stream `of`."""
        return member_name(of or ensemble, index, len(self._values[ensemble]))

    def _add_members(self, name: str, node: Node) -> None:
        members, together = self._values[name], _together(name, self._streams, self._collects)
        written = self._written(name)
        limits = [self._ensembles[each].at_once for each in together if each in self._ensembles]
        most = min((limit for limit in limits if limit is not None), default=None)
        plain_node = node._replace(value={key: child for key, child in node.value.items() if key != "members"})
        has_placeholders = any(isinstance(each.value, str) and "${{" in each.value for _, each in walk(plain_node))
        for index, values in enumerate(members):
            after: tuple[str, ...] = ()
            if most is not None and index >= most:
                after = tuple(self._name(each, index - most) for each in together)
            texts = written[index] if written else {}
            member = EnsembleMember(name, index, values, self._renamed(name, index), after, texts)
            stage, own = self._name(name, index), plain_node
            self._expanded.members[stage] = member
            if has_placeholders:
                own = self._filled(own, ("stages", name), member, index)
            its = MemberName(stage, name)
            self._add("stages", stage, self._beside(own, index), ("stages", name, "members"), its)

    def _written(self, name: str) -> list[dict[str, str]]:
        """`_written_values` of a stage, or of the one whose values it has because it reads its members."""
        for each in self._ensembles:
            if self._values[each] is self._values[name]:
                return _written_values(section(self._root, "stages")[each].mapping()["members"])
        return []

    def _renamed(self, ensemble: str, index: int) -> dict[str, str]:
        """The streams of single members that this one writes or reads, by the name that the user gave them."""
        found = {}
        for name, stream in self._streams.items():
            writer, how = stage_of(text_at(stream, "from") or ""), self._collects[name]
            is_reader = ensemble in map(stage_of, reading_ends(stream))
            count = len(self._values.get(writer, ()))
            if writer == ensemble:
                found[name] = self._name(ensemble, index, name)
            elif _is_paired(how) and is_reader:
                found[name] = member_name(name, (index - _distance(how)) % count, count)
            elif isinstance(how, int) and is_reader:
                found[name] = group_name(name, index)
        return found

    def _filled(self, node: Node, at: KeyPath, member: EnsembleMember, index: int) -> Node:
        """The node with the placeholders of a member. What is wrong is said of the first member."""
        if isinstance(node.value, dict):
            return node._replace(
                value={key: self._filled(child, (*at, key), member, index) for key, child in node.value.items()}
            )
        if isinstance(node.value, list):
            return node._replace(
                value=[self._filled(child, (*at, place), member, index) for place, child in enumerate(node.value)]
            )
        if not isinstance(node.value, str) or "${{" not in node.value:
            return node
        values = member.placeholders
        try:
            filled = with_values(node, values, member.texts)
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
        writer = stage_of(start)
        own = stream._replace(value={key: child for key, child in stream.value.items() if key != "collect"})
        if writer not in self._values:
            self._add("streams", name, own.with_child("to", self._all_readers(stream)), ("streams", name))
            return
        count = len(self._values[writer])
        asked: KeyPath = ("streams", name, "collect")
        alike = own.value.keys() - {"from", "to"} | {"transport"}
        if _is_paired(how):
            for index in range(count):
                reader = (index + _distance(how)) % count
                ends = [self._reader(end, reader, name) for end in reading_ends(stream)]
                named = own.with_child("from", self._writer(stream, index, name))
                named = named.with_child("to", self._made(ends[0] if len(ends) == 1 else ends, asked))
                member = MemberName(self._name(writer, index), writer)
                self._add("streams", self._name(writer, index, name), named, asked, member, alike)
            return
        groups = [(name, list(range(count)))]
        if isinstance(how, int):
            groups = [(group_name(name, group), list(range(group, count, how))) for group in range(how)]
        for group, (merged, members) in enumerate(groups):
            self._add_merge(name, stream, merged, members)
            to = self._all_readers(stream)
            if isinstance(how, int):
                to = self._made([self._reader(end, group, name) for end in reading_ends(stream)], asked)
            node = own.with_child("from", self._made(f"{merge_name(merged)}.{_OUTPUT}", asked)).with_child("to", to)
            self._add("streams", merged, node, ("streams", name) if merged == name else asked, alike=alike)

    def _add_merge(self, name: str, stream: Node, merged: str, members: Sequence[int]) -> None:
        """The streams of these members, and the stage that merges them."""
        asked: KeyPath = ("streams", name, "collect")
        writer, how = stage_of(text_at(stream, "from") or ""), self._collects[name]
        merge = merge_name(merged)
        alike = taken_over(stream, _ALIKE, keep=False)  # the collected stream is kept
        # Steps are merged as they come, whatever is the usual way of an engine.
        made = self._made({"to": f"{merge}.{_INPUT}", "via": KEPT_VIA, "coupling": "live"}, asked)
        for index in members:
            own = made._replace(value={**made.value, "from": self._writer(stream, index, name), **alike})
            member = MemberName(self._name(writer, index), writer)
            self._add("streams", self._name(writer, index, name), own, asked, member, {*alike, "transport"})
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
        return node._replace(value=_end(self._name(writer, index), port or self._port(writer, "writes", name)))

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
        ends = reading_ends(stream)
        if not any(stage_of(end) in self._values for end in ends):
            return node
        named: list[str] = []
        for end in ends:
            reader = stage_of(end)
            each = range(len(self._values[reader])) if reader in self._values else ()
            named += [self._reader(end, index, "") for index in each] or [end]
        return made_node(named, node)

    def _made(self, value: Any, asked: KeyPath) -> Node:
        """A value that follows from the key `asked`."""
        return made_node(value, nearest(self._root, asked)[1])
