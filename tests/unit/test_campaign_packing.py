"""Which repetition starts where: on free nodes and cores, in the order of the campaign, and none waits for ever."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from tests.support.simulated_pilots import simulate
from workflow.campaign.planning.campaign_size import PilotSize
from workflow.campaign.planning.free_nodes import Footprint, FreeNodes, Place
from workflow.campaign.planning.packing import Packing, Request, Start

FOUR = PilotSize(4, (0, 1, 2, 3))


def starts(packing: Packing, now_s: float) -> list[tuple[int, tuple[int, ...]]]:
    """All that starts now: index of the request, and its nodes."""
    found = []
    while (start := packing.next_start(now_s)) is not None:
        found.append((start.index, start.place.nodes))
    return found


def packing_on_four(*requests: Request, until_s: float = math.inf) -> Packing:
    packing = Packing(requests)
    packing.add_pilot("p", 4, range(4), until_s)
    return packing


def test_whole_nodes_lie_side_by_side_where_they_can() -> None:
    free = FreeNodes(6, range(4))
    free.take(Place((1,)))
    assert free.find(Footprint(3, None)) == Place((2, 3, 4))
    free.take(Place((3,)))
    assert free.find(Footprint(4, None)) == Place((0, 2, 4, 5))
    assert free.find(Footprint(5, None)) is None


def test_cores_come_from_the_fullest_node_that_has_enough() -> None:
    free = FreeNodes(3, (1, 2, 3, 4, 5, 6, 7, 8))  # core 0 is reserved
    free.take(Place((0,), (1, 2, 3, 4)))
    free.take(Place((1,), (1, 2, 3)))
    assert free.find(Footprint(1, 4)) == Place((0,), (5, 6, 7, 8))
    assert free.find(Footprint(1, 5)) == Place((1,), (4, 5, 6, 7, 8))
    assert free.find(Footprint(1, 6)) == Place((2,), (1, 2, 3, 4, 5, 6))
    assert free.find(Footprint(2, 3)) == Place((0, 1), (5, 6, 7))
    assert free.find(Footprint(1, 8)) == Place((2,)) == free.find(Footprint(1, None))
    assert free.find(Footprint(1, 9)) is None


def test_cores_begin_at_a_multiple_of_their_number_where_they_can() -> None:
    free = FreeNodes(1, range(16))
    free.take(Place((0,), (0, 1, 2)))
    assert free.find(Footprint(1, 4)) == Place((0,), (4, 5, 6, 7))


def test_a_place_is_given_once_and_returned_once() -> None:
    free = FreeNodes(2, range(4))
    free.take(Place((0,), (1, 2)))
    for place in (Place((0,)), Place((0, 1)), Place((0,), (2, 3))):
        with pytest.raises(ValueError, match="not free"):
            free.take(place)
    with pytest.raises(ValueError, match="free already"):
        free.give(Place((0,), (0, 1)))
    free.give(Place((0,), (1, 2)))
    assert free.find(Footprint(2, None)) == Place((0, 1))


def test_blocks_come_in_order_and_in_a_block_the_longest_first() -> None:
    durations = [(0, 5.0), (0, 9.0), (1, 99.0), (0, 7.0), (1, 3.0)]
    packing = packing_on_four(*(Request(1, None, seconds, block) for block, seconds in durations))
    assert [index for index, _ in starts(packing, 0)] == [1, 3, 0, 2]


def test_a_large_request_is_overtaken_only_by_those_that_do_not_delay_it() -> None:
    packing = packing_on_four(
        Request(2, None, 10.0), Request(1, None, 8.0), Request(4, None, 7.0),  # the last one has to wait for these
        Request(1, None, 11.0, 1), Request(1, None, 9.0, 1),
    )  # fmt: skip
    assert starts(packing, 0) == [(0, (0, 1)), (1, (2,)), (4, (3,))]
    assert packing.reservation is not None and packing.reservation.start_s == 10
    packing.end(1)
    assert starts(packing, 8) == []  # two nodes are free, and what waits would end after 10
    packing.end(4)
    packing.end(0)
    assert starts(packing, 9.5) == [(2, (0, 1, 2, 3))]
    packing.end(2)
    assert starts(packing, 20) == [(3, (0,))]


def test_only_the_next_block_overtakes_what_waits_for_room() -> None:
    packing = packing_on_four(
        Request(3, None, 10.0), Request(4, None, 9.0), Request(1, None, 1.0, 2), Request(1, None, 1.0, 1)
    )
    assert starts(packing, 0) == [(0, (0, 1, 2)), (3, (3,))]
    packing.end(3)
    assert starts(packing, 1) == []


def test_outside_the_reserved_place_long_ones_start() -> None:
    packing = packing_on_four(Request(3, None, 10.0), Request(3, None, 9.0), Request(1, None, 100.0, 1))
    assert starts(packing, 0) == [(0, (0, 1, 2)), (2, (3,))]


def test_a_reserved_place_is_kept_when_what_runs_there_takes_longer() -> None:
    packing = packing_on_four(Request(3, None, 10.0), Request(4, None, 9.0), Request(1, None, 2.0, 1))
    assert starts(packing, 0) == [(0, (0, 1, 2)), (2, (3,))]
    packing.end(2)
    packing.put_back(2)
    assert starts(packing, 8.5) == starts(packing, 1000) == []
    packing.end(0)
    assert starts(packing, 1001) == [(1, (0, 1, 2, 3))]


def test_nothing_starts_that_would_not_end_before_its_pilot() -> None:
    packing = packing_on_four(Request(4, None, 20.0), Request(1, None, 11.0), Request(1, None, 9.0), until_s=10)
    assert starts(packing, 0) == [(2, (0,))]
    packing.add_pilot("q", 4, range(4), 30)
    assert packing.next_start(1) == Start(0, "q", Place((0, 1, 2, 3)))
    assert packing.next_start(1) is None
    assert packing.remove_pilot("p") == [2]
    packing.put_back(2)
    packing.end(0)
    assert packing.next_start(15) == Start(1, "q", Place((0,)))
    assert packing.next_start(15) == Start(2, "q", Place((1,)))


def test_a_node_that_is_lost_is_not_used_again() -> None:
    packing = packing_on_four(Request(4, None, 5.0), Request(3, None, 4.0))
    assert starts(packing, 0) == [(0, (0, 1, 2, 3))]
    assert packing.lose_node("p", 1) == [0]
    packing.end(0)
    packing.put_back(0)
    assert starts(packing, 1) == [(1, (0, 2, 3))]
    packing.end(1)
    assert starts(packing, 2) == []
    packing.add_pilot("q", 4, range(4))
    assert packing.next_start(3) == Start(0, "q", Place((0, 1, 2, 3)))


def test_better_estimates_change_the_order() -> None:
    packing = packing_on_four(*(Request(4, None, 10.0) for _ in range(3)))
    packing.revise({0: 9.5, 2: 30.0})
    assert starts(packing, 0) == [(2, (0, 1, 2, 3))]
    packing.end(2)
    assert starts(packing, 30) == [(0, (0, 1, 2, 3))]


class Checked:
    """A campaign on a busy machine: each start is compared with what must hold, and pilots come and go."""

    def __init__(self, seed: int, error: float) -> None:
        rng = self.rng = random.Random(f"{seed} {error}")
        self.exact = error == 1.0
        self.cores = tuple(rng.sample(range(12), rng.choice([1, 4, 8])))
        sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 3))]
        self.requests = [
            Request(
                rng.randint(1, 7),
                rng.choice([None, None, rng.randint(1, 9)]),
                2 ** rng.uniform(0, 5),
                rng.randint(0, 4),
            )
            for _ in range(60)
        ]
        self.actual_s = [each.expected_s * rng.uniform(1 / error, error) for each in self.requests]
        self.packing = Packing(self.requests)
        self.until_s: dict[str, float] = {}
        self.sizes: dict[str, int] = {}
        for nodes in sizes:
            self.begin_pilot(nodes, math.inf)
        self.used: dict[tuple[str, int, int], int] = {}
        self.running: dict[int, tuple[float, Start]] = {}
        self.started: Counter[int] = Counter()

    def begin_pilot(self, nodes: int, until_s: float) -> None:
        name = f"p{len(self.until_s)}"
        self.packing.add_pilot(name, nodes, self.cores, until_s)
        self.until_s[name], self.sizes[name] = until_s, nodes

    def units(self, start: Start) -> list[tuple[str, int, int]]:
        return [(start.pilot, node, core) for node in start.place.nodes for core in start.place.cores or self.cores]

    def start_all(self, now_s: float) -> None:
        while True:
            promise = self.packing.reservation
            if (start := self.packing.next_start(now_s)) is None:
                return
            request = self.requests[start.index]
            units = self.units(start)
            assert not any(unit in self.used for unit in units), f"{start} is not free"
            assert len(units) == request.nodes * (request.cores_per_node or len(self.cores))
            assert now_s + request.expected_s <= self.until_s[start.pilot]
            if promise is not None and start.index != promise.index and start.pilot == promise.pilot:
                reserved = self.units(Start(promise.index, promise.pilot, promise.place))
                outside = not set(reserved) & set(units)
                assert outside or now_s + request.expected_s <= promise.start_s + 1e-9, f"{start} delays {promise}"
            if promise is not None and start.index == promise.index and self.exact:
                assert now_s <= promise.start_s + 1e-9, f"{promise} was not kept"
            self.used.update(dict.fromkeys(units, start.index))
            self.running[start.index] = (now_s + self.actual_s[start.index], start)
            self.started[start.index] += 1

    def end(self, index: int) -> None:
        _, start = self.running.pop(index)
        for unit in self.units(start):
            del self.used[unit]

    def run(self) -> None:
        now_s = 0.0
        self.start_all(now_s)
        while self.running:
            now_s, index = min((end_s, index) for index, (end_s, _) in self.running.items())
            self.packing.end(index)
            self.end(index)
            self.start_all(now_s)

    def fits(self, index: int) -> bool:
        request = self.requests[index]
        return request.nodes <= max(self.sizes.values()) and (request.cores_per_node or 0) <= len(self.cores)


@pytest.mark.parametrize("error", [1.0, 4.0])
def test_all_that_fits_is_started_once_on_nodes_and_cores_of_its_own(error: float) -> None:
    for seed in range(60):
        campaign = Checked(seed, error)
        campaign.run()
        assert campaign.started == Counter(index for index in range(60) if campaign.fits(index))
        assert campaign.packing.waiting == 60 - len(campaign.started)
        for pilot, nodes in campaign.sizes.items():
            assert campaign.packing.free_cores(pilot) == nodes * len(campaign.cores)


def test_pilots_follow_one_another_until_all_has_run() -> None:
    requests = [Request(1, None, 40.0)] * 5 + [Request(5, None, 1.0), Request(1, None, 101.0)]
    timeline = simulate(requests, [PilotSize(2, (0, 1), 100.0)])
    # Two at a time twice; 20 s are too few for the fifth, so that the pilot ends.
    assert [(run.index, run.pilot, run.start_s) for run in timeline.runs] == [
        (0, "pilot 1", 0), (1, "pilot 1", 0), (2, "pilot 1", 40), (3, "pilot 1", 40), (4, "pilot 2", 80),
    ]  # fmt: skip
    assert timeline.never == (5, 6)
    assert (timeline.pilots, timeline.makespan_s, timeline.ideal_s) == (2, 120, 100)


def test_what_the_end_of_a_pilot_interrupts_runs_again() -> None:
    timeline = simulate([Request(1, 1, 5.0)] * 4, [PilotSize(1, (0, 1), 10.0)], actual_s=[4.0, 3.0, 7.5, 11.0])
    assert [(run.index, run.start_s) for run in timeline.runs] == [(0, 0), (1, 0), (2, 10)]
    assert timeline.never == (3,)  # no pilot is long enough


@pytest.mark.parametrize("seed", range(5))
def test_a_mixed_campaign_on_four_nodes_is_packed_well(seed: int) -> None:
    rng = random.Random(seed)
    trials = [
        (rng.choice([1, 1, 1, 2, 2, 3, 4]), rng.choice([None, 1, 2]), 10 * 2 ** rng.uniform(0, 4)) for _ in range(20)
    ]
    requests = [
        Request(nodes, cores if nodes == 1 else None, s, block) for block in range(10) for nodes, cores, s in trials
    ]
    timeline = simulate(requests, [FOUR])
    assert len(timeline.runs) == len(requests) and timeline.efficiency > 0.85
