"""The page of a campaign of 24 trials, printed: each page has data, and every letter can be read."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from tests.support.browser import PageOpener
from tests.support.measured_campaign import three_dimensions
from workflow.campaign.results.campaign_page import make_page
from workflow.campaign.results.results_pictures import make_pictures

FORMATS = ["A4", "Letter"]
MOST_PAGES = 12
FEWEST_NUMBERS = 15
"""Of a page with data: ticks of an axis, or cells of a table. A heading with its caption has a few."""
SMALLEST = 7.0
"""Points."""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = three_dimensions()
    file = tmp_path_factory.mktemp("campaign") / "report.html"
    file.write_text(make_page(results, make_pictures(results)))
    return file


@pytest.mark.parametrize("paper", FORMATS)
def test_every_page_has_data_and_letters_of_at_least_seven_points(
    paper: str, page_file: Path, open_page: PageOpener
) -> None:
    pages = PdfReader(BytesIO(open_page(page_file).pdf(format=paper))).pages
    assert len(pages) <= MOST_PAGES
    legends = 0
    for number, page in enumerate(pages, 1):
        sizes: list[float] = []

        def note(text: str, whole: Any, of_text: Any, _font: object, size: float, sizes: list[float] = sizes) -> None:
            if text.strip():
                # The matrices may turn a text by 90 degrees.
                sizes.append(size * max(map(abs, of_text[:4])) * max(map(abs, whole[:4])))

        text = page.extract_text(visitor_text=note)
        assert len(re.findall(r"\d+(?:\.\d+)?", text)) >= FEWEST_NUMBERS, f"page {number}: {text}"
        assert min(sizes) >= SMALLEST - 0.01, f"page {number}: {min(sizes)} pt"
        # What is cut in two has its axis on another page than its caption.
        captions, axes = text.count("-comparisons"), text.count("by this factor")
        assert captions == axes, f"page {number}: {text}"
        legends += text.count("by this factor")
    assert legends == 4


@pytest.mark.parametrize("width", [390, 1400])
def test_a_page_of_24_trials_is_short(width: int, page_file: Path, open_page: PageOpener) -> None:
    page = open_page(page_file, width)
    assert page.evaluate("document.documentElement.scrollHeight") < 6500
    boxes = page.locator("figure.results img").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().width)"
    )
    assert len(boxes) == 8 and min(boxes) > 330
