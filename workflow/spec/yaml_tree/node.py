"""A YAML value that remembers where it was written. Overlays combine these trees, so places survive them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

KeyPath = tuple[str | int, ...]


class SourcePosition(NamedTuple):
    """Where something was written; lines and columns count from 1 and are 0 where there are none (`--set`)."""

    source: str
    line: int = 0
    column: int = 0


class Node(NamedTuple):
    """A scalar, a mapping of nodes or a list of nodes.

    `place` is the value's own place, or that of its key for a mapping or list that begins on the next line
    (users look for `stages.md` at its key, not at the first key inside it). `layer` names the overlay of the value;
    it is empty for the file itself. `parameters` names those of the pipeline that the value was made of: `params.n`.
    `text` is how a number, true or false was written, for where a text is meant: `1.10`, `007`.
    """

    value: Any
    place: SourcePosition
    key: SourcePosition | None = None
    layer: str = ""
    size: int = 1
    depth: int = 1
    parameters: tuple[str, ...] = ()
    text: str = ""

    @property
    def from_parameters(self) -> str:
        """` (from params.n)` for messages on the value; empty where no parameter was filled in."""
        return f" (from {', '.join(self.parameters)})" if self.parameters else ""

    @property
    def children(self) -> Mapping[str | int, Node]:
        """The nodes inside by key or index; empty for a scalar."""
        if isinstance(self.value, dict):
            return self.value
        return dict(enumerate(self.value)) if isinstance(self.value, list) else {}

    def mapping(self) -> dict[str, Node]:
        """The nodes inside by key; empty when this is not a mapping (the schema check reports it)."""
        return self.value if isinstance(self.value, dict) else {}

    def child(self, key: str) -> Node | None:
        """The node below a key, if there is one."""
        return self.mapping().get(key)

    def with_child(self, key: str, node: Node) -> Node:
        """This mapping with one child added, or replaced at its old position."""
        return self._replace(value={**self.mapping(), key: node})


def plain(node: Node) -> Any:
    """The value without its places. Nothing inside is shared, not even where YAML aliases were."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def as_written(node: Node) -> str:
    """The value in one line of YAML, its numbers as they were written."""
    if isinstance(node.value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {as_written(child)}" for key, child in node.value.items()) + "}"
    if isinstance(node.value, list):
        return "[" + ", ".join(as_written(child) for child in node.value) + "]"
    return node.text or json.dumps(node.value, ensure_ascii=False, default=str)


def nearest(root: Node, path: KeyPath) -> tuple[KeyPath, Node]:
    """The node at `path`, or else its nearest parent, with the path of what was found."""
    node = root
    for depth, key in enumerate(path):
        if key not in node.children:
            return path[:depth], node
        node = node.children[key]
    return path, node


def relabelled(node: Node, layer: str, place: SourcePosition | None = None) -> Node:
    """The same tree as part of an overlay; with `place`, all of it has that place."""
    value = node.value
    if isinstance(value, dict):
        value = {key: relabelled(child, layer, place) for key, child in value.items()}
    elif isinstance(value, list):
        value = [relabelled(child, layer, place) for child in value]
    return node._replace(value=value, layer=layer, place=place or node.place, key=place or node.key)


def key_text(path: KeyPath) -> str:
    """`('streams', 'a', 'to', 1)` → `streams.a.to[1]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def key_path(root: Node, text: str) -> KeyPath:
    """The path of a key's text. Keys that contain dots (file names) are found in `root`."""
    path: list[str | int] = []
    node: Node | None = root
    rest = text
    while rest:
        step, rest = _first_step(rest, node)
        path.append(step)
        node = node.children.get(step) if node is not None else None
    return tuple(path)


def _first_step(rest: str, node: Node | None) -> tuple[str | int, str]:
    """(the key or index that `rest` begins with, what comes after it)"""
    if rest.startswith("[") and (index := rest[1 : rest.find("]")]).isdigit():
        return int(index), rest[len(index) + 2 :].removeprefix(".")
    ends = [match.start() for match in re.finditer(r"(?!^)[.\[]", rest)] + [len(rest)]
    known = node.mapping() if node is not None else {}
    end = max((end for end in ends if rest[:end] in known), default=ends[0])
    step, after = rest[:end], rest[end:].removeprefix(".")
    in_list = node is not None and isinstance(node.value, list) and step.isdigit()
    return int(step) if in_list else step, after


def walk(node: Node, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Node]]:
    """Every node of the tree with its path, parents first."""
    yield path, node
    for key, child in node.children.items():
        yield from walk(child, (*path, key))
