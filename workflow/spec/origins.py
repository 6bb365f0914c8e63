"""Where each value of a loaded pipeline came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from workflow.errors import Problem
from workflow.spec.suggest import listing
from workflow.spec.yaml_tree.node import Node, SourcePosition, key_path, nearest

# What a value of a member adds to a message on it.
_VALUE = re.compile(r"got .* \((?=from [^()]*\bmember\.)")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_FEW = 3


class MemberName(NamedTuple):
    """A member of an ensemble."""

    name: str
    ensemble: str


class WrittenKey(NamedTuple):
    """The key that the user wrote, for a key that wf added. `below`: the keys below correspond to each other too;
    `member`: the one that it belongs to."""

    key: str
    below: bool = True
    member: MemberName | None = None


def _written(key: str, added: Mapping[str, WrittenKey]) -> tuple[str, MemberName | None]:
    """The key that the user wrote, for one of a stage or a stream that wf added, and the member of an ensemble that it
    belongs to; any other key unchanged."""
    ends = [len(key), *(index for index in range(len(key) - 1, 0, -1) if key[index] in ".[")]
    for end in ends if added else ():
        if (found := added.get(key[:end])) is not None:
            # A pipe may belong to a member of an ensemble: both were added.
            written, member = _written(found.key + (key[end:] if found.below else ""), added)
            return written, found.member or member
    return key, None


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
        return _written(key, self._added)[0]

    def as_written(self, problems: Iterable[Problem]) -> list[Problem]:
        """The problems at the keys that the user wrote, each once.

        What differs by the member of an ensemble only is said of the first one, with how many it holds for.
        """
        alike: dict[tuple[str, Problem], list[tuple[Problem, MemberName | None]]] = {}
        for problem in problems:
            key, member = _written(problem.key, self._added)
            found = shape = problem._replace(key=key)
            if member is not None:
                # The hint has the names that can be typed.
                found = found._replace(hint=self._of_any(found.hint))
                shape = found._replace(message=self._of_any(_VALUE.sub("got (", found.message)))
            alike.setdefault((member.ensemble if member else "", shape), []).append((found, member))
        return [self._of_all(found) for found in alike.values()]

    def _of_any(self, text: str) -> str:
        """A text with the names that the user wrote in place of those of members and their streams."""

        def family(word: re.Match[str]) -> str:
            for part in ("stages", "streams"):
                written, member = _written(f"{part}.{word[0]}", self._added)
                if member is not None:
                    return written.split(".")[1]
            return word[0]

        return _WORD.sub(family, text)

    def _of_all(self, found: list[tuple[Problem, MemberName | None]]) -> Problem:
        """One problem in place of those of several members, which are alike."""
        problem, first = found[0]
        if first is None:
            return problem
        names = list(dict.fromkeys(member.name for _, member in found if member is not None))
        total = len({
            each.member.name for each in self._added.values()
            if each.member is not None and each.member.ensemble == first.ensemble
        })  # fmt: skip
        if len(names) == total:
            which = "" if total == 1 else "both members" if total == 2 else f"all {total} members"
        elif len(names) == 1:
            which = "" if first.name in _WORD.findall(problem.message) else first.name
        else:
            which = f"{len(names)} of {total} members: {listing(names, _FEW)}"
        return problem._replace(message=f"{problem.message} ({which})") if which else problem

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
