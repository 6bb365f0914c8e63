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
from dataclasses import dataclass, replace

from workflow.campaign.planning.free_nodes import Footprint, FreeNodes, Place

BLOCKS_AHEAD = 1
"""From how many blocks after its own repetitions may overtake one that waits for room.

Simulated, 40 mixed campaigns of 20 trials × 10 on four nodes: with 0 the nodes are used to 92 %, with 1 to 95 %,
without a limit to 96 %; and a block starts within 10, 17 and 47 % of the campaign's time.
"""
REVISED_BY = 0.1
"""Smallest relative change of an estimate that changes the order."""
_LONGEST_S = math.nextafter(math.inf, 0)


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


@dataclass(frozen=True)
class Request:
    """One repetition that is to run."""

    nodes: int
    cores_per_node: int | None
    """None: whole nodes."""
    expected_s: float
    block: int = 0
    """Which block of the campaign's order it belongs to: earlier blocks come first."""

    def __post_init__(self) -> None:
        if self.nodes < 1 or (self.cores_per_node is not None and self.cores_per_node < 1):
            raise ValueError(f"a repetition needs nodes and cores: {self}")
        if not 0 <= self.expected_s < math.inf:
            raise ValueError(f"how long a repetition takes must be known: {self}")

    @property
    def footprint(self) -> Footprint:
        """How much room it needs."""
        return Footprint(self.nodes, self.cores_per_node)


class WaitingRequests:
    """Requests by their index: the earlier block first, in a block the longest, then the largest.

    Those of one footprint fit or do not fit together. So each footprint has a list of its own, in which the first that
    ends in time is found in O(log n).
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = list(requests)
        self._waiting = [True] * len(self.requests)
        self._count = len(self.requests)
        self._arrange()

    def __len__(self) -> int:
        return self._count

    @property
    def footprints(self) -> list[Footprint]:
        """The footprints of all requests, also of those that wait no more."""
        return list(self._lanes)

    def first(self, footprint: Footprint, limit_s: float = math.inf) -> int | None:
        """The first request of this footprint that is expected to take at most `limit_s`."""
        return self._lanes[footprint].first(limit_s)

    def rank(self, index: int) -> int:
        """Its place in the order: smaller ones come first."""
        return self._rank[index]

    def remove(self, index: int) -> None:
        """It waits no longer."""
        if not self._waiting[index]:
            raise ValueError(f"request {index} does not wait")
        self._waiting[index] = False
        self._count -= 1
        self._lanes[self.requests[index].footprint].remove(index)

    def put_back(self, index: int) -> None:
        """It waits again, where it stood before."""
        if self._waiting[index]:
            raise ValueError(f"request {index} waits already")
        self._waiting[index] = True
        self._count += 1
        self._lanes[self.requests[index].footprint].put_back(index, self.requests[index].expected_s)

    def revise(self, expected_s: Mapping[int, float]) -> bool:
        """Better estimates of some requests. False when none has changed by a tenth: the order stays as it is."""
        changed = False
        for index, seconds in expected_s.items():
            before = self.requests[index].expected_s
            if abs(seconds - before) > REVISED_BY * before:
                self.requests[index] = replace(self.requests[index], expected_s=seconds)
                changed = True
        if changed:
            self._arrange()
        return changed

    def _arrange(self) -> None:
        by_footprint: dict[Footprint, list[int]] = {}
        self._rank = [0] * len(self.requests)
        for rank, index in enumerate(sorted(range(len(self.requests)), key=self._order)):
            self._rank[index] = rank
            by_footprint.setdefault(self.requests[index].footprint, []).append(index)
        self._lanes = {
            footprint: _Lane(indices, [self.requests[i].expected_s if self._waiting[i] else math.inf for i in indices])
            for footprint, indices in by_footprint.items()
        }

    def _order(self, index: int) -> tuple[int, float, int, int]:
        request = self.requests[index]
        return request.block, -request.expected_s, -request.nodes, index


class _Lane:
    """Requests of one footprint in their order, as a tree of the shortest expected time below each node."""

    def __init__(self, indices: list[int], expected_s: list[float]) -> None:
        self._indices = indices
        self._first: int | None = None
        """The first position that waits; None: not looked up since a change."""
        self._position = {index: position for position, index in enumerate(indices)}
        self._size = 1 << max(len(indices) - 1, 0).bit_length()
        padding = [math.inf] * (self._size - len(indices))
        self._least = [math.inf] * self._size + expected_s + padding
        for node in range(self._size - 1, 0, -1):
            self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])

    def first(self, limit_s: float) -> int | None:
        if self._least[1] > limit_s or self._least[1] == math.inf:
            return None
        if self._first is None:
            self._first = self._descend(_LONGEST_S)
        position = self._first
        if self._least[self._size + position] > limit_s:
            position = self._descend(limit_s)
        return self._indices[position]

    def _descend(self, limit_s: float) -> int:
        """The first position with at most `limit_s`, which there is; inf in the tree says that it waits no more."""
        least, node = self._least, 1
        while node < self._size:
            node *= 2
            if least[node] > limit_s:
                node += 1
        return node - self._size

    def remove(self, index: int) -> None:
        self.put_back(index, math.inf)

    def put_back(self, index: int, expected_s: float) -> None:
        least = self._least
        self._first = None
        node = self._size + self._position[index]
        least[node] = expected_s
        while node > 1:
            node //= 2
            shorter = min(least[2 * node], least[2 * node + 1])
            if least[node] == shorter:
                return
            least[node] = shorter
