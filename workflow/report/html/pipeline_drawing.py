"""The pipeline at the top of report.html: from left to right if there is room, otherwise from top to bottom."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from workflow.plan.plan_model import Plan
from workflow.report.graph.graph_shapes import PipelineShapes, make_shapes
from workflow.report.graph.graph_svg import svg_element
from workflow.report.graph.pipeline_graph import make_pipeline_graph

MOST_STAGES = 40
# CSS pixels. A wider drawing gets too small on the page.
_WIDEST = 1600
_SMALLEST_SCALE = 0.7


class PipelineDrawing(NamedTuple):
    """A drawing for a wide window, and one for a narrow window; None where that is the same."""

    wide: Markup
    narrow: Markup | None


def pipeline_drawing(plan: Plan) -> PipelineDrawing | None:
    """The drawing of a plan; None where there is nothing to see, or too much."""
    if not plan.streams or len(plan.stages) > MOST_STAGES:
        return None
    graph = make_pipeline_graph(plan)
    right, down = make_shapes(graph, "right"), make_shapes(graph, "down")
    wide = right if right.width <= _WIDEST else down
    # With many readers of one stream from left to right is narrower.
    narrow = min(right, down, key=lambda each: each.width)
    return PipelineDrawing(_on_page(wide), None if narrow is wide else _on_page(narrow))


def _on_page(shapes: PipelineShapes) -> Markup:
    style = f"max-width: {shapes.width:.0f}px; min-width: {shapes.width * _SMALLEST_SCALE:.0f}px; height: auto"
    return Markup(svg_element(shapes, style))
