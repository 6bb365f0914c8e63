"""The time of a run."""

from __future__ import annotations

import time

import pytest

from workflow.run.state.events import Clock, StreamOpened, StreamProgress, bring_between


@pytest.mark.parametrize("jump", [1e5, -1e5])
def test_clock_goes_on_when_the_wall_clock_is_set(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 20.0)
    clock = Clock()
    assert clock.now() == 1000.0
    monkeypatch.setattr(time, "time", lambda: 1000.0 + jump)
    monkeypatch.setattr(time, "monotonic", lambda: 21.5)
    assert clock.now() == 1001.5
    assert clock.offset_s == 980.0


def test_times_of_other_clocks_are_moved_to_when_their_records_were_seen() -> None:
    def seen(t: float) -> float:
        return bring_between([StreamOpened(t, "atoms", "md", "write")], 10.0, 11.0)[0].t

    assert [seen(t) for t in (-5000.0, 9.99, 10.0, 10.5, 11.0, 11.1, 1e9)] == [10.0, 10.0, 10.0, 10.5, 11.0, 11.0, 11.0]
    progress = StreamProgress(10.5, "atoms", "md", "write", 3, 8)
    assert bring_between([progress], 10.0, 11.0)[0] is progress
