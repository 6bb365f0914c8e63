"""The pages of runs and campaigns as a browser shows them: wide and narrow, light and dark, and to a screen reader."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.accessibility import grave_violations
from tests.support.browser import PageOpener
from tests.support.sample_run import make_events, make_plan, simulate, write_run
from workflow.campaign.results.campaign_page import make_page
from workflow.campaign.results.results_model import CampaignResults
from workflow.campaign.results.results_pictures import make_pictures
from workflow.report.report_files import write_report

ROOT = Path(__file__).parents[2]
PAGES = ["run", "failed", "campaign"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page for each of PAGES: of a recorded run with pictures, of one that failed, of a study."""
    folder = tmp_path_factory.mktemp("pages")
    run = folder / "of-run"
    shutil.copytree(ROOT / "tests/recorded-reports/gray-scott", run)
    (run / "pictures").mkdir()
    shutil.copy(ROOT / "examples/02-gray-scott/slices.png", run / "pictures")
    metrics = simulate(3, 0.05, 0.05, 0.01)
    # A path in which no browser breaks a line by itself.
    argv = [f"/lustre/{'x' * 90}/bin/python", "-m", "analysis", "--all", "/scratch/" + "y" * 120]
    plan = make_plan(component=None, program=argv)
    failed = write_run(folder / "of-failed", plan, make_events(metrics, "failed", "saxs", "it ended"), metrics)
    (failed / "stages/saxs/stderr.log").write_text("Traceback\nValueError: no atoms\n" * 10)
    for name, run_dir in (("run", run), ("failed", failed)):
        write_report(run_dir)
        shutil.copy(run_dir / "report.html", folder / f"{name}.html")
    study = json.loads((ROOT / "examples/campaigns/coupled-pipeline/results.json").read_text())
    results = CampaignResults.model_validate(study)
    (folder / "campaign.html").write_text(make_page(results, make_pictures(results)))
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(name: str, folder: Path, open_page: PageOpener) -> None:
    for width, dark in ((1400, False), (400, True)):
        page = open_page(folder / f"{name}.html", width, dark=dark)
        assert grave_violations(page) == [], f"{width} px, {'dark' if dark else 'light'}"


@pytest.mark.parametrize("name", PAGES)
def test_no_column_is_out_of_sight(name: str, folder: Path, open_page: PageOpener) -> None:
    widths = "all => all.map(each => [each.scrollWidth, each.clientWidth])"
    for width in (1400, 400):
        page = open_page(folder / f"{name}.html", width)
        boxes = page.locator("html, .scroll").evaluate_all(widths)
        assert len(boxes) > 2
        assert all(inside <= seen for inside, seen in boxes), f"{width} px: {boxes}"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_whole(name: str, folder: Path, open_page: PageOpener) -> None:
    page = open_page(folder / f"{name}.html", 720)  # about A4 without its margins
    page.emulate_media(media="print")
    boxes = page.locator("html, .scroll, pre").evaluate_all(
        "all => all.map(each => [each.scrollWidth, each.clientWidth])"
    )
    assert all(inside <= seen for inside, seen in boxes), boxes
    heads = page.locator("th").evaluate_all("all => all.map(each => each.clientWidth)")
    assert min(heads) > 12, "a column of single letters"
    closed = page.locator("details > pre").evaluate_all("all => all.filter(each => !each.clientHeight).length")
    assert closed == 0


def test_pictures_of_steps_have_a_slider_and_keys(tmp_path: Path, open_page: PageOpener, browser: Browser) -> None:
    run = tmp_path / "with-frames"
    shutil.copytree(ROOT / "tests/recorded-reports/gray-scott", run)
    (run / "pictures/frames").mkdir(parents=True)
    for step in range(12):
        shutil.copy(ROOT / "examples/02-gray-scott/summary.png", run / f"pictures/frames/step{step:05d}.png")
    write_report(run)
    page = open_page(run / "report.html")
    assert grave_violations(page) == []

    def shown() -> list[str]:
        return [
            str(name) for name in page.locator(".series img:visible").evaluate_all("all => all.map(each => each.alt)")
        ]

    assert shown() == ["pictures/frames/step00000.png"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert shown() == ["pictures/frames/step00002.png"]
    # What scrolls by these keys keeps them.
    page.locator(".scroll").first.press("ArrowRight")
    assert shown() == ["pictures/frames/step00002.png"]
    page.locator(".series input").press("End")
    page.keyboard.press("ArrowLeft")
    assert shown() == ["pictures/frames/step00010.png"]
    assert page.locator(".series output").inner_text() == "pictures/frames/step00010.png (11 of 12)"
    # Without JavaScript all are there, side by side.
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto((run / "report.html").as_uri())
    assert plain.locator(".series img:visible").count() == 12 and plain.locator(".series input").count() == 0
    context.close()
