"""Repetitions side by side on the cores of this machine, by Parsl's workers."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.pilot_campaigns import PilotCampaign, wait_until

pytestmark = pytest.mark.slow
CAMPAIGN = "matrix: {stages.one.env.VALUE: [1, 2]}\nside_by_side: cores\n"


def places(campaign: PilotCampaign) -> set[str]:
    return {each["place"].partition(" ")[2] for each in campaign.records("ended")}


def running(campaign: PilotCampaign) -> list[dict[str, object]]:
    """The attempts that have a lease, and no end."""
    ended = {each["run"] for each in campaign.records("ended")}
    leases = [
        campaign.directory / "runs" / each["run"] / "lease.json"
        for each in campaign.records("started")
        if each["run"] not in ended
    ]
    return [json.loads(path.read_text()) for path in leases if path.exists()]


def test_two_at_once_on_cores_of_their_own_and_a_killed_worker_loses_one(tmp_path: Path) -> None:
    campaign = PilotCampaign(tmp_path, f"{CAMPAIGN}repetitions: 4", sleep_s=1)
    process = campaign.start()
    wait_until(lambda: len(running(campaign)) == 2, "two run at once")
    allowed = [os.sched_getaffinity(int(str(lease["pid"]))) for lease in running(campaign)]
    assert len(allowed) == 2 and not set.intersection(*allowed), allowed
    os.kill(int(str(running(campaign)[0]["pid"])), signal.SIGKILL)
    said = campaign.finish(process)
    campaign.assert_complete(8)
    assert sorted(places(campaign)) == ["cores 0", "cores 1"]
    assert [each["state"] for each in campaign.records("ended")].count("lost") == 1, said
    wait_until(lambda: not campaign.processes(), "the end of the workers")


def test_workers_of_a_killed_driver_end_and_nothing_is_lost_or_run_twice(tmp_path: Path) -> None:
    campaign = PilotCampaign(tmp_path, f"{CAMPAIGN}repetitions: 8", sleep_s=0.3)
    process = campaign.start()
    campaign.wait_for_ends(8)
    process.kill()
    process.communicate()
    wait_until(lambda: not campaign.processes(), "the end of the workers and of their runs")
    before = len(campaign.succeeded())
    assert 8 <= before < 16
    campaign.run()
    campaign.assert_complete(16)
    assert len(campaign.records("started")) <= 16 + 2
