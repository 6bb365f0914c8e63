"""One tiny campaign file per mistake: `bad-campaigns/NAME.yaml`, and what users get for it in `NAME.expected`.

A first line `# wf campaign plan OPTIONS` gives options.
After a deliberate change of messages: `pytest tests/specs/test_bad_campaigns.py --bless`, then read the difference.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.specs.test_bad import SITE
from workflow.campaign.campaign_advice import advise_campaign
from workflow.campaign.file.campaign_overlay import CampaignOptions
from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.planning.job_allocation import pilot_allocation
from workflow.campaign.planning.planned_trials import plan_campaign
from workflow.cli.campaign_verbs import plan
from workflow.errors import SpecError
from workflow.plan.make_plan import make_plan
from workflow.plan.plan_model import Plan
from workflow.site.load_site import load_site
from workflow.site.site_model import Site
from workflow.spec import shipped
from workflow.spec.loaded_pipeline import Loaded
from workflow.spec.overlay import Setting

HERE = Path(__file__).parent
BAD = HERE / "bad-campaigns"
CASES = sorted(path.name for path in BAD.glob("*.yaml"))


@pytest.fixture(autouse=True)
def in_bad_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [HERE / "components"])
    monkeypatch.delenv("WF_CONFIGS", raising=False)


def decide(loaded: Loaded, settings: Sequence[Setting]) -> Plan:
    return make_plan(loaded, site_of(loaded, settings), python="/python", wf_version="0")


def site_of(loaded: Loaded, settings: Sequence[Setting]) -> Site:
    if "/" in loaded.spec.site:
        return load_site(loaded.spec.site, BAD, settings=settings)
    return load_site("../sites/four-cores.yaml", BAD, settings=settings) if settings else SITE


def options(case: str) -> CampaignOptions:
    """Those that the first line of the file asks for."""
    given = re.fullmatch(r"# wf campaign plan (.*)", (BAD / case).read_text().split("\n")[0])
    found = plan.make_context("plan", [*(shlex.split(given[1]) if given else []), case]).params
    return CampaignOptions(found["sets"], found["profiles"], found["site"])


def message(case: str) -> str:
    """What `wf campaign plan` says, on a machine of four cores."""
    try:
        planned = plan_campaign(load_campaign(case, options(case)), decide)
        for trial in planned.ready[:1]:
            pilot_allocation(planned, site_of(trial.loaded, trial.trial.of_site))
    except SpecError as error:
        return f"{error}\n"
    errors = [problem for problem in advise_campaign(planned) if problem.level == "error"]
    assert planned.problems or errors, "nothing is wrong with it"
    return f"{SpecError([*planned.problems, *errors])}\n"


@pytest.mark.parametrize("case", CASES)
def test_message(case: str, bless: bool) -> None:
    said = message(case).replace(str(BAD), "<here>")
    expected = (BAD / case).with_suffix(".expected")
    if bless:
        expected.write_text(said)
    assert expected.is_file(), f"no {expected.name}: run with --bless, then read it"
    assert said == expected.read_text()


@pytest.mark.parametrize("case", CASES)
def test_every_problem_has_its_place_and_a_way_out(case: str) -> None:
    for problem in re.split(r"\n(?! )", message(case).rstrip("\n")):
        first, *rest = problem.split("\n")
        # The one mistake without a line is a file that is not there.
        place = rf"{re.escape(case)}:[1-9]\d*:[1-9]\d*|--(set|site|profile) .*?|pipelines/wlak.yaml"
        assert re.match(rf"error: ({place}): ", first), first
        assert rest, f"says nothing to type next: {problem}"


def test_nothing_is_expected_of_files_that_are_gone() -> None:
    assert {path.stem for path in BAD.glob("*.expected")} == {Path(case).stem for case in CASES}
