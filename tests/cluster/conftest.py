"""One cluster for all tests of this folder that leave it as it was; those that break it start their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.slurm_cluster import ClusterSettings, SlurmCluster, missing_for_cluster

PREFIX = "test-"


@pytest.fixture(scope="session")
def started() -> Iterator[list[SlurmCluster]]:
    """The clusters of this session, which are stopped at its end unless a test has done it."""
    if missing := missing_for_cluster():
        pytest.skip("; ".join(missing))
    _stop_abandoned()
    clusters: list[SlurmCluster] = []
    yield clusters
    for cluster in clusters:
        cluster.stop()


@pytest.fixture(scope="session")
def start_cluster(started: list[SlurmCluster]) -> Callable[[ClusterSettings], SlurmCluster]:
    """Starts a cluster."""

    def start(settings: ClusterSettings) -> SlurmCluster:
        cluster = SlurmCluster(f"{PREFIX}{os.getpid()}-{len(started)}", settings)
        started.append(cluster)
        cluster.start()
        return cluster

    return start


@pytest.fixture(autouse=True)
def whole(started: list[SlurmCluster]) -> None:
    """Each test finds clusters without jobs, and all of their nodes on, whatever the test before it has left."""
    for cluster in started:
        if cluster.is_running():
            cluster.make_whole()


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
