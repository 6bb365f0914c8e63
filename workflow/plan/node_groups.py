"""Which nodes of a plan run the same ranks: the node map. Linear in the number of stages and groups. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from workflow.plan.plan_model import Plan, StagePlan


class StageOnNode(NamedTuple):
    """A stage on each node of a group: its ranks there, with the cores and GPUs of each; [] where it has none."""

    name: str
    ranks: int
    cores_per_rank: int
    gpus_per_rank: int
    cores: list[list[int]]
    gpus: list[list[int]]


class NodeGroup(NamedTuple):
    """Nodes from `first` up to, not including, `end` that run the same ranks; no stage: they are spare."""

    first: int
    end: int
    stages: list[StageOnNode]


def node_groups(plan: Plan) -> Iterator[NodeGroup]:
    """All nodes of the allocation, in order."""
    begins: dict[int, list[tuple[int, StageOnNode]]] = {}
    edges = {0, plan.nodes}
    for stage in plan.stages:
        for first, end, ranks in _parts(stage):
            begins.setdefault(first, []).append((end, _on_node(stage, ranks)))
            edges |= {first, end}
    active: list[tuple[int, StageOnNode]] = []
    ordered = sorted(edges)
    for first, end in pairwise(ordered):
        active = [each for each in active if each[0] > first] + begins.get(first, [])
        yield NodeGroup(first, end, [stage for _, stage in active])


def _parts(stage: StagePlan) -> Iterator[tuple[int, int, int]]:
    """(first node, end, ranks on each): the last node may have fewer."""
    place = stage.placement
    ((first, _),) = place.nodes
    full, rest = divmod(stage.ranks, place.ranks_per_node)
    if full:
        yield first, first + full, place.ranks_per_node
    if rest:
        yield first + full, first + full + 1, rest


def _on_node(stage: StagePlan, ranks: int) -> StageOnNode:
    place = stage.placement
    return StageOnNode(
        stage.name, ranks, place.cores_per_rank, place.gpus_per_rank,
        _of_ranks(place.cores, place.ranks_per_node)[:ranks], _of_ranks(place.gpus, place.ranks_per_node)[:ranks],
    )  # fmt: skip


def _of_ranks(values: list[int], ranks: int) -> list[list[int]]:
    size = math.floor(len(values) / ranks)
    return [values[index * size : (index + 1) * size] for index in range(ranks)] if size else []
