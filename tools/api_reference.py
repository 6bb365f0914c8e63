"""The reference of what programs and scripts import, as Markdown: signatures and docstrings, for tools/reference.py.

Docstrings are Markdown with Google's sections `Args:` and `Raises:`. Sphinx's autodoc would fill these pages only in
the site; on a code host they would be empty.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

LINE = 100
SECTIONS = {"Args:": "Arguments", "Raises:": "Raises", "Returns:": "Returns"}
# Of tuples; and what only the reader, the step and the window call.
NOT_CALLED = ("count", "index", "finish", "break_step", "steps_begun", "carry")
Documented = Sequence[tuple[str, Sequence[tuple[str, Any]]]]


def api_page(title: str, made: str, introduction: str, groups: Documented) -> str:
    """A page of groups of functions and classes, each a name as callers write it and the object."""
    anchors = {}
    for _, objects in groups:
        for name, each in objects:
            anchors[name] = anchor(name)
            for method, _ in methods(each) if inspect.isclass(each) else ():
                anchors[f"{name}.{method}"] = anchor(f"{name}.{method}")
    lines = [f"# {title}", made, introduction]
    for caption, objects in groups:
        lines += [f"## {caption}", ""]
        for name, each in objects:
            lines += entry("###", name, each, anchors)
    return "\n".join(lines)


def entry(level: str, name: str, each: Any, anchors: dict[str, str]) -> list[str]:
    """The heading, the signature and the docstring of one object; of a class those of its methods, too."""
    lines = [f"{level} {name}", ""]
    if shown := signature(name, each):
        lines += ["```text", shown, "```", ""]
    lines += [linked(to_markdown(inspect.getdoc(each) or ""), anchors, name, own_names(name, each)), ""]
    for method, function in methods(each) if inspect.isclass(each) else ():
        lines += entry(level + "#", f"{name}.{method}", function, anchors)
    return lines


def methods(of: type) -> list[tuple[str, Any]]:
    """The public methods and properties of a class that have a docstring, in the order of the source."""
    return [
        (name, each)
        for name, each in vars(of).items()
        if not name.startswith("_") and name not in NOT_CALLED and inspect.getdoc(each) and _is_documented(each)
    ]


def _is_documented(each: Any) -> bool:
    return inspect.isfunction(each) or isinstance(each, property)


def signature(name: str, each: Any) -> str:
    """How it is called, on one line or with a line for each parameter; "" where nobody calls it."""
    if isinstance(each, property) or (inspect.isclass(each) and not hasattr(each, "_fields")):
        return ""
    found = inspect.signature(each)
    parameters: list[str] = []
    keywords_begin = False
    for parameter in found.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords_begin:
            parameters.append("*")
            keywords_begin = True
        shown = parameter.replace(annotation=_Written(parameter.annotation))
        if inspect.isroutine(parameter.default):
            shown = shown.replace(default=_Written(parameter.default.__name__))
        parameters.append(str(shown))
    returns = "" if inspect.isclass(each) else f" -> {_Written(found.return_annotation)!r}"
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= LINE:
        return line
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){returns}"])


def own_names(name: str, each: Any) -> set[str]:
    """What a word in backquotes means first in the text of an object: its parameters or fields, and itself."""
    called = inspect.isfunction(each) or hasattr(each, "_fields")
    return {name.rpartition(".")[2], *(inspect.signature(each).parameters if called else ())}


class _Written:
    """An annotation or a default as it is written in the source."""

    def __init__(self, annotation: Any) -> None:
        self._text = annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else str(annotation)

    def __repr__(self) -> str:
        return self._text


def to_markdown(docstring: str) -> str:
    """A docstring as Markdown: its sections as lists, its examples as blocks of code."""
    paragraphs = re.split(r"\n\s*\n", docstring)
    return "\n\n".join(_paragraph(each) for each in _joined(paragraphs))


def _joined(paragraphs: Iterable[str]) -> list[str]:
    """Indented paragraphs that follow each other are one block."""
    joined: list[str] = []
    for each in paragraphs:
        if joined and each.startswith("    ") and joined[-1].startswith("    "):
            joined[-1] += f"\n\n{each}"
        else:
            joined.append(each)
    return joined


def _paragraph(text: str) -> str:
    first, _, rest = text.partition("\n")
    if first in SECTIONS:
        return f"{SECTIONS[first]}:\n\n" + "\n".join(_items(rest))
    if first.startswith(">>> "):
        return _code(re.sub(r"^(>>>|\.\.\.) ?", "", text, flags=re.MULTILINE))
    if first.startswith("    "):
        return _code(inspect.cleandoc(text))
    return text


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _items(section: str) -> list[str]:
    """`name: meaning` each, which may go on in lines that are indented further."""
    items: list[str] = []
    for line in section.splitlines():
        if re.match(r"    \S", line):
            name, _, meaning = line.strip().partition(": ")
            items.append(f"- `{name}`: {meaning}")
        else:
            items[-1] += f" {line.strip()}"
    return items


def linked(text: str, anchors: dict[str, str], within: str, own: set[str]) -> str:
    """The text with links from names in backquotes to their headings; not in code, and not of its `own` names."""
    owner = within.partition(".")[0]

    def to_link(match: re.Match[str]) -> str:
        name = match[1]
        target = None if name in own else anchors.get(f"{owner}.{name}") or anchors.get(name)
        return f"[`{name}`](#{target})" if target else match[0]

    blocks = re.split(r"(```.*?```)", text, flags=re.DOTALL)
    return "".join(
        block if block.startswith("```") else re.sub(r"(?<!\[)`([A-Za-z_.]+)`", to_link, block) for block in blocks
    )


def anchor(heading: str) -> str:
    """The anchor that code hosts and the site make of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def named(home: Any, *names: str, prefix: str = "") -> list[tuple[str, Callable[..., Any] | type]]:
    """Objects of a module with the names by which callers know them."""
    return [(prefix + name, getattr(home, name)) for name in names]


PYTHON_RULES = """[Use `wf` from a notebook or a script](../how-to/notebook.md) begins with examples. All of these are
in `workflow`, but for those whose heading names another module.
The fields of a report are [those of report.json](report.md), those of other results are on [JSON output](json.md)."""
STAGE_RULES = """[Write your own component](../how-to/own-component.md) begins with a program that runs. In
signatures `Array` is any NumPy array; `Shape` is a tuple of whole numbers, in elements per axis, slowest axis first."""


def python_page(made: str) -> str:
    """What notebooks and scripts call."""
    import workflow
    from workflow import errors, testing

    groups = [
        ("Pipelines and plans", named(
            workflow, "load_pipeline", "load_replay", "Loaded", "make_plan", "notes_on",
            "forecast_plan",
        )),
        ("Runs", named(workflow, "run_pipeline", "create_run", "start_run", "detach_run", "read_report")),
        ("Joining a run", named(workflow, "attach", "Attachment")),
        ("Tables of pandas", named(workflow, "report_tables", "steps_table")),
        ("Campaigns", named(
            workflow, "plan_campaign", "run_campaign", "detach_campaign", "campaign_status", "report_campaign",
            "compare_campaigns", "gate_campaign", "GateVersion",
        )),
        ("Archives, and what they hold", named(workflow, "archive_run", "archive_campaign", "look_at")),
        ("Calibration", named(workflow, "keep_measurements")),
        ("Tests of one stage, of `workflow.testing`", named(
            testing, "run_component", "ComponentResult", "StepData", "ComponentRunFailed",
        )),
        ("Errors, of `workflow.errors`", named(errors, "WfError", "SpecError", "RunError", "Problem")),
    ]  # fmt: skip
    introduction = f"{to_markdown(inspect.getdoc(workflow) or '')}\n\n{PYTHON_RULES}\n"
    return api_page("`workflow`: the Python API, for notebooks and scripts", made, introduction, groups)


def stage_page(made: str) -> str:
    """What the program of a stage imports."""
    from workflow import component_program, stage

    groups = [
        ("Open streams", named(
            stage, "open_reader", "open_writer", "open_writers", "open_members", "in_step", "is_joined", "follow",
        )),
        ("Read", named(stage, "Reader", "Step", "Piece", "StepCopy", "Info", "Window", "Members")),
        ("Write", named(stage, "Writer")),
        ("Ranks", named(stage, "communicator", "rank", "size", "block", "grid", "block_of")),
        ("After a restart", named(stage, "State", "once")),
        ("Values that change while it runs", named(stage, "steered", "steer")),
        ("Training", named(stage, "Reservoir")),
        ("The end of a run", named(stage, "stop_requested", "RunStopped", "note")),
        ("Errors", named(
            stage, "StageError", "StreamTimeout", "StreamFailed", "ContractError", "UnevenSteps",
            "StepRemoved", "RanksDiffer", "BoundExceeded",
        )),
        ("Parameters, of `workflow.component_program`", named(component_program, "arguments")),
    ]  # fmt: skip
    introduction = f"{to_markdown(inspect.getdoc(stage) or '')}\n\n{STAGE_RULES}\n"
    return api_page("`workflow.stage`: what a stage program imports", made, introduction, groups)
