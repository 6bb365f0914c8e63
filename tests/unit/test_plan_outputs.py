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
EACH = ", and one could overwrite what the other one writes"


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


OWN = """component: own
kind: sink
summary: s
parameters: {results: {type: output, default: out, help: h}}
reads: {input: {any: true, help: h}}
"""


def own(path: str) -> str:
    return f"./own, with: {{results: {path}}}"


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (own("out"), own("out"), []),
        (own("out"), own("out/of/two"), []),
        (own("out/of/one"), own("out"), []),
        (own("pictures"), plot("pictures/a.png"), []),
        (plot("pictures/a.png"), own("pictures"), []),
        (own("a.dat"), own("a.dat"), [f"stages.two.with.results: a.dat: stage one writes the same place{EACH}"]),
        (plot("a.png", "true"), own("pictures/frames"),
         [f"stages.two.with.results: pictures/frames: stage one writes the same place{EACH}"]),
        (own("pictures/frames"), plot("a.png", "true"),
         [f"stages.two.with.frames_dir: pictures/frames: stage one writes the same place{EACH}"]),
        (own("pictures/frames/mine"), plot("a.png", "true"),
         ["stages.two.with.frames_dir: pictures/frames: stage one writes pictures/frames/mine, inside of it" + EACH]),
        (own("streams/field.bp/x"), own("y"),
         [f"stages.one.with.results: streams/field.bp/x: stream field writes streams/field.bp{EACH}"]),
        ("archive, with: {path: kept.h5}", "archive, with: {path: kept.h5}",
         [f"stages.two.with.path: kept.h5: stage one writes the same place{EACH}"]),
    ],
)  # fmt: skip
def test_a_folder_may_be_shared(one: str, two: str, said: list[str], tmp_path: Path) -> None:
    """By stages that write files of names of their own into it."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/component.yaml").write_text(OWN)
    (tmp_path / "own/program.py").touch()
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
