"""Notes on a valid pipeline say where in its file they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflow.api.plans import notes_on
from workflow.plan.make import make_plan
from workflow.plan.plan_notes import located
from workflow.site.site_model import Site
from workflow.spec import shipped
from workflow.spec.load import load_pipeline

ROOT = Path(__file__).parents[2]
SITE = Site(site="test", summary="4 cores", nodes=1, cores_per_node=4, memory_per_node=2**33)
TEXT = """wf: 1
name: noted
stages:
  walk: {component: walker}
  own: {command: [./own], reads: {positions: {io: In, config: a.xml}}}
streams:
  positions:
    from: walk
    to: own
    via: sst
    queue: {limit: 2}
    tap:
      more: {component: archive, with: {path: more.bp}}
"""


def notes(folder: Path, monkeypatch: pytest.MonkeyPatch, via: str | None = None) -> list[str]:
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [ROOT / "tests/specs/components", ROOT / "components"])
    monkeypatch.chdir(folder)
    Path("p.yaml").write_text(TEXT)
    loaded = load_pipeline("p.yaml", via=via)
    return [str(each) for each in notes_on(make_plan(loaded, SITE, python="/python", wf_version="0"), loaded)]


def test_a_key_without_effect_is_noted_at_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (note,) = [each for each in notes(tmp_path, monkeypatch, via="bp5") if "queue" in each]
    assert note.startswith("note: p.yaml:11:12: streams.positions.queue is not used with `via: bp5`")


def test_notes_on_stages_and_taps_are_at_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = notes(tmp_path, monkeypatch)
    assert any(each.startswith("note: p.yaml:13:13: streams.positions.tap.more: a tap may lose steps") for each in said)
    assert any(each.startswith("note: p.yaml:5:8: stages.own: ") for each in said), said


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("streams.positions.queue.limit: 2 is little", "p.yaml:11:20: streams.positions.queue.limit: 2 is little"),
        ("streams.positions.via has no effect", "p.yaml:10:10: streams.positions.via has no effect"),
        ("stage own reads both", "p.yaml:5:8: stages.own: reads both"),
        ("stream positions: steps are large", "p.yaml:7:3: streams.positions: steps are large"),
        ("stages on several nodes meet through files", "stages on several nodes meet through files"),
    ],
)
def test_what_advice_begins_with_is_its_place(
    text: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes(tmp_path, monkeypatch)
    (found,) = located([text], load_pipeline("p.yaml").origins)
    assert str(found) == f"note: {note}"


def test_every_note_says_that_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = notes(tmp_path, monkeypatch)
    assert said and all(each.startswith("note: ") for each in said)
