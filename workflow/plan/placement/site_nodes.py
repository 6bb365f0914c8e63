"""The nodes that a plan needs, and what it keeps of one of them."""

from __future__ import annotations

from collections.abc import Iterable

from workflow.plan.plan_model import NodePlan, Placement
from workflow.site.site_model import Site


def nodes_needed(placements: Iterable[Placement]) -> int:
    """How many nodes the stages use, counted from the first."""
    return max((end for placement in placements for _, end in placement.nodes), default=1)


def node_plan(site: Site) -> NodePlan:
    """What placement, launchers and the node map take of a site."""
    return NodePlan(
        cores=site.cores_per_node,
        threads_per_core=site.threads_per_core,
        reserved=list(site.reserved_cores),
        numa=[list(cores) for cores in site.numa],
        gpus=site.gpus_per_node,
        gpu_variable=site.gpu_variable or "",
        memory=site.memory_per_node,
        price=site.cost.per_node_hour if site.cost else 0.0,
        price_unit=site.cost.unit if site.cost else "",
    )
