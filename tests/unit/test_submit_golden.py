"""The job scripts of every shipped site that has a scheduler: example 01, and the pipeline of 512 nodes.

After a deliberate change: `pytest tests/unit/test_submit_golden.py --bless`, then read the difference.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_launch_golden import EXAMPLE, LARGE, ROOT, SITES, planned, sets_of
from workflow import own_process
from workflow.plan.plan_model import Plan
from workflow.site.load_site import load_site, read_site_file
from workflow.submit.submission import job_script

GOLDEN = ROOT / "tests/golden/job-scripts"
WITH_SCHEDULER = [site for site in SITES if read_site_file(site).scheduler is not None]
# As long as every queue of these sites allows for so many nodes.
ASKED = ("allocation.account=abc123", "allocation.walltime=30 min")


def shown(plan: Plan, site: str) -> str:
    text = job_script(plan, load_site(site)).replace(sys.executable, "/env/bin/python")
    text = text.replace(own_process.__file__, "/env/workflow/own_process.py")
    # PSI/J names the folder of its shell script by the sum of its files.
    return re.sub(r"/[0-9a-f]{64}/", "/SUM/", text)


def scripts_of(site: str) -> list[str]:
    return [shown(planned(EXAMPLE, site, ASKED), site), shown(planned(LARGE, site, (*sets_of(site), *ASKED)), site)]


@pytest.mark.parametrize("site", WITH_SCHEDULER)
def test_job_script(site: str, bless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("WF_CONFIGS", raising=False)
    small, large = scripts_of(site)
    text = f"{small}\n######## the same of 512 nodes\n{large}"
    golden = GOLDEN / f"{site}.sh"
    if bless:
        golden.write_text(text)
    assert golden.is_file(), f"no {golden.name}: run with --bless, then read it"
    assert text == golden.read_text()
    for script in (small, large):
        assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_nothing_is_kept_of_sites_that_are_gone() -> None:
    assert {path.stem for path in Path(GOLDEN).glob("*.sh")} == set(WITH_SCHEDULER)
