"""The drawing of a pipeline as words, outlines and arrows with their places, in CSS pixels, and its colours. Pure.

The SVG and the PNG draw the same shapes: their outlines and arrows are paths of lines and curves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from workflow.report.graph.layered_layout import DrawnPoint, LayoutNode, make_layout
from workflow.report.graph.pipeline_graph import GraphStage, GraphStream, PipelineGraph

Direction = Literal["down", "right"]
DrawnRole = Literal["simulation", "analysis", "sink", "file", "stream"]

NAME_SIZE, TEXT_SIZE = 15.0, 12.5
ARROW_HEAD = 8.0
"""Length of the head of an arrow."""
CORNER = 10.0
"""How much of a figure's width its round or cut corners take."""
_MARGIN, _LINE = 14.0, 18.0
_PAD_X, _PAD_Y = 16.0, 8.0
_LONGEST = 36
_GAPS: dict[Direction, tuple[float, float]] = {"down": (26.0, 30.0), "right": (16.0, 30.0)}
# Widths of letters in em, of a wide font, so that the words fit in any: DejaVu Sans.
_NARROW, _WIDE = frozenset("ijlftr.,:;'|!()[]/- "), frozenset("mwMW@%—")


class Words(NamedTuple):
    """A line of text: its middle, and its height."""

    x: float
    y: float
    text: str
    size: float
    bold: bool


@dataclass(frozen=True)
class DrawnFigure:
    """A stage, a stream or a file: its words around its middle. The outline follows from the role; a stream has none.

    `about`: all of it in a sentence. `dashed`: wf added it.
    """

    role: DrawnRole
    name: str
    lines: tuple[str, ...]
    about: str
    dashed: bool = False
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        """With the room around the words."""
        widest = max(text_width(line, *_font(self.role, index)) for index, line in enumerate(self.lines))
        return widest + (8.0 if self.role == "stream" else 2 * _PAD_X)

    @property
    def height(self) -> float:
        """As the width."""
        return _LINE * len(self.lines) + (4.0 if self.role == "stream" else 2 * _PAD_Y)

    @property
    def words(self) -> Iterator[Words]:
        """The lines at their places."""
        top = self.y - _LINE * len(self.lines) / 2
        for index, line in enumerate(self.lines):
            yield Words(self.x, top + (index + 0.5) * _LINE, line, *_font(self.role, index))

    @property
    def is_stage(self) -> bool:
        """Neither a stream nor a file."""
        return self.role not in ("stream", "file")


@dataclass(frozen=True)
class Arrow:
    """A curve through these points, which leaves and arrives along the flow, or against it. `head`: it ends in one.

    `stream`: whose data flow there; empty for files. `dashed`: the reader starts after the writer has ended.
    """

    points: tuple[DrawnPoint, ...]
    stream: str
    head: bool
    dashed: bool


@dataclass(frozen=True)
class PipelineShapes:
    """All that is drawn."""

    title: str
    about: str
    direction: Direction
    width: float
    height: float
    figures: tuple[DrawnFigure, ...]
    arrows: tuple[Arrow, ...]


def make_shapes(graph: PipelineGraph, direction: Direction = "down") -> PipelineShapes:
    """The drawing of a graph whose data flow in this direction."""
    figures: dict[str, DrawnFigure] = {f"stage {stage.name}": _stage_figure(stage) for stage in graph.stages}
    # By the figures that it joins: its stream, whether it has a head, and whether it is dashed.
    joined: dict[tuple[str, str], tuple[str, bool, bool]] = {}
    turned: set[tuple[str, str]] = set()
    backwards = graph.backwards
    for stream in graph.streams:
        label, after = f"stream {stream.name}", stream.coupling == "after"
        figures[label] = _stream_figure(stream)
        joined[f"stage {stream.writer}", label] = stream.name, False, after
        joined |= {(label, f"stage {reader}"): (stream.name, True, after) for reader in stream.readers}
        back = [reader for reader in stream.readers if (stream.name, reader) in backwards]
        turned |= {(label, f"stage {reader}") for reader in back}
        # Between the stages that it joins, beside the streams that lead forward. Of members that read each other, which
        # are one figure, both ends are one line.
        is_between = bool(back) and len(back) == len(stream.readers) and stream.writer not in back
        turned |= {(f"stage {stream.writer}", label)} if is_between else set()
    for stage in graph.stages:
        for verb, files in (("reads", stage.reads), ("writes", stage.writes)):
            for index, file in enumerate(files):
                key, own = f"file {stage.name} {verb} {index}", f"stage {stage.name}"
                figures[key] = DrawnFigure("file", file, (_shortened(file),), f"{stage.name} {verb} {file}")
                joined[(key, own) if verb == "reads" else (own, key)] = "", True, False
    down = direction == "down"
    nodes = {key: _to_node(figure, down) for key, figure in figures.items()}
    edges = dict.fromkeys(ends[::-1] if ends in turned else ends for ends in joined)
    layout = make_layout(nodes, list(edges), *_GAPS[direction])

    def place(point: DrawnPoint) -> DrawnPoint:
        across, along = point[0] + _MARGIN, point[1] + _MARGIN
        return (across, along) if down else (along, across)

    placed = []
    for key, figure in figures.items():
        x, y = place(layout.centres[key])
        placed.append(replace(figure, x=x, y=y))
    paths = {ends: layout.edges[ends[::-1]][::-1] if ends in turned else layout.edges[ends] for ends in joined}
    arrows = [Arrow(tuple(map(place, paths[ends])), *about) for ends, about in joined.items()]
    width, height = place((layout.across + _MARGIN, layout.along + _MARGIN))
    about = " ".join(graph.sentences)
    return PipelineShapes(graph.title, about, direction, width, height, tuple(placed), tuple(arrows))


def text_width(text: str, size: float, bold: bool) -> float:
    """How wide a text is at most, in the unit of its size."""
    em = sum(0.42 if sign in _NARROW else 0.98 if sign in _WIDE else 0.78 if sign.isupper() else 0.64 for sign in text)
    return em * size * (1.1 if bold else 1.0)


def _font(role: DrawnRole, line: int) -> tuple[float, bool]:
    """Size and weight: the first line is the name."""
    return (
        (NAME_SIZE if role not in ("stream", "file") else TEXT_SIZE, role != "file")
        if line == 0
        else (TEXT_SIZE, False)
    )


def _stage_figure(stage: GraphStage) -> DrawnFigure:
    lines = (stage.name, f"{stage.kind_text}: {stage.program}", stage.where)
    about = f"{stage.name}: {stage.kind_text}, {stage.program}, {stage.where}"
    return DrawnFigure(stage.kind, stage.name, tuple(map(_shortened, lines)), about, dashed=bool(stage.added))


def _stream_figure(stream: GraphStream) -> DrawnFigure:
    lines = [each for each in (stream.name, stream.way, stream.held) if each]
    about = f"{stream.writer} writes {stream.name} to {', '.join(stream.readers)}: {', '.join(lines[1:])}"
    return DrawnFigure("stream", stream.name, tuple(map(_shortened, lines)), about)


def _to_node(figure: DrawnFigure, down: bool) -> LayoutNode:
    across, along = (figure.width, figure.height) if down else (figure.height, figure.width)
    return LayoutNode(across, along, across / 2 if figure.is_stage else 0.0)


def _shortened(text: str) -> str:
    """Of long names the end, too, which tells files of the same folder apart."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2 - 1]}…{text[-_LONGEST // 2 :]}"


# As in SVG: go there, line, quadratic and cubic curve with their control points, close.
PathCommand = tuple[Literal["M", "L", "Q", "C", "Z"], tuple[DrawnPoint, ...]]


def outline_path(figure: DrawnFigure) -> list[PathCommand]:
    """Around a figure: a simulation has square corners, an analysis round ones, a sink cut ones, a file one folded.

    That of a stream is not drawn: where its words are, no arrow is seen.
    """
    left, top = figure.x - figure.width / 2, figure.y - figure.height / 2
    right, bottom = left + figure.width, top + figure.height
    cut = CORNER if figure.role in ("analysis", "sink") else 0.0
    if figure.role == "file":
        fold = CORNER * 0.8
        ring: list[PathCommand] = [
            ("M", ((left, top),)), ("L", ((right - fold, top),)), ("L", ((right, top + fold),)),
            ("L", ((right, bottom),)), ("L", ((left, bottom),)), ("Z", ()),
            ("M", ((right - fold, top),)), ("L", ((right - fold, top + fold),)), ("L", ((right, top + fold),)),
        ]  # fmt: skip
        return ring
    path: list[PathCommand] = [("M", ((left + cut, top),))]
    for corner, before, behind in (
        ((right, top), (right - cut, top), (right, top + cut)),
        ((right, bottom), (right, bottom - cut), (right - cut, bottom)),
        ((left, bottom), (left + cut, bottom), (left, bottom - cut)),
        ((left, top), (left, top + cut), (left + cut, top)),
    ):
        path.append(("L", (before,)))
        path.append(("Q", (corner, behind)) if figure.role == "analysis" else ("L", (behind,)))
    return [*path, ("Z", ())]


def curve_path(arrow: Arrow, down: bool) -> list[PathCommand]:
    """The line of an arrow, up to its head."""
    points = [*arrow.points]
    if arrow.head:
        x, y = points[-1]
        length = _head_length(arrow, down)
        points[-1] = (x, y - length) if down else (x - length, y)
    path: list[PathCommand] = [("M", (points[0],))]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = ((x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2)) if down else (((x0 + x1) / 2, y0), ((x0 + x1) / 2, y1))
        path.append(("C", (*middle, (x1, y1))))
    return path


def head_path(arrow: Arrow, down: bool) -> list[PathCommand]:
    """The triangle at the end of an arrow."""
    x, y = arrow.points[-1]
    half, length = ARROW_HEAD * 0.5, _head_length(arrow, down)
    base = [(x - half, y - length), (x + half, y - length)] if down else [
        (x - length, y - half), (x - length, y + half)
    ]  # fmt: skip
    return [("M", ((x, y),)), ("L", (base[0],)), ("L", (base[1],)), ("Z", ())]


def _head_length(arrow: Arrow, down: bool) -> float:
    """Of the head along the flow; negative where it points back."""
    axis = 1 if down else 0
    return ARROW_HEAD if arrow.points[-1][axis] >= arrow.points[-2][axis] else -ARROW_HEAD


@dataclass(frozen=True)
class Palette:
    """Colours of the paper, the text, the arrows, and by role the inside and the edge of an outline."""

    paper: str
    text: str
    line: str
    roles: Mapping[str, tuple[str, str]]


LIGHT = Palette(
    "#ffffff",
    "#1c2430",
    "#5b6675",
    {
        "simulation": ("#e1effa", "#0072b2"),
        "analysis": ("#fdf0d5", "#b37a00"),
        "sink": ("#def3ea", "#007a5a"),
        "file": ("#f5f7f9", "#8f9aa8"),
        "stream": ("#ffffff", "none"),
    },
)
DARK = Palette(
    "#14181d",
    "#e6eaef",
    "#9aa6b4",
    {
        "simulation": ("#12314a", "#3a9bdc"),
        "analysis": ("#3a2c0c", "#e69f00"),
        "sink": ("#0f352b", "#4cc9a0"),
        "file": ("#1c2229", "#76828f"),
        "stream": ("#14181d", "none"),
    },
)
