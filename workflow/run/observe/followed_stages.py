"""The stages that run, by their files: whose are read when, and what they tell that they did not tell before."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from workflow.formats.sides import EndOfStream
from workflow.plan.plan_model import Plan
from workflow.run.observe.progress_readers import Follower
from workflow.run.state.events import Event, RanksEnded, bring_between

# How often the files of a stage are read, and how many stages a second at most: of 1,000 stages each once a second.
POLL_S = 0.25
POLLS_PER_S = 1000


class FollowedStages:
    """The stages of one run that have been started, until their ends are known."""

    def __init__(self, plan: Plan, visibility_s: float) -> None:
        self._plan, self._visibility_s = plan, visibility_s
        self._followers: dict[str, Follower] = {}
        self._turns: deque[str] = deque()  # the one whose files were read longest ago first
        self._read: dict[str, float] = {}  # stage → when its files were read

    def begin(
        self, stage: str, folder: Path, now: float, before: Mapping[EndOfStream, tuple[int, int]] | None = None
    ) -> None:
        """Follow a stage that has started in this folder. `before`: steps and bytes of its earlier attempts."""
        self._followers[stage] = Follower(self._plan.stage(stage), folder, self._visibility_s, before or {})
        if stage not in self._turns:
            self._turns.append(stage)
        self._read[stage] = now

    def next_turns(self) -> list[str]:
        """The stages whose files are to be read now: all of few, of many those that have waited longest."""
        count = min(len(self._turns), math.ceil(POLLS_PER_S * POLL_S))
        names = [self._turns.popleft() for _ in range(count)]
        running = [name for name in names if name in self._followers]
        self._turns.extend(running)
        return running

    def neighbours(self, stages: Iterable[str]) -> list[str]:
        """Those at the other ends of the streams of these stages."""
        streams = [self._plan.stream(end.stream) for name in stages for end in self._plan.stage(name).ends]
        others = {stage for stream in streams for stage in (stream.writer, *stream.readers)}
        return [name for name in others if name in self._followers]

    def poll(self, stages: Iterable[str], now: float) -> list[Event]:
        """What the files of these stages tell that they did not tell before."""
        events: list[Event] = []
        for name in stages:
            events += self._since_last(name, self._followers[name].poll(now), now)
        return events

    def last(self, stage: str, now: float, since: float, succeeded: bool, *, final: bool) -> tuple[list[Event], bool]:
        """What the files of a stage tell that has ended at `since`, and whether that is all.

        Files of another node may be out of date: unless `final` a stage that has not closed a stream is asked again,
        until `visibility_s` has passed since its end.
        """
        follower = self._followers[stage]
        events = follower.last(now, succeeded, final=final)
        late = not final and not follower.is_settled
        if late and now >= since + self._visibility_s:
            events += follower.last(now, succeeded, final=True)
            late = False
        return self._since_last(stage, events, now), not late

    def end(self, stage: str) -> Sequence[RanksEnded]:
        """Follow a stage no longer. Returns what its launcher has said of the ends of its ranks."""
        del self._read[stage]
        return self._followers.pop(stage).said

    def _since_last(self, stage: str, events: Iterable[Event], now: float) -> list[Event]:
        last, self._read[stage] = self._read[stage], now
        return bring_between(events, last, now)
