"""The newest steps of the streams of a running run, as many as the page can carry; and what is new for a page. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from workflow.look.drawn_variables import DataView
from workflow.look.live_views import DrawnStream, LiveStep
from workflow.look.look_page import to_model
from workflow.look.read_numbers import Bounds, Carried, FileView, wider

# A curve of more steps shows no more; and they are sent to the page at its start.
MOST_STEPS = 1000


class PageVersion(NamedTuple):
    """What a page has: `drawn` counts the changes of what is drawn, `step` the steps of all streams."""

    drawn: int = -1
    step: int = 0

    @classmethod
    def read(cls, text: str) -> PageVersion:
        """From `3-57`. Anything else is a page that has nothing yet."""
        drawn, _, step = text.partition("-")
        return cls(int(drawn), int(step)) if drawn.isdecimal() and step.isdecimal() else cls()

    def __str__(self) -> str:
        return f"{self.drawn}-{self.step}"


@dataclass
class LiveStream:
    """The steps of one stream, each with its count among those of all streams; `nbytes`: of them in the page."""

    name: str
    title: str

    def __post_init__(self) -> None:
        self.drawn = DrawnStream()
        self.steps: deque[tuple[int, LiveStep]] = deque()
        self.nbytes = 0
        self._bounds: dict[tuple[str, int], Bounds] = {}

    def _draw(self, drawn: DrawnStream) -> None:
        """Draw other views from now on. Of the steps so far the views stay that are the same."""
        known = {view.name: (view, self.drawn.thinned[view.name]) for view in self.drawn.views}
        stay = {view.name for view in drawn.views if known.get(view.name) == (view, drawn.thinned[view.name])}
        self.drawn = drawn
        self._bounds = {key: bounds for key, bounds in self._bounds.items() if key[0] in stay}
        kept = [(count, _only(step, stay)) for count, step in self.steps]
        self.steps, self.nbytes = deque(kept), sum(step.nbytes for _, step in kept)

    def add(self, count: int, step: LiveStep) -> None:
        """Take a step."""
        if step.drawn is not None:
            self._draw(step.drawn)
        self.steps.append((count, step))
        self.nbytes += step.nbytes
        if len(self.steps) > MOST_STEPS:
            self.drop_oldest()
        for name, columns in step.numbers.items():
            for number, each in enumerate(columns):
                if each is not None:
                    # They grow and never shrink: colours of a picture that moves mean the same all the time.
                    self._bounds[name, number] = wider(self.bounds(name, number), each.bounds)

    def drop_oldest(self) -> None:
        """Drop a step. The limits of the colours stay."""
        self.nbytes -= self.steps.popleft()[1].nbytes

    def bounds(self, view: str, column: int) -> Bounds:
        """Of the finite values of a column in all steps so far, those that were dropped included."""
        return self._bounds.get((view, column), (None, None))

    def file_view(self) -> FileView:
        """As the page carries a file."""
        steps = [step for _, step in self.steps]
        views = tuple(
            replace(view, extents=(tuple(step.extents.get(view.name) for step in steps),)) for view in self.drawn.views
        )
        return FileView(
            self.name,
            tuple(step.number for step in steps),
            (tuple(step.time for step in steps),),
            self.drawn.time_unit,
            self.drawn.labels,
            views,
            self.drawn.thinned,
            {view.name: (self._carried(view, steps),) for view in views},
            self.title,
        )

    def _carried(self, view: DataView, steps: Sequence[LiveStep]) -> tuple[Carried, ...]:
        return tuple(
            Carried(tuple(_text(step, view, column) for step in steps), *self.bounds(view.name, column))
            for column in range(len(view.columns))
        )

    def since(self, count: int) -> dict[str, Any]:
        """What a page lacks that has the steps up to this count."""
        steps = [step for each, step in self.steps if each > count]
        return {
            "kept": len(self.steps),
            "steps": [step.number for step in steps],
            "times": [step.time for step in steps],
            "views": [
                {
                    "extents": [step.extents.get(view.name) for step in steps],
                    "columns": [
                        {"values": column.values, "low": column.low, "high": column.high}
                        for column in self._carried(view, steps)
                    ],
                }
                for view in self.drawn.views
            ],
        }


class LiveSteps:
    """All streams of the page: `(name, title)` of each. `limit`: bytes in the page."""

    def __init__(self, run: str, streams: Sequence[tuple[str, str]], limit: int) -> None:
        self.version = PageVersion(0, 0)
        self._run, self._limit = run, limit
        self.streams = {name: LiveStream(name, title) for name, title in streams}

    def add(self, stream: str, step: LiveStep) -> None:
        """Take a step, and drop the oldest ones that do not fit any more."""
        self.version = PageVersion(self.version.drawn + (step.drawn is not None), self.version.step + 1)
        self.streams[stream].add(self.version.step, step)
        # What small streams do not need is left to the large ones. The newest step of each stays.
        while sum(each.nbytes for each in self.streams.values()) > self._limit:
            largest = max(self.streams.values(), key=lambda each: each.nbytes * (len(each.steps) > 1))
            if len(largest.steps) < 2:
                break
            largest.drop_oldest()

    def files(self) -> list[FileView]:
        """The streams of which there is something to draw."""
        return [stream.file_view() for stream in self._drawn()]

    def news(self, known: PageVersion) -> dict[str, Any]:
        """What look_live.js reads: the whole model, or to a page that has the same views the steps that it lacks."""
        found: dict[str, Any] = {"version": str(self.version)}
        if known.drawn != self.version.drawn or known.step > self.version.step:
            files = self.files()
            return found | ({"model": to_model([self._run], files)} if files else {})
        return found | {"files": [stream.since(known.step) for stream in self._drawn()]}

    def _drawn(self) -> list[LiveStream]:
        return [stream for stream in self.streams.values() if stream.drawn.views]

    def left_out(self) -> list[str]:
        """What is not drawn, and why."""
        return [
            f"{stream.title}: left out: {', '.join(f'{name} ({why})' for name, why in stream.drawn.left_out.items())}"
            for stream in self.streams.values()
            if stream.drawn.left_out
        ]


def _only(step: LiveStep, views: set[str]) -> LiveStep:
    return replace(
        step,
        extents={name: extent for name, extent in step.extents.items() if name in views},
        numbers={name: columns for name, columns in step.numbers.items() if name in views},
    )


def _text(step: LiveStep, view: DataView, column: int) -> str | None:
    columns = step.numbers.get(view.name)
    encoded = None if columns is None else columns[column]
    return None if encoded is None else encoded.text
