"""Where each value of a loaded pipeline came from."""

from __future__ import annotations

from collections.abc import Callable

from workflow.spec.yaml_tree.node import Node, Place, key_path, nearest


class Origins:
    """Answers for one loaded pipeline. Keys are written like `streams.atoms.queue.limit`."""

    def __init__(self, root: Node, written: Callable[[str], str] = str) -> None:
        self._root = root
        self._written = written

    def written(self, key: str) -> str:
        """The key that the user wrote, for one of a stage or a stream that wf added."""
        return self._written(key)

    def of(self, key: str) -> str:
        """`pipeline.yaml:14:9`, `--set ranks…`, `profile post-hoc (pipeline.yaml:31:5)`, or `default`."""
        path = key_path(self._root, key)
        found, node = nearest(self._root, path)
        if found != path or not path:
            return "default"
        where = f"{node.place.source}:{node.place.line}:{node.place.column}" if node.place.line else node.place.source
        return f"{node.layer} ({where})" if node.layer and node.place.line else where

    def layer(self, key: str) -> str:
        """The overlay that sets `key`: `--via`, `--set`, `profile NAME`, or `` for the file and the defaults."""
        path = key_path(self._root, key)
        found, node = nearest(self._root, path)
        return node.layer if found == path and path else ""

    def strength(self, key: str) -> int:
        """Of the overlay that sets `key`: 0 the file and the defaults, 1 a profile, 2 the command line."""
        layer = self.layer(key)
        return 2 if layer.startswith("--") else 1 if layer else 0

    def place(self, key: str) -> tuple[str, int, int]:
        """(source, line, column) of a key's value, or of its nearest parent that was written."""
        path = key_path(self._root, key)
        found, node = nearest(self._root, path)
        place: Place = node.place if found == path or node.key is None else node.key
        return place.source, place.line, place.column
