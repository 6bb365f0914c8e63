"""The pipeline in the head of report.html: from left to right where there is room, else from top to bottom."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from workflow.plan.plan_model import Plan
from workflow.report.graph.graph_shapes import Direction, make_shapes
from workflow.report.graph.graph_svg import svg_element
from workflow.report.graph.pipeline_graph import PipelineGraph, make_pipeline_graph

MOST_STAGES = 40
# CSS pixels. A wider drawing gets too small on the page.
_WIDEST = 1600
_SMALLEST_SCALE = 0.7


class PipelineDrawing(NamedTuple):
    """The two forms; `right` is None where it would be too wide."""

    right: Markup | None
    down: Markup


def pipeline_drawing(plan: Plan) -> PipelineDrawing | None:
    """The drawing of a plan; None where there is nothing to see, or too much."""
    if not plan.streams or len(plan.stages) > MOST_STAGES:
        return None
    graph = make_pipeline_graph(plan)
    return PipelineDrawing(_drawn(graph, "right", _WIDEST), _drawn(graph, "down") or Markup())


def _drawn(graph: PipelineGraph, direction: Direction, widest: float = float("inf")) -> Markup | None:
    shapes = make_shapes(graph, direction)
    if shapes.width > widest:
        return None
    style = f"max-width: {shapes.width:.0f}px; min-width: {shapes.width * _SMALLEST_SCALE:.0f}px; height: auto"
    return Markup(svg_element(shapes, style))
