"""SIGKILL of a campaign at any moment: the next one goes on, runs nothing finished again and loses nothing."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.campaigns import CampaignFolder
from workflow.run.processes.process_reaper import find_members

VALUES, REPETITIONS = 6, 8
WAIT_S = 60.0


def start(campaign: CampaignFolder) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        campaign.argv("run"), cwd=campaign.folder, env=campaign.environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def wait_for(campaign: CampaignFolder, event: str, count: int) -> None:
    end = time.monotonic() + WAIT_S
    while len(campaign.records(event)) < count:
        assert time.monotonic() < end, f"there are never {count} lines `{event}`: {campaign.records(event)[-3:]}"
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_it_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, VALUES, REPETITIONS)
    total = VALUES * REPETITIONS
    for share in (1, 2, 3):
        process = start(campaign)
        wait_for(campaign, "ended", total * share // 4)
        process.send_signal(number)
        code = process.wait(WAIT_S)
        assert code == (130 if number is signal.SIGINT else -number)
    assert len([each for each in campaign.records("ended") if each["state"] == "succeeded"]) < total
    campaign.wf("run")
    ended = [(each["key"], each["number"]) for each in campaign.records("ended") if each["state"] == "succeeded"]
    assert Counter(ended) == dict.fromkeys(ended, 1)
    assert len(ended) == total
    # Each of the three signals may have met a run whose end was not written yet.
    assert total <= len(campaign.ran()) <= total + 3
    assert find_members(str(campaign.directory)) == set(), "processes are left"


def test_half_a_line_is_no_line(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=2)
    campaign.wf("run")
    ledger = campaign.directory / "ledger.jsonl"
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[:-20])
    campaign.wf("run")
    assert len(campaign.ran()) == 5
    assert "2/2" in campaign.wf("status")
