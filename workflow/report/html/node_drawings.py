"""The node map as drawings: one for nodes that run the same ranks. Pure.

Cores and GPUs are squares in the colours of their stages; cores that no stage gets are grey. Texts stay outside: the
drawing shrinks with the window. Names are escaped here, so that drawings can be marked as safe for the templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from workflow.plan.node_groups import NodeGroup, StageOnNode, node_groups
from workflow.plan.plan_model import NodePlan, Plan
from workflow.report.show.node_map import nodes_text, share_text

if TYPE_CHECKING:
    from markupsafe import Markup

COLOURS = 8  # classes stage0 … stage7 of page.css; more stages begin again
MOST_DRAWINGS = 12
_SIDE, _GAP, _COLUMNS = 10, 2, 64
# CSS pixels: of a drawing, and of one of its squares.
_WIDEST, _LARGEST = 900, 22


class StageShare(NamedTuple):
    """A stage in the legend of a drawing."""

    css_class: str
    name: str
    text: str


class NodeDrawing(NamedTuple):
    """The nodes meant, the stages on them, and the drawing of one."""

    nodes: str
    stages: list[StageShare]
    chart: Markup


def node_drawings(plan: Plan) -> list[NodeDrawing]:
    """A drawing for each kind of node, the first ones of many."""
    colour = {stage.name: f"stage{index % COLOURS}" for index, stage in enumerate(plan.stages)}
    drawings: list[NodeDrawing] = []
    for group in node_groups(plan):
        if group.stages and len(drawings) < MOST_DRAWINGS:
            shares = [StageShare(colour[each.name], each.name, share_text(each)) for each in group.stages]
            drawings.append(NodeDrawing(nodes_text(group), shares, _drawing(group, plan.node, colour)))
    return drawings


def _drawing(group: NodeGroup, node: NodePlan, colour: dict[str, str]) -> Markup:
    from markupsafe import Markup

    columns = min(_COLUMNS, max(node.cores, node.gpus))
    rows = -(-node.cores // columns)
    kept = dict.fromkeys(node.others, "used by other runs") | dict.fromkeys(node.reserved, "reserved")
    cores = _squares("core", node.cores, [(stage, stage.cores) for stage in group.stages], kept, colour)
    gpus = _squares("GPU", node.gpus, [(stage, stage.gpus) for stage in group.stages], {}, colour)
    body = "".join(_at(index % columns, index // columns, square) for index, square in enumerate(cores))
    body += "".join(_at(index % columns, rows + 0.5 + index // columns, square) for index, square in enumerate(gpus))
    height = (rows + (0.5 + -(-node.gpus // columns) if node.gpus else 0)) * _SIDE
    return Markup(
        f'<svg class="nodemap" viewBox="0 0 {columns * _SIDE} {height:g}" '
        f'style="max-width: {min(_WIDEST, columns * _LARGEST)}px" role="img" '
        f'aria-label="{escape(nodes_text(group))}">{body}</svg>'
    )


class _Square(NamedTuple):
    css_classes: list[str]
    title: str


def _squares(
    kind: str,
    count: int,
    stages: Sequence[tuple[StageOnNode, list[list[int]]]],
    kept: Mapping[int, str],
    colour: dict[str, str],
) -> list[_Square]:
    owners: list[list[tuple[str, int]]] = [[] for _ in range(count)]
    for stage, of_ranks in stages:
        for rank, indices in enumerate(of_ranks):
            for index in indices:
                owners[index].append((stage.name, rank))
    squares = []
    for index, own in enumerate(owners):
        what = ", ".join(f"{name}, rank {rank} of the node" for name, rank in own)
        state = what or kept.get(index, "free")
        classes = [colour[name] for name, _ in own] or ["reserved" if index in kept else "free"]
        squares.append(_Square(classes, f"{kind} {index}: {state}"))
    return squares


def _at(column: int, row: float, square: _Square) -> str:
    """One square; stages that never run together share it."""
    width = (_SIDE - _GAP) / len(square.css_classes)
    x, y = column * _SIDE + _GAP / 2, row * _SIDE + _GAP / 2
    rects = "".join(
        f'<rect class="{name}" x="{x + part * width:g}" y="{y:g}" width="{width:g}" height="{_SIDE - _GAP}"/>'
        for part, name in enumerate(square.css_classes)
    )
    return f"<g><title>{escape(square.title)}</title>{rects}</g>"
