"""A campaign of batch jobs without a terminal is ended from outside, with all of its jobs, and goes on later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pilot_campaigns import PilotCampaign
from tests.support.slurm_cluster import SlurmCluster
from tests.support.waiting import wait_until
from workflow.run.control.lease import read_lease

pytestmark = [pytest.mark.slow, pytest.mark.turns(3)]
GONE_S = 60.0


def wf(campaign: PilotCampaign, verb: str, *options: str, code: int = 0) -> str:
    argv = [sys.executable, "-m", "workflow.cli", "campaign", verb, "campaign.yaml", *options]
    done = subprocess.run(
        argv, cwd=campaign.folder, env=campaign.environment, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == code, f"{verb}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def jobs(cluster: SlurmCluster) -> list[str]:
    return cluster.client("squeue", "--noheader", "--format=%A").split()


@pytest.mark.parametrize("mode", ["pilots", "each"])
def test_cancel_ends_the_jobs_of_a_detached_campaign(mode: str, cluster: SlurmCluster, tmp_path: Path) -> None:
    campaign = PilotCampaign(
        tmp_path, f"site: test-slurm\nrepetitions: 4\nmatrix: {{stages.one.env.VALUE: [1, 2]}}\n"
        f"jobs: {{time: 10 min, mode: {mode}, count: 2}}", variables=cluster.environment, held_from=2,
    )  # fmt: skip
    wf(campaign, "run", "--detach")
    campaign.wait_for_ends(1)
    wait_until(lambda: bool(campaign.held()), "another one runs")
    assert "runs now:" in wf(campaign, "status")
    wf(campaign, "cancel")
    assert read_lease(campaign.directory) is None
    assert len(campaign.records("started")) == len(campaign.records("ended"))
    wait_until(lambda: not jobs(cluster) and not campaign.processes(), "the end of all jobs", GONE_S)
    before = campaign.succeeded()
    assert 1 <= len(before) < 8 and "failed" not in {each["state"] for each in campaign.records("ended")}
    campaign.let_go()
    wf(campaign, "run", "-q")
    campaign.assert_complete(8)
    assert campaign.succeeded()[: len(before)] == before
