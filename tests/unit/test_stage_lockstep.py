"""Streams read in lockstep, and the order in which streams are opened: without ADIOS2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from workflow.formats.stage_file import StageSettings, StreamEnd
from workflow.stage import UnevenSteps, in_step, settings
from workflow.stage.api import open_streams


class Counted:
    """A reader of `count` steps; each step is its number."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.steps, self._numbers = name, 0, iter(range(count))

    def __iter__(self) -> Iterator[int]:
        return self

    def release_step(self) -> None:
        """Nothing to release."""

    def __next__(self) -> int:
        number = next(self._numbers)
        self.steps = number + 1
        return number


def pairs(*counts: int) -> Iterator[Any]:
    readers: Any = [Counted(name, count) for name, count in zip("abc", counts, strict=False)]
    return iter(in_step(*readers))


def test_steps_come_in_lockstep() -> None:
    assert list(pairs(3, 3)) == [(0, 0), (1, 1), (2, 2)]
    assert list(pairs(2, 2, 2)) == [(0, 0, 0), (1, 1, 1)]
    assert list(pairs(0, 0)) == []


@pytest.mark.parametrize(("counts", "ended", "other"), [((2, 4), "a", "b"), ((4, 2), "b", "a")])
def test_one_ends_early(counts: tuple[int, int], ended: str, other: str) -> None:
    steps = pairs(*counts)
    assert [next(steps), next(steps)] == [(0, 0), (1, 1)]
    with pytest.raises(UnevenSteps, match=f"stream {ended} ended after 2 steps, but {other}.*; let both writers"):
        next(steps)


@pytest.mark.parametrize("meeting", ["SST", "SHM"])
@pytest.mark.parametrize(
    ("asked", "opened"),
    [
        (["third"], ["first", "third"]),
        (["third", "first"], ["first", "third"]),
        (["first", "third"], ["first", "third"]),
        # opening a file waits for data: streams that wait only for the other end are opened before it
        (["second", "first"], ["first", "third", "second"]),
        (["first", "first"], ["first", "first"]),
    ],
)
def test_streams_are_opened_in_the_pipelines_order(
    asked: list[str], opened: list[str], meeting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = [StreamEnd(name, name, "read", engine, name) for name, engine in
               (("first", "SST"), ("second", "BP5"), ("third", meeting))]  # fmt: skip
    done: list[str] = []

    def note(end: StreamEnd) -> Any:
        done.append(end.stream)
        return object()

    monkeypatch.setattr(settings, "_current", StageSettings("s", 1, ends=planned))
    monkeypatch.setattr(open_streams, "_open_end", note)
    monkeypatch.setattr(open_streams, "_ahead", {})
    for name in asked:
        open_streams._in_order(next(end for end in planned if end.stream == name))
    assert done == opened
