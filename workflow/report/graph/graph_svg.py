"""The drawing of a pipeline as SVG: figures and arrows at the places of the layout, in CSS pixels. Texts are escaped
here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple

from workflow.report.graph.layered_layout import DrawnPoint, LayoutNode, make_layout
from workflow.report.graph.pipeline_graph import GraphStage, GraphStream, PipelineGraph

DrawnRole = Literal["simulation", "analysis", "sink", "file", "stream"]

FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif'
XMLNS = ' xmlns="http://www.w3.org/2000/svg"'
SHRINKS = "max-width: 100%; height: auto"
NAME_SIZE, TEXT_SIZE = 15.0, 12.5
ARROW_HEAD = 8.0
"""Length of the head of an arrow."""
CORNER = 10.0
"""How much of a figure's width its round or cut corners take."""
# Half of the height of small letters, in em: SVG places text by its baseline.
_BASELINE = 0.36
_MARGIN, _LINE = 14.0, 18.0
_PAD_X, _PAD_Y = 16.0, 8.0
_LONGEST = 36
# Between figures side by side, and along the flow.
_GAPS_DOWN, _GAPS_RIGHT = (26.0, 30.0), (16.0, 30.0)
# Widths of letters in em, of a wide font, so that the words fit in any: DejaVu Sans.
_NARROW, _WIDE = frozenset("ijlftr.,:;'|!()[]/- "), frozenset("mwMW@%—")


class Palette(NamedTuple):
    """Colours of the paper, the text, the arrows, and by role the inside and the edge of an outline."""

    paper: str
    text: str
    line: str
    roles: Mapping[str, tuple[str, str]]


LIGHT = Palette("#ffffff", "#1c2430", "#5b6675", {
    "simulation": ("#e1effa", "#0072b2"),
    "analysis": ("#fdf0d5", "#b37a00"),
    "sink": ("#def3ea", "#007a5a"),
    "file": ("#f5f7f9", "#8f9aa8"),
    "stream": ("#ffffff", "none"),
})  # fmt: skip
DARK = Palette("#14181d", "#e6eaef", "#9aa6b4", {
    "simulation": ("#12314a", "#3a9bdc"),
    "analysis": ("#3a2c0c", "#e69f00"),
    "sink": ("#0f352b", "#4cc9a0"),
    "file": ("#1c2229", "#76828f"),
    "stream": ("#14181d", "none"),
})  # fmt: skip


class SvgDrawing(NamedTuple):
    """A drawing with its size; `about`: all of it in sentences, `inside`: its arrows and figures."""

    title: str
    about: str
    width: float
    height: float
    inside: str

    def element(self, style: str = SHRINKS, xmlns: str = XMLNS) -> str:
        """As a file that needs nothing from outside; as a part of a page without `xmlns`. `style`: CSS of the whole."""
        return (
            f'<svg{xmlns} class="pipeline" role="img" width="{self.width:.0f}" '
            f'height="{self.height:.0f}" viewBox="0 0 {self.width:.1f} {self.height:.1f}" style="{style}">\n'
            f"<title>{escape(self.title)}</title>\n<desc>{escape(self.about)}</desc>\n"
            f"<style>\n{_STYLE}</style>\n"
            f'<rect class="paper" width="100%" height="100%" rx="8"/>\n{self.inside}</svg>\n'
        )


@dataclass(frozen=True)
class _Figure:
    """A stage, a stream or a file with its lines of text. `about`: all of it in a sentence; `dashed`: wf added it."""

    role: DrawnRole
    name: str
    lines: tuple[str, ...]
    about: str
    dashed: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, with the room around the words."""
        widest = max(text_width(line, *_font(self.role, index)) for index, line in enumerate(self.lines))
        is_stream = self.role == "stream"
        height = _LINE * len(self.lines) + (4.0 if is_stream else 2 * _PAD_Y)
        return widest + (8.0 if is_stream else 2 * _PAD_X), height

    def node(self, down: bool) -> LayoutNode:
        """For the layout. The arrows of a stage are spread over half of its side."""
        across, along = self.size if down else self.size[::-1]
        return LayoutNode(across, along, 0.0 if self.role in ("stream", "file") else across / 2)

    def drawn(self, middle: DrawnPoint) -> str:
        """The figure around its middle."""
        dashed = " dashed" if self.dashed else ""
        texts = []
        for index, line in enumerate(self.lines):
            font_size, bold = _font(self.role, index)
            baseline = middle[1] + _LINE * (index + 0.5 - len(self.lines) / 2) + _BASELINE * font_size
            name = ' class="name"' if bold else ""
            place = f'x="{middle[0]:.1f}" y="{baseline:.1f}" font-size="{font_size:g}"'
            texts.append(f"<text{name} {place}>{escape(line)}</text>")
        return (
            f'<g class="{self.role}" data-name="{escape(self.name)}"><title>{escape(self.about)}</title>'
            f'<path class="outline{dashed}" d="{_outline(self.role, middle, self.size)}"/>{"".join(texts)}</g>\n'
        )


class _Join(NamedTuple):
    """An arrow between two figures. `head`: it ends in one; `dashed`: the reader starts after the writer has ended;
    `back`: it leads against the flow."""

    stream: str
    head: bool
    dashed: bool
    back: bool = False


def draw_pipeline(graph: PipelineGraph, down: bool = True) -> SvgDrawing:
    """The drawing of a graph whose data flow downwards, or to the right."""
    figures, joins = _figures(graph), _joins(graph)
    nodes = {key: figure.node(down) for key, figure in figures.items()}
    edges = list(dict.fromkeys(ends[::-1] if join.back else ends for ends, join in joins.items()))
    layout = make_layout(nodes, edges, *(_GAPS_DOWN if down else _GAPS_RIGHT))

    def place(point: DrawnPoint) -> DrawnPoint:
        across, along = point[0] + _MARGIN, point[1] + _MARGIN
        return (across, along) if down else (along, across)

    parts = []
    for ends, join in joins.items():
        points = layout.edges[ends[::-1]][::-1] if join.back else layout.edges[ends]
        parts.append(_arrow(list(map(place, points)), join, down))
    parts += [figure.drawn(place(layout.centres[key])) for key, figure in figures.items()]
    width, height = place((layout.across + _MARGIN, layout.along + _MARGIN))
    return SvgDrawing(graph.title, " ".join(graph.sentences), width, height, "".join(parts))


def _figures(graph: PipelineGraph) -> dict[str, _Figure]:
    figures = {f"stage {stage.name}": _stage_figure(stage) for stage in graph.stages}
    figures |= {f"stream {stream.name}": _stream_figure(stream) for stream in graph.streams}
    for stage in graph.stages:
        for verb, files in (("reads", stage.reads), ("writes", stage.writes)):
            for index, file in enumerate(files):
                figure = _Figure("file", file, (_shortened(file),), f"{stage.name} {verb} {file}")
                figures[f"file {stage.name} {verb} {index}"] = figure
    return figures


def _joins(graph: PipelineGraph) -> dict[tuple[str, str], _Join]:
    """The arrows by the keys of the figures that they join."""
    joins: dict[tuple[str, str], _Join] = {}
    backwards = graph.backwards
    for stream in graph.streams:
        label, writer, after = f"stream {stream.name}", f"stage {stream.writer}", stream.coupling == "after"
        back = [reader for reader in stream.readers if (stream.name, reader) in backwards]
        # Between the stages that it joins, beside the streams that lead forward. Of members that read each other, which
        # are one figure, both ends are one line.
        is_between = bool(back) and len(back) == len(stream.readers) and stream.writer not in back
        joins[writer, label] = _Join(stream.name, False, after, is_between)
        joins |= {(label, f"stage {each}"): _Join(stream.name, True, after, each in back) for each in stream.readers}
    for stage in graph.stages:
        own = f"stage {stage.name}"
        joins |= {
            (f"file {stage.name} reads {index}", own): _Join("", True, False) for index in range(len(stage.reads))
        }
        joins |= {
            (own, f"file {stage.name} writes {index}"): _Join("", True, False) for index in range(len(stage.writes))
        }
    return joins


def text_width(text: str, size: float, bold: bool) -> float:
    """How wide a text is at most, in the unit of its size."""
    em = sum(0.42 if sign in _NARROW else 0.98 if sign in _WIDE else 0.78 if sign.isupper() else 0.64 for sign in text)
    return em * size * (1.1 if bold else 1.0)


def _font(role: DrawnRole, line: int) -> tuple[float, bool]:
    """Size, and whether it is bold: the first line is the name."""
    if line > 0:
        return TEXT_SIZE, False
    return TEXT_SIZE if role in ("stream", "file") else NAME_SIZE, role != "file"


def _stage_figure(stage: GraphStage) -> _Figure:
    lines = (stage.name, f"{stage.kind_text}: {stage.program}", stage.where)
    about = f"{stage.name}: {stage.kind_text}, {stage.program}, {stage.where}"
    return _Figure(stage.kind, stage.name, tuple(map(_shortened, lines)), about, dashed=bool(stage.added))


def _stream_figure(stream: GraphStream) -> _Figure:
    lines = [each for each in (stream.name, stream.way, stream.held) if each]
    about = f"{stream.writer} writes {stream.name} to {', '.join(stream.readers)}: {', '.join(lines[1:])}"
    return _Figure("stream", stream.name, tuple(map(_shortened, lines)), about)


def _shortened(text: str) -> str:
    """Of long names the end, too, which tells files of the same folder apart."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2 - 1]}…{text[-_LONGEST // 2 :]}"


def _path(*points: DrawnPoint) -> str:
    """A line through these points."""
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _outline(role: DrawnRole, middle: DrawnPoint, size: tuple[float, float]) -> str:
    """A simulation has square corners, an analysis round ones, a sink cut ones, a file one folded.

    That of a stream is not seen: where its words are, no arrow is.
    """
    left, top = middle[0] - size[0] / 2, middle[1] - size[1] / 2
    right, bottom = left + size[0], top + size[1]
    if role == "file":
        x, y = right - CORNER * 0.8, top + CORNER * 0.8
        ring = _path((left, top), (x, top), (right, y), (right, bottom), (left, bottom))
        return f"{ring}Z{_path((x, top), (x, y), (right, y))}"
    if role in ("simulation", "stream"):
        return _path((left, top), (right, top), (right, bottom), (left, bottom)) + "Z"
    path = f"M{left + CORNER:.1f},{top:.1f}"
    for corner, before, behind in (
        ((right, top), (right - CORNER, top), (right, top + CORNER)),
        ((right, bottom), (right, bottom - CORNER), (right - CORNER, bottom)),
        ((left, bottom), (left + CORNER, bottom), (left, bottom - CORNER)),
        ((left, top), (left, top + CORNER), (left + CORNER, top)),
    ):
        bend = f"Q{corner[0]:.1f},{corner[1]:.1f} " if role == "analysis" else "L"
        path += f"L{before[0]:.1f},{before[1]:.1f}{bend}{behind[0]:.1f},{behind[1]:.1f}"
    return path + "Z"


def _arrow(points: list[DrawnPoint], join: _Join, down: bool) -> str:
    """A curve through these points, which leaves and arrives along the flow, or against it."""
    head = ""
    if join.head:
        (x, y), axis, half = points[-1], 1 if down else 0, ARROW_HEAD / 2
        length = ARROW_HEAD if points[-1][axis] >= points[-2][axis] else -ARROW_HEAD
        points[-1] = (x, y - length) if down else (x - length, y)
        base = [(x - half, y - length), (x + half, y - length)] if down else [
            (x - length, y - half), (x - length, y + half)
        ]  # fmt: skip
        head = f'<path class="head" d="{_path((x, y), *base)}Z"/>'
    curve = _path(points[0])
    for (x0, y0), (x1, y1) in pairwise(points):
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        controls = ((x0, y), (x1, y)) if down else ((x, y0), (x, y1))
        curve += "C" + " ".join(f"{each[0]:.1f},{each[1]:.1f}" for each in (*controls, (x1, y1)))
    dashed = " dashed" if join.dashed else ""
    return f'<g class="arrow" data-stream="{escape(join.stream)}"><path class="curve{dashed}" d="{curve}"/>{head}</g>\n'


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
