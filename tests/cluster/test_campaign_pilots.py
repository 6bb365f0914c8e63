"""Campaigns on four isolated nodes: repetitions side by side, and what becomes of them when parts of it die."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pilot_campaigns import PilotCampaign, overlapping
from tests.support.slurm_cluster import SlurmCluster
from tests.support.slurm_cluster.cluster import ENDED
from tests.support.waiting import wait_until
from workflow.campaign.execution.driver_lease import KILLED_S, STOP_S
from workflow.campaign.execution.parsl_workers import LOST_S
from workflow.provenance.provenance_model import read_provenance
from workflow.run.guard import node_guard
from workflow.run.proof import rank_probe
from workflow.run.records.job_record import read_job

pytestmark = [pytest.mark.slow, pytest.mark.turns(3)]
# Trials of one node and of two.
MIXED = "site: test-slurm\nmatrix: {stages.one.ranks: [1, 2]}\n"
ON_NODES = "    place: {ranks_per_node: 1}\n"
GONE_S = 60.0
# Of a driver that is killed the nodes know by its silence, and by Parsl's interchange on its host, which ends with it.
# Then the supervisors on the nodes stop their runs.
WITHOUT_DRIVER_S = LOST_S + STOP_S + KILLED_S + GONE_S


@pytest.fixture(autouse=True)
def no_jobs_left(cluster: SlurmCluster) -> Iterator[None]:
    yield
    cluster.client("scancel", "--user=root")
    cluster.wait_for_state("idle", *cluster.hosts)


def jobs(cluster: SlurmCluster, *options: str) -> list[int]:
    return sorted(int(word) for word in cluster.client("squeue", "--noheader", "--format=%A", *options).split())


def assert_disjoint(campaign: PilotCampaign, *, cores: bool = False) -> None:
    """By the proof of their placement: what ran at the same time has shared no node, or no core of one."""
    for one, two in overlapping(campaign.ran_at()):
        shared = one.cores & two.cores if cores else one.hosts & two.hosts
        assert not shared, f"{one.run} and {two.run} at the same time on {shared}"


def submitted(campaign: PilotCampaign) -> int:
    """How many jobs of single repetitions the scheduler has taken."""
    found = [read_job(path.parent) for path in campaign.directory.glob("runs/*/job.json")]
    return sum(job is not None and job.job != "" for job in found)


def states(campaign: PilotCampaign) -> list[str]:
    return [each["state"] for each in campaign.records("ended")]


def hosts_of_held(campaign: PilotCampaign) -> list[set[str]]:
    """The nodes of each repetition that is held."""
    return [{host.split()[0] for host in each["place"].split(", ")} for each in campaign.held()]


def are_beside(hosts: list[set[str]], *, on_one_node: bool) -> bool:
    """Whether two repetitions are held, of which each has nodes of its own, or both are on one."""
    return any(bool(one & two) == on_one_node for one, two in itertools.combinations(hosts, 2))


@pytest.mark.parametrize("share", ["nodes", "cores"])
def test_in_a_batch_job(share: str, cluster: SlurmCluster, tmp_path: Path) -> None:
    ones = "site: test-slurm\nmatrix: {stages.one.env.VALUE: [1, 2]}\n"
    given, more = (MIXED, ON_NODES) if share == "nodes" else (ones, "")
    repetitions = 3 if share == "nodes" else 6
    campaign = PilotCampaign(
        tmp_path, f"{given}repetitions: {repetitions}\nside_by_side: {share}", more=more, held_from=1
    )
    job = cluster.start_job(
        campaign.argv, tmp_path / "job", "--nodes=4", "--exclusive", f"--chdir={tmp_path}",
        PYTHONPATH=campaign.environment["PYTHONPATH"],
    )  # fmt: skip
    wait_until(lambda: are_beside(hosts_of_held(campaign), on_one_node=share == "cores"), "two side by side")
    campaign.let_go()
    cluster.wait_for_job(job, *ENDED, deadline_s=120)
    done = cluster.job_done(job, tmp_path / "job")
    assert done.state == "COMPLETED", done.printed
    campaign.assert_complete(2 * repetitions)
    assert_disjoint(campaign, cores=share == "cores")
    ran = campaign.ran_at()
    assert overlapping(ran)
    if share == "nodes":
        assert {len(each.hosts) for each in ran} == {1, 2}
    else:
        # Two on one node at the same time.
        assert any(one.hosts & two.hosts for one, two in overlapping(ran))


def test_a_pilot_that_is_cancelled_gives_its_repetitions_back(cluster: SlurmCluster, tmp_path: Path) -> None:
    campaign = PilotCampaign(
        tmp_path, f"{MIXED}repetitions: 5\njobs: {{nodes: 2, time: 10 min, count: 2}}", more=ON_NODES, held_from=2,
        variables=cluster.environment,
    )  # fmt: skip
    process = campaign.start()
    campaign.wait_for_ends(2)
    wait_until(lambda: len(jobs(cluster)) == 2, "the jobs of both pilots")
    first = jobs(cluster)
    cluster.client("scancel", str(first[-1]))
    wait_until((campaign.directory / "pilots/p3").exists, "a pilot in place of the one that was cancelled")
    campaign.let_go()
    said = campaign.finish(process)
    campaign.assert_complete(10)
    assert_disjoint(campaign)
    assert "failed" not in states(campaign), said
    assert f"slurm job {first[-1]} ended" in said
    # Each repetition describes the node of its pilot, not the login node, and the command of the campaign.
    for ran in campaign.ran_at():
        made = read_provenance(campaign.directory / "runs" / ran.run)
        assert made is not None and made.host in cluster.hosts and "SLURM_JOB_ID" in made.environment
        assert "campaign" in made.command
    # Pilots end by themselves, and nothing of them is left.
    wait_until(lambda: not jobs(cluster) and not campaign.processes(), "the end of all pilots", GONE_S)
    assert cluster.job_state(first[0]) == "COMPLETED"


def test_a_lost_node_is_not_used_again(cluster: SlurmCluster, tmp_path: Path) -> None:
    campaign = PilotCampaign(
        tmp_path, f"{MIXED}repetitions: 5\njobs: {{time: 10 min, nodes: 4}}", more=ON_NODES, held_from=2,
        variables=cluster.environment,
    )  # fmt: skip
    process = campaign.start()
    campaign.wait_for_ends(1)
    # The workers are on the first one.
    head = cluster.hosts[0]
    wait_until(
        lambda: bool(set().union(*hosts_of_held(campaign)) - {head}), "a repetition is on another node than the workers"
    )
    node = min(set().union(*hosts_of_held(campaign)) - {head})
    cluster.kill_node(node)
    try:
        wait_until(lambda: "lost" in states(campaign), "what ran there is lost")
        campaign.let_go()
        said = campaign.finish(process)
    finally:
        cluster.restart_node(node)
    campaign.assert_complete(10)
    assert "failed" not in states(campaign), said
    assert said.count(f"pilot p1: node {node} is lost, and not used again") == 1
    lines = campaign.records("started", "ended")
    (lost,) = (number for number, each in enumerate(lines) if each.get("state") == "lost")
    after = [each for each in lines[lost:] if each["event"] == "started"]
    assert after and not [each["run"] for each in after if node in each["place"]]


def test_a_node_on_which_nothing_starts_is_given_up_before_the_deadline_of_the_start(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """As after a power cut while srun starts there, which then waits for minutes."""
    campaign = PilotCampaign(
        tmp_path, "site: test-slurm\nrepetitions: 6\njobs: {time: 10 min, nodes: 4}", sleep_s=1, more=ON_NODES,
        variables=cluster.environment,
    )  # fmt: skip
    os.mkfifo(tmp_path / "hangs")
    programs = [node_guard.__file__, rank_probe.__file__]
    for program in programs:
        assert cluster.run_on("n3", ["mount", "--bind", str(tmp_path / "hangs"), program]).returncode == 0
    try:
        said = campaign.run()
    finally:
        for program in programs:
            cluster.run_on("n3", ["umount", "--lazy", program])
    campaign.assert_complete(6)
    (lost,) = [each for each in campaign.records("ended") if each["state"] != "succeeded"]
    assert (lost["state"], lost["place"]) == ("lost", "n3"), said
    assert lost["reason"] == "no answer of n3 within 20 s, although others have started since"
    assert said.count("pilot p1: node n3 is lost, and not used again") == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_without_its_driver_all_ends_and_the_next_one_goes_on(
    number: signal.Signals, cluster: SlurmCluster, tmp_path: Path
) -> None:
    campaign = PilotCampaign(
        tmp_path, f"{MIXED}repetitions: 6\njobs: {{time: 10 min, nodes: 4}}", more=ON_NODES, held_from=4,
        variables=cluster.environment,
    )  # fmt: skip
    process = campaign.start()
    campaign.wait_for_ends(4)
    process.send_signal(number)
    process.communicate(timeout=GONE_S)
    assert process.returncode == (130 if number is signal.SIGTERM else -number)
    wait_until(lambda: not jobs(cluster), "the end of the pilot's job", WITHOUT_DRIVER_S)
    wait_until(lambda: not campaign.processes(), f"the end of {campaign.processes()}", GONE_S)
    before = campaign.succeeded()
    assert 4 <= len(before) <= 6
    campaign.let_go()
    campaign.run()
    campaign.assert_complete(12)
    campaign.assert_not_again(before)


def test_a_job_for_each_repetition_is_followed_by_the_next_driver(cluster: SlurmCluster, tmp_path: Path) -> None:
    rest = "repetitions: 2\njobs: {time: 5 min, mode: each}"
    campaign = PilotCampaign(tmp_path, f"{MIXED}{rest}", more=ON_NODES, variables=cluster.environment, held_from=1)
    process = campaign.start()
    # Not in the middle of a submission, of which nobody knows whether it has come to a job.
    wait_until(lambda: submitted(campaign) == 4, "four jobs")
    process.kill()
    process.communicate()
    # Also the jobs of a trial that the file does not have any more.
    campaign.write(f"site: test-slurm\nmatrix: {{stages.one.ranks: [1]}}\n{rest}")
    campaign.let_go()
    campaign.run()
    assert states(campaign) == ["succeeded"] * 4

    def describes_a_node(run: str) -> bool:
        made = read_provenance(campaign.directory / "runs" / run)
        return made is not None and made.host in cluster.hosts and "SLURM_JOB_ID" in made.environment

    # Written by the jobs when their runs have ended: the driver does not wait for it.
    wait_until(
        lambda: all(describes_a_node(each.run) for each in campaign.ran_at()), "what the jobs found on their nodes"
    )
    campaign.write(f"{MIXED}{rest}")
    campaign.run()
    campaign.assert_complete(4)
    assert len(campaign.records("started")) == 4, "a repetition was submitted again"
    assert all(not one.hosts & two.hosts for one, two in overlapping(campaign.ran_at()))
