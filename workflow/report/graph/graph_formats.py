"""The drawing of a pipeline as a file: SVG for pages, PNG for slides, Mermaid for Markdown.

All texts of the SVG are escaped here. Mermaid is a flowchart that GitHub and GitLab draw. The PNG is drawn by
matplotlib, which brings its own font to machines that have none.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from workflow.errors import WfError
from workflow.installation import install_command
from workflow.report.graph.graph_shapes import (
    DARK,
    LIGHT,
    Arrow,
    Direction,
    DrawnFigure,
    Palette,
    PathCommand,
    PipelineShapes,
    Words,
    curve_path,
    head_path,
    outline_path,
)
from workflow.report.graph.pipeline_graph import GraphStage, PipelineGraph

FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif'
XMLNS = ' xmlns="http://www.w3.org/2000/svg"'
SHRINKS = "max-width: 100%; height: auto"
# Half of the height of small letters, in em: SVG places text by its baseline.
_BASELINE = 0.36


def make_svg(shapes: PipelineShapes) -> str:
    """The drawing as a file that needs nothing from outside."""
    return svg_element(shapes, SHRINKS, XMLNS)


def svg_element(shapes: PipelineShapes, style: str, xmlns: str = "") -> str:
    """The drawing as a part of a page; `style`: CSS of the whole."""
    down = shapes.direction == "down"
    parts = [*(_arrow(each, down) for each in shapes.arrows), *map(_figure, shapes.figures)]
    return (
        f'<svg{xmlns} class="pipeline" role="img" width="{shapes.width:.0f}" '
        f'height="{shapes.height:.0f}" viewBox="0 0 {shapes.width:.1f} {shapes.height:.1f}" style="{style}">\n'
        f"<title>{escape(shapes.title)}</title>\n<desc>{escape(shapes.about)}</desc>\n"
        f"<style>\n{_STYLE}</style>\n"
        f'<rect class="paper" width="100%" height="100%" rx="8"/>\n{"".join(parts)}</svg>\n'
    )


def _rules(palette: Palette) -> Iterator[str]:
    yield f".pipeline .paper {{ fill: {palette.paper} }}"
    yield f".pipeline text {{ fill: {palette.text} }}"
    yield f".pipeline .curve {{ stroke: {palette.line} }}"
    yield f".pipeline .head {{ fill: {palette.line} }}"
    for role, (inside, edge) in palette.roles.items():
        yield f".pipeline .{role} .outline {{ fill: {inside}; stroke: {edge} }}"


_STYLE = "\n".join([
    f".pipeline text {{ font-family: {FONT}; text-anchor: middle }}",
    ".pipeline .name { font-weight: 600 }",
    ".pipeline .curve { fill: none; stroke-width: 1.6 }",
    ".pipeline .outline { stroke-width: 1.6 }",
    ".pipeline .dashed { stroke-dasharray: 6 4 }",
    *_rules(LIGHT), "@media (prefers-color-scheme: dark) {", *_rules(DARK), "}", "",
])  # fmt: skip


def _arrow(arrow: Arrow, down: bool) -> str:
    head = f'<path class="head" d="{_to_d(head_path(arrow, down))}"/>' if arrow.head else ""
    curve = f'<path class="curve{" dashed" if arrow.dashed else ""}" d="{_to_d(curve_path(arrow, down))}"/>'
    return f'<g class="arrow" data-stream="{escape(arrow.stream)}">{curve}{head}</g>\n'


def _figure(figure: DrawnFigure) -> str:
    dashed = " dashed" if figure.dashed else ""
    outline = f'<path class="outline{dashed}" d="{_to_d(outline_path(figure))}"/>'
    return (
        f'<g class="{figure.role}" data-name="{escape(figure.name)}"><title>{escape(figure.about)}</title>'
        f"{outline}{''.join(map(_words, figure.words))}</g>\n"
    )


def _words(words: Words) -> str:
    name = ' class="name"' if words.bold else ""
    baseline = words.y + _BASELINE * words.size
    return f'<text{name} x="{words.x:.1f}" y="{baseline:.1f}" font-size="{words.size:g}">{escape(words.text)}</text>'


def _to_d(path: Sequence[PathCommand]) -> str:
    return "".join(letter + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) for letter, points in path)


_CSS_DPI = 96.0
_POINT = 72.0
_SCALE = 2  # pixels of the picture in each CSS pixel


def make_png(shapes: PipelineShapes) -> bytes:
    """The drawing on white. Raises WfError where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise WfError("a PNG needs matplotlib", f"{install_command('campaign')}, or use `--format svg`") from error
    canvas = Figure((shapes.width / _CSS_DPI, shapes.height / _CSS_DPI), dpi=_CSS_DPI * _SCALE, facecolor=LIGHT.paper)
    FigureCanvasAgg(canvas)
    axes = canvas.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, shapes.width), ylim=(shapes.height, 0))
    axes.axis("off")
    line = {"linewidth": 1.6 * _POINT / _CSS_DPI}
    down = shapes.direction == "down"
    for arrow in shapes.arrows:
        dashes = (0, (6 / 1.6, 4 / 1.6)) if arrow.dashed else "-"
        axes.add_patch(_patch(curve_path(arrow, down), fill=False, edgecolor=LIGHT.line, linestyle=dashes, **line))
        if arrow.head:
            axes.add_patch(_patch(head_path(arrow, down), facecolor=LIGHT.line, linewidth=0))
    for figure in shapes.figures:
        inside, edge = LIGHT.roles[figure.role]
        dashes = (0, (6 / 1.6, 4 / 1.6)) if figure.dashed else "-"
        axes.add_patch(_patch(outline_path(figure), facecolor=inside, edgecolor=edge, linestyle=dashes, **line))
        for words in figure.words:
            axes.text(
                words.x, words.y, words.text, size=words.size * _POINT / _CSS_DPI, color=LIGHT.text, ha="center",
                va="center_baseline", weight="bold" if words.bold else "normal", parse_math=False,
                fontfamily="DejaVu Sans",
            )  # fmt: skip
    data = io.BytesIO()
    canvas.savefig(data, format="png", metadata={"Title": shapes.title, "Description": shapes.about})
    return data.getvalue()


def _patch(path: Sequence[PathCommand], **looks: Any) -> Any:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes = {"M": Path.MOVETO, "L": Path.LINETO, "Q": Path.CURVE3, "C": Path.CURVE4}
    vertices: list[tuple[float, float]] = []
    kinds: list[Any] = []
    for letter, points in path:
        vertices += points or [vertices[0]]
        kinds += [codes[letter]] * len(points) if points else [Path.CLOSEPOLY]
    return PathPatch(Path(vertices, kinds), **looks)


# As in the other forms: square, round and cut corners, a file.
_BRACKETS = {
    "simulation": ("[", "]"),
    "analysis": ("(", ")"),
    "sink": ("{{", "}}"),
    "file": ("[(", ")]"),
    "stream": ("[", "]"),
}
_ORIENTATION: dict[Direction, str] = {"down": "TB", "right": "LR"}


def make_mermaid(graph: PipelineGraph, direction: Direction = "down") -> str:
    """The text of the chart. Its ids are numbers: a name may be a word of Mermaid's, such as `end`."""
    return "\n".join([f"flowchart {_ORIENTATION[direction]}", *(f"  {line}" for line in _lines(graph)), ""])


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
