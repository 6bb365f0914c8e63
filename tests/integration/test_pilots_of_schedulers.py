"""Pilots as jobs of schedulers whose commands are fakes: what is asked for, and what is said while they wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.fake_schedulers import FakeScheduler
from tests.support.pilot_campaigns import PilotCampaign
from tests.support.waiting import wait_until

SITE = (
    "site: {0}\nsummary: a scheduler of fakes\nnodes: {2}\ncores_per_node: {1}\nmemory_per_node: 1 GiB\n"
    "launcher: none\nscheduler: {0}\n"
)
CAMPAIGN = "site: {}.yaml\nrepetitions: 2\nmatrix: {{stages.one.env.VALUE: [1, 2]}}\n{}"
PENDING = "12|PENDING|Nodes required for job are DOWN, DRAINED or reserved\n"


@pytest.fixture
def fake(tmp_path: Path) -> FakeScheduler:
    scheduler = FakeScheduler(tmp_path / "bin")
    for name, nodes in (("slurm", 4), ("lsf", 1)):
        (tmp_path / f"{name}.yaml").write_text(SITE.format(name, len(os.sched_getaffinity(0)), nodes))
    return scheduler


def test_pilots_of_lsf_are_submitted(fake: FakeScheduler, tmp_path: Path) -> None:
    fake.answer("bsub", {"stdout": "Job <12> is submitted to default queue <normal>.\n", "run": "12"})
    fake.answer("bjobs", "12|RUN|-|-\n")
    campaign = PilotCampaign(tmp_path, CAMPAIGN.format("lsf", ""), variables={"PATH": fake.path})
    said = campaign.run()
    assert "pilot p1: lsf job 12 was submitted: 1 node for 30 min 00 s" in said
    campaign.assert_complete(4)
    assert len(fake.calls("bsub")) == 1
    assert "#BSUB -nnodes 1" in (campaign.directory / "pilots/p1/job.sh").read_text()


def test_a_pilot_asks_for_what_is_up_and_says_what_it_waits_for(fake: FakeScheduler, tmp_path: Path) -> None:
    fake.answer("sinfo", "debug|9|idle\nbatch*|2|idle\nbatch*|1|mixed\nbatch*|1|down*\n")
    fake.answer("sbatch", "Submitted batch job 12\n")
    fake.answer("squeue", PENDING)
    fake.answer("scancel", "")
    campaign = PilotCampaign(tmp_path, CAMPAIGN.format("slurm", "jobs: {nodes: 4}\n"), variables={"PATH": fake.path})
    process = campaign.start()
    wait_until(lambda: len(fake.calls("squeue")) > 1, "what the first answer says was taken")
    process.terminate()
    said, _ = process.communicate(timeout=60)
    assert "`jobs: {nodes: 4}`, but 3 nodes are up: pilots ask for 3, on which every trial fits" in said
    assert "pilot p1: slurm job 12 was submitted: 3 nodes for 30 min 00 s" in said
    assert "pilot p1: slurm job 12: PENDING (Nodes required for job are DOWN, DRAINED or reserved): it may" in said
    (script,) = (campaign.directory / "pilots/p1/psij/slurm").glob("*.job")
    assert "#SBATCH --nodes=3\n" in script.read_text()
    assert fake.calls("scancel") == [["12"]]
