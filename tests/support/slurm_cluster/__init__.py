"""A real Slurm of several nodes on one machine. The nodes share the file system and nothing else."""

from __future__ import annotations

from tests.support.slurm_cluster.cluster import JobDone, SlurmCluster
from tests.support.slurm_cluster.node import NodeProcess
from tests.support.slurm_cluster.requirements import missing_for_cluster
from tests.support.slurm_cluster.settings import ClusterSettings

__all__ = ["ClusterSettings", "JobDone", "NodeProcess", "SlurmCluster", "missing_for_cluster"]
