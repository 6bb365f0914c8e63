"""SIGKILL of a campaign at any moment: the next one goes on, runs nothing finished again and loses nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.campaigns import CampaignFolder
from tests.support.waiting import wait_until
from workflow.run.processes.process_reaper import find_members
from workflow.run.records.control_requests import send_request

VALUES, REPETITIONS = 6, 8
WAIT_S = 120.0


def start(campaign: CampaignFolder) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        campaign.argv("run"), cwd=campaign.folder, env=campaign.environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def wait_for(campaign: CampaignFolder, event: str, count: int) -> None:
    wait_until(lambda: len(campaign.records(event)) >= count, f"{count} lines `{event}`", WAIT_S, every_s=0.005)


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


def cut_last_end(campaign: CampaignFolder, count: int = 1) -> None:
    """The ledger as a campaign leaves it that was killed while it wrote the end of its last runs."""
    ledger = campaign.directory / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if b'"ended"' in line][-count:]
    kept = [line for number, line in enumerate(lines) if number not in ends]
    ledger.write_bytes(b"".join(kept) + lines[ends[-1]][:-20])


def test_a_run_whose_end_was_not_recorded_is_looked_up_and_not_run_again(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=2)
    campaign.wf("run")
    before = campaign.records("ended")
    cut_last_end(campaign, 2)
    said = campaign.wf("run")
    assert len(campaign.ran()) == 4
    assert "4 of 4 repetitions succeeded" in said
    after = campaign.records("ended")
    assert [(each["run"], each["state"], each["figures"]) for each in after] == [
        (each["run"], each["state"], each["figures"]) for each in before
    ]
    assert "2/2" in campaign.wf("status")


def test_a_run_whose_start_was_not_recorded_gets_another_name(tmp_path: Path) -> None:
    """Its directory is there, and the line of the ledger that names it is cut off."""
    campaign = CampaignFolder(tmp_path, values=2, repetitions=1)
    campaign.wf("run")
    ledger = campaign.directory / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    begin = max(number for number, line in enumerate(lines) if b'"event": "started"' in line)
    ledger.write_bytes(b"".join(lines[:begin]) + lines[begin][:-20])
    said = campaign.wf("run")
    assert "2 of 2 repetitions succeeded" in said
    assert any(each["run"].endswith("-r01-a2") for each in campaign.records("ended"))


def test_what_never_began_and_what_has_no_verdict_run_again(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=3, repetitions=1)
    campaign.wf("run")
    cut_last_end(campaign, 2)
    *_, first, second = (each["run"] for each in campaign.records("started"))
    shutil.rmtree(campaign.directory / "runs" / first)
    events = campaign.directory / "runs" / second / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join(line for line in lines if b"run_finished" not in line))
    campaign.wf("run")
    states = {each["run"]: each["state"] for each in campaign.records("ended")}
    assert len(campaign.ran()) == 5
    assert states[first] == states[second] == "interrupted"
    assert states[f"{first}-a2"] == states[f"{second}-a2"] == "succeeded"
    assert "its campaign was killed" in events.read_text()


def test_a_request_stops_it_in_order(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=1)
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text().replace("> data;", "> data; sleep 600;"))
    process = start(campaign)
    wait_for(campaign, "started", 1)
    send_request(campaign.directory, "stop")
    assert process.wait(WAIT_S) == 130
    assert not (campaign.directory / "lease.json").exists()
    assert [each["state"] for each in campaign.records("ended")] == ["interrupted"]
    assert find_members(str(campaign.directory)) == set(), "processes are left"
