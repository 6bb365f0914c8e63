"""The node map: what runs on which cores and GPUs of which nodes, and what the nodes cost. Pure.

As text for `wf plan`; for report.html as one drawing for nodes that run the same ranks. There cores and GPUs are
squares in the colours of their stages; cores that no stage gets are grey. Texts stay outside: the drawing shrinks with
the window. Names are escaped here, so that drawings can be marked as safe for the templates.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from workflow.core_set import format_cores
from workflow.formatting import duration, node_hours, plural, size
from workflow.plan.node_groups import NodeGroup, StageOnNode, node_groups
from workflow.plan.plan_model import AllocationPlan, NodePlan, Plan

if TYPE_CHECKING:
    from markupsafe import Markup

_LETTERS = string.ascii_lowercase + string.ascii_uppercase
RESERVED, OTHERS, FREE, SEVERAL, MORE = "#", "%", ".", "*", "+"
_LEGEND = {
    RESERVED: "reserved", OTHERS: "used by other runs", FREE: "free", SEVERAL: "stages that never run together",
    MORE: "more stages",
}  # fmt: skip
_CORES_ON_LINE = 64
_MOST_GROUPS = 12


def has_node_map(plan: Plan) -> bool:
    """Whether a map shows more than the table of cores: several nodes, GPUs, or cores that no stage gets."""
    return plan.nodes > 1 or plan.node.gpus > 0 or not plan.node.is_whole


def node_map(plan: Plan) -> list[str]:
    """The lines of the map."""
    lines = [node_count_text(plan)]
    groups = list(node_groups(plan))
    used = ""
    for group in groups[:_MOST_GROUPS]:
        drawn = list(_group_lines(group, plan.node))
        lines += [f"  {line}" for line in [nodes_text(group), *drawn]]
        used += "".join(line.partition("  ")[2] for line in drawn if line.startswith(("cores", "GPUs", "     ")))
    if len(groups) > _MOST_GROUPS:
        lines.append(f"  … {len(groups) - _MOST_GROUPS} more kinds of nodes: `wf plan --json`")
    meant = [f"{sign} {meaning}" for sign, meaning in _LEGEND.items() if sign in used]
    return [*lines, *([f"  {', '.join(meant)}"] if meant else [])]


def node_count_text(plan: Plan) -> str:
    """`512 nodes of 64 cores, 8 GPUs and 512 GB; 256 node-hours in 30 min 00 s, …`."""
    node = plan.node
    has = [plural(node.cores, "core")]
    has += [plural(node.gpus, "GPU")] if node.gpus else []
    has += [size(node.memory)] if node.memory else []
    text = f"{plural(plan.nodes, 'node')} of {', '.join(has[:-1])}{' and ' if len(has) > 1 else ''}{has[-1]}"
    if plan.allocation is None:
        return text
    hours = plan.nodes * plan.allocation.walltime_s / 3600
    text += f"; {node_hours(hours)} in {duration(plan.allocation.walltime_s)}"
    if node.price and (node.price, node.price_unit.replace(" ", "-")) != (1.0, "node-hours"):
        text += f", which cost {hours * node.price:,.4g} {node.price_unit}"
    return text


def job_text(allocation: AllocationPlan) -> str:
    """`job: queue batch, account abc123, walltime 30 min 00 s`."""
    named = [
        f"{key} {value or 'not named'}" for key, value in (("queue", allocation.queue), ("account", allocation.account))
    ]
    text = f"job: {', '.join(named)}, walltime {duration(allocation.walltime_s)}"
    return text if allocation.parts == 1 else f"{text}; at most {allocation.parts} jobs, one after the other"


def nodes_text(group: NodeGroup) -> str:
    """`nodes 0-511`, `node 512: spare`."""
    one = group.end - group.first == 1
    name = f"node {group.first}" if one else f"nodes {group.first}-{group.end - 1}"
    return name if group.stages else f"{name}: spare"


def share_text(stage: StageOnNode) -> str:
    """`8 ranks × 7 cores + 1 GPU`."""
    text = plural(stage.ranks, "rank")
    if stage.cores_per_rank:
        text += f" × {plural(stage.cores_per_rank, 'core')}"
    if stage.gpus_per_rank:
        text += f" + {plural(stage.gpus_per_rank, 'GPU')}"
    if stage.cores:
        return f"{text}, cores {_sets(stage.cores)}" + (f", GPUs {_sets(stage.gpus)}" if stage.gpus else "")
    return text + (", not bound" if stage.cores_per_rank else ", without cores of its own")


def _sets(ranks: Sequence[Sequence[int]]) -> str:
    shown = [format_cores(each) for each in ranks[:4]]
    return " ".join(shown) + (" …" if len(ranks) > len(shown) else "")


def _group_lines(group: NodeGroup, node: NodePlan) -> Iterator[str]:
    names = dict(zip((stage.name for stage in group.stages), _LETTERS, strict=False))
    width = max((len(stage.name) for stage in group.stages), default=0)
    for stage in group.stages:
        yield f"  {names.get(stage.name, MORE)} {stage.name:{width}}  {share_text(stage)}"
    if not group.stages:
        return
    cores = [FREE] * node.cores
    for sign, kept in ((OTHERS, node.others), (RESERVED, node.reserved)):
        for core in kept:
            cores[core] = sign
    gpus = [FREE] * node.gpus
    for stage in group.stages:
        letter = names.get(stage.name, MORE)
        for signs, of_ranks in ((cores, stage.cores), (gpus, stage.gpus)):
            for index in (index for rank in of_ranks for index in rank):
                signs[index] = letter if signs[index] == FREE else SEVERAL
    for index, line in enumerate(_strips(cores, node)):
        yield f"{'cores' if index == 0 else '     '}  {line}"
    if gpus:
        yield f"GPUs   {''.join(gpus)}"


def _strips(signs: Sequence[str], node: NodePlan) -> Iterator[str]:
    """The cores in lines, with a gap between NUMA domains where these are known."""
    domains = [cores for cores in node.numa if cores] or [list(range(len(signs)))]
    line = ""
    for domain in domains:
        part = "".join(signs[core] for core in domain)
        if line and len(line) + 1 + len(part) > _CORES_ON_LINE + len(domains):
            yield line
            line = ""
        line += (" " if line else "") + part
        while len(line) > 2 * _CORES_ON_LINE:
            yield line[:_CORES_ON_LINE]
            line = line[_CORES_ON_LINE:]
    yield line


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
