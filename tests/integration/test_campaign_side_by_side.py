"""Repetitions side by side on the cores of this machine, by Parsl's workers."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import pytest

from tests.support.pilot_campaigns import PilotCampaign
from tests.support.waiting import wait_until
from workflow.run.control.lease import Lease, read_lease

ONE_CORE = len(os.sched_getaffinity(0)) < 2
pytestmark = [
    *[pytest.mark.slow, pytest.mark.skipif(ONE_CORE, reason="side by side needs two cores")],
    pytest.mark.turns(2),
]
CAMPAIGN = "matrix: {stages.one.env.VALUE: [1, 2]}\nside_by_side: cores\n"
MANAGER = "process_worker_pool"


def leases(campaign: PilotCampaign) -> list[Lease]:
    """Those of the attempts that are held, and do not end meanwhile."""
    found = [read_lease(campaign.directory / "runs" / each["run"]) for each in campaign.held()]
    return [lease for lease in found if lease is not None]


def lost(campaign: PilotCampaign) -> list[str]:
    return [each["run"] for each in campaign.records("ended") if each["state"] == "lost"]


def test_each_has_cores_of_its_own_and_a_killed_worker_loses_one(tmp_path: Path) -> None:
    campaign = PilotCampaign(tmp_path, f"{CAMPAIGN}repetitions: 3", held_from=1)
    process = campaign.start()
    wait_until(lambda: len(leases(campaign)) >= 2, "two run at once")
    held = leases(campaign)
    allowed = [os.sched_getaffinity(lease.pid) for lease in held]
    assert all(not one & two for one, two in itertools.combinations(allowed, 2)), allowed
    os.kill(held[0].pid, signal.SIGKILL)
    wait_until(lambda: bool(lost(campaign)), "the attempt of the killed worker is lost")
    campaign.let_go()
    said = campaign.finish(process)
    campaign.assert_complete(6)
    assert lost(campaign) == [Path(held[0].run_dir).name], said
    wait_until(lambda: not campaign.processes(), "the end of the workers")


def test_a_killed_manager_leaves_nothing_and_another_one_goes_on(tmp_path: Path) -> None:
    campaign = PilotCampaign(tmp_path, f"{CAMPAIGN}repetitions: 2", held_from=1)
    process = campaign.start()
    wait_until(lambda: len(leases(campaign)) >= 2, "two run at once")
    held = {Path(lease.run_dir).name for lease in leases(campaign)}
    pids = [int(each.split(" ")[0]) for each in campaign.processes() if MANAGER in each]
    (manager,) = (pid for pid in pids if os.getsid(pid) == pid)
    os.kill(manager, signal.SIGKILL)
    wait_until(lambda: held <= set(lost(campaign)), "what ran is lost")
    campaign.let_go()
    said = campaign.finish(process)
    campaign.assert_complete(4)
    assert "pilot p1 is lost: its workers ended" in said and (campaign.directory / "pilots/p2").exists()
    wait_until(lambda: not campaign.processes(), "the end of all workers")


def test_workers_of_a_killed_driver_end_and_nothing_is_lost_or_run_twice(tmp_path: Path) -> None:
    campaign = PilotCampaign(tmp_path, f"{CAMPAIGN}repetitions: 6", held_from=4)
    process = campaign.start()
    campaign.wait_for_ends(4)
    process.kill()
    process.communicate()
    wait_until(lambda: not campaign.processes(), "the end of the workers and of their runs")
    keys = list((campaign.directory / "pilots").glob("p1/parsl/certificates/*"))
    assert keys, "a killed driver removes nothing"
    before = campaign.succeeded()
    assert 4 <= len(before) <= 6
    campaign.let_go()
    campaign.run()
    campaign.assert_complete(12)
    campaign.assert_not_again(before)
    assert not list((campaign.directory / "pilots").glob("*/parsl/certificates"))
