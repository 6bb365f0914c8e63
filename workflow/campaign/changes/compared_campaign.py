"""A campaign as `wf campaign compare` takes it: its file, directory or name, or its report.json."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from workflow.campaign.campaign_directory import SCHEDULE_FILE, find_campaign
from workflow.campaign.ledger import read_history
from workflow.campaign.results.make_results import make_results
from workflow.campaign.results.results_model import CampaignResults
from workflow.errors import RunError
from workflow.formats.read_json import read_json
from workflow.spec.suggest import shortened
from workflow.spec.user_paths import exists

REPORT_FILE = "report.json"
_GIVE = "give a campaign's directory or name, or the report.json of `wf campaign report`"


class ComparedCampaign(NamedTuple):
    """One of the two campaigns, as the user named it."""

    source: str
    results: CampaignResults


def read_compared(given: Path) -> ComparedCampaign:
    """The results of a campaign.

    Raises:
        RunError: it is no campaign, cannot be read, or has not been run.
        SpecError: its campaign file is wrong.
    """
    source = str(given)
    # A CI job downloads a folder that holds the report alone.
    has_report = given.is_dir() and not (given / SCHEDULE_FILE).exists() and exists(given / REPORT_FILE)
    if given.suffix == ".json" or has_report:
        return ComparedCampaign(source, _read_report(given / REPORT_FILE if given.is_dir() else given))
    if given.is_file() and given.suffix not in (".yaml", ".yml"):
        raise RunError(f"{shortened(source)} is not a campaign", _GIVE)
    found, campaign, schedule = find_campaign(given)
    return ComparedCampaign(source, make_results(campaign.spec, schedule, read_history(found)))


def _read_report(path: Path) -> CampaignResults:
    shown = shortened(str(path))
    try:
        content = read_json(path.read_bytes())
    except OSError as error:
        raise RunError(f"cannot read {shown}: {error.strerror}", _GIVE) from error
    except ValueError as error:
        raise RunError(f"{shown} is not JSON: {error}", _GIVE) from error
    if isinstance(content, dict) and "report_version" in content:
        text = f"{shown} is the report of a run, not of a campaign"
        raise RunError(text, "`wf compare RUN_A RUN_B` compares the data of two runs")
    if not isinstance(content, dict) or "results_version" not in content:
        raise RunError(f"{shown} is not the report of a campaign", _GIVE)
    try:
        return CampaignResults.model_validate(content)
    except ValidationError as error:
        text = f"{shown} cannot be read by this wf"
        raise RunError(text, "write it again where it was measured: wf campaign report") from error
