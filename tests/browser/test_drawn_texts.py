"""Texts in SVG pictures as a browser draws them: all inside of their picture, and no formulas in the raw."""

from __future__ import annotations

from pathlib import Path

from tests.support.browser import PageOpener
from workflow.campaign.results.results_model import CampaignResults
from workflow.campaign.results.results_pictures import make_pictures

ROOT = Path(__file__).parents[2]
# CSS pixels that a text may hang over the edge: fonts differ.
TOLERANCE = 3.0
# [name of the picture, text, how far it hangs over the edges of the picture: negative inside]
TEXTS = """() => [...document.querySelectorAll("text")].map(each => {
    const box = each.getBoundingClientRect(), picture = each.closest("figure");
    const frame = picture.querySelector("svg").getBoundingClientRect();
    const over = [frame.left - box.left, box.right - frame.right, frame.top - box.top, box.bottom - frame.bottom];
    return [picture.id, each.textContent, Math.max(...over)];
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
    sheet.write_text(f'<!doctype html><meta charset="utf-8"><title>pictures</title>{"".join(figures)}')
    texts = open_page(sheet, 1200).evaluate(TEXTS)
    assert {name for name, _, _ in texts} == set(pictures)
    assert [each for each in texts if each[2] > TOLERANCE] == []
    assert [each for each in texts if "$" in each[1]] == []
