"""The node map as text: what runs on which cores and GPUs of which nodes, and what the nodes cost. Pure."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence

from workflow.core_set import format_cores
from workflow.formatting import duration, node_hours, plural, size
from workflow.plan.node_groups import NodeGroup, StageOnNode, node_groups
from workflow.plan.plan_model import AllocationPlan, NodePlan, Plan

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
