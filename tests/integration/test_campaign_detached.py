"""Campaigns that nobody holds: started with --detach, watched, listed and cancelled by other processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.campaigns import CampaignFolder
from tests.support.waiting import wait_until
from workflow.api.campaigns import campaign_status
from workflow.campaign.campaign_directory import known_campaigns
from workflow.campaign.campaign_state import list_campaigns
from workflow.campaign.results.results_model import CampaignLine, CampaignStatus, DriverPart
from workflow.run.control.lease import has_process, read_lease
from workflow.run.processes.process_reaper import end_members, find_members

# Each run goes on until there is a file go-VALUE.
PIPELINE = """wf: 1
name: tiny
oversubscribe: true
deadlines: {stop: 3 s}
stages:
  one:
    command: [sh, -c, 'echo $VALUE >> "$FOLDER/ran.txt"; while test ! -e "$FOLDER/go-$VALUE"; do sleep 0.05; done']
    env: {VALUE: 0, FOLDER: "${{ pipeline.dir }}"}
"""
WITHIN_S = 60.0


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CampaignFolder]:
    """Two trials, of which the first ends at once, twice; nothing of it is left."""
    monkeypatch.chdir(tmp_path)
    folder = CampaignFolder(tmp_path, values=2, repetitions=2)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "go-1").touch()
    yield folder
    lease = read_lease(folder.directory)
    if lease is not None and has_process(lease):
        os.kill(lease.pid, signal.SIGKILL)
    left = {run.name: find_members(str(run)) for run in folder.directory.glob("runs/*")}
    for run in folder.directory.glob("runs/*"):
        end_members(str(run))
    assert not any(left.values()), f"processes were left: {left}"


def status(campaign: CampaignFolder) -> CampaignStatus:
    return campaign_status(campaign.directory)


def line(_: CampaignFolder) -> CampaignLine:
    (found,) = list_campaigns(known_campaigns())
    return found


def blocked_run(campaign: CampaignFolder) -> str:
    """The name of the run of the second trial, once it runs."""
    wait_until(lambda: "2" in campaign.ran(), "the second trial starts")
    (running,) = status(campaign).running
    return running.run


def watching(campaign: CampaignFolder) -> subprocess.Popen[str]:
    """`wf campaign watch`, once it follows."""
    process = subprocess.Popen(
        campaign.argv("watch"), cwd=campaign.folder, env={**campaign.environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "runs it" in process.stdout.readline()
    return process


def test_a_detached_campaign_is_watched_and_cancelled_by_others_and_goes_on(campaign: CampaignFolder) -> None:
    assert "tiny has started" in campaign.wf("run", "--detach")
    lease = read_lease(campaign.directory)
    assert lease is not None and os.getsid(lease.pid) == lease.pid
    run = blocked_run(campaign)
    assert status(campaign).driver == DriverPart(host=lease.host, pid=lease.pid, alive=True)
    said = campaign.wf("status")
    assert f"process {lease.pid} on {lease.host} runs it" in said and "runs now: VALUE=2, repetition 1" in said
    (listed,) = json.loads(campaign.wf("list", "--json"))["campaigns"]
    assert (listed["state"], listed["running"], listed["wanted"]) == ("running", 1, 4)
    for again in ("--detach", "-q"):
        assert f"(process {lease.pid}) runs this campaign" in campaign.wf("run", again, code=2)

    watch, other = watching(campaign), watching(campaign)
    other.send_signal(signal.SIGINT)
    left, _ = other.communicate(timeout=WITHIN_S)
    assert other.returncode == 130 and "tiny goes on" in left and "wf campaign cancel tiny" in left
    assert read_lease(campaign.directory) is not None
    said = campaign.wf("cancel")
    assert "asking what runs to stop" in said and "VALUE=2, repetition 1: interrupted" in said
    seen, _ = watch.communicate(timeout=WITHIN_S)
    assert watch.returncode == 1 and "VALUE=2, repetition 1: interrupted" in seen
    (ended,) = (each for each in campaign.records("ended") if each["run"] == run)
    assert ended["state"] == "interrupted" and read_lease(campaign.directory) is None
    assert "no process runs it now" in campaign.wf("cancel")
    assert line(campaign).state == "unfinished"

    (campaign.folder / "go-2").touch()
    campaign.wf("run", "--detach")
    campaign.wf("watch", "-q")
    assert line(campaign).state == "complete" and campaign.ran().count("1") == 2
    assert "nothing is left to run" in campaign.wf("run", "--detach")


def test_what_a_killed_campaign_has_left_is_ended_and_recorded(campaign: CampaignFolder) -> None:
    campaign.wf("run", "--detach")
    run = blocked_run(campaign)
    lease = read_lease(campaign.directory)
    assert lease is not None
    watch = watching(campaign)
    os.kill(lease.pid, signal.SIGKILL)
    seen, _ = watch.communicate(timeout=WITHIN_S)
    assert watch.returncode == 1 and f"process {lease.pid} on {lease.host}, which ran it, has died" in seen
    driver = status(campaign).driver
    assert line(campaign).state == "lost" and driver is not None and not driver.alive
    assert "VALUE=2, repetition 1: lost" in campaign.wf("cancel")
    (ended,) = (each for each in campaign.records("ended") if each["run"] == run)
    assert ended["state"] == "lost" and line(campaign).state == "unfinished"
    (campaign.folder / "go-2").touch()
    campaign.wf("run", "-q")
    assert line(campaign).state == "complete"


def test_a_detached_campaign_that_cannot_run_says_why(campaign: CampaignFolder) -> None:
    said = campaign.wf("run", "--detach", "--set", "set.stages.one.ranks=many", code=2)
    assert "--set set.stages.one.ranks=many: stages.one.ranks: expected a whole number" in said
    assert not campaign.directory.exists()
    assert "no campaigns here" in campaign.wf("list", code=2)
