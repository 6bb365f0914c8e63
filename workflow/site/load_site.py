"""Sites from `configs/sites`, as checked models. A mistake in such a file is reported with its place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workflow.errors import Problem, SpecError
from workflow.launch.allocation import Allocation
from workflow.launch.launchers import LAUNCHERS
from workflow.site.cpu_topology import cpu_topology
from workflow.site.detection import is_here
from workflow.site.launcher_tables import launcher_options
from workflow.site.machine import interfaces, look, memory_bytes
from workflow.site.site_checks import check_site
from workflow.site.site_model import Site, SiteFile
from workflow.site.site_tree import lay_settings, read_site_tree
from workflow.spec.overlay import Setting
from workflow.spec.validation_messages import validated

# Of a machine whose number of nodes is not known: as many as any plan needs.
MANY_NODES = 10_000
# For a plan that is the same on every machine: where a file says `auto`, there is enough, or it is not known.
_ANY_MACHINE: dict[str, Any] = {
    "nodes": MANY_NODES,
    "cores_per_node": 4096,
    "memory_per_node": 2**60,
    "launcher_path": "",
    "planes": [],
    "fabric": None,
    "peer_memory": True,
    "parallel_adios2": None,
    "random_sst_ids": False,
    "memory_policy": ["huge_pages", "keep_freed"],
    "glibc": "2.35",
}
# For a machine that is another one than this: not known. What this machine has says nothing about it.
_ELSEWHERE: dict[str, Any] = {
    "nodes": MANY_NODES,
    "planes": [],
    "fabric": False,
    "peer_memory": True,
    "parallel_adios2": None,
    "memory_policy": [],
    "glibc": "",
}


def read_site_file(name: str, base: Path | None = None, settings: Sequence[Setting] = ()) -> SiteFile:
    """The site as it is written; see `load_site`."""
    node, _ = read_site_tree(name, base)
    overlaid = lay_settings(node, settings)
    file, problems = validated(SiteFile, overlaid.root)
    if file is not None:
        problems = problems + check_site(file, overlaid.root)
    problems = [*overlaid.problems, *(_named(problem, settings) for problem in problems)]
    if file is None or problems:
        raise SpecError(problems)
    return file


def _named(problem: Problem, settings: Sequence[Setting]) -> Problem:
    """A mistake that a campaign has written names the key as there: `site.launcher`."""
    is_own = problem.source in {each.value.place.source for each in settings}
    return replace(problem, key=f"site.{problem.key}") if is_own else problem


def any_machine(file: SiteFile) -> tuple[Site, set[str]]:
    """(the site with fixed values where its file leaves a fact to the machine, the facts that the file states)."""
    known = file.model_dump()
    stated = {name for name in _ANY_MACHINE if known[name] != "auto"}
    fixed = {name: value for name, value in _ANY_MACHINE.items() if name not in stated}
    return Site(**known | fixed, launcher_options=_options(file)), stated


def load_site(
    name: str, base: Path | None = None, allocation: Allocation | None = None, settings: Sequence[Setting] = ()
) -> Site:
    """The site of that name, or with `base` of that file, relative to `base`; with the `settings` of a campaign.

    `auto` is filled from the allocation, where a scheduler has given one, then from this machine. Of a site whose
    file says how to recognise it, and that is not this machine, such facts are not known.

    Raises:
        WfError: there is none of that name.
        SpecError: its file is wrong.
    """
    file = read_site_file(name, base, settings)
    known: dict[str, Any] = file.model_dump()
    if allocation is not None and allocation.host_names:
        _fill_from(allocation, known)
    if file.detect and not is_here(file.detect):
        known |= {key: value for key, value in _ELSEWHERE.items() if known[key] == "auto"}
        if known["launcher_path"] == "auto":
            known["launcher_path"] = LAUNCHERS[file.launcher].executable
    borrowed = known["nodes"] == known["cores_per_node"] == "auto"  # a site of any machine, outside of a job
    if known["nodes"] == "auto":
        known["nodes"] = MANY_NODES
    if known["cores_per_node"] == "auto":
        known["cores_per_node"] = len(os.sched_getaffinity(0))
        known["interfaces"] = interfaces()  # stages run here: elsewhere they may be others
    if known["memory_per_node"] == "auto":
        known["memory_per_node"] = memory_bytes()
    looked = look(known)
    if borrowed:
        looked["seen"]["cores_per_node"] = "this machine, because wf is not inside of a job"
    return Site(**looked, launcher_options=_options(file))


def _options(file: SiteFile) -> dict[str, str]:
    return launcher_options(file.launcher, file.launcher_version)


def _fill_from(allocation: Allocation, known: dict[str, Any]) -> None:
    """What the site has of nodes, and what its file leaves to `auto`, from the allocation.

    Of several nodes the smallest counts. They are taken to have as many hardware threads a core as this one.
    """
    count = len(allocation.hosts)
    known["nodes"] = count if known["nodes"] == "auto" else min(known["nodes"], count)
    if known["cores_per_node"] == "auto":
        threads = cpu_topology().threads_per_core
        counts = (allocation.cores_of(host, threads) for host in allocation.hosts)
        if cores := [count for count in counts if count is not None]:
            known["cores_per_node"] = min(cores)
            known["threads_per_core"] = threads
    memory = [host.memory for host in allocation.hosts if host.memory is not None]
    if known["memory_per_node"] == "auto" and memory:
        known["memory_per_node"] = min(memory)
