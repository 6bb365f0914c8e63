"""The drawing of a pipeline as words, outlines and arrows with their places, in CSS pixels. Pure.

The SVG and the PNG draw the same shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
        # Between the stages that it joins, beside the streams that lead forward.
        turned |= {(f"stage {stream.writer}", label)} if len(back) == len(stream.readers) else set()
    for stage in graph.stages:
        for verb, files in (("reads", stage.reads), ("writes", stage.writes)):
            for index, file in enumerate(files):
                key, own = f"file {stage.name} {verb} {index}", f"stage {stage.name}"
                figures[key] = DrawnFigure("file", file, (_shortened(file),), f"{stage.name} {verb} {file}")
                joined[(key, own) if verb == "reads" else (own, key)] = "", True, False
    down = direction == "down"
    nodes = {key: _to_node(figure, down) for key, figure in figures.items()}
    layout = make_layout(nodes, [ends[::-1] if ends in turned else ends for ends in joined], *_GAPS[direction])

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
