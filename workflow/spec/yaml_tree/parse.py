"""YAML text → a tree of nodes that know their places. The only file that imports yaml.

Built from parser events, not from PyYAML's own objects: that gives every key its place, YAML 1.2 scalars,
and bounds on depth and size before anything is expanded. Anything unclear is refused with its place.
"""

from __future__ import annotations

import functools
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from workflow.errors import Problem, SpecError
from workflow.spec.yaml_tree.node import Node, SourcePosition

# Plain YAML scalars by the core schema of YAML 1.2: `on`, `off`, `yes` and `no` are text.
#
# PyYAML follows YAML 1.1, where `async: off` is false, `1e-3` is text and `12:30` is a number of seconds.
# Source: YAML 1.2.2, section 10.3.2 (https://yaml.org/spec/1.2.2/#1032-tag-resolution).

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NAN = {".nan", ".NaN", ".NAN"}
# Python refuses to read longer ones; no setting of ours has even a fifth of it.
_MAX_DIGITS = 100

CORE_TAGS = {"null": type(None), "bool": bool, "int": int, "float": float, "str": str}


def plain_scalar(text: str) -> bool | int | float | str | None:
    """The value of a scalar written without quotes. Raises ValueError for an integer of more than 100 digits."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if len(text) > _MAX_DIGITS and _INT.fullmatch(text):
        raise ValueError(f"a whole number of {len(text)} digits is too long")
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if infinite := _INFINITE.fullmatch(text):
        return float(f"{infinite[1]}inf")
    return float("nan") if text in _NAN else text


def tagged_scalar(text: str, tag: str) -> bool | int | float | str | None:
    """The value of `!!tag text`. Raises ValueError when the text is no such value."""
    if tag == "str":
        return text
    value = plain_scalar(text)
    if tag == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not CORE_TAGS[tag]:
        raise ValueError(f"{text!r} is no !!{tag}")
    return value


# Far above any pipeline, far below what is slow. An alias counts as what it expands to.
MAX_BYTES = 10_000_000
MAX_NODES = 200_000
MAX_DEPTH = 60

# The hint for a file that is missing or empty, unless its reader has another one.
BEGIN = "`wf init my-first` writes a working pipeline"

_TAG = "tag:yaml.org,2002:"
_UNPRINTABLE: re.Pattern[str] = yaml.reader.Reader.NON_PRINTABLE  # YAML 1.2.2, section 5.1; compiled with yaml
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path, source: str = "", begin: str = BEGIN) -> tuple[Node, bytes]:
    """The file's tree and its bytes.

    `source` is its name in messages (default: `path` as given); `begin` says how to get such a file if there is none.

    Raises:
        SpecError: the file cannot be read, is empty, or is not one YAML mapping of text keys.
    """
    source = source or str(path)
    text = _read(path, source, begin)
    root = _parsed(text, source)
    if root.value is None:
        raise _refusal(SourcePosition(source), "the file is empty", begin)
    if not isinstance(root.value, dict):
        message = "expected `key: value` lines at the top of the file"
        raise _refusal(root.place, message, "begin with `wf: 1`")
    return root, text


class Span(NamedTuple):
    """Where a value stands in its text, by offsets; those of a mapping or list without brackets are of what is in it.
    `column`: of its first character, from 0. An alias stands where its anchor is. `is_marked`: it is an alias, or
    begins with an anchor or a tag."""

    value: dict[str, Span] | list[Span] | str
    start: int
    end: int
    column: int
    is_flow: bool
    is_marked: bool = False

    def child(self, key: str) -> Span | None:
        """The value of a key, if this is a mapping that has it."""
        return self.value.get(key) if isinstance(self.value, dict) else None


def spans(text: str) -> Span | None:
    """The values of a YAML text that `parse_yaml` has read without an error; None for an empty one."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return None if root is None else _span(root, text, set())


def _span(node: Any, text: str, seen: set[int]) -> Span:
    is_marked = id(node) in seen or text.startswith(("&", "!"), node.start_mark.index)
    seen.add(id(node))
    start, end = node.start_mark.index, node.end_mark.index
    value: dict[str, Span] | list[Span] | str = node.value
    inside: list[Span] = []
    if isinstance(node, yaml.MappingNode):
        value = {str(key.value): _span(each, text, seen) for key, each in node.value}
        inside = [*value.values()]
    elif isinstance(node, yaml.SequenceNode):
        value = inside = [_span(each, text, seen) for each in node.value]
    is_flow = bool(getattr(node, "flow_style", False))
    # The end of a block is where the next token begins, behind comments.
    end = max((each.end for each in inside), default=end) if not is_flow and inside else end
    return Span(value, start, end, node.start_mark.column, is_flow, is_marked)


def parse_yaml(text: bytes | str, source: str) -> Node:
    """The tree of one YAML document; a null node for an empty one. Raises SpecError with the place."""
    return _Composer(_decoded(text, source) if isinstance(text, bytes) else text, source).document()


@functools.lru_cache(maxsize=8)
def _parsed(text: bytes, source: str) -> Node:
    """`parse_yaml` of a whole file: the trials of a campaign are all made from one, and trees do not change."""
    return parse_yaml(text, source)


def parse_value(text: str, source: str) -> Node:
    """`parse_yaml` of a value in one line, all of it. Raises SpecError also where YAML takes its end for a comment."""
    value = parse_yaml(text, source)
    ends = (yaml.ScalarEvent, yaml.SequenceEndEvent, yaml.MappingEndEvent)
    events: Iterator[Any] = yaml.parse(text, Loader=_Parser)
    marks = (each.end_mark for each in events if isinstance(each, ends))
    read = max((mark.index for mark in marks if mark is not None), default=0)
    if rest := text[read:].strip():
        hint = "put the value into quotes: `KEY='\"" + text.replace('"', '\\"') + "\"'`"
        raise _refusal(SourcePosition(source), f"`{rest}` would be a comment, and not a part of it", hint)
    return value


def _read(path: Path, source: str, begin: str) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _refusal(SourcePosition(source), *_why_unreadable(path, error, begin)) from None
    except ValueError as error:  # a NUL byte in the path
        raise _refusal(SourcePosition(source), f"cannot be read: {error}", "check the path") from None
    if len(text) > MAX_BYTES:
        raise _refusal(SourcePosition(source), f"larger than {MAX_BYTES // 10**6} MB", "is this the right file?")
    return text


def _why_unreadable(path: Path, error: OSError, begin: str) -> tuple[str, str]:
    if isinstance(error, IsADirectoryError):
        inside = sorted(path.glob("*.yaml"))
        hint = f"did you mean `{inside[0]}`?" if len(inside) == 1 else "name the file in it"
        return "is a directory, not a file", hint
    if isinstance(error, FileNotFoundError):
        from workflow.spec.suggest import nearest_name

        here = {each.stem: each for each in path.parent.glob("*.y*ml")}
        near = nearest_name(path.stem, here)
        return "no such file", begin if near is None else f"did you mean `{here[near]}`?"
    return f"cannot be read: {error.strerror}", "check the path and its permissions"


def _decoded(text: bytes, source: str) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Where the error is counts from behind a byte order mark, which `text` still has.
        before = error.object[: error.start].decode()
        message = f"not UTF-8 text (byte 0x{error.object[error.start]:02x})"
        encoding = "utf-16" if text[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "latin1"
        hint = f"save it as UTF-8, e.g. `iconv -f {encoding} -t utf-8 {source} > utf8.yaml`"
        raise _refusal(_place_after(before, source), message, hint) from None


def _place_after(before: str, source: str) -> SourcePosition:
    return SourcePosition(source, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _refusal(place: SourcePosition, message: str, hint: str) -> SpecError:
    return SpecError([Problem(place.source, place.line, place.column, "", message, hint)])


class _Composer:
    """One document's events → nodes."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.anchors: dict[str, Node | None] = {}
        self.count = 0
        self.events: Iterator[Any] = yaml.parse(text, Loader=_Parser)

    def document(self) -> Node:
        if bad := _UNPRINTABLE.search(self.text):
            name = "a NUL byte" if bad[0] == "\0" else f"a control character (U+{ord(bad[0]):04X})"
            place = _place_after(self.text[: bad.start()], self.source)
            raise _refusal(place, f"{name} in the file", "remove it: YAML is plain text")
        try:
            return self.only_document()
        except yaml.MarkedYAMLError as error:
            refusal = self.syntax_error(error)
        raise refusal

    def only_document(self) -> Node:
        root: Node | None = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    hint = "keep one document: remove this `---` and what follows"
                    raise _refusal(self.place(event), "a second document begins here", hint)
                root = self.node(next(self.events), depth=1)
        return root or Node(None, SourcePosition(self.source, 1, 1))

    def node(self, event: Any, depth: int) -> Node:
        place = self.place(event)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, place, depth)
        self.grow(1, depth, place)
        if event.anchor:
            self.anchors[event.anchor] = None  # an alias inside its own anchor would never end
        if isinstance(event, yaml.ScalarEvent):
            value = self.scalar(event, place)
            node = Node(value, place, text="" if value is None or isinstance(value, str) else event.value)
        elif isinstance(event, yaml.SequenceStartEvent):
            self.check_tag(event, "seq", place)
            node = self.collection(self.items(depth), place)
        else:
            self.check_tag(event, "map", place)
            node = self.collection(self.pairs(depth), place)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def alias(self, event: Any, place: SourcePosition, depth: int) -> Node:
        anchor = event.anchor
        if anchor not in self.anchors:
            message = f"undefined alias `*{anchor}`: there is no `&{anchor}` before it"
            raise _refusal(place, message, "put the value into quotes if it is text")
        target = self.anchors[anchor]
        if target is None:
            raise _refusal(place, f"`*{anchor}` is inside `&{anchor}` itself", "write the value out")
        self.grow(target.size, depth + target.depth - 1, place)
        # Mistakes inside are reported where they are written; the value as a whole has the place of the alias.
        return target._replace(place=place)

    def grow(self, nodes: int, depth: int, place: SourcePosition) -> None:
        """Refuse what would become too big, before it is expanded."""
        self.count += nodes
        if self.count > MAX_NODES:
            raise _refusal(place, f"more than {MAX_NODES} values once all aliases are expanded", "write the values out")
        if depth > MAX_DEPTH:
            raise _refusal(place, f"nested deeper than {MAX_DEPTH} levels", "check the brackets")

    @staticmethod
    def collection(value: dict[str, Node] | list[Node], place: SourcePosition) -> Node:
        inside = list(value.values()) if isinstance(value, dict) else value
        size = 1 + sum(child.size for child in inside)
        return Node(value, place, size=size, depth=1 + max((child.depth for child in inside), default=0))

    def items(self, depth: int) -> list[Node]:
        items = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self.node(event, depth + 1))
        return items

    def pairs(self, depth: int) -> dict[str, Node]:
        pairs: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key, place = self.key(event), self.place(event)
            value_event = next(self.events)
            node = self.node(value_event, depth + 1)
            if key == "<<" and event.implicit[0]:
                merged = {**self.merge_sources(node), **merged}
                continue
            if key in pairs:
                first = pairs[key].key or place
                message = f"duplicate key `{key}` (first at {first.line}:{first.column})"
                raise _refusal(place, message, "keep one of them")
            block = isinstance(value_event, yaml.CollectionStartEvent) and not value_event.flow_style
            start = place if block else node.place
            pairs[key] = node._replace(place=start, key=place)
        return {**merged, **pairs}

    def merge_sources(self, node: Node) -> dict[str, Node]:
        """The keys that `<<: *a` or `<<: [*a, *b]` merges; the first of several takes precedence."""
        sources = node.value if isinstance(node.value, list) else [node]
        merged: dict[str, Node] = {}
        for source in reversed(sources):
            if not isinstance(source.value, dict):
                message = "`<<` takes a mapping or a list of mappings"
                raise _refusal(source.place, message, "write `<<: *name` of an `&name` mapping")
            merged.update(source.value)
        return merged

    def key(self, event: Any) -> str:
        place = self.place(event)
        if not isinstance(event, yaml.ScalarEvent):
            raise _refusal(place, "a key must be text", "put the whole key into quotes")
        self.grow(1, 1, place)
        value = self.scalar(event, place)
        if not isinstance(value, str):
            raise _refusal(place, f"a key must be text, got `{event.value}`", f'write "{event.value}" in quotes')
        return value

    def scalar(self, event: Any, place: SourcePosition) -> Any:
        tag = event.tag or ""
        name = tag.removeprefix(_TAG)
        if tag and tag != "!" and not (tag.startswith(_TAG) and name in CORE_TAGS):
            raise self.refused_tag(tag, place)
        try:
            if tag.startswith(_TAG):
                return tagged_scalar(event.value, name)
            return plain_scalar(event.value) if event.implicit[0] and not tag else event.value
        except ValueError as error:
            message = str(error)
        raise _refusal(place, message, "put it into quotes if it is text")

    def check_tag(self, event: Any, allowed: str, place: SourcePosition) -> None:
        if event.tag not in (None, "!", _TAG + allowed):
            raise self.refused_tag(event.tag, place)

    @staticmethod
    def refused_tag(tag: str, place: SourcePosition) -> SpecError:
        message = f"the tag `{tag.replace(_TAG, '!!')}` is not allowed here"
        return _refusal(place, message, "remove it, or put the value into quotes if it is text")

    def syntax_error(self, error: yaml.MarkedYAMLError) -> SpecError:
        """What the parser says, where it stopped; of a token that does not end, where that began."""
        stopped: Any = error.problem_mark  # both parsers always set it
        began: Any = error.context_mark or stopped
        context = error.context or ""
        line = "".join(self.text.splitlines()[stopped.line : stopped.line + 1])  # it may stop behind the last one
        if "\t" in line[: len(line) - len(line.lstrip())]:
            # The parser says that the character cannot start a token.
            place = SourcePosition(self.source, stopped.line + 1, stopped.column + 1)
            return _refusal(
                place, "a tab is used for indentation; YAML allows only spaces", "replace each tab by spaces"
            )
        mark = began if context.startswith("while scanning") else stopped
        place = SourcePosition(self.source, mark.line + 1, mark.column + 1)
        since = f" that begins at {began.line + 1}:{began.column + 1}" if mark is not began else ""
        message = f"{error.problem}, {context}{since}" if context else str(error.problem)
        hint = "this is not valid YAML: check the indentation, colons, quotes and brackets here and in the line before"
        return _refusal(place, message, hint)

    def place(self, event: Any) -> SourcePosition:
        mark = event.start_mark
        return SourcePosition(self.source, mark.line + 1, mark.column + 1)
