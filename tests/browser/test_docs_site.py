"""The documentation as a site: built without a warning, no dead link, no other host, and found by its search."""

from __future__ import annotations

import functools
import http.server
import posixpath
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

import pytest

from tests.support.accessibility import grave_violations
from tests.support.browser import TIMEOUT_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="MyST-Parser needs Python 3.11")
ROOT = Path(__file__).parents[2]
# As in the Makefile.
BUILD = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-E", "-q", "-j", "auto", "-c", "docs"]
# What a new reader types → the page that answers it.
QUESTIONS = {
    "slurm": "docs/how-to/run-on-your-cluster",
    "run on slurm": "docs/how-to/run-on-your-cluster",
    "write a component": "docs/how-to/own-component",
    "own component": "docs/how-to/own-component",
    "what limits a stream": "docs/how-to/slow-stream",
    "bottleneck": "docs/how-to/slow-stream",
    "slow stream": "docs/how-to/slow-stream",
    "open_reader": "docs/reference/stage",
    "run_pipeline": "docs/reference/python",
    "compression": "docs/how-to/policies",
    "hangs": "docs/how-to/when-it-hangs",
    "out of memory": "docs/how-to/when-it-hangs",
    "python api": "docs/reference/python",
    "install": "README",
    "openpmd": "docs/how-to/openpmd",
    "restart": "docs/how-to/when-a-node-dies",
}
FIRST = 3
# Wide tables, long lines of code, pictures.
NARROW = [
    "README", "docs/tutorial", "docs/how-to/frontier-aurora-lumi", "docs/how-to/transports", "docs/reference/pipeline",
    "docs/reference/stage", "docs/explanation/what-each-setting-does", "docs/benchmarks",
    "examples/campaigns/data-reduction/README",
]  # fmt: skip
# axe-core takes seconds for a page of many tables.
READ_ALOUD = ["README", "docs/how-to/transports"]
LINK = re.compile(r"""\b(?:href|src)="([^"]*)\"""")
LOADED = re.compile(r"""<(?:script|img|iframe|source|video|link)\b[^>]*?\b(?:href|src)="([^"]*)"|url\(["']?([^"')]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site; a warning of Sphinx fails all tests here."""
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run([*BUILD, "-d", str(folder / "doctrees"), ".", str(folder / "html")], cwd=ROOT,
                          capture_output=True, text=True)  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site from a server on this machine: the search reads pages, which browsers forbid to pages of files."""

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the lines of a server would hide those of a failed test."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def window(browser: Browser, address: str) -> Iterator[Page]:
    """A window. The last test here fails when a page asked another host for anything, or a script raised an error."""
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert asked and all(url.startswith((address, "data:")) for url in asked)
    # The search reads pages to show their first lines; the next question interrupts that.
    assert not [error for error in errors if "fetch" not in error]


def pages_of(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_every_page_is_in_the_site(site: Path) -> None:
    written = {path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*.md")}
    written |= {ROOT / "README.md", ROOT / "CHANGELOG.md"}
    names = {path.relative_to(ROOT).with_suffix(".html") for path in written if "runs" not in path.parts}
    assert len(names) > 80 and not [name for name in sorted(names) if not (site / name).is_file()]
    assert (site / "index.html").read_bytes() == (site / "README.html").read_bytes()


def test_links_lead_to_files_and_anchors(site: Path) -> None:
    pages = pages_of(site)
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    anchors = {name: set(re.findall(r'\bid="([^"]*)"', text)) for name, text in pages.items()}
    dead = []
    for name, text in pages.items():
        for link in set(LINK.findall(text)):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = posixpath.join(posixpath.dirname(name), unquote(parts.path)) if parts.path else name
            target = posixpath.normpath(path)
            if target not in files or (parts.fragment and parts.fragment not in anchors.get(target, {parts.fragment})):
                dead.append(f"{name}: {link}")
    assert len(files) > 100 and not dead


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    texts = pages_of(site) | {str(path): path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    loaded = [(name, first or second) for name, text in texts.items() for first, second in LOADED.findall(text)]
    assert len(loaded) > len(texts)
    foreign = [(name, what) for name, what in loaded if re.match(r"(?!data:)(\w+:|//)", what)]
    assert not foreign


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_reader_finds_by_search(question: str, address: str, window: Page) -> None:
    window.goto(f"{address}search.html?q={quote(question)}")
    window.wait_for_function("document.querySelector('.search-summary')?.innerText.includes('finished')")
    found = window.eval_on_selector_all("ul.search a", "links => links.map(link => link.href)")
    pages = [each.removeprefix(address).partition(".html")[0] for each in found]
    assert QUESTIONS[question] in pages[:FIRST], pages[:10]


@pytest.mark.parametrize("name", NARROW)
def test_a_page_fits_a_narrow_window(name: str, address: str, window: Page) -> None:
    window.set_viewport_size({"width": 400, "height": 800})
    window.goto(f"{address}{name}.html")
    assert window.evaluate("document.documentElement.scrollWidth") <= 400
    if name in READ_ALOUD:
        assert grave_violations(window) == []
