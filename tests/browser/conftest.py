"""A browser for all tests of this folder, and windows of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import PageOpener, headless_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# For the package, not for the session: while Playwright runs, its event loop is that of this thread, and asyncio.run
# fails in other tests.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with headless_chromium() as running:
        yield running


@pytest.fixture
def open_page(browser: Browser) -> Iterator[PageOpener]:
    """`open_page(PATH, width=400, dark=True)` is a Playwright Page.

    The test fails when a page asked for anything but itself, or one of its scripts raised an error.
    """
    opener = PageOpener(browser)
    yield opener
    opener.close()
    assert not opener.faults
