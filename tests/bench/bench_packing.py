"""Packing the repetitions of a campaign into pilots: efficiency, and the time to decide.

Simulated, nothing runs. Efficiency is the ideal (the larger of node-seconds ÷ nodes and the longest repetition) ÷ the
time from the first start to the last end. Synthetic trials of 10 to 320 s, some on part of a node; a repetition takes
5 % (σ) more or less than its estimate. The same repetitions in two other orders: first come, first served; and the
smallest first on whole nodes, as Parsl's MPIExecutor does. 20 campaigns on four nodes: the median, and all of them.
"""

from __future__ import annotations

import heapq
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.bench import streams
from tests.support.simulated_pilots import Timeline, simulate
from workflow.campaign.planning.campaign_size import PilotSize
from workflow.campaign.planning.free_nodes import FreeNodes, Place
from workflow.campaign.planning.packing import Request, Start

FOUR = PilotSize(4, tuple(range(4)))
LARGE = PilotSize(512, tuple(range(64)))
SMALL_SIZES = [(1, 1), (1, 2), (1, None), (1, None), (1, None), (2, None), (2, None), (3, None), (4, None)]
LARGE_SIZES = [(1, 16), (1, 32), *((2**power, None) for power in (0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7))]


@dataclass(frozen=True)
class Synthetic:
    """Repetitions in blocks of random order, and how long each really takes."""

    requests: list[Request]
    actual_s: list[float]


def measure() -> list[streams.Row]:
    """The rows of the table."""
    campaigns = [synthetic(seed, 20, 10, SMALL_SIZES) for seed in range(20)]
    large = synthetic(0, 100, 20 if streams.QUICK else 200, LARGE_SIZES)
    rows = [*rows_of("200 repetitions on 4 nodes", [(each, FOUR) for each in campaigns])]
    begin = time.perf_counter()
    simulate(large.requests, [LARGE], large.actual_s)
    seconds = time.perf_counter() - begin
    count = f"{len(large.requests):,} repetitions"
    rows += rows_of(f"{count} on 512 nodes", [(large, LARGE)])
    return [*rows, {"name": f"all decisions for {count}", "value": seconds, "unit": "s", "target": 5.0}]


def rows_of(what: str, campaigns: Sequence[tuple[Synthetic, PilotSize]]) -> Iterator[streams.Row]:
    """Efficiency and spread of the blocks, packed and in the other orders."""
    ways = {
        "packed": packed,
        "first come, first served": first_come,
        "smallest first, whole nodes (MPIExecutor)": smallest_first,
    }
    for way, function in ways.items():
        results = [function(*each) for each in campaigns]
        efficiencies = [100 * result.efficiency for result in results]
        spread = f"{min(efficiencies):.3g} to {max(efficiencies):.3g} %; " if len(results) > 1 else ""
        block = 100 * statistics.median(result.block_spread for result in results)
        yield {
            "name": f"{what}: {way}", "value": statistics.median(efficiencies), "unit": "%",
            "target": 90.0 if way == "packed" else None, "better": "higher",
            "detail": f"{spread}a block starts within {block:.2g} % of the time",
        }  # fmt: skip


def synthetic(seed: int, trials: int, repetitions: int, sizes: Sequence[tuple[int, int | None]]) -> Synthetic:
    """A campaign of trials of random sizes and durations."""
    rng = random.Random(seed)
    trial = [(*rng.choice(sizes), 10 * 2 ** rng.uniform(0, 5)) for _ in range(trials)]
    requests = [
        Request(nodes, cores, expected_s, block)
        for block in range(repetitions)
        for nodes, cores, expected_s in rng.sample(trial, len(trial))
    ]
    return Synthetic(requests, [each.expected_s * rng.lognormvariate(0, 0.05) for each in requests])


@dataclass(frozen=True)
class Result:
    """What an order achieves."""

    efficiency: float
    block_spread: float
    """From the first to the last start of a block ÷ the whole time, median of the blocks."""


def packed(campaign: Synthetic, size: PilotSize) -> Result:
    """As campaigns are packed."""
    return result_of(campaign, simulate(campaign.requests, [size], campaign.actual_s))


def first_come(campaign: Synthetic, size: PilotSize) -> Result:
    """The next one in the order waits for room, and all others for it."""
    rule = SortedRule(campaign.requests, [0] * len(campaign.requests))
    return result_of(campaign, simulate(campaign.requests, [size], campaign.actual_s, rule))


def smallest_first(campaign: Synthetic, size: PilotSize) -> Result:
    """The one with the fewest nodes is next, and none shares a node."""
    whole = [replace(each, cores_per_node=None) for each in campaign.requests]
    rule = SortedRule(whole, [each.nodes for each in whole])
    result = result_of(campaign, simulate(whole, [size], campaign.actual_s, rule))
    shares = [each.nodes * (each.cores_per_node or len(size.cores)) / len(size.cores) for each in campaign.requests]
    work_s = sum(share * seconds for share, seconds in zip(shares, campaign.actual_s, strict=True))
    whole_s = sum(each.nodes * seconds for each, seconds in zip(whole, campaign.actual_s, strict=True))
    return replace(result, efficiency=result.efficiency * work_s / whole_s)  # part of a node would be enough


def result_of(campaign: Synthetic, timeline: Timeline) -> Result:
    """From the starts and ends."""
    starts: dict[int, list[float]] = {}
    for run in timeline.runs:
        starts.setdefault(campaign.requests[run.index].block, []).append(run.start_s)
    spread = statistics.median(max(each) - min(each) for each in starts.values())
    return Result(timeline.efficiency, spread / timeline.makespan_s)


class SortedRule:
    """Requests start in one order, none overtakes another; for one pilot without an end."""

    def __init__(self, requests: Sequence[Request], keys: Sequence[int]) -> None:
        self._requests = requests
        self._waiting = [(key, index) for index, key in enumerate(keys)]
        heapq.heapify(self._waiting)
        self._running: dict[int, Place] = {}

    def add_pilot(self, pilot: str, nodes: int, cores: Sequence[int], until_s: float) -> None:
        """The only pilot."""
        del until_s
        self._name, self._free = pilot, FreeNodes(nodes, cores)

    def remove_pilot(self, pilot: str) -> list[int]:
        """The end of the simulation."""
        del pilot
        return list(self._running)

    def next_start(self, now_s: float) -> Start | None:
        """The first of the order, if there is room for it."""
        del now_s
        if not self._waiting:
            return None
        index = self._waiting[0][1]
        place = self._free.find(self._requests[index].footprint)
        if place is None:
            return None
        heapq.heappop(self._waiting)
        self._free.take(place)
        self._running[index] = place
        return Start(index, self._name, place)

    def end(self, index: int) -> None:
        """Its place is free."""
        self._free.give(self._running.pop(index))

    def put_back(self, index: int) -> None:
        """Never happens: the pilot has no end."""
        raise NotImplementedError(index)


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
