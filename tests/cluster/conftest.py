"""One cluster for all tests of this folder that leave it as it was; those that break it start their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.slurm_cluster import ClusterSettings, SlurmCluster, missing_for_cluster

PREFIX = "test-"


@pytest.fixture(scope="session")
def start_cluster() -> Iterator[Callable[[ClusterSettings], SlurmCluster]]:
    """Starts a cluster, which is stopped at the end of the session unless the test has done it."""
    if missing := missing_for_cluster():
        pytest.skip("; ".join(missing))
    _stop_abandoned()
    started: list[SlurmCluster] = []

    def start(settings: ClusterSettings) -> SlurmCluster:
        cluster = SlurmCluster(f"{PREFIX}{os.getpid()}-{len(started)}", settings)
        started.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in started:
        cluster.stop()


@pytest.fixture(scope="session")
def cluster(start_cluster: Callable[[ClusterSettings], SlurmCluster]) -> SlurmCluster:
    """Four nodes of two cores. A test that uses it leaves no job, and all nodes on."""
    return start_cluster(ClusterSettings())


def _stop_abandoned() -> None:
    """Stop the clusters of test sessions that were killed before they could do so."""
    for name in SlurmCluster.running():
        pid = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and not Path("/proc", pid).exists():
            SlurmCluster(name).stop()
