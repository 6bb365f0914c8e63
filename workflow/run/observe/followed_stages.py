"""The stages that run, by the files that they write: whose are read when, and what is new in them, as events.

The records of a stage that uses `workflow.stage` come first (`metrics_follower`), then the evidence of other programs
(`stream_evidence`) and what launchers say of the ends of ranks. A file that another node has written can be seconds old
here: NFS clients believe the attributes of a file for 3 s and more, and those of a directory for 30 s (nfs(5):
acregmin, acdirmin). On a file system of this machine what has been written is visible at once.
"""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from workflow.formats.json_lines import Tail
from workflow.formats.metrics_lines import METRICS_FILE
from workflow.formats.sides import EndOfStream
from workflow.launch.launchers import LAUNCHERS
from workflow.launch.rank_ends import EndPattern, find_ends
from workflow.plan.plan_model import EndPlan, Plan, StagePlan
from workflow.plan.visible_steps import visibility
from workflow.run.observe.engine_evidence import EngineEvidence
from workflow.run.observe.metrics_follower import MetricsFollower
from workflow.run.observe.sst_log import TransportFaultFollower
from workflow.run.observe.stream_evidence import (
    ContactFollower,
    IndexFollower,
    MissedStreams,
    PlaneFollower,
    SstFollower,
    logged_ends,
    size_on_disk,
)
from workflow.run.state.events import (
    Event,
    RanksEnded,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamWaiting,
    bring_between,
)

# Longer than NFS clients believe by default that a file is not there (acdirmin, 30 s).
VISIBILITY_S = 35.0
LOCAL = frozenset({"btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"})
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")
# How often the files of a stage are read, and how many stages a second at most: of 1,000 stages each once a second.
POLL_S = 0.25
POLLS_PER_S = 1000
Poll = Callable[[float], Iterator[Event]]  # time now → what is new


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
        self._followers[stage] = Follower(self._plan.stage(stage), folder, self._visibility_s, before or {}, self._plan)
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
        return self._followers.pop(stage).rank_ends

    def _since_last(self, stage: str, events: Iterable[Event], now: float) -> list[Event]:
        last, self._read[stage] = self._read[stage], now
        return bring_between(events, last, now)


@dataclass
class Follower:
    """All that can be seen of one stage. `plan` has its run directory filled in."""

    plan: StagePlan
    folder: Path
    visibility_s: float = 0.0  # how long records may take to become visible here
    # Steps and bytes of earlier attempts, of ends whose records begin anew with each attempt.
    before: Mapping[EndOfStream, tuple[int, int]] = field(default_factory=dict)
    run: Plan | None = None
    _polls: list[Poll] = field(default_factory=list)
    _closed: set[EndOfStream] = field(default_factory=set)
    _engines: EngineEvidence | None = None

    @cached_property
    def _metrics(self) -> MetricsFollower:
        return MetricsFollower(self.plan.name, Tail(self.folder / METRICS_FILE), visibility_s=self.visibility_s)

    @cached_property
    def _faults(self) -> TransportFaultFollower:
        return TransportFaultFollower(self.plan.name, Tail(self.folder / "stderr.log"))

    @cached_property
    def _rank_ends(self) -> RankEndFollower:
        patterns = LAUNCHERS[self.plan.launch.launcher].end_patterns
        return RankEndFollower(self.plan.name, patterns, Tail(self.folder / "stderr.log"))

    @cached_property
    def _missed(self) -> MissedStreams:
        return MissedStreams(self.plan)

    @property
    def rank_ends(self) -> Sequence[RanksEnded]:
        """What its launcher has said of the ends of its ranks."""
        return self._rank_ends.found

    def __post_init__(self) -> None:
        # First, so that of what a program reports itself nothing is taken from elsewhere.
        self._polls.append(self._metrics.poll)
        by_evidence = self.plan.observed == "evidence"
        if by_evidence and (logged_ends(self.plan, "write") or logged_ends(self.plan, "read")):
            self._polls.append(SstFollower(self.plan, Tail(self.folder / "stderr.log"), self._metrics.reported).poll)
            self._polls.append(self._missed.poll)
        elif logged_ends(self.plan, "write"):
            self._polls.append(PlaneFollower(self.plan, Tail(self.folder / "stderr.log")).poll)
        if any(end.traits.over_network for end in self.plan.ends):
            self._polls.append(self._faults.poll)
        if self._rank_ends.patterns:
            self._polls.append(self._rank_ends.poll)
        if by_evidence and self.run is not None:
            self._engines = EngineEvidence(self.plan, self.run, Tail(self.folder / "stderr.log"))
            self._polls.append(self._engines.poll)
        for end in self.plan.ends:
            live, counted = visibility(self.plan, end)
            if end.side == "write" and end.traits.contact_suffix and not (counted and by_evidence):
                self._polls.append(ContactFollower(self.plan.name, end).poll)
            elif end.traits.counted_by == "index" and live and by_evidence:
                self._polls.append(IndexFollower(self.plan.name, end, self.plan.ranks).poll)

    def poll(self, now: float) -> list[Event]:
        """What is new."""
        return self._noted([event for poll in self._polls for event in poll(now)])

    def last(self, now: float, succeeded: bool, *, final: bool = True) -> list[Event]:
        """What is new after the stage has ended, and what could not be seen before.

        Files of another node may not be up to date yet: while `is_settled` is false the caller can ask again, with
        `final=False`, until `visibility_s` has passed; then what is missing is missing.
        """
        self._metrics.fresh = self._faults.fresh = True
        events = self.poll(now)
        if succeeded and self.plan.observed == "evidence":
            events += [*self._missed.last(now), *([] if self._engines is None else self._engines.last(now))]
        for end in self.plan.ends if succeeded else []:
            if self._is_handed_over(end) and (end.stream, end.side) not in self._closed:
                exists = Path(end.path).exists()
                if exists or final:
                    size = size_on_disk(Path(end.path))
                    events += self._noted([StreamClosed(now, end.stream, self.plan.name, "write", 0, exists, size)])
        return events

    @property
    def is_settled(self) -> bool:
        """Whether the closing record of every end has been seen, of all ends that are to have one."""
        expected = {
            (end.stream, end.side)
            for end in self.plan.ends
            if visibility(self.plan, end)[1] or self._is_handed_over(end)
        }
        return self._metrics.is_lost or (expected | self._metrics.reported) <= self._closed

    def _is_handed_over(self, end: EndPlan) -> bool:
        """A file of which nothing is seen but that it is there in the end."""
        reported = (end.stream, end.side) in self._metrics.reported
        return not reported and end.side == "write" and not visibility(self.plan, end)[1] and not end.traits.in_memory

    def _noted(self, events: list[Event]) -> list[Event]:
        if self.before:
            events = [self._counted_on(event) for event in events]
        for event in events:
            if isinstance(event, StreamOffered | StreamOpening | StreamOpened | StreamClosed):
                self._missed.opened(event.stream)
            if isinstance(event, StreamClosed):
                self._closed.add((event.stream, event.side))
            elif isinstance(event, StreamOpening):
                self._closed.discard((event.stream, event.side))
        return events

    def _counted_on(self, event: Event) -> Event:
        """An event with the steps and bytes of earlier attempts."""
        if not isinstance(event, StreamProgress | StreamClosed | StreamWaiting):
            return event
        steps, size = self.before.get((event.stream, event.side), (0, 0))
        if isinstance(event, StreamWaiting):
            return replace(event, steps=event.steps + steps)
        return replace(event, steps=event.steps + steps, bytes=event.bytes + size)


@dataclass
class RankEndFollower:
    """The words of one stage's launcher. `said`: all until now."""

    stage: str
    patterns: Sequence[EndPattern]
    tail: Tail
    found: list[RanksEnded] = field(default_factory=list)

    def poll(self, now: float) -> Iterator[RanksEnded]:
        """The new lines as events."""
        for end in find_ends(self.tail.read(), self.patterns):
            event = RanksEnded(now, self.stage, end.cause, end.words, end.host, end.ranks, end.number)
            self.found.append(event)
            yield event


def visibility_s(folder: Path, local: frozenset[str] = LOCAL) -> float:
    """So long may records in `folder` take to become visible: 0 on a file system of this machine, of a type in `local`.

    A file system of unknown type counts as shared.
    """
    folder = folder.resolve()
    try:
        kinds = mounted(Path("/proc/self/mounts").read_bytes())
    except OSError:
        return VISIBILITY_S
    kind = next((kinds[place] for place in (folder, *folder.parents) if place in kinds), "")
    return 0.0 if kind in local else VISIBILITY_S


def mounted(table: bytes) -> dict[Path, str]:
    """The type of the file system at each mount point, of a table as in proc_pid_mounts(5).

    Spaces, tabs, newlines, backslashes and `#` are octal there: `\\040`. A later line hides an earlier one.
    """
    lines = [line.split(b" ") for line in table.split(b"\n")]
    return {
        Path(os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), line[1]))): os.fsdecode(line[2])
        for line in lines
        if len(line) > 2
    }
