"""What a page of `wf look --live` has: which steps stay, at which resolution, and what is new for it. Pure."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow.data_files.read_steps import VariableKind
from workflow.look import live_steps
from workflow.look.fit_page_size import kept_extent
from workflow.look.live_look import LiveLook
from workflow.look.live_server import _host
from workflow.look.live_steps import LiveSteps, PageVersion
from workflow.look.live_views import FEWEST_STEPS, LiveStep, LiveViews
from workflow.look.read_live import FollowedStream
from workflow.look.read_numbers import encode
from workflow.stage import Shape


def kinds(**shapes: Shape) -> dict[str, VariableKind]:
    return {name: VariableKind("float64", shape) for name, shape in shapes.items()}


class Stream:
    """A stream whose steps are made up, as the process that reads one sends them."""

    def __init__(self, limit: int) -> None:
        self.views, self._told = LiveViews(limit), LiveViews(limit).drawn

    def step(self, number: int, value: float, **shapes: Shape) -> LiveStep:
        self.views.take(kinds(**shapes))
        numbers = {}
        for view in self.views.drawn.views:
            if view.name in self.views.extents:
                thinning = self.views.drawn.thinned[view.name]
                cells = np.full(kept_extent(self.views.extents[view.name], thinning.strides), value)
                numbers[view.name] = (encode(cells, thinning.item_bytes),) * len(view.columns)
        drawn = None if self.views.drawn == self._told else self.views.drawn
        self._told = self.views.drawn
        return LiveStep(number, None, self.views.extents, numbers, drawn)


def page(limit: int, *names: str) -> LiveSteps:
    return LiveSteps("run", [(name, f"stream {name}") for name in names or ("field",)], limit)


def model(steps: LiveSteps) -> dict[str, Any]:
    """The first stream as a new page gets it."""
    found: dict[str, Any] = steps.news(PageVersion())["model"]["files"][0]
    return found


@pytest.mark.parametrize("text", ["", "x-1", "1", "-", "-1-2", "²-1", "1-"])
def test_who_asks_for_anything_else_has_nothing_yet(text: str) -> None:
    assert PageVersion.read(text) == PageVersion()
    assert PageVersion.read("3-57") == PageVersion(3, 57)


def test_the_newest_steps_stay_that_fit() -> None:
    stream, steps = Stream(100_000), page(100_000)
    for number in range(200):
        steps.add("field", stream.step(number, float(number), V=(8, 8, 8)))
        carried = sum(len(text) for text in model(steps)["views"][0]["runs"][0]["columns"][0]["values"])
        assert carried <= 100_000
    numbers = model(steps)["steps"]
    assert numbers == list(range(200 - len(numbers), 200))
    assert len(numbers) >= FEWEST_STEPS
    assert model(steps)["views"][0]["strides"] == [1, 1, 1]


def test_the_newest_step_stays_however_large_it_is() -> None:
    stream, steps = Stream(10_000_000), page(10)
    for number in range(3):
        steps.add("field", stream.step(number, 1.0, V=(64,)))
    assert model(steps)["steps"] == [2]


def test_what_small_streams_do_not_need_is_left_to_the_large_ones() -> None:
    field, pdf, steps = Stream(100_000), Stream(100_000), page(100_000, "field", "pdf")
    for number in range(60):
        steps.add("field", field.step(number, float(number), V=(8, 8, 8)))
        steps.add("pdf", pdf.step(number, float(number), energy=()))
    kept = {name: len(stream.steps) for name, stream in steps.streams.items()}
    assert kept["pdf"] == 60
    assert 15 < kept["field"] < 60
    assert sum(stream.nbytes for stream in steps.streams.values()) <= 100_000


def test_there_are_no_more_steps_than_a_curve_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_steps, "MOST_STEPS", 5)
    stream, steps = Stream(10_000_000), page(10_000_000)
    for number in range(9):
        steps.add("field", stream.step(number, 1.0, energy=()))
    assert model(steps)["steps"] == [4, 5, 6, 7, 8]


def test_bounds_grow_and_never_shrink_also_when_the_steps_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_steps, "MOST_STEPS", 2)
    stream, steps = Stream(10_000_000), page(10_000_000)
    for number, value in enumerate((5.0, -3.0, 1.0, 1.0, np.nan)):
        steps.add("field", stream.step(number, value, V=(4,)))
    column = model(steps)["views"][0]["runs"][0]["columns"][0]
    assert (column["low"], column["high"]) == (-3.0, 5.0)


def test_a_page_gets_what_it_lacks() -> None:
    field, pdf, steps = Stream(10_000_000), Stream(10_000_000), page(20_000_000, "field", "pdf")
    assert "model" not in steps.news(PageVersion())
    steps.add("field", field.step(0, 0.0, V=(4,)))
    known = steps.version
    assert steps.news(known)["files"][0]["steps"] == []
    steps.add("field", field.step(1, 1.0, V=(4,)))
    steps.add("field", field.step(2, 2.0, V=(4,)))
    (file,) = steps.news(known)["files"]
    assert (file["steps"], file["kept"]) == ([1, 2], 3)
    assert [len(view["columns"][0]["values"]) for view in file["views"]] == [2]
    # Another stream, and another variable: the whole model. Of the steps before, what is the same stays.
    known = steps.version
    steps.add("pdf", pdf.step(0, 0.0, pdf=(9,)))
    assert len(steps.news(known)["model"]["files"]) == 2
    known = steps.version
    steps.add("field", field.step(3, 3.0, V=(4,), mass=()))
    views = {view["name"]: view["runs"][0]["columns"][0]["values"] for view in model(steps)["views"]}
    assert "model" in steps.news(known)
    assert [text is not None for text in views["V"]] == [True] * 4
    assert [text is not None for text in views["mass"]] == [False, False, False, True]
    # What is absent in a step does not change what is drawn.
    known = steps.version
    steps.add("field", field.step(4, 4.0, V=(4,)))
    (file, _) = steps.news(known)["files"]
    assert [view["columns"][0]["values"][0] is None for view in file["views"]] == [False, True]


def test_what_has_grown_is_thinned_again() -> None:
    stream, steps = Stream(100_000), page(100_000)
    steps.add("field", stream.step(0, 1.0, V=(100,)))
    assert model(steps)["views"][0]["strides"] == [1]
    steps.add("field", stream.step(1, 1.0, V=(40_000,)))
    view = model(steps)["views"][0]
    assert view["strides"][0] > 1 and view["thinned"]
    assert [text is not None for text in view["runs"][0]["columns"][0]["values"]] == [False, True]


def test_particles_that_come_and_go_stay_one_view() -> None:
    views = LiveViews(20_000_000)
    changes = [views.take(kinds(position=(count, 3), id=(count,))) for count in range(10, 210)]
    assert changes == [True] + [False] * 199
    assert views.extents == {"particles": (209,)}


def test_what_is_not_drawn_is_named() -> None:
    stream, steps = Stream(10_000_000), page(10_000_000)
    step = stream.step(0, 1.0, V=(4,), five=(1, 1, 1, 1, 1))
    steps.add("field", replace(step))
    assert steps.left_out() == ["stream field: left out: five (5 dimensions)"]


@pytest.mark.parametrize(
    ("header", "host"),
    [("localhost:80", "localhost"), ("127.0.0.1", "127.0.0.1"), ("[::1]:9", "[::1]"), ("[::1]", "[::1]"), ("", "")],
)
def test_the_host_of_a_request(header: str, host: str) -> None:
    assert _host(header) == host


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_of_a_start_that_fails_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def start_one(*argv: Any, **options: Any) -> subprocess.Popen[bytes]:
        if started:
            raise OSError("no more processes")
        started.append(start(*argv, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start_one)
    streams = [
        FollowedStream(name, name, tmp_path / f"{name}.bp", tmp_path / "events.jsonl") for name in ("one", "two")
    ]
    before = open_files()
    look = LiveLook(tmp_path, "run", "title", streams, None, 0)
    assert open_files() == before, "what is not entered has no port"
    with pytest.raises(OSError, match="no more processes"), look:
        pass
    assert started[0].poll() is not None
    assert open_files() == before
    started.clear()
    with LiveLook(tmp_path, "run", "title", streams[:1], None, 0):
        assert started[0].poll() is None
    assert open_files() == before
