"""Triggers: `when:` of a stage as a stage that selects steps, and the stream between the two. Pure, on the tree.

It is done when ensembles are expanded, and before the schema is checked: what comes later knows ordinary stages and
streams. Conditions and variables are checked as those of any stage of the component that selects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workflow.errors import Problem
from workflow.spec.ensembles import EnsembleMember, Expanded, PortsOf, made_node, reading_ends, stage_of, taken_over
from workflow.spec.models.ensembles_and_triggers import When
from workflow.spec.origins import WrittenKey
from workflow.spec.references import LONGEST_NAME, section, text_at, written_rule
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.validation_messages import problem_at, validated
from workflow.spec.yaml_tree.node import Node

SELECT = "select"
_INPUT, _OUTPUT = "input", "output"  # its ports
# What the selected steps have in common with the stream that they are selected from.
_ALIKE = ("via", "coupling", "transport", "interface", "strategy", "step_size", "keep")


def expand_triggers(root: Node, members: Mapping[str, EnsembleMember], ports_of: PortsOf) -> Expanded:
    """The pipeline with a stage that selects for each stage with `when:`. One that is wrong is left as it is: where no
    problem says so, the schema check does.

    Args:
        root: the tree without ensembles; members: stage → which member of an ensemble it is.
    """
    expanded = Expanded(root)
    for name, stage in section(root, "stages").items():
        when = stage.child("when")
        if when is None or when.value is None:
            continue
        found, problems = validated(When, when)
        if found is None or problems:
            continue
        trigger = _Trigger(name, stage, when, members.get(name))
        problems = list(trigger.problems(expanded.root))
        if problems:
            expanded.problems += problems
        else:
            trigger.expand(expanded, ports_of)
    return expanded


class _Trigger:
    """One `when:`, which is right by itself."""

    def __init__(self, name: str, stage: Node, when: Node, member: EnsembleMember | None) -> None:
        self._name, self._stage, self._when, self._member = name, stage, when, member
        self._written = str(when.mapping()["stream"].value)
        self._stream = self._written if member is None else member.renamed.get(self._written, self._written)
        # The number of a member stays at the end, so that tables show those of all members in one row.
        self._user_name = name if member is None else member.ensemble
        self._added = f"{self._user_name}-when{name.removeprefix(self._user_name)}"

    def problems(self, root: Node) -> Iterator[Problem]:
        at, streams = ("stages", self._name, "when"), section(root, "streams")
        stream = streams.get(self._stream)
        read = [name for name, each in streams.items() if self._name in map(stage_of, reading_ends(each))]
        if stream is None:
            known = read if self._member is None else [self._written_name(name) for name in read]
            hint = did_you_mean(self._written, known) or f"{self._user_name} reads {listing(known)}"
            text = f"there is no stream `{shortened(self._written)}`"
            yield problem_at(root, (*at, "stream"), text, hint if read else "add one to `streams`")
        elif self._stream not in read:
            text = f"stage {self._user_name} does not read stream {self._written}"
            hint = f"it reads {listing([self._written_name(name) for name in read])}: name one of these" if read else ""
            hint = hint or f"add `to: {self._user_name}` to the stream"
            yield problem_at(root, (*at, "stream"), text, hint)
        for part in ("stages", "streams"):
            if self._added in section(root, part):
                text = f"there is already a {part.removesuffix('s')} `{self._added}`, and wf would add one of that name"
                yield problem_at(root, at, text, f"rename `{self._added}`", at_key=True)
        if len(self._added) > LONGEST_NAME:
            text = f"wf would add a stage `{self._added}`, a name of {len(self._added)} letters"
            hint = f"shorten the name of the stage: {LONGEST_NAME} letters at most"
            yield problem_at(root, at, text, hint, at_key=True)

    def _written_name(self, stream: str) -> str:
        """The name that the user gave to a stream of this member."""
        renamed = {} if self._member is None else self._member.renamed
        return next((name for name, own in renamed.items() if own == stream), stream)

    def expand(self, expanded: Expanded, ports_of: PortsOf) -> None:
        """Put the stage that selects, and its stream, into the tree."""
        root = expanded.root
        stages, streams = root.mapping()["stages"], root.mapping()["streams"]
        stream = streams.mapping()[self._stream]
        plain = {key: child for key, child in self._stage.value.items() if key != "when"}
        parts: dict[str, dict[str, Node]] = {"stages": {}, "streams": {}}
        for name, each in stages.mapping().items():
            if name == self._name:
                parts["stages"][self._added] = self._selecting(stream)
                each = self._stage._replace(value=plain)
            parts["stages"][name] = each
        for name, each in streams.mapping().items():
            if name == self._stream:
                each = self._selected_from(each)
            parts["streams"][name] = each
            if name == self._stream:
                parts["streams"][self._added] = self._selected(stream, ports_of)
        for part, entries in parts.items():
            root = root.with_child(part, root.mapping()[part]._replace(value=entries))
        expanded.root = root
        when, written = f"stages.{self._name}.when", f"streams.{self._stream}"
        expanded.keys |= {
            f"stages.{self._added}": WrittenKey(when, below=False),
            f"stages.{self._added}.with": WrittenKey(when),
            f"streams.{self._added}": WrittenKey(when, below=False),
            f"streams.{self._added}.queue.limit": WrittenKey(f"{written}.queue.limit"),
            **{f"streams.{self._added}.{key}": WrittenKey(f"{written}.{key}") for key in _ALIKE},
        }
        expanded.renamed[self._name] = {**expanded.renamed.get(self._name, {}), self._written: self._added}
        if self._member is not None:
            ensemble = f"{self._user_name}-when"
            expanded.members[self._added] = EnsembleMember(ensemble, self._member.index, {}, {}, self._member.after)

    def _selecting(self, stream: Node) -> Node:
        """The stage that selects. It waits most of the time, beside the stage that it reads from."""
        writer = stage_of(text_at(stream, "from") or "")
        made: dict[str, object] = {"component": SELECT, "place": {"cores_per_rank": 0, "share": writer}}
        if written_rule(self._stage) == "ignore":  # the run goes on without this stage, and so without what it reads
            made["on_failure"] = "ignore"
        given = {key: child for key, child in self._when.mapping().items() if key != "stream"}
        return made_node(made, self._when).with_child("with", self._when._replace(value=given))

    def _selected_from(self, stream: Node) -> Node:
        """The stream with the stage that selects in place of this one."""
        to = stream.mapping()["to"]
        if not isinstance(to.value, list):
            return stream.with_child("to", self._instead(to))
        return stream.with_child("to", to._replace(value=[self._instead(end) for end in to.value]))

    def _instead(self, end: Node) -> Node:
        return end._replace(value=f"{self._added}.{_INPUT}") if stage_of(end.value) == self._name else end

    def _selected(self, stream: Node, ports_of: PortsOf) -> Node:
        """The stream of the selected steps."""
        end = next(end for end in reading_ends(stream) if stage_of(end) == self._name)
        if end == self._name and self._written in ports_of(self._stage, "reads"):
            end = f"{end}.{self._written}"  # the port that has the name of the stream: this one has another
        alike = taken_over(stream, _ALIKE, keep=written_rule(self._stage) == "restart")
        made = made_node({"from": f"{self._added}.{_OUTPUT}", "to": end}, self._when)
        made = made._replace(value={**made.value, **alike})
        queue = stream.child("queue")
        limit = queue.child("limit") if queue is not None else None
        if limit is not None:
            blocking = made_node({"when_full": "block"}, self._when)
            made = made.with_child("queue", blocking.with_child("limit", limit))
        return made
