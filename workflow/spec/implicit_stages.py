"""`async: pipe` and `tap:` as ordinary stages and streams: a rewriting of the pipeline's tree before it is checked.

A stream that a pipe writes keeps its name, its file and its readers; its writer becomes the pipe, and a new stream
joins the simulation to it. A tap becomes a stage. Where it must not slow the others it reads through a relay, a
stage that takes every step at once and offers it to the tap on a stream of its own: the queue's policy of SST is
one for all readers of a stream. What is added stands where the user asked for it, so that messages lead there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from workflow.errors import Problem
from workflow.spec.engine_presets import known_engines
from workflow.spec.models.component import Component
from workflow.spec.models.engine import Engine
from workflow.spec.references import section, text_at
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import KeyPath, Node, Place

Role = Literal["pipe", "relay", "tap"]
RELAY = "relay"  # the component
_OF_THE_STAGE = ("async", "pipe")  # of `output:`; all else is about the files, and goes where they are written
_OF_THE_TAP = ("component", "with", "ranks", "place", "env", "memory")
_OF_THE_STREAM = ("via", "transport", "interface", "step_size")
_ALL_STEPS = {"every": 1, "latest": False}  # of a tap
_LONGEST_NAME = 63


class Known(Protocol):
    """Components and engines by name; None for what there is not."""

    def component(self, name: str) -> Component | None:
        """The component."""

    def engine(self, via: str) -> Engine | None:
        """The engine or preset."""


@dataclass(frozen=True)
class Insertion:
    """A stage that the user asked for without writing it. `asked` is the key that asks for it."""

    role: Role
    stream: str
    asked: str


@dataclass
class Inserted:
    """The tree with what was added, and what is wrong with that."""

    root: Node
    stages: dict[str, Insertion] = field(default_factory=dict)
    streams: dict[str, str] = field(default_factory=dict)  # → the key that asks for it
    renamed: dict[str, dict[str, str]] = field(default_factory=dict)  # stage → stream → what it writes instead
    problems: list[Problem] = field(default_factory=list)

    def written(self, key: str) -> str:
        """The key that the user wrote, for one of a stage or a stream that was added."""
        part, _, rest = key.partition(".")
        name = re.split(r"[.\[]", rest, maxsplit=1)[0]
        found, below = self.stages.get(name) if part == "stages" else None, rest[len(name) :]
        if found is None:
            return self.streams.get(name, key) if part == "streams" else key
        if found.role == "pipe" and below.startswith((".ranks", ".place")):
            return found.asked.removesuffix("async") + "pipe" + below
        if found.role == "pipe" and below.startswith(".output."):
            return found.asked.removesuffix(".output.async") + below
        return found.asked + (below if found.role == "tap" else "")


def insert(root: Node, known: Known) -> Inserted:
    """All pipes and taps of a pipeline written out. What is malformed is left to the check of the schema."""
    done = Inserted(root)
    for name, stage in section(root, "stages").items():
        output = stage.child("output")
        asked = output.child("async") if output is not None else None
        if output is not None and asked is not None and asked.value == "pipe":
            _pipe(name, output, asked.place, known, done)
    for name, stream in section(done.root, "streams").items():
        taps = stream.child("tap")
        if taps is not None and taps.mapping():
            _tap(name, stream, taps, known, done)
    return done


def retold(text: str, renamed: dict[str, str]) -> str:
    """A text of a stage with the placeholders of the streams that it writes under another name now."""
    for old, new in renamed.items():
        text = re.sub(rf"(\$\{{\{{[ \t]*streams\.){re.escape(old)}(?=\.)", rf"\g<1>{new}", text)
    return text


def _pipe(writer: str, output: Node, place: Place, known: Known, done: Inserted) -> None:
    """A pipe for each file stream of a stage; streams from memory to memory need none."""
    at: KeyPath = ("stages", writer, "output", "async")
    names = {}
    for name, stream in section(done.root, "streams").items():
        start, engine = text_at(stream, "from") or "", _engine(stream, known)
        if start.partition(".")[0] == writer and engine is not None and engine.kind == "file":
            if engine.engine == "file":
                hint = "use `via: bp5`, or remove `async: pipe`"
                message = f"a pipe takes steps, but stream {name} only hands over a file"
                done.problems.append(problem_at(done.root, at, message, hint))
            elif _is_free(new := f"{name}-pipe", at, done):
                names[name] = new
    moved = {key: node for key, node in output.mapping().items() if key not in _OF_THE_STAGE}
    given = output.child("pipe") or _node({}, place)
    for name, new in names.items():
        stream = section(done.root, "streams")[name]
        parts = _node({"component": RELAY, "place": {"cores_per_rank": 0}}, place).mapping()
        parts["output"] = replace(output, value=moved)
        for key, child in given.mapping().items():
            both = key in parts and isinstance(child.value, dict)
            parts[key] = replace(child, value={**parts[key].mapping(), **child.mapping()}) if both else child
        _add(done, "stages", new, Node(parts, place, place), after=writer)
        start = _with_port(text_at(stream, "from") or "", name, done.root, known)
        joined = _node({"from": start, "to": new, "via": "sst"}, place)
        size = stream.child("step_size")
        _add(done, "streams", new, joined if size is None else joined.with_child("step_size", size), before=name)
        _set(done, "streams", name, stream.with_child("from", _node(new, place)))
        done.stages[new] = Insertion("pipe", name, f"stages.{writer}.output.async")
        done.streams[new] = done.stages[new].asked
    if names:
        done.renamed[writer] = names
        _set(done, "stages", writer, _retold(section(done.root, "stages")[writer], names))


def _tap(name: str, stream: Node, taps: Node, known: Known, done: Inserted) -> None:
    """The taps of one stream as stages; those that must not slow it behind one relay."""
    engine = _engine(stream, known)
    on_file = engine is not None and engine.kind == "file"
    relayed: list[tuple[str, Node]] = []
    readers = _as_list(stream.child("to") or taps)
    for tap, node in taps.mapping().items():
        at: KeyPath = ("streams", name, "tap", tap)
        if not isinstance(node.value, dict) or not _is_free(tap, at, done, of_user=True):
            continue
        parts = {key: child for key, child in node.mapping().items() if key in _OF_THE_TAP}
        _add(done, "stages", tap, replace(node, value=parts))
        done.stages[tap] = Insertion("tap", name, f"streams.{name}.tap.{tap}")
        if _as_is(node) and (on_file or _when_full(node, "discard") == "block"):
            readers.append(_node(tap, node.key or node.place))
        else:
            relayed.append((tap, node))
    relay, at = f"{name}-relay", ("streams", name, "tap")
    if relayed and _is_free(relay, at, done):
        place = taps.key or taps.place
        readers.append(_node(relay, place))
        every = [each.child("every") or _node(1, place) for _, each in relayed]
        parts = _node({"component": RELAY, "place": {"cores_per_rank": 0}}, place).mapping()
        parts["with"] = Node({"every": Node(every, place, place)}, place, place)
        _add(done, "stages", relay, Node(parts, place, place))
        done.stages[relay] = Insertion("relay", name, f"streams.{name}.tap")
        for tap, node in relayed:
            # Before the tapped stream, as all open SST streams in this order: a tap that starts slowly is waited for
            # in the rendezvous, where the simulation still waits too, and not when it has steps to hand over.
            _add(done, "streams", tap, _own_stream(relay, tap, node, stream, engine), before=name)
            done.streams[tap] = f"streams.{name}.tap.{tap}"
    _set(done, "streams", name, stream.with_child("to", Node(readers, *_where(stream, taps))))


def _own_stream(relay: str, tap: str, node: Node, stream: Node, engine: Engine | None) -> Node:
    """From the relay to one tap: as the tapped stream goes, with the tap's own queue."""
    place, on_file = node.key or node.place, engine is not None and engine.kind == "file"
    parts = _node({"from": relay, "to": tap}, place).mapping()
    # Not by SSC, whose writer waits for its readers: by SST then.
    if not on_file and (engine is None or engine.engine != "SSC"):
        parts |= {key: child for key in _OF_THE_STREAM if (child := stream.child(key)) is not None}
    # With room for one step, the one that the tap is at, SST drops all that come meanwhile: the next is a new one.
    latest = (node.child("latest") or _node(False, place)).value is True
    # Of a file nothing need be lost: only the relay waits for the tap.
    queue = _node({"when_full": "discard" if latest or not on_file else "block"}, place).mapping()
    queue |= _node({"limit": 1}, place).mapping() if latest else (node.child("queue") or _node({}, place)).mapping()
    return Node(parts | {"queue": Node(queue, place, place)}, place, place)


def _as_is(tap: Node) -> bool:
    """Whether it gets every step."""
    return all((child := tap.child(key)) is None or child.value == plain for key, plain in _ALL_STEPS.items())


def _when_full(tap: Node, otherwise: str) -> str:
    queue = tap.child("queue")
    return (text_at(queue, "when_full") if queue is not None else None) or otherwise


def _engine(stream: Node, known: Known) -> Engine | None:
    given = stream.child("via")
    via = "sst" if given is None else given.value
    return known.engine(via) if via in known_engines() else None


def _with_port(end: str, stream: str, root: Node, known: Known) -> str:
    """The port too, where the stream found it by its name."""
    stage = section(root, "stages").get(end)
    if stage is None:
        return end
    named = text_at(stage, "component")
    component = known.component(named) if named is not None else None
    own = stage.child("writes")
    ports = component.writes if component is not None else own.mapping() if own is not None else {}
    return f"{end}.{stream}" if stream in ports else end


def _is_free(name: str, at: KeyPath, done: Inserted, of_user: bool = False) -> bool:
    """Whether the name can be given to a stage and a stream; else that is a problem."""
    taken = next((part for part in ("stages", "streams") if name in section(done.root, part)), None)
    if taken is not None:
        one = taken.removesuffix("s")
        message = f"there is already a {one} `{name}`" + ("" if of_user else f", and wf would add a {one} of that name")
        hint = "a tap becomes a stage: give it another name" if of_user else f"rename the {one} `{name}`"
        done.problems.append(problem_at(done.root, at, message, hint, at_key=of_user))
    elif len(name) > _LONGEST_NAME:
        message = f"wf would add a stage `{name}`, a name of {len(name)} letters"
        hint = f"give the stream a shorter name: {_LONGEST_NAME} letters at most"
        done.problems.append(problem_at(done.root, at, message, hint))
    else:
        return True
    return False


def _retold(node: Node, renamed: dict[str, str]) -> Node:
    """The same tree with the placeholders of other streams."""
    if isinstance(node.value, dict):
        return replace(node, value={key: _retold(child, renamed) for key, child in node.value.items()})
    if isinstance(node.value, list):
        return replace(node, value=[_retold(child, renamed) for child in node.value])
    return replace(node, value=retold(node.value, renamed)) if isinstance(node.value, str) else node


def _as_list(to: Node) -> list[Node]:
    return list(to.value) if isinstance(to.value, list) else [] if isinstance(to.value, dict) else [to]


def _where(stream: Node, otherwise: Node) -> tuple[Place, Place | None]:
    to = stream.child("to") or otherwise
    return to.place, to.key


def _node(value: Any, place: Place) -> Node:
    """A value that stands where it was asked for."""
    if isinstance(value, dict):
        value = {key: _node(child, place) for key, child in value.items()}
    return Node(value, place, place)


def _add(done: Inserted, part: str, name: str, node: Node, *, after: str = "", before: str = "") -> None:
    """Puts a stage or a stream into the tree, beside another one or at the end."""
    here = done.root.child(part) or Node({}, node.place)
    known = list(here.mapping())
    index = known.index(after) + 1 if after else known.index(before) if before else len(known)
    items = list(here.mapping().items())
    items.insert(index, (name, node))
    done.root = done.root.with_child(part, replace(here, value=dict(items)))


def _set(done: Inserted, part: str, name: str, node: Node) -> None:
    here = done.root.child(part)
    if here is not None:
        done.root = done.root.with_child(part, here.with_child(name, node))
