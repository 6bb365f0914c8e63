"""The contract of a run as a job of PSI/J on Slurm, submitted from outside of the nodes that it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.run_contract import RunContract, wf
from tests.support.slurm_cluster import SlurmCluster


class TestPsijSlurm(RunContract):
    @pytest.fixture(autouse=True)
    def on_cluster(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster

    def command(self, pipeline: Path) -> list[str]:
        return wf("run", str(pipeline), "--site", "test-slurm")

    def environment(self) -> dict[str, str]:
        return self.cluster.environment

    def left(self, run: Path) -> list[Any]:
        self.cluster.wait_for_state("idle", *self.cluster.hosts)
        there = [each for host in self.cluster.hosts for each in self.cluster.processes_on(host)]
        assert not any(run.name in " ".join(each.command) for each in there), "the supervisor or its shells are left"
        return there
