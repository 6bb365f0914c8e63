"""Which repetition starts next, on which pilot, nodes and cores. Pure: the time is an argument.

The order is that of the campaign: a block has one repetition of every trial, and earlier blocks come first, so that a
slow drift of the machine affects all trials alike. Within a block the longest comes first, as short ones fill what
remains. A block may begin before the one before it has ended; while one of a block waits for room, only its own block
and the next fill what is free.

A repetition that does not fit has a reservation: the place that is expected to be free first, and the time. Others
overtake it only where they are expected to have ended by then, or outside that place (EASY backfill: Lifka 1995,
doi:10.1007/3-540-60153-8_35). The reservation stays as it is until the repetition starts, also when what runs takes
longer than expected: then nothing else starts in that place, and the repetition starts there once it is free. So none
waits for ever, whatever the estimates. Nothing starts on a pilot that would end before it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workflow.campaign.planning.free_nodes import Footprint, FreeNodes, Place
from workflow.campaign.planning.waiting_requests import Request, WaitingRequests

BLOCKS_AHEAD = 1
"""From how many blocks after its own repetitions may overtake one that waits for room.

Simulated, 40 mixed campaigns of 20 trials × 10 on four nodes: with 0 the nodes are used to 92 %, with 1 to 95 %,
without a limit to 96 %; and a block starts within 10, 17 and 47 % of the campaign's time.
"""


@dataclass(frozen=True)
class Start:
    """A repetition that starts now."""

    index: int
    """In the list of requests."""
    pilot: str
    place: Place


@dataclass(frozen=True)
class Reservation:
    """What the first waiting repetition that does not fit has been promised."""

    index: int
    pilot: str
    place: Place
    start_s: float


@dataclass
class _Pilot:
    free: FreeNodes
    until_s: float


@dataclass(frozen=True)
class _Started:
    pilot: str
    place: Place
    expected_end_s: float


class Packing:
    """The requests of a campaign and the pilots that run them. All times have the same origin, in seconds."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._waiting = WaitingRequests(requests)
        self._pilots: dict[str, _Pilot] = {}
        self._running: dict[int, _Started] = {}
        self.reservation: Reservation | None = None

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    def add_pilot(self, pilot: str, nodes: int, cores: Sequence[int], until_s: float = math.inf) -> None:
        """A pilot has come: so many nodes, each with these usable cores, until a time."""
        if pilot in self._pilots:
            raise ValueError(f"there is a pilot {pilot} already")
        self._pilots[pilot] = _Pilot(FreeNodes(nodes, cores), until_s)

    def remove_pilot(self, pilot: str) -> list[int]:
        """A pilot has gone. Returns what ran there, which neither runs nor waits now: see `put_back`."""
        del self._pilots[pilot]
        gone = [index for index, running in self._running.items() if running.pilot == pilot]
        for index in gone:
            del self._running[index]
        return gone

    def lose_node(self, pilot: str, node: int) -> list[int]:
        """A node has died. Returns what runs there, which still holds its other nodes: call `end` for each."""
        self._pilots[pilot].free.lose(node)
        if self.reservation is not None and self.reservation.pilot == pilot:
            self.reservation = None
        on_pilot = ((index, each) for index, each in self._running.items() if each.pilot == pilot)
        return [index for index, each in on_pilot if node in each.place.nodes]

    def next_start(self, now_s: float) -> Start | None:
        """Take the place of the next repetition that can start, or None. Call it until there is none."""
        if self.reservation is not None and not self._holds(self.reservation, now_s):
            self.reservation = None
        if self.reservation is None:
            start = self._first(now_s)
        else:
            start = self._start_at(self.reservation.index, now_s)
            if start is not None:
                self.reservation = None
        if start is None and self.reservation is not None:
            start = self._backfill(self.reservation, now_s)
        if start is not None:
            self._waiting.remove(start.index)
            self._pilots[start.pilot].free.take(start.place)
            expected_s = self._waiting.requests[start.index].expected_s
            self._running[start.index] = _Started(start.pilot, start.place, now_s + expected_s)
        return start

    def end(self, index: int) -> None:
        """A repetition has ended: its place is free. It does not wait again: see `put_back`."""
        running = self._running.pop(index)
        self._pilots[running.pilot].free.give(running.place)

    def put_back(self, index: int) -> None:
        """A repetition that has ended, or whose pilot has gone, waits again, where it stood before."""
        if index in self._running:
            raise ValueError(f"request {index} runs")
        self._waiting.put_back(index)

    def revise(self, expected_s: Mapping[int, float]) -> None:
        """Better estimates of requests by their index. Those that change by less than a tenth count as before."""
        self._waiting.revise(expected_s)

    def free_cores(self, pilot: str) -> int:
        """Cores of a pilot that nothing uses."""
        return self._pilots[pilot].free.free_cores

    def is_idle(self, pilot: str) -> bool:
        """Whether nothing runs there: after `next_start` has found nothing, nothing that waits fits there either."""
        return all(running.pilot != pilot for running in self._running.values())

    def _holds(self, reservation: Reservation, now_s: float) -> bool:
        pilot = self._pilots.get(reservation.pilot)
        expected_s = self._waiting.requests[reservation.index].expected_s
        return pilot is not None and max(now_s, reservation.start_s) + expected_s <= pilot.until_s

    def _first(self, now_s: float) -> Start | None:
        """The first in the order that has or will have room on some pilot: it starts, or gets the reservation."""
        waiting = self._waiting
        limits = dict.fromkeys(waiting.footprints, math.inf)
        while True:
            firsts = [waiting.first(footprint, limit_s) for footprint, limit_s in limits.items()]
            index = min((each for each in firsts if each is not None), key=waiting.rank, default=None)
            if index is None:
                return None
            start = self._start_at(index, now_s)
            if start is not None:
                return start
            request = waiting.requests[index]
            options = self._earliest(request.footprint, now_s)
            in_time = [each for each in options if each[0] + request.expected_s <= self._pilots[each[1]].until_s]
            if in_time:
                start_s, pilot, place = min(in_time, key=lambda each: each[0])
                self.reservation = Reservation(index, pilot, place, start_s)
                return None
            # This one waits for another pilot; a shorter one of its footprint may still end in time.
            longest_s = max((self._pilots[pilot].until_s - start_s for start_s, pilot, _ in options), default=-math.inf)
            limits[request.footprint] = min(longest_s, math.nextafter(request.expected_s, 0))

    def _start_at(self, index: int, now_s: float) -> Start | None:
        """On the fullest pilot that has room: emptier ones stay free for larger requests."""
        request = self._waiting.requests[index]
        found = []
        for name, pilot in self._pilots.items():
            in_time = now_s + request.expected_s <= pilot.until_s
            place = pilot.free.find(request.footprint) if in_time and pilot.free.has_nodes(request.footprint) else None
            if place is not None:
                found.append(Start(index, name, place))
        if len(found) < 2:
            return found[0] if found else None
        return min(found, key=lambda each: self._pilots[each.pilot].free.free_cores)

    def _earliest(self, footprint: Footprint, now_s: float) -> list[tuple[float, str, Place]]:
        """When and where each pilot is expected to have room, by the expected ends of what runs."""
        found = []
        for name, pilot in self._pilots.items():
            if not pilot.free.fits_when_empty(footprint):
                continue
            place, start_s, later = pilot.free.find(footprint), now_s, pilot.free.copy()
            running = [each for each in self._running.values() if each.pilot == name] if place is None else []
            for each in sorted(running, key=lambda each: each.expected_end_s):
                later.give(each.place)
                place, start_s = later.find_freed(footprint, before=pilot.free), max(each.expected_end_s, now_s)
                if place is not None:
                    break
            if place is not None:
                found.append((start_s, name, place))
        return found

    def _backfill(self, reservation: Reservation, now_s: float) -> Start | None:
        """The first in the order that does not delay the reservation."""
        last_block = self._waiting.requests[reservation.index].block + BLOCKS_AHEAD
        best: Start | None = None
        for name, pilot in self._pilots.items():
            left_s = pilot.until_s - now_s
            options: list[tuple[float, Place | None]] = [(left_s, None)]
            if name == reservation.pilot:
                options = [(left_s, reservation.place), (min(left_s, reservation.start_s - now_s), None)]
            fitting = [footprint for footprint in self._waiting.footprints if pilot.free.has_nodes(footprint)]
            for footprint, (limit_s, avoiding) in itertools.product(fitting, options):
                index = self._waiting.first(footprint, limit_s)
                if index is None or self._waiting.requests[index].block > last_block:
                    continue
                if best is not None and self._waiting.rank(best.index) <= self._waiting.rank(index):
                    continue
                place = pilot.free.find(footprint, avoiding)
                if place is not None:
                    best = Start(index, name, place)
        return best
