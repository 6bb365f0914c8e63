"""Outlines and arrows of a drawing as paths of lines and curves: for SVG and matplotlib alike. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from workflow.report.graph.graph_shapes import ARROW_HEAD, CORNER, Arrow, DrawnFigure
from workflow.report.graph.layered_layout import DrawnPoint

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
