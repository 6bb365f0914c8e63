"""Layout of a small acyclic graph, in layers along its flow. Pure.

The method is that of Sugiyama, Tagawa and Toda (1981). A node is one layer behind the last of those that lead to it; an
edge over several layers passes through points between their nodes. Sweeps order the nodes of a layer by the mean place
of their neighbours, and the order with the fewest crossings stays. Then each node goes as near to that mean as the
others of its layer allow.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import accumulate, pairwise

DrawnPoint = tuple[float, float]
"""(across the flow, along it)"""
_SWEEPS = 8
# A long edge is straight rather than its ends in the middle of what they are joined to.
_STRAIGHT = 8.0


@dataclass(frozen=True)
class LayoutNode:
    """A node of that size. The ends of its edges are spread over `ports`; 0: all are in the middle."""

    across: float
    along: float
    ports: float = 0.0


@dataclass(frozen=True)
class Layout:
    """`centres` of the nodes, the points of each edge from the side of its first node to that of its last, and the size
    of it all."""

    centres: dict[str, DrawnPoint]
    edges: dict[tuple[str, str], list[DrawnPoint]]
    across: float
    along: float


@dataclass
class _Rows:
    """The layers as they are ordered. Nodes are numbers, those of the points of long edges too."""

    sizes: list[LayoutNode]
    rows: list[list[int]]
    before: list[list[int]] = field(default_factory=list)
    behind: list[list[int]] = field(default_factory=list)


def make_layout(
    nodes: dict[str, LayoutNode], edges: Sequence[tuple[str, str]], gap_across: float, gap_along: float
) -> Layout:
    """The layout of a graph. `gap_across`: between nodes of a layer; `gap_along`: between layers.

    Raises:
        graphlib.CycleError: the edges make a circle.
    """
    number = {name: index for index, name in enumerate(nodes)}
    joined = [(number[first], number[last]) for first, last in edges]
    layer_of = _layers(len(nodes), joined)
    rows = _Rows(list(nodes.values()), [[] for _ in range(max(layer_of, default=-1) + 1)])
    rows.before, rows.behind = [[] for _ in nodes], [[] for _ in nodes]
    for index, layer in enumerate(layer_of):
        rows.rows[layer].append(index)
    paths = [_add_path(rows, first, last, layer_of) for first, last in joined]
    _order(rows)
    middle = _middles(rows, gap_across)
    left = min((middle[index] - size.across / 2 for index, size in enumerate(rows.sizes)), default=0.0)
    middle = [each - left for each in middle]
    depths = [max(rows.sizes[index].along for index in row) for row in rows.rows]
    starts = [0.0, *accumulate(depth + gap_along for depth in depths)]
    centre = [0.0] * len(rows.sizes)
    for row, start, depth in zip(rows.rows, starts, depths, strict=False):
        for index in row:
            centre[index] = start + depth / 2
    return Layout(
        {name: (middle[index], centre[index]) for name, index in number.items()},
        {edge: _points(rows, path, middle, centre, depths) for edge, path in zip(edges, paths, strict=True)},
        max((middle[index] + size.across / 2 for index, size in enumerate(rows.sizes)), default=0.0),
        starts[-1] - gap_along if depths else 0.0,
    )


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    before: dict[int, list[int]] = {index: [] for index in range(count)}
    behind: dict[int, list[int]] = {index: [] for index in range(count)}
    for first, last in edges:
        before[last].append(first)
        behind[first].append(last)
    layer = [0] * count
    order = list(TopologicalSorter(before).static_order())
    for index in order:
        layer[index] = max((layer[each] + 1 for each in before[index]), default=0)
    for index in order:  # one that nothing leads to stands right before what it leads to
        if not before[index] and behind[index]:
            layer[index] = min(layer[each] for each in behind[index]) - 1
    return layer


def _add_path(rows: _Rows, first: int, last: int, layer_of: Sequence[int]) -> list[int]:
    """The nodes of an edge, with a new one in each layer that it passes."""
    path = [first]
    for layer in range(layer_of[first] + 1, layer_of[last]):
        rows.rows[layer].append(len(rows.sizes))
        path.append(len(rows.sizes))
        rows.sizes.append(LayoutNode(0.0, 0.0))
        rows.before.append([])
        rows.behind.append([])
    path.append(last)
    for one, next_ in pairwise(path):
        rows.behind[one].append(next_)
        rows.before[next_].append(one)
    return path


def _order(rows: _Rows) -> None:
    """Give the rows the order with the fewest crossings that the sweeps find."""
    best, fewest = [list(row) for row in rows.rows], _crossings(rows)
    for sweep in range(_SWEEPS):
        neighbours = rows.behind if sweep % 2 else rows.before
        for row in rows.rows[::-1] if sweep % 2 else rows.rows:
            place = {index: at for each in rows.rows for at, index in enumerate(each)}
            row.sort(key=lambda index: _mean([place[each] for each in neighbours[index]], place[index]))
        if (crossings := _crossings(rows)) < fewest:
            best, fewest = [list(row) for row in rows.rows], crossings
    rows.rows = best


def _crossings(rows: _Rows) -> int:
    total = 0
    for row, below in pairwise(rows.rows):
        place = {index: at for at, index in enumerate(below)}
        seen: list[int] = []
        for index in row:
            for at in sorted(place[each] for each in rows.behind[index]):
                total += len(seen) - bisect_right(seen, at)
                insort(seen, at)
    return total


def _middles(rows: _Rows, gap: float) -> list[float]:
    """The middle of each node across the flow."""
    middle = [0.0] * len(rows.sizes)
    apart = {index: rows.sizes[index].across / 2 for row in rows.rows for index in row}
    # The last sweep is one along the flow: a chain is straight.
    for sweep in range(_SWEEPS + 1):
        down = sweep % 2 == 0
        neighbours = rows.before if down else rows.behind
        for row in rows.rows if down else rows.rows[::-1]:
            wanted = [_mean([middle[each] for each in neighbours[index]], middle[index]) for index in row]
            weights = [_STRAIGHT if rows.sizes[index].along == 0 else 1.0 for index in row]
            gaps = [apart[one] + gap + apart[other] for one, other in pairwise(row)]
            for index, place in zip(row, spread(wanted, weights, gaps), strict=True):
                middle[index] = place
    return middle


def spread(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The places nearest to those wanted, by weighted squares, that are in order and at least `gaps` apart.

    Without the gaps it is isotonic regression: neighbours that are in each other's way go to their common mean.
    """
    offsets = [0.0, *accumulate(gaps)]
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of places
    for place, weight, offset in zip(wanted, weights, offsets, strict=True):
        pools.append((place - offset, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (one, its, count), (other, others, more) = pools[-2:]
            pools[-2:] = [((one * its + other * others) / (its + others), its + others, count + more)]
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _points(
    rows: _Rows, path: Sequence[int], middle: Sequence[float], centre: Sequence[float], depths: Sequence[float]
) -> list[DrawnPoint]:
    first, last = path[0], path[-1]
    depth_of = {index: depth for row, depth in zip(rows.rows, depths, strict=True) for index in row}
    points = [(_port(rows, first, path[1], rows.behind, middle), centre[first] + rows.sizes[first].along / 2)]
    for index in path[1:-1]:
        points += [(middle[index], centre[index] + part * depth_of[index] / 2) for part in (-1, 1)]
    return [*points, (_port(rows, last, path[-2], rows.before, middle), centre[last] - rows.sizes[last].along / 2)]


def _port(rows: _Rows, index: int, other: int, neighbours: Sequence[list[int]], middle: Sequence[float]) -> float:
    """Where on the side of a node its edge to that neighbour is."""
    ends = sorted(neighbours[index], key=lambda each: middle[each])
    step = min(rows.sizes[index].ports / len(ends), 24.0)
    return middle[index] + (ends.index(other) - (len(ends) - 1) / 2) * step


def _mean(values: Iterable[float], otherwise: float) -> float:
    found = list(values)
    return sum(found) / len(found) if found else otherwise
