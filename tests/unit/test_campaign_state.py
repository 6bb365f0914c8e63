"""In which state a campaign is, from its counts and its lease; folders that cannot be read are listed, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflow.campaign.campaign_directory import known_campaigns
from workflow.campaign.campaign_state import list_campaigns, state_of, with_driver
from workflow.campaign.ledger import History, OpenAttempt, Repetition
from workflow.campaign.results.campaign_tables import campaign_list_table
from workflow.campaign.results.results_model import CampaignStatus, TrialCount
from workflow.run.control.lease import Lease, Liveness

DRIVER = Lease("n1", 42, 3)


def counted(succeeded: int, failed: int = 0) -> CampaignStatus:
    count = TrialCount(
        trial="k", parameters={}, is_baseline=False, succeeded=succeeded, failed=failed, wanted=4, reason=""
    )
    return CampaignStatus(campaign="c", site="local", spent_s=0, trials=[count])


@pytest.mark.parametrize(
    ("succeeded", "failed", "state"), [(4, 0, "complete"), (3, 1, "failed"), (2, 1, "unfinished"), (0, 0, "unfinished")]
)
def test_the_state_of_a_campaign_that_nobody_runs(succeeded: int, failed: int, state: str) -> None:
    assert state_of(counted(succeeded, failed)) == state


def test_what_runs_is_known_while_the_process_lives() -> None:
    history = History(open={(Repetition("k", 2), 1): OpenAttempt("k-r02", 1, 7.0, "n1 cores 0")})
    alive = with_driver(counted(1), history, Liveness(DRIVER, True))
    assert state_of(alive) == "running" and [each.run for each in alive.running] == ["k-r02"]
    died = with_driver(counted(4), history, Liveness(DRIVER, False))
    assert state_of(died) == "lost" and not died.running
    assert with_driver(counted(1), History(), Liveness(None, False)).driver is None


def test_a_campaign_that_cannot_be_read_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert known_campaigns() == []
    (tmp_path / "campaigns/broken").mkdir(parents=True)
    (tmp_path / "campaigns/broken/schedule.json").write_text("{}")
    (line,) = list_campaigns(known_campaigns())
    assert (line.name, line.state) == ("broken", "unreadable") and "cannot be read" in line.reason
    assert campaign_list_table([line]).rows[0][:3] == ["broken", "unreadable", "0/0"]
