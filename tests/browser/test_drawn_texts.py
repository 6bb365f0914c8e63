"""Texts in SVG pictures as a browser draws them: inside of their picture, large enough on a phone, no raw formulas."""

from __future__ import annotations

from pathlib import Path

from tests.support.browser import PageOpener
from workflow.campaign.results.results_model import CampaignResults
from workflow.campaign.results.results_pictures import make_pictures

ROOT = Path(__file__).parents[2]
# CSS pixels that a text may hang over the edge: fonts differ.
TOLERANCE = 3.0
# CSS pixels: the column of a page on a phone, and the size of letters there.
PHONE = 368
SMALLEST = 8.5
# [name of the picture, text, how far it hangs over the edges of the picture: negative inside, the size of its letters]
TEXTS = """() => [...document.querySelectorAll("text")].map(each => {
    const box = each.getBoundingClientRect(), picture = each.closest("figure");
    const frame = picture.querySelector("svg").getBoundingClientRect();
    const over = [frame.left - box.left, box.right - frame.right, frame.top - box.top, box.bottom - frame.bottom];
    const matrix = each.getScreenCTM();
    const size = parseFloat(getComputedStyle(each).fontSize) * Math.hypot(matrix.a, matrix.b);
    return [picture.id, each.textContent, Math.max(...over), size];
})"""


def test_texts_of_pictures_lie_inside(tmp_path: Path, open_page: PageOpener) -> None:
    # Those of the benchmarks have outlines instead of texts.
    kept = {path.name: path.read_text() for path in sorted((ROOT / "docs/pictures").glob("*.svg"))}
    results = (ROOT / "examples/campaigns/h5part/results.json").read_bytes()
    drawn = {each.name: each.svg.decode() for each in make_pictures(CampaignResults.model_validate_json(results))}
    pictures = {name: svg for name, svg in {**kept, **drawn}.items() if "<text" in svg}
    assert len(pictures) > 12
    figures = [f'<figure id="{name}">{svg[svg.index("<svg") :]}</figure>' for name, svg in pictures.items()]
    sheet = tmp_path / "sheet.html"
    style = "<style>figure { margin: 0 } svg { max-width: 100%; height: auto }</style>"
    sheet.write_text(f'<!doctype html><meta charset="utf-8"><title>pictures</title>{style}{"".join(figures)}')
    page = open_page(sheet, 1200)
    texts = page.evaluate(TEXTS)
    assert {each[0] for each in texts} == set(pictures)
    assert [each for each in texts if each[2] > TOLERANCE] == []
    assert [each for each in texts if "$" in each[1]] == []
    page.set_viewport_size({"width": PHONE + 16, "height": 900})
    assert [each for each in page.evaluate(TEXTS) if each[3] < SMALLEST] == []
