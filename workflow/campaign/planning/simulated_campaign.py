"""The size of a campaign on its pilots: how many repetitions run at once, for how long, on how many nodes.

What is left of the campaign is packed into pilots without running anything. Pure.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from workflow.campaign.ledger import Repetition
from workflow.campaign.planning.free_nodes import Footprint, Place
from workflow.campaign.planning.job_allocation import pilot_allocation
from workflow.campaign.planning.packing import Packing, Request, Start
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.planning.trial_requests import EstimatedDurations, all_requests, footprint_of
from workflow.launch.allocation import Allocation
from workflow.site.site_model import Site

KnownBy = Literal["measured", "expected", "deadline"]


@dataclass(frozen=True)
class PilotSize:
    """What pilots are alike in: nodes, their usable cores, and for how long."""

    nodes: int
    cores: tuple[int, ...]
    time_s: float = math.inf


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
    pilot_node_s: float
    """Node-seconds of all pilots, from their start to their end, idle nodes included."""
    used_node_s: float
    """Node-seconds of the repetitions; part of a node counts as that part."""
    makespan_s: float
    ideal_s: float
    """The larger of the node-seconds ÷ the nodes and the longest repetition: none can be faster."""
    never: tuple[int, ...]
    """Requests that fit no pilot."""

    @property
    def efficiency(self) -> float:
        """The ideal ÷ the makespan; 1 for nothing at all."""
        return self.ideal_s / self.makespan_s if self.makespan_s else 1.0

    @property
    def most_at_once(self) -> int:
        """How many repetitions run at the same time, at most."""
        changes = sorted(change for run in self.runs for change in ((run.start_s, 1), (run.end_s, -1)))
        return max(itertools.accumulate(change for _, change in changes), default=0)


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
        self._pilot_node_s = 0.0
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
        for name in list(self._pilots):
            self._end_pilot(name)
        used_s = math.fsum(self._used_node_s)
        longest_s = max((each.end_s - each.start_s for each in self._ended), default=0.0)
        return Timeline(
            runs=tuple(sorted(self._ended, key=lambda each: (each.start_s, each.index))),
            pilots=len({each.pilot for each in self._ended}),
            pilot_node_s=self._pilot_node_s,
            used_node_s=used_s,
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
        pilot = self._pilots.pop(name)
        self._pilot_node_s += pilot.size.nodes * (self._now_s - pilot.since_s)
        longest_s = max(size.time_s for size in self._sizes)
        for index in self._rule.remove_pilot(name):
            del self._live[index]
            if self._actual_s[index] < longest_s:
                self._rule.put_back(index)

    def _replace_pilot(self, name: str) -> None:
        size = self._pilots[name].size
        self._end_pilot(name)
        self._begin_pilot(size)


@dataclass(frozen=True)
class PilotsOfCampaign:
    """Where the repetitions of a campaign run, and what each has there for itself."""

    size: PilotSize
    """The nodes that are here, or those of each job."""
    count: int = 1
    """Pilots at the same time, at most."""
    in_jobs: bool = False
    """Whether the pilots are batch jobs that are still to be submitted."""
    share_nodes: bool = False
    """Whether a repetition has only cores for itself."""
    one_at_a_time: bool = False
    """Whether each waits for the one before it, whatever room there is."""
    job_each: bool = False
    """Whether each repetition is a job of its own."""


@dataclass(frozen=True)
class PackedCampaign:
    """The repetitions of a campaign that are not finished, as they would run from now on."""

    pilots: PilotsOfCampaign
    timeline: Timeline
    node_s: float
    """What it costs; where repetitions run side by side, idle nodes included."""
    known_by: KnownBy
    """Where the estimates are from; measured: at least those of one trial."""
    most_if_shared: int
    """How many would run at once if they shared nodes."""
    finished: int = 0
    """Repetitions that need not run."""
    left: int = 0


def needs_jobs(planned: PlannedCampaign, allocation: Allocation) -> bool:
    """Whether the repetitions cannot run where this process is: on the login node of a site with a scheduler."""
    return allocation.source == "local" and any(trial.plan.allocation is not None for trial in planned.ready)


def pilots_of(planned: PlannedCampaign, allocation: Allocation, site: Site, *, all_cores: bool) -> PilotsOfCampaign:
    """The nodes on which a campaign runs that is started in `allocation`; it has a trial that can run.

    `all_cores`: whether this process may use all cores of its machine. Where it may not, repetitions on part of a node
    would count its cores differently, and have nodes for themselves.

    Raises:
        SpecError: the queues of the site do not take such jobs, with places in the campaign file.
    """
    spec = planned.spec
    alone, share = spec.side_by_side == "no", spec.side_by_side == "cores"
    job = pilot_allocation(planned, site) if needs_jobs(planned, allocation) else None
    if job is None:
        size = PilotSize(len(allocation.hosts), site.usable_cores)
        return PilotsOfCampaign(size, share_nodes=share and all_cores, one_at_a_time=alone)
    return PilotsOfCampaign(
        PilotSize(job.nodes, site.usable_cores, job.walltime_s - job.grace_s),
        spec.jobs.count,
        in_jobs=True,
        share_nodes=share and job.exclusive,
        one_at_a_time=alone,
        job_each=spec.jobs.mode == "each",
    )


def pack_campaign(
    planned: PlannedCampaign,
    estimates: EstimatedDurations,
    pilots: PilotsOfCampaign,
    finished: Collection[Repetition] = (),
) -> PackedCampaign:
    """The campaign, without what is finished, on pilots of which each is replaced when it ends."""
    size, count = pilots.size, 1 if pilots.one_at_a_time else pilots.count
    todo = [each for each in planned.repetitions if each not in finished]
    requests = all_requests(planned, todo, estimates, share_nodes=pilots.share_nodes)
    known_by = _known_by(planned, estimates)
    if known_by == "deadline":
        # A guess is no reason not to try.
        requests = [replace(each, expected_s=min(each.expected_s, size.time_s / 2)) for each in requests]
    node_s = sum(each.nodes * each.expected_s for each in requests)
    if pilots.one_at_a_time:
        requests = [replace(each, nodes=size.nodes, cores_per_node=None) for each in requests]
    timeline = simulate(requests, [size] * count)
    idle_counts = (timeline.most_at_once > 1 or pilots.in_jobs) and not pilots.job_each
    shared = {footprint_of(trial.plan, share_nodes=True) for trial in planned.ready}
    return PackedCampaign(
        pilots=pilots,
        timeline=timeline,
        node_s=timeline.pilot_node_s if idle_counts else node_s,
        known_by=known_by,
        most_if_shared=min(len(requests), count * most_at_once(shared, size.nodes, len(size.cores))),
        finished=len(finished),
        left=len(requests),
    )


def _known_by(planned: PlannedCampaign, estimates: EstimatedDurations) -> KnownBy:
    if estimates.any_measured:
        return "measured"
    return "deadline" if planned.spec.expected is None else "expected"


def most_at_once(footprints: Iterable[Footprint], nodes: int, cores: int) -> int:
    """How many repetitions have room at the same time on so many nodes, if all are of the smallest footprint."""
    return max((_room_for(each, nodes, cores) for each in footprints), default=0)


def _room_for(footprint: Footprint, nodes: int, cores: int) -> int:
    on_each = 1 if footprint.cores_per_node is None else cores // footprint.cores_per_node
    return nodes // footprint.nodes * on_each
