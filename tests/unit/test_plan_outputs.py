"""Stages that would write into one file or folder are refused before anything is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planner import HEAD, SITE
from workflow.errors import SpecError
from workflow.plan.make import make_plan
from workflow.spec.load import load_pipeline

PIPELINE = """
oversubscribe: true
stages:
  sim: {component: gray_scott}
  one: {component: ONE}
  two: {component: TWO}
streams:
  field: {from: sim, to: [one, two], via: bp5}
"""


def problems(folder: Path, one: str, two: str, text: str = PIPELINE) -> list[str]:
    file = folder / "pipeline.yaml"
    file.write_text(HEAD + text.replace("ONE", one).replace("TWO", two))
    try:
        make_plan(load_pipeline(file), SITE, python="/python", wf_version="0")
    except SpecError as error:
        return [f"{each.key}: {each.message}" for each in error.problems]
    return []


PLOT = "plot, with: {variable: V, picture: PICTURE, frames: FRAMES}"
EACH = ", and each would overwrite what the other one writes"


def plot(picture: str, frames: str = "false", more: str = "") -> str:
    return PLOT.replace("PICTURE", picture).replace("FRAMES", frames + more)


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (plot("a.png"), plot("b.png"), []),
        (plot("a.png", "true"), plot("b.png"), []),
        (plot("a.png", "true"), plot("b.png", "true", ", frames_dir: other"), []),
        (plot("a.png", "true"), plot("b.png", "true"),
         [f"stages.two.with.frames_dir: pictures/frames: stage one writes the same place{EACH}"]),
        (plot("a.png"), plot("./a.png"),
         [f"stages.two.with.picture: a.png: stage one writes the same place{EACH}"]),
        (plot("a.png", "true"), plot("pictures/frames/b.png"),
         [f"stages.two.with.picture: pictures/frames/b.png: stage one writes pictures/frames{EACH}"]),
        (plot("pictures/frames/b.png"), plot("a.png", "true"),
         [f"stages.two.with.frames_dir: pictures/frames: stage one writes pictures/frames/b.png, inside of it{EACH}"]),
        ("archive", plot("archive.bp/a.png"),
         [f"stages.two.with.picture: archive.bp/a.png: stage one writes archive.bp{EACH}"]),
        ("archive", "archive, with: {path: streams/field.bp}",
         [f"stages.two.with.path: streams/field.bp: stream field writes the same place{EACH}"]),
        ("archive, with: {path: /data/a.bp}", "archive, with: {path: /data/./a.bp}",
         [f"stages.two.with.path: /data/a.bp: stage one writes the same place{EACH}"]),
    ],
)  # fmt: skip
def test_one_place_is_written_by_one_stage(one: str, two: str, said: list[str], tmp_path: Path) -> None:
    assert problems(tmp_path, one, two) == said


def test_members_of_an_ensemble_need_places_of_their_own(tmp_path: Path) -> None:
    text = """
oversubscribe: true
stages:
  sim: {component: gray_scott, members: 3}
  look: {component: plot, members: 3, with: {variable: V, picture: "${{ member.index }}.png", frames: true, frames_dir: DIR}}
streams:
  field: {from: sim, to: look, collect: neighbour, via: bp5}
"""  # noqa: E501
    found = problems(tmp_path, "", "", text.replace("DIR", "frames"))
    assert found
    assert all("writes the same place" in each for each in found)
    assert problems(tmp_path, "", "", text.replace("DIR", '"frames-${{ member.index }}"')) == []
