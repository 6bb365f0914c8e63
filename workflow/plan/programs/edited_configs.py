"""A config file of ADIOS2 that the user wrote, with the engines that wf has chosen.

Only the engine of each IO that is coupled is replaced, and the operators of `output.compression` are added. All else
stays as it is, to the letter: other IOs, transports, operators, queries, comments. The formats: adiosXML.cpp and
adiosYAML.cpp of ADIOS2 2.12.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from workflow.errors import SpecError
from workflow.plan.plan_model import EndPlan, OperatorPlan
from workflow.spec.suggest import nearest_name
from workflow.spec.yaml_tree.parse import Span, parse_yaml, spans


class EditedConfig(NamedTuple):
    """The text for the program, and what is other than in the user's file: `io Out: engine BP4 → SST`."""

    text: str
    changes: list[str]


class ConfigError(Exception):
    """Why a file cannot be edited. `offset`: in its text; None: of no place. `end`: the one that it does not know."""

    def __init__(self, message: str, hint: str, offset: int | None = None, end: EndPlan | None = None) -> None:
        super().__init__(message)
        self.hint, self.offset, self.end = hint, offset, end


class Edit(NamedTuple):
    """Text that takes the place of what stands between two offsets."""

    start: int
    end: int
    text: str


def _applied(text: str, edits: Iterable[Edit]) -> str:
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _engine_changes(end: EndPlan, kind: str, parameters: Mapping[str, str]) -> list[str]:
    """What is other than in the file, which names this engine with these parameters."""
    before = {key.lower(): value for key, value in parameters.items()}
    wanted = {key.lower() for key in end.parameters}
    found = [f"engine {kind or 'none'} → {end.engine}"] if kind.lower() != end.engine.lower() else []
    for key, value in end.parameters.items():
        old = before.get(key.lower())
        if old != value:
            found.append(f"{key}={value}" if old is None else f"{key} {old} → {value}")
    found += [f"{key}={value} is left out" for key, value in parameters.items() if key.lower() not in wanted]
    return [f"io {end.io}: {each}" for each in found]


def _added_changes(end: EndPlan) -> list[str]:
    return [f"io {end.io}: added", *_engine_changes(end, "", {})]


def _check_known(end: EndPlan, names: Sequence[str], example: str) -> None:
    """An IO that the file does not have is added to it, unless it is likely to be meant by one that is there."""
    if near := nearest_name(end.io, names):
        raise ConfigError(
            f"has no IO `{end.io}`", f"did you mean `{near}`? If both are meant, add {example} to it", end=end
        )


def _twice(end: EndPlan, variable: str, offset: int) -> ConfigError:
    text = f"the operators of `{variable}` in IO {end.io} are set here, and by `output.compression` of the stage"
    return ConfigError(text, "remove one of the two", offset)


# XML


@dataclass
class _Element:
    """An element by its offsets: of its first `<`, behind its start tag, of its end tag, behind it."""

    name: str
    attributes: Mapping[str, str]
    start: int
    inside: int
    inner_end: int = 0
    end: int = 0
    children: list[_Element] = field(default_factory=list)

    def named(self, name: str) -> list[_Element]:
        return [each for each in self.children if each.name == name]


_TAG_END = re.compile(r"""(?:[^"'>]|"[^"]*"|'[^']*')*>""")


def edited_xml(text: str, ends: Sequence[EndPlan]) -> EditedConfig:
    """An `adios2.xml` of the user. Raises ConfigError."""
    root = _elements(text)
    if root.name != "adios-config":
        raise ConfigError(f"`<{root.name}>` is no config of ADIOS2", "it begins with `<adios-config>`", root.start)
    edits, changes = list[Edit](), list[str]()
    names = [each.attributes.get("name", "") for each in root.named("io")]
    for end in ends:
        ios = [each for each in root.named("io") if each.attributes.get("name") == end.io]
        if not ios:
            _check_known(end, names, f"`<io name={_quoted(end.io)}/>`")
            added = f"  <io name={_quoted(end.io)}>\n{_xml_engine(end, '    ')}{_xml_operators(end, '    ')}\n  </io>\n"
            edits.append(_inside_xml(text, root, added))
            changes += _added_changes(end)
        for io in ios:
            _edit_io(text, io, end, edits, changes)
    return EditedConfig(_applied(text, edits), changes)


def _edit_io(text: str, io: _Element, end: EndPlan, edits: list[Edit], changes: list[str]) -> None:
    engines, indent = io.named("engine"), _indent(text, io.start) + "  "
    kind = engines[0].attributes.get("type", "") if engines else ""
    given = {
        each.attributes.get("key", ""): each.attributes.get("value", "")
        for engine in engines for each in engine.named("parameter")
    }  # fmt: skip
    found = _engine_changes(end, kind, given)
    added = ""
    if engines and found:
        indent = _indent(text, engines[0].start)
        edits.append(Edit(engines[0].start, engines[0].end, _xml_engine(end, indent).lstrip()))
        edits += [Edit(each.start, each.end, "") for each in engines[1:]]  # ADIOS2 takes one
    elif not engines:
        added = _xml_engine(end, indent)
    for name, operator in end.operators.items():
        if known := [each for each in io.named("variable") if each.attributes.get("name") == name]:
            if not known[0].named("operation"):
                raise ConfigError(f"variable `{name}` has no operation", "remove it", known[0].start)
            raise _twice(end, name, known[0].start)
        found.append(f"io {end.io}: variable {name}: {operator.type}")
    if more := added + _xml_operators(end, indent):
        at = engines[-1].end if engines else io.inside
        edits.append(Edit(at, at, f"\n{more.lstrip(chr(10))}") if engines or io.end != io.inside
                     else _inside_xml(text, io, more + "\n" + _indent(text, io.start)))  # fmt: skip
    changes += found


def _inside_xml(text: str, element: _Element, added: str) -> Edit:
    """What adds this text at the end of an element, also of one without an end tag, `<io name="x"/>`."""
    if element.end != element.inside:
        line = text.rfind("\n", 0, element.inner_end) + 1
        at = line if not text[line : element.inner_end].strip() else element.inner_end
        return Edit(at, at, added)
    return Edit(element.inside - 2, element.inside, f">\n{added}</{element.name}>")


def _xml_engine(end: EndPlan, indent: str) -> str:
    lines = [f"<engine type={_quoted(end.engine)}>"]
    lines += [f"  <parameter key={_quoted(key)} value={_quoted(value)}/>" for key, value in end.parameters.items()]
    return "\n".join(indent + line for line in [*lines, "</engine>"])


def _xml_operators(end: EndPlan, indent: str) -> str:
    return "".join("\n" + "\n".join(indent + line for line in xml_operator(*each)) for each in end.operators.items())


def xml_operator(variable: str, operator: OperatorPlan) -> list[str]:
    """The lines that apply an operator to a variable."""
    parameters = [
        f"    <parameter key={_quoted(key)} value={_quoted(value)}/>" for key, value in operator.parameters.items()
    ]
    return [
        f"<variable name={_quoted(variable)}>", f"  <operation type={_quoted(operator.type)}>", *parameters,
        "  </operation>", "</variable>",
    ]  # fmt: skip


def _quoted(text: str) -> str:
    from xml.sax.saxutils import quoteattr  # here, as it loads the network's modules; most plans have no XML

    return quoteattr(text)


def _indent(text: str, offset: int) -> str:
    """The spaces before an element that begins its line; empty before another one."""
    before = text[text.rfind("\n", 0, offset) + 1 : offset]
    return before if not before.strip() else ""


def _elements(text: str) -> _Element:
    """The root of an XML text. Raises ConfigError."""
    from xml.parsers import expat

    data = text.encode()
    parser = expat.ParserCreate("utf-8")
    top = _Element("", {}, 0, 0)
    open_ = [top]

    def at() -> int:
        index: int = parser.CurrentByteIndex
        return index if len(data) == len(text) else len(data[:index].decode())

    def begin(name: str, attributes: dict[str, str]) -> None:
        tag = _TAG_END.match(text, start := at())
        found = _Element(name, attributes, start, tag.end() if tag else start)
        open_[-1].children.append(found)
        open_.append(found)

    def finish(_: str) -> None:
        found = open_.pop()
        is_empty = text.startswith("/>", found.inside - 2)
        found.inner_end = found.inside if is_empty else at()
        found.end = found.inside if is_empty else text.index(">", found.inner_end) + 1

    def refuse(*_: object) -> None:
        raise ConfigError("it has a document type, whose entities wf does not follow", "remove `<!DOCTYPE …>`", at())

    parser.StartElementHandler, parser.EndElementHandler = begin, finish
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        lines = text.splitlines(keepends=True)
        offset = sum(map(len, lines[: error.lineno - 1])) + error.offset
        raise ConfigError(f"not well-formed XML: {expat.ErrorString(error.code)}", "check its tags", offset) from None
    return top.children[0]


# YAML


def edited_yaml(text: str, ends: Sequence[EndPlan]) -> EditedConfig:
    """An `adios2.yaml` of the user. Raises ConfigError."""
    try:
        parse_yaml(text, "")
    except SpecError as error:
        first = error.problems[0]
        offset = sum(map(len, text.splitlines(keepends=True)[: first.line - 1])) + first.column - 1
        raise ConfigError(first.message, first.hint, offset) from None
    root = spans(text)
    items = root.value if root is not None and root.start != root.end else []
    if not isinstance(items, list) or any(not isinstance(each.value, dict) for each in items):
        raise ConfigError("this is no config of ADIOS2", "it is a list: `- IO: NAME`", 0)
    edits, changes = list[Edit](), list[str]()
    by_name = [(_text(each, "IO"), each) for each in items]
    for end in ends:
        ios = [each for name, each in by_name if name == end.io]
        if not ios:
            _check_known(end, [name for name, _ in by_name], f"`- IO: {json.dumps(end.io)}`")
            edits.append(_added_item(text, root, end))
            changes += _added_changes(end)
        for io in ios:
            _edit_item(text, io, end, edits, changes)
    return EditedConfig(_applied(text, edits), changes)


def _edit_item(text: str, io: Span, end: EndPlan, edits: list[Edit], changes: list[str]) -> None:
    engine = io.child("Engine")
    inside = engine.value if engine is not None and isinstance(engine.value, dict) else {}
    given = {key: each.value for key, each in inside.items() if isinstance(each.value, str)}
    found = _engine_changes(end, given.pop("Type", ""), given)
    if engine is None:
        edits.append(_before(io, f"Engine: {_yaml_engine(end)}"))
    elif found:
        edits.append(_instead(text, engine, _yaml_engine(end), f"the engine of IO {end.io}"))
    variables = io.child("Variables")
    listed = variables.value if variables is not None and isinstance(variables.value, list) else []
    for name, operator in end.operators.items():
        if known := next((each for each in listed if _text(each, "Variable") == name), None):
            raise _twice(end, name, known.start)
        found.append(f"io {end.io}: variable {name}: {operator.type}")
    written = [_yaml_operator(*each) for each in end.operators.items()]
    if written and variables is None:
        edits.append(_before(io, f"Variables: [{', '.join(written)}]"))
    elif written and variables is not None and isinstance(variables.value, str):
        edits.append(_instead(text, variables, f"[{', '.join(written)}]", f"the variables of IO {end.io}"))
    elif written and variables is not None:
        _check_unmarked(f"the variables of IO {end.io}", variables)
        column = variables.start - text.rfind("\n", 0, variables.start) - 1
        lines = "".join(f"{each}, " if variables.is_flow else f"- {each}\n{' ' * column}" for each in written)
        at = variables.start + variables.is_flow
        edits.append(Edit(at, at, lines))
    changes += found


def _check_unmarked(what: str, *spans: Span) -> None:
    """What is shared by an anchor would be changed for others, too, or lost to them. Raises ConfigError."""
    for span in spans:
        if span.is_marked:
            text = f"{what}: wf does not edit what is an alias, or has an anchor or a tag"
            raise ConfigError(text, "write it out where it is used, without `*`, `&` and `!`", span.start)


def _instead(text: str, span: Span, new: str, what: str) -> Edit:
    """What replaces a value, also one that is not there: `Engine:`, and in brackets `Engine`."""
    _check_unmarked(what, span, *(span.value.values() if isinstance(span.value, dict) else ()))
    colon = "" if span.start != span.end else " " if text[: span.start].endswith(":") else ": "
    return Edit(span.start, span.end, colon + new)


def _before(mapping: Span, entry: str) -> Edit:
    """What adds an entry at the begin of the mapping of an IO."""
    _check_unmarked(f"IO {_text(mapping, 'IO')}", mapping)
    at = mapping.start + mapping.is_flow
    return Edit(at, at, f"{entry}, " if mapping.is_flow else f"{entry}\n{' ' * mapping.column}")


def _added_item(text: str, root: Span | None, end: EndPlan) -> Edit:
    operators = ", ".join(_yaml_operator(*each) for each in end.operators.items())
    item = f"{{IO: {json.dumps(end.io)}, Engine: {_yaml_engine(end)}"
    item += f", Variables: [{operators}]}}" if operators else "}"
    if root is None or root.start == root.end:  # behind what is there, but before the end of the document, `...`
        at = len(text) if root is None else root.start
        return Edit(at, at, f"\n- {item}\n")
    _check_unmarked("the list of IOs", root)
    if root.is_flow:
        return Edit(root.start + 1, root.start + 1, f"{item}, ")
    return Edit(root.start, root.start, f"- {item}\n{' ' * root.column}")


def _yaml_engine(end: EndPlan) -> str:
    return _flow([("Type", end.engine), *end.parameters.items()])


def _yaml_operator(variable: str, operator: OperatorPlan) -> str:
    operation = _flow([("Type", operator.type), *operator.parameters.items()])
    return f"{{Variable: {json.dumps(variable)}, Operations: [{operation}]}}"


def _flow(entries: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in entries) + "}"


def _text(item: Span, key: str) -> str:
    found = item.child(key)
    return found.value if found is not None and isinstance(found.value, str) else ""


EDITORS: dict[str, Callable[[str, Sequence[EndPlan]], EditedConfig]] = {
    "adios2.xml": edited_xml,
    "adios2.yaml": edited_yaml,
}
"""By dialect."""
