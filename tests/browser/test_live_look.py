"""The page of `wf look --live` in Chromium, beside a run in progress: what it shows is what the simulation writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.browser.test_look import Looker
from tests.support.accessibility import grave_violations
from tests.support.browser import PageOpener
from tests.support.live_runs import LAST, STREAMS, LiveRun, live_run
from tests.support.waiting import wait_until
from workflow.api.live_looks import live_look
from workflow.look.live_look import LiveLook

# From when a step can be read in the file until the page shows it.
SHOWN_WITHIN_S = 2.0


@pytest.fixture
def live(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveRun]:
    with live_run(tmp_path, STREAMS[getattr(request, "param", "newest")]) as run:
        run.let_write(3)
        yield run


@pytest.fixture
def served(live: LiveRun) -> Iterator[LiveLook]:
    with live_look(live.folder) as page:
        yield page


def shown(page: Page) -> int:
    """The number of the step that the page shows."""
    return int(page.locator("#step").get_attribute("data-number") or -1)


def wait_for_step(page: Page, step: int) -> None:
    page.locator(f"#step[data-number='{step}']").wait_for()


@pytest.mark.parametrize("live", list(STREAMS), indirect=True)
def test_the_newest_step_appears_within_two_seconds(live: LiveRun, served: LiveLook, open_page: PageOpener) -> None:
    looker = Looker(page := open_page.served(served.url))
    wait_for_step(page, 3)
    for step in (4, 5, 6, 9):
        live.let_write(step)
        written = time.monotonic()
        wait_for_step(page, step)
        took_s = time.monotonic() - written
        assert took_s < SHOWN_WITHIN_S
        wait_until(lambda: "ago" in page.locator("#live").inner_text(), "it says so")
        np.testing.assert_array_equal(drawn_until(looker, step), np.full(1000, step))
    assert looker.state() == "values in stream data of sim: step 9"


def drawn_until(looker: Looker, step: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The curve that is drawn, when it is that of the step: the text is there before the drawing is."""
    wait_until(lambda: looker.drawn()["y"][0] == step, f"step {step} is drawn")
    return looker.drawn()["y"]


def test_who_has_moved_away_stays_there(live: LiveRun, served: LiveLook, open_page: PageOpener) -> None:
    looker = Looker(page := open_page.served(served.url))
    for step in (4, 5):  # one after the other: of a stream that keeps two, more would be missed
        live.let_write(step)
        wait_for_step(page, step)
    looker.press("ArrowLeft")
    assert shown(page) == 4
    live.let_write(7)
    page.get_by_text("step 7 ·").wait_for()
    assert shown(page) == 4
    np.testing.assert_array_equal(looker.drawn()["y"], np.full(1000, 4))
    looker.press("End")
    assert shown(page) == 7
    live.let_write(8)
    wait_for_step(page, 8)


def test_the_scale_grows_and_never_shrinks(live: LiveRun, served: LiveLook, open_page: PageOpener) -> None:
    looker = Looker(page := open_page.served(served.url))
    wait_for_step(page, 3)
    drawn_until(looker, 3)
    low, high = scale(page)
    assert low < 3 < high
    for step in (5, 6):
        live.let_write(step)
        drawn_until(looker, step)
        wider = scale(page)
        assert wider[0] <= low and wider[1] >= max(high, step)
        low, high = wider


def scale(page: Page) -> tuple[float, float]:
    """The lower and upper end of the vertical axis."""
    low, high = page.evaluate("document.getElementById('plot0').layout.yaxis.range")
    return float(low), float(high)


def test_it_ends_with_the_run_and_can_still_be_used(live: LiveRun, served: LiveLook, open_page: PageOpener) -> None:
    looker = Looker(page := open_page.served(served.url))
    wait_for_step(page, 3)
    live.end()
    assert served.wait() == "run has ended: succeeded"
    page.get_by_text(f"run has ended: succeeded · step {LAST - 1}").wait_for()
    wait_for_step(page, LAST - 1)
    looker.press("ArrowLeft")
    assert shown(page) < LAST - 1
    np.testing.assert_array_equal(looker.drawn()["y"], np.full(1000, shown(page)))


def test_a_page_without_its_token_says_so(served: LiveLook, open_page: PageOpener) -> None:
    page = open_page.served(served.url[:-1])
    assert "This address has no valid token" in page.locator("body").inner_text()


@pytest.mark.parametrize("width", [390, 1400])
def test_it_fits_the_window_and_can_be_used_by_all(
    width: int, live: LiveRun, served: LiveLook, open_page: PageOpener
) -> None:
    page = open_page.served(served.url, width=width)
    wait_for_step(page, 3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not grave_violations(page)
    assert live.process.poll() is None
