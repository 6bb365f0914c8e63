"""Reads this node: cores, memory, devices, scheduler, launcher. Nothing is started but the commands of these."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from workflow.launch.allocation import Allocation
from workflow.schedulers.scheduler import SchedulerFacts
from workflow.schedulers.scheduler_query import Query, ask
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named
from workflow.site.cpu_topology import CpuTopology, cpu_topology
from workflow.site.discover import discover_allocation
from workflow.site.machine import adios2_parallel, adios2_planes, glibc_version, memory_policy, rdma_fabric
from workflow.site.probe.probed_devices import Device, Gpus, find_gpus, find_interfaces, find_nics
from workflow.site.probe.scheduler_facts import (
    LauncherFact,
    ask_launcher,
    ask_scheduler,
    scheduler_of,
)


@dataclass(frozen=True)
class ProbedNode:
    """What was found. `memory` in bytes; `cluster` is what the scheduler calls the machine."""

    host: str
    allocation: Allocation
    cpus: CpuTopology
    memory: int
    gpus: Gpus
    nics: tuple[Device, ...]
    interfaces: tuple[str, ...]
    scheduler: SchedulerFacts
    launcher: LauncherFact
    fabric: bool
    glibc: str
    memory_policy: tuple[str, ...]
    planes: tuple[str, ...]
    parallel_adios2: bool | None
    cluster: str = ""

    @property
    def in_job(self) -> bool:
        """Whether this is a node of a batch job, as far as wf sees."""
        return self.allocation.source in SCHEDULERS


def probe_node(environ: Mapping[str, str] | None = None, query: Query = ask) -> ProbedNode:
    """The facts of this node. Raises WfError when a job's hosts are not known."""
    environ = os.environ if environ is None else environ
    allocation, cpus = discover_allocation(environ, query), cpu_topology()
    kind = scheduler_of(allocation.source, shutil.which)
    scheduler = ask_scheduler(kind, environ, query)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    glibc = glibc_version()
    return ProbedNode(
        host=platform.node(), allocation=allocation, cpus=cpus,
        memory=min(total, scheduler.memory) if scheduler.memory else total,
        gpus=find_gpus(cpus.cores, query), nics=find_nics(cpus.cores), interfaces=tuple(find_interfaces()),
        scheduler=scheduler, launcher=ask_launcher(kind, query), fabric=rdma_fabric()[0], glibc=glibc,
        memory_policy=tuple(memory_policy(glibc, {})[0]), planes=tuple(adios2_planes()[0]),
        parallel_adios2=adios2_parallel(),
        cluster="" if kind is None else environ.get(scheduler_named(kind).cluster_variable, ""),
    )  # fmt: skip
