"""The repetitions of a campaign on pilots, with simulated time: how well they are packed. Nothing runs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workflow.campaign.planning.campaign_size import PilotSize
from workflow.campaign.planning.free_nodes import Place
from workflow.campaign.planning.packing import Packing, Request, Start


class PackingRule(Protocol):
    """What decides which repetition starts next; `Packing` is the one that campaigns use."""

    def add_pilot(self, pilot: str, nodes: int, cores: Sequence[int], until_s: float) -> None:
        """A pilot has come."""

    def remove_pilot(self, pilot: str) -> list[int]:
        """A pilot has gone; returns what ran there."""

    def next_start(self, now_s: float) -> Start | None:
        """Take the place of the next repetition."""

    def end(self, index: int) -> None:
        """A repetition has ended."""

    def put_back(self, index: int) -> None:
        """A repetition waits again."""


@dataclass(frozen=True)
class SimulatedRun:
    """One repetition of the simulation."""

    index: int
    pilot: str
    place: Place
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline:
    """What the simulation found."""

    runs: tuple[SimulatedRun, ...]
    """In the order in which they start."""
    pilots: int
    """How many pilots were used, one after the other ones included."""
    makespan_s: float
    ideal_s: float
    """The larger of the node-seconds ÷ the nodes and the longest repetition: none can be faster."""
    never: tuple[int, ...]
    """Requests that fit no pilot."""

    @property
    def efficiency(self) -> float:
        """The ideal ÷ the makespan; 1 for nothing at all."""
        return self.ideal_s / self.makespan_s if self.makespan_s else 1.0


def simulate(
    requests: Sequence[Request],
    pilots: Sequence[PilotSize],
    actual_s: Sequence[float] | None = None,
    rule: PackingRule | None = None,
) -> Timeline:
    """Run all requests on pilots that all start at once; each is replaced when it ends while requests wait.

    `actual_s`: how long each takes in fact (default: as expected). What a pilot's end interrupts starts again on
    another one, if it is shorter than the longest pilot. How long pilots wait in the queue of the site is not known:
    the simulation has no such wait.
    """
    simulation = _Simulation(requests, pilots, actual_s, rule or Packing(requests))
    return simulation.run()


@dataclass
class _LivePilot:
    size: PilotSize
    since_s: float
    running: int = 0
    used: bool = False

    @property
    def until_s(self) -> float:
        return self.since_s + self.size.time_s


class _Simulation:
    def __init__(
        self,
        requests: Sequence[Request],
        pilots: Sequence[PilotSize],
        actual_s: Sequence[float] | None,
        rule: PackingRule,
    ) -> None:
        self._requests = requests
        self._sizes = pilots
        self._actual_s = actual_s if actual_s is not None else [each.expected_s for each in requests]
        self._rule = rule
        self._now_s = 0.0
        self._pilots: dict[str, _LivePilot] = {}
        self._count = 0
        self._used_node_s: list[float] = []
        self._live: dict[int, SimulatedRun] = {}
        self._ended: list[SimulatedRun] = []
        self._ends: list[tuple[float, int]] = []
        """Heap of the ends of what runs, with the index of the request; also of what a pilot's end interrupted."""
        self._left = set(range(len(requests)))
        for size in pilots:
            self._begin_pilot(size)

    def run(self) -> Timeline:
        while self._left:
            self._start_all()
            if not self._renew_idle_pilots() and not self._advance():
                break
        used_s = math.fsum(self._used_node_s)
        longest_s = max((each.end_s - each.start_s for each in self._ended), default=0.0)
        return Timeline(
            runs=tuple(sorted(self._ended, key=lambda each: (each.start_s, each.index))),
            pilots=len({each.pilot for each in self._ended}),
            makespan_s=max((each.end_s for each in self._ended), default=0.0),
            ideal_s=max(used_s / sum(size.nodes for size in self._sizes), longest_s),
            never=tuple(sorted(self._left)),
        )

    def _start_all(self) -> None:
        while (start := self._rule.next_start(self._now_s)) is not None:
            pilot = self._pilots[start.pilot]
            end_s = self._now_s + self._actual_s[start.index]
            self._live[start.index] = SimulatedRun(start.index, start.pilot, start.place, self._now_s, end_s)
            heapq.heappush(self._ends, (end_s, start.index))
            pilot.running += 1
            pilot.used = True

    def _renew_idle_pilots(self) -> bool:
        """Nothing that waits ends before these pilots do: they end now, and new ones begin."""
        if len(self._left) == len(self._live):
            return False
        idle = [name for name, pilot in self._pilots.items() if pilot.used and not pilot.running]
        for name in idle:
            self._replace_pilot(name)
        return bool(idle)

    def _advance(self) -> bool:
        """To the next end of a repetition or of a pilot. False when nothing runs any more."""
        if not self._live:
            return False
        pilot_end_s = min(pilot.until_s for pilot in self._pilots.values())
        self._now_s = min(self._ends[0][0], pilot_end_s)
        while self._ends and self._ends[0][0] <= self._now_s:
            end_s, index = heapq.heappop(self._ends)
            if index in self._live and self._live[index].end_s == end_s:
                self._end_run(index)
        for name in [name for name, pilot in self._pilots.items() if pilot.until_s <= self._now_s]:
            self._replace_pilot(name)
        return True

    def _end_run(self, index: int) -> None:
        run = self._live.pop(index)
        pilot = self._pilots[run.pilot]
        pilot.running -= 1
        self._rule.end(index)
        self._ended.append(run)
        self._left.discard(index)
        part = len(run.place.cores) / len(pilot.size.cores) if run.place.cores else 1.0
        self._used_node_s.append((run.end_s - run.start_s) * len(run.place.nodes) * part)

    def _begin_pilot(self, size: PilotSize) -> None:
        self._count += 1
        name = f"pilot {self._count}"
        self._pilots[name] = _LivePilot(size, self._now_s)
        self._rule.add_pilot(name, size.nodes, size.cores, self._now_s + size.time_s)

    def _end_pilot(self, name: str) -> None:
        del self._pilots[name]
        longest_s = max(size.time_s for size in self._sizes)
        for index in self._rule.remove_pilot(name):
            del self._live[index]
            if self._actual_s[index] < longest_s:
                self._rule.put_back(index)

    def _replace_pilot(self, name: str) -> None:
        size = self._pilots[name].size
        self._end_pilot(name)
        self._begin_pilot(size)
