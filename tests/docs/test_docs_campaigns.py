"""The campaigns that the documentation shows are planned and run; what their pages state was measured."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.campaigns import CampaignFolder
from tools.studies import is_current, to_page
from workflow import report_campaign, run_campaign
from workflow.api.campaigns import plan_campaign
from workflow.campaign.campaign_advice import advise_campaign
from workflow.campaign.statistics import repetitions_needed, smallest_p
from workflow.cli.main import wf
from workflow.errors import Problem

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/campaigns"
STUDIES = sorted(path.parent for path in FOLDER.glob("**/campaign.yaml"))
# What the machine of a study has beyond the ADIOS2 of PyPI.
SITES = {
    "data-reduction": ["set.site.operators=[blosc, bzip2, zfp]"],
    "in-situ-transport": ["set.site.parallel_adios2=true", "set.site.planes=[tcp, mpi]"],
}
STARTER = (ROOT / "examples/00-starter/pipeline.yaml").read_text()


def first_campaign() -> str:
    page = (ROOT / "docs/how-to/first-campaign.md").read_text()
    (text,) = re.findall(r"^```yaml\n(# campaign.yaml\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    return str(text)


def test_the_first_campaign_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.yaml").write_text(STARTER)
    once = first_campaign().replace("repetitions: 8", "repetitions: 1").replace("warmup: 1", "warmup: 0")
    (tmp_path / "campaign.yaml").write_text(once)
    outcome = run_campaign("campaign.yaml")
    assert outcome.status.complete and outcome.directory == tmp_path / "campaigns/stream-or-file"
    results, _ = report_campaign("stream-or-file")
    assert [len(each.values) for each in results.results] == [1] * 8
    assert len(results.comparisons) == 4


def test_the_plan_of_the_first_campaign_is_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first").mkdir()
    (tmp_path / "first/pipeline.yaml").write_text(STARTER)
    (tmp_path / "first/campaign.yaml").write_text(first_campaign())
    page = (ROOT / "docs/how-to/first-campaign.md").read_text()
    (shown,) = re.findall(r"^\$ (wf campaign plan first/campaign.yaml)\n(stream-or-file: .*?)^```", page, re.M | re.S)
    command, said = shown
    planned = CliRunner().invoke(wf, command.split()[1:])
    assert planned.exit_code == 0, planned.output

    def without_keys(text: str) -> str:
        # They depend on the versions of what is installed.
        return re.sub(r"^[0-9a-f]{12}", "KEY", text, flags=re.MULTILINE)

    assert without_keys(planned.stdout) == without_keys(said)


def of_repetitions(problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.key == "repetitions"]


def test_the_first_campaign_can_decide_something(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(STARTER)
    (tmp_path / "campaign.yaml").write_text(first_campaign())
    planned, problems, _ = plan_campaign(tmp_path / "campaign.yaml")
    assert not planned.refused and not of_repetitions(problems)
    (tmp_path / "campaign.yaml").write_text(first_campaign().replace("repetitions: 8", "repetitions: 3"))
    planned, problems, _ = plan_campaign(tmp_path / "campaign.yaml")
    problems = of_repetitions(problems)
    assert [(problem.level, problem.hint) for problem in problems] == [
        ("warning", "`repetitions: 7` or more, or fewer comparisons")
    ]
    assert problems[0].message == (
        "3 repetitions per trial are too few for a verdict: the interval of a median needs 6, a verdict with "
        "2 comparisons needs 6, and a comparison in pairs, within the blocks, needs 7"
    )
    alone = first_campaign().replace("repetitions: 8", "repetitions: 3").partition("comparisons:")[0]
    (tmp_path / "campaign.yaml").write_text(alone)
    (problem,) = of_repetitions(plan_campaign(tmp_path / "campaign.yaml")[1])
    assert problem.message == "3 repetitions per trial: the interval of a median needs 6"
    assert problem.hint == "`repetitions: 6` or more"


def test_too_few_repetitions_for_pairs_are_told(tmp_path: Path) -> None:
    """Of 4 comparisons two are of rates of a file and a stream, which are not tested: 7 repetitions are enough."""
    (tmp_path / "pipeline.yaml").write_text(STARTER)
    for repetitions, said in ((7, False), (6, True)):
        text = first_campaign().replace("repetitions: 8", f"repetitions: {repetitions}")
        (tmp_path / "campaign.yaml").write_text(text)
        problems = of_repetitions(plan_campaign(tmp_path / "campaign.yaml")[1])
        assert [problem.level for problem in problems] == (["note"] if said else [])
        assert all("too few to compare in pairs" in problem.message for problem in problems)
        assert all("`repetitions: 7` or more" in problem.hint for problem in problems)


def test_the_smallest_p_of_the_explanation() -> None:
    text = (ROOT / "docs/explanation/statistics.md").read_text()
    rows = re.findall(r"^\| [\d to]*?(\d+)(?: or (\d+))? \| (\d+)(?:, the default)? \|$", text, re.MULTILINE)
    assert len(rows) == 6
    for most, or_most, repetitions in rows:
        assert repetitions_needed(int(or_most or most), "pairs") == int(repetitions)
        assert repetitions_needed(int(or_most or most) + 1, "pairs") == int(repetitions) + 1 or most == "1"
    assert f"2/70 = {smallest_p(4, 4):.3f}" in text and f"comparisons {smallest_p(4, 4) * 2:.3f}" in text


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_study_can_run_and_decide(study: Path) -> None:
    planned, problems, _ = plan_campaign(study / "campaign.yaml", sets=SITES.get(study.name, []))
    assert planned.ready and not planned.refused
    # Aggregation has no effect with PyPI's ADIOS2, as the page of that study says.
    told = [problem for problem in advise_campaign(planned) if problem.level != "note"]
    assert all(problem.key == "" and " run the same: " in problem.message for problem in told)
    removed = "the data that the stages write are removed after each repetition that succeeds"
    assert any(problem.message.startswith(removed) for problem in problems)


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_study_states_what_was_published_and_links_to_what_was_measured(study: Path) -> None:
    # A study of several campaigns has one page for all.
    page = next(folder / "README.md" for folder in (study, study.parent) if (folder / "README.md").is_file())
    text, results = page.read_text(), (study / "results.md").relative_to(page.parent).as_posix()
    assert "## Published" in text and "## Measured here" in text
    assert re.search(r"arXiv:\d{4}\.\d{5}|doi:10\.", text)
    assert (f"]({results})" in text) == (study / "results.json").is_file()


def test_the_page_of_a_study_has_the_tables_of_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    campaign = CampaignFolder(tmp_path, 2, 6, "comparisons: [{vary: stages.one.env.VALUE}]\n")
    run_campaign("campaign.yaml")
    results, _ = report_campaign("tiny")
    page = to_page("tiny", results)
    assert "12 repetitions from" in page and "| VALUE | n | median |" in page and "## comparisons" in page
    assert page.count("\n| ") >= 2 + 2 + 2 + 1
    study = tmp_path / "tiny"
    study.mkdir()
    (study / "results.json").write_text((campaign.directory / "report.json").read_text())
    (study / "results.md").write_text(page)
    assert is_current(study)
    (study / "results.md").write_text(page.replace("median", "mean", 1))
    assert not is_current(study)


def test_the_pages_of_the_studies_are_made_of_their_results() -> None:
    command = [sys.executable, "tools/studies.py", "--check"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
