"""Which GPUs and which network adapter each rank of a stage gets on a node."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.formatting import plural
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.placement.nodes import Demand
from workflow.plan.problems import Problems
from workflow.site.site_model import Site
from workflow.spec.suggest import did_you_mean, listing

AUTO, NONE = "auto", "none"


def nearest_gpus(free: Sequence[int], cores: Sequence[Sequence[int]], each: int, site: Site) -> list[int]:
    """GPUs of every rank, by the cores that the ranks have: those with most of these cores nearby, else the next."""
    left, chosen = list(free), list[int]()
    for own in cores:
        left.sort(key=lambda gpu: (-_shared(gpu, own, site), gpu))
        chosen += sorted(left[:each])
        left = sorted(left[each:])
    return chosen


def _shared(gpu: int, cores: Sequence[int], site: Site) -> int:
    near = site.gpus[gpu].cores if site.gpus else None
    return len(set(near or ()) & set(cores))


def cores_near(gpus: Sequence[int], site: Site) -> list[int] | None:
    """The cores nearest to these GPUs; None where the site does not say."""
    near = [site.gpus[gpu].cores if site.gpus else None for gpu in gpus]
    return None if None in near or not near else sorted({core for cores in near for core in cores or ()})


def choose_nics(wanted: str, cores: Sequence[Sequence[int]], gpus: Sequence[Sequence[int]], site: Site) -> list[str]:
    """The network adapter of every rank of a node: that of its GPU, else the one nearest to its cores; [] is any."""
    ranks = max(len(cores), len(gpus))
    if wanted == NONE or (wanted == AUTO and not site.nics):
        return []
    if wanted != AUTO:
        return [wanted] * max(1, ranks)
    names = []
    for rank in range(ranks):
        devices = [site.gpus[gpu].nic for gpu in gpus[rank]] if gpus and site.gpus else []
        own = set(cores[rank][:1]) if cores else set()
        beside = (nic.name for nic in site.nics if own & set(nic.cores or ()))
        names.append(next((name for name in devices if name), None) or next(beside, ""))
    return names if any(names) else []


def check_devices(demand: Demand, nic: str, site: Site, problems: Problems) -> None:
    """Notes GPUs that the site has not, or cannot give to single ranks, and an adapter that it does not have."""
    key = f"stages.{demand.name}.place"
    if demand.gpus_per_rank and not site.gpus_per_node:
        problems.add(f"{key}.gpus_per_rank", f"site {site.site} has no GPUs", "remove it, or use a site with GPUs")
    elif demand.gpus_per_rank > site.gpus_per_node:
        message = (
            f"{plural(demand.gpus_per_rank, 'GPU')} for one rank, site {site.site} has {site.gpus_per_node} on a node"
        )
        problems.add(f"{key}.gpus_per_rank", message, f"give at most {site.gpus_per_node}")
    elif demand.gpus_per_rank and not site.gpu_variable and not LAUNCHERS[site.launcher].selects_gpus:
        problems.add(
            f"{key}.gpus_per_rank",
            f"site {site.site} does not say how a rank is restricted to its GPUs, and {site.launcher} cannot do it",
            "add `gpu_variable: CUDA_VISIBLE_DEVICES`, or what its GPUs need, to the site's file",
        )
    names = [each.name for each in site.nics]
    if nic not in (AUTO, NONE) and names and nic not in names:
        hint = did_you_mean(nic, names) or f"adapters: {listing(names)}; or `auto`"
        problems.add(f"{key}.nic", f"site {site.site} has no network adapter `{nic}`", hint)
