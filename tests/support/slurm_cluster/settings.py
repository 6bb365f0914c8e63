"""What a cluster is made of, and the text of its configuration files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.support.slurm_cluster.cgroups import cgroups_here


@dataclass(frozen=True)
class ClusterSettings:
    """What a test may choose. Times are in seconds."""

    nodes: int = 4
    cpus_per_node: int = 2
    # Without it Slurm ignores `--cpu-bind`, and a node may have more cores than this machine.
    binds_tasks: bool = True
    memory_per_node_mib: int = 2000
    # By `pgid` Slurm loses track of processes that leave their process group: they outlive their job.
    process_tracking: Literal["pgid", "cgroup"] = field(default_factory=lambda: "cgroup" if cgroups_here() else "pgid")
    # With True a step takes the memory of the whole job unless it asks for less: the next step waits.
    memory_is_a_resource: bool = False
    # How long after its last answer a node is DOWN and its jobs end as NODE_FAIL: 300 is Slurm's default.
    node_timeout_s: int = 300
    # From SIGTERM to SIGKILL, as at the end of the walltime; Slurm's default is 30.
    kill_wait_s: int = 5
    # How long a job that ended stays known to squeue and scontrol; Slurm's default is 300.
    job_kept_s: int = 300
    # The walltime limit of the partition `short`, in minutes; `debug` has none.
    short_limit_min: int = 1

    def __post_init__(self) -> None:
        cores = len(os.sched_getaffinity(0))
        if self.binds_tasks and self.cpus_per_node > cores:
            raise ValueError(
                f"tasks cannot be bound to {self.cpus_per_node} cores, there are {cores}: binds_tasks=False"
            )

    @property
    def hosts(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.nodes + 1)]


@dataclass(frozen=True)
class Addresses:
    """IPv4 addresses of one cluster: a /24 network, its first address for the machine itself."""

    network: str  # the first three bytes, as 10.213.0

    @property
    def controller_port(self) -> int:
        """A port of its own: slurmctld listens on all addresses of the machine, those of other clusters too."""
        return 26000 + int(self.network.rpartition(".")[2])

    @property
    def controller(self) -> str:
        return f"{self.network}.1"

    def node(self, number: int) -> str:
        """The address of node `number`, counted from 1."""
        return f"{self.network}.{10 + number}"


def hosts_file(settings: ClusterSettings, addresses: Addresses, controller_host: str) -> str:
    """`/etc/hosts` as the nodes see it."""
    lines = ["127.0.0.1 localhost", f"{addresses.controller} {controller_host}"]
    lines += [f"{addresses.node(number)} {host}" for number, host in enumerate(settings.hosts, 1)]
    return "\n".join(lines) + "\n"


def slurm_conf(settings: ClusterSettings, addresses: Addresses, controller_host: str, state: Path) -> str:
    """`slurm.conf`. Options: https://slurm.schedmd.com/archive/slurm-22.05-latest/slurm.conf.html"""
    cgroup = settings.process_tracking == "cgroup"
    memory = "_Memory" if settings.memory_is_a_resource else ""
    plugins = ["task/affinity"] * settings.binds_tasks + ["task/cgroup"] * cgroup
    nodes = "\n".join(
        f"NodeName={host} NodeHostname={host} NodeAddr={addresses.node(number)} Sockets=1 ThreadsPerCore=1"
        f" CoresPerSocket={settings.cpus_per_node} RealMemory={settings.memory_per_node_mib} State=UNKNOWN"
        for number, host in enumerate(settings.hosts, 1)
    )
    return f"""\
ClusterName={state.name}
SlurmctldHost={controller_host}({addresses.controller})
SlurmctldPort={addresses.controller_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={state}/munge.socket
CredType=cred/munge
StateSaveLocation={state}/controller
SlurmdSpoolDir={state}/spool-%n
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd-%n.pid
SlurmctldLogFile={state}/log/slurmctld.log
SlurmdLogFile={state}/log/slurmd-%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
ProctrackType=proctrack/{"cgroup" if cgroup else "pgid"}
TaskPlugin={",".join(plugins) or "task/none"}
JobAcctGatherType=jobacct_gather/{"cgroup" if cgroup else "linux"}
JobAcctGatherFrequency=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core{memory}
# Some digits, as everywhere: the key-value space of a step is named after its job.
FirstJobId=1000
MpiDefault=pmi2
# The number of cores of the nodes is what is declared here, whatever slurmd finds.
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout={settings.node_timeout_s}
KillWait={settings.kill_wait_s}
MinJobAge={settings.job_kept_s}
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
EnforcePartLimits=ALL
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={state}/log/finished-jobs.txt
{nodes}
PartitionName=debug Nodes=ALL Default=YES DefaultTime=10 MaxTime=INFINITE
PartitionName=short Nodes=ALL DefaultTime={settings.short_limit_min} MaxTime={settings.short_limit_min}
"""


def cgroup_conf(settings: ClusterSettings) -> str:
    """`cgroup.conf`. Options: https://slurm.schedmd.com/archive/slurm-22.05-latest/cgroup.conf.html"""
    if settings.process_tracking == "pgid":
        return "CgroupAutomount=no\n"
    cores, memory = ("yes" if on else "no" for on in (settings.binds_tasks, settings.memory_is_a_resource))
    return f"CgroupAutomount=no\nCgroupPlugin=cgroup/v1\nConstrainCores={cores}\nConstrainRAMSpace={memory}\n"
