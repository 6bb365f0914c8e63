"""Where each value of a loaded pipeline came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from workflow.spec.yaml_tree.node import Node, SourcePosition, key_path, nearest


class WrittenKey(NamedTuple):
    """The key that the user wrote, for a key that wf added. `below`: the keys below correspond to each other too."""

    key: str
    below: bool = True


def written_key(key: str, added: Mapping[str, WrittenKey]) -> str:
    """The key that the user wrote, for one of a stage or a stream that wf added; any other key unchanged."""
    ends = [len(key), *(index for index in range(len(key) - 1, 0, -1) if key[index] in ".[")]
    for end in ends if added else ():
        if (found := added.get(key[:end])) is not None:
            # A pipe may belong to a member of an ensemble: both were added.
            return written_key(found.key + (key[end:] if found.below else ""), added)
    return key


class Origins:
    """Answers for one loaded pipeline. Keys are written like `streams.atoms.queue.limit`.

    `added` maps keys that wf added to those that the user wrote.
    """

    def __init__(self, root: Node, added: Mapping[str, WrittenKey] | None = None) -> None:
        self._root = root
        self._added = added or {}

    def with_added(self, added: Mapping[str, WrittenKey]) -> Origins:
        """The origins of the same pipeline with more keys that wf added to it."""
        return Origins(self._root, {**self._added, **added})

    def written(self, key: str) -> str:
        """The key that the user wrote, for a key of a stage or a stream that wf added; any other key unchanged."""
        return written_key(key, self._added)

    def of(self, key: str) -> str:
        """`pipeline.yaml:14:9`, `--set ranks…`, `profile post-hoc (pipeline.yaml:31:5)`, or `default`."""
        path = key_path(self._root, self.written(key))
        found, node = nearest(self._root, path)
        if found != path or not path:
            return "default"
        where = f"{node.place.source}:{node.place.line}:{node.place.column}" if node.place.line else node.place.source
        return (f"{node.layer} ({where})" if node.layer and node.place.line else where) + node.from_parameters

    def from_parameters(self, key: str) -> str:
        """` (from params.n)` where parameters of the pipeline were filled in; empty for any other value."""
        path = key_path(self._root, self.written(key))
        found, node = nearest(self._root, path)
        return node.from_parameters if found == path else ""

    def layer(self, key: str) -> str:
        """The overlay that sets `key`: `--via`, `--set`, `profile NAME`, or `` for the file and the defaults."""
        path = key_path(self._root, self.written(key))
        found, node = nearest(self._root, path)
        return node.layer if found == path and path else ""

    def strength(self, key: str) -> int:
        """Of the overlay that sets `key`: 0 the file and the defaults, 1 a profile, 2 the command line."""
        layer = self.layer(key)
        return 2 if layer.startswith("--") else 1 if layer else 0

    def beside(self, file: str) -> str:
        """A file that the pipeline names relative to itself, as a path from the user's directory."""
        return str(Path(self._root.place.source).parent / file)

    def place(self, key: str) -> tuple[str, int, int]:
        """(source, line, column) of a key's value, or of its nearest parent that was written."""
        path = key_path(self._root, self.written(key))
        found, node = nearest(self._root, path)
        place: SourcePosition = node.place if found == path or node.key is None else node.key
        return place.source, place.line, place.column
