"""The drawing of a pipeline as a flowchart of Mermaid, which GitHub and GitLab draw in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workflow.report.graph.graph_svg import LIGHT
from workflow.report.graph.pipeline_graph import GraphStage, PipelineGraph

# As in the SVG: square, round and cut corners, a file.
_BRACKETS = {
    "simulation": ("[", "]"),
    "analysis": ("(", ")"),
    "sink": ("{{", "}}"),
    "file": ("[(", ")]"),
    "stream": ("[", "]"),
}


def make_mermaid(graph: PipelineGraph) -> str:
    """The text of the chart. Its ids are numbers: a name may be a word of Mermaid's, such as `end`."""
    return "\n".join(["flowchart TB", *(f"  {line}" for line in _lines(graph)), ""])


def _lines(graph: PipelineGraph) -> Iterator[str]:
    yield f"accTitle: {_plain(graph.title)}"
    number = {stage.name: f"stage{index}" for index, stage in enumerate(graph.stages)}
    for stage in graph.stages:
        texts = stage.name, f"{stage.kind_text}: {stage.program}", stage.where
        yield _node(number[stage.name], stage.kind, texts)
    for index, stream in enumerate(graph.streams):
        label = f"stream{index}"
        yield _node(label, "stream", [each for each in (stream.name, stream.way, stream.held) if each])
        line, arrow = ("-.-", "-.->") if stream.coupling == "after" else ("---", "-->")
        yield f"{number[stream.writer]} {line} {label}"
        yield from (f"{label} {arrow} {number[reader]}" for reader in stream.readers)
    for stage in graph.stages:
        yield from _files(stage, number[stage.name])
    yield from (f"class {own} added" for own in (number[each.name] for each in graph.stages if each.added))
    roles = {"stream"} | {stage.kind for stage in graph.stages}
    roles |= {"file"} if any(stage.reads or stage.writes for stage in graph.stages) else set()
    for role, (inside, edge) in LIGHT.roles.items():
        if role not in roles:
            continue
        # The page shows through a stream, so that its words have the colour of the page's.
        looks = "fill:none,stroke:none" if role == "stream" else f"fill:{inside},stroke:{edge},color:{LIGHT.text}"
        yield f"classDef {role} {looks}"
    yield "classDef added stroke-dasharray:6 4"


def _node(own: str, role: str, lines: Sequence[str]) -> str:
    left, right = _BRACKETS[role]
    first, *others = map(_escaped, lines)
    name = first if role == "file" else f"<b>{first}</b>"
    return f'{own}{left}"{"<br>".join([name, *others])}"{right}:::{role}'


def _files(stage: GraphStage, own: str) -> Iterator[str]:
    for index, file in enumerate(stage.reads):
        yield _node(f"{own}in{index}", "file", [file])
        yield f"{own}in{index} --> {own}"
    for index, file in enumerate(stage.writes):
        yield _node(f"{own}out{index}", "file", [file])
        yield f"{own} --> {own}out{index}"


def _escaped(text: str) -> str:
    """A label is in quotes, and is read as HTML; `#` begins Mermaid's own entities."""
    signs = {"#": "#35;", "&": "#38;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"}
    return "".join(signs.get(sign, sign) for sign in text)


def _plain(text: str) -> str:
    return "".join(sign if sign.isalnum() or sign in " ,:-_" else " " for sign in text)
