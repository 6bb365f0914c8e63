"""Headless Chromium for the tests of pages: Debian's program, driven by Playwright's package; no browser is downloaded.

The fixtures that use it, `browser` and `open_page`, are in tests/browser/conftest.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# For every wait of a page: long, because the machine may be busy.
TIMEOUT_MS = 60_000.0
# root has no sandbox; /dev/shm is small in containers.
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
OWN_SCHEMES = ("file:", "data:", "blob:", "about:")


@contextmanager
def headless_chromium() -> Iterator[Browser]:
    """A running Chromium. Skips the test where there is none, which under CI is a failure."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("there is no Chromium here; Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*OPTIONS], timeout=TIMEOUT_MS)
        try:
            yield browser
        finally:
            browser.close()


class PageOpener:
    """Opens pages of files, each in a window of its own. `faults`: errors of their scripts, and addresses asked for."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.faults: list[str] = []

    def __call__(self, path: Path, width: int = 1400, height: int = 900, *, dark: bool = False) -> Page:
        """The page of a file, loaded. `width` and `height` of the window in CSS pixels."""
        page = self._browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", offline=True
        )
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: self.faults.append(f"{path.name}: {error}"))
        page.on("console", lambda message: self._note_message(path, message))
        page.on("request", lambda request: self._note_request(path, request))
        page.goto(path.absolute().as_uri())
        return page

    def served(self, url: str, width: int = 1400, height: int = 900) -> Page:
        """The page at an address, loaded; it may ask for what is at the same one."""
        page = self._browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(TIMEOUT_MS)
        name = Path("the served page")
        page.on("pageerror", lambda error: self.faults.append(f"{name}: {error}"))
        page.on("request", lambda request: self._note_request(name, request, url.partition("?")[0]))
        page.goto(url)
        return page

    def close(self) -> None:
        """Close all windows."""
        for context in self._browser.contexts:
            context.close()

    def _note_message(self, path: Path, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(f"{path.name}: {message.text}")

    def _note_request(self, path: Path, request: Request, *own: str) -> None:
        if not request.url.startswith((*OWN_SCHEMES, *own)):
            self.faults.append(f"{path.name} asks for {request.url}")
