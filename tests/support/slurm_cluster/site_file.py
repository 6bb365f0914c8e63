"""The site file of a cluster, as somebody who knows its nodes would write it."""

from __future__ import annotations

from tests.support.slurm_cluster.settings import ClusterSettings

NAME = "test-slurm"


def site_file(settings: ClusterSettings, slurm_version: str) -> str:
    """The text of `sites/test-slurm.yaml`."""
    return f"""\
site: {NAME}
summary: "isolated nodes of one machine under Slurm: they share the file system only"
nodes: {settings.nodes}
cores_per_node: {settings.cpus_per_node}
memory_per_node: {settings.memory_per_node_mib} MiB
launcher: srun
launcher_version: "{slurm_version}"
launch_single: true   # one-rank stages run on the nodes of the job, too
interface: e0
fabric: false         # between nodes SST runs by tcp; by ucx or rdma its readers wait for ever
scheduler: slurm
workarounds:
  - env: {{MPIR_CVAR_CH4_NETMOD: ofi}}   # libfabric's addresses are short; the default is UCX
    reason: "UCX: failed to unpack address: MPICH sends 4096 bytes from an address on, Slurm reads 1024 of a line"
    source: "MPICH, MPIDI_UCX_comm_addr_exchange; Slurm, src/plugins/mpi/pmi2/pmi1.c: MAX_READLINE"
    when: mpi
queues:
  debug: {{default: true}}
  short: {{walltime: {settings.short_limit_min} min}}
"""
