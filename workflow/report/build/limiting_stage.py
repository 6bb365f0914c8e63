"""Which stage limits a stream, and which one the run: the one that works while the others wait. Pure.

The evidence is the time that stages record as waiting; of a stage that keeps no metrics, the CPU time of its processes,
and the time in which they were ready to run. The time during which the streams were open is cut into equal parts. A
stage is named when every other one waited more, by 5 % of the time and by three standard errors of the difference over
these parts. Otherwise it is not known, and why.

On a machine with more work than cores, a stage may compute half of the time and be ready to compute in the other half:
how much of the CPU time that they needed the stages had is what `/proc` says of the time on a CPU, and of the time in
which main threads were ready to run while other processes had it. Stages whose processes are on other nodes have
neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean, median, stdev

from workflow.formats.sides import EndOfStream
from workflow.formatting import duration, percent, plural
from workflow.plan.plan_model import StreamPlan
from workflow.report.build.timeline import ActivitySpan, cpu_shares, shares, stage_spans
from workflow.report.read.run_records import Records
from workflow.run.state.run_state import StageState

WAITS_MUCH = 0.05
STANDARD_ERRORS = 3.0
# A stage that waits longer than this share itself does not limit the run, even if all others wait longer.
MOST_OWN_WAIT = 0.25
# Samples of CPU time are half a second apart. With fewer parts their scatter is not known.
PART_S, FEWEST_PARTS, MOST_PARTS = 0.5, 4, 10
# With fewer parts a longer run would be surer.
MANY_PARTS = 8
StageEnd = tuple[str, EndOfStream]


@dataclass(frozen=True)
class Limit:
    """The stage that limits; or why it is not known; or nothing, where the question does not apply.

    `evidence`: by how much the others waited more, and how sure that is, for people.
    """

    stage: str = ""
    why_unknown: str = ""
    evidence: str = field(default="", compare=False)


@dataclass(frozen=True)
class Waiting:
    """The share of each part of the time that a stage waited: between `least` and `most`, 0 … 1."""

    least: list[float]
    most: list[float]

    @property
    def is_exact(self) -> bool:
        """Whether both bounds are the same."""
        return self.least == self.most


def stream_limit(plan: StreamPlan, records: Records) -> Limit:
    """The end of a live stream that works while the others wait."""
    ends = _ends_of(plan)
    times = _time_open(ends, records)
    if times is None:
        return Limit()
    if short := _too_short(*times):
        return Limit(why_unknown=short)
    waits = {name: waiting(name, records, *times, end) for name, end in ends}
    if len(ends) == 2 and not _discards(plan):
        waits = _never_both(waits)
    return find_limit(waits)


def run_limit(records: Records) -> Limit:
    """The stage that works while all others wait, where stages wait for each other at all.

    A stage that reads nothing but what a full queue discards, as a tap does, keeps no other stage waiting.
    """
    ends: list[StageEnd] = []
    for stream in records.plan.streams:
        if stream.coupling == "live" and not _discards(stream):
            ends += _ends_of(stream)
    names = dict.fromkeys(name for name, _ in ends if records.plan.stage(name).added not in ("tap", "spool"))
    times = _time_open(ends, records)
    if times is None or len(names) < 2:
        return Limit()
    if short := _too_short(*times):
        return Limit(why_unknown=short)
    waits = {name: waiting(name, records, *times) for name in names}
    limit = find_limit(waits)
    if limit.stage and (share := fmean(waits[limit.stage].most)) > MOST_OWN_WAIT:
        own = f"{limit.stage}, which waits least, waits for {percent(share)}"
        return Limit(why_unknown=f"no stage works all the time: {own}")
    if limit.stage and (lack := shortage(limit.stage, records, *times)):
        return replace(limit, evidence=f"{limit.evidence.rpartition(': ')[0]}; but {lack}")
    return limit


def find_limit(waits: Mapping[str, Waiting]) -> Limit:
    """The stage that waits least, if all others certainly wait more."""
    first = min(waits, key=lambda name: fmean(waits[name].most))
    for name, other in waits.items():
        if name != first and not _waits_more(other.least, waits[first].most):
            return Limit(why_unknown=_why_not(first, name, waits))
    return Limit(first, evidence=_evidence(first, waits))


def _evidence(first: str, waits: Mapping[str, Waiting]) -> str:
    """`while data moved it waited for 3 % of the time, pdf for 71 %: clear in 10 samples`."""
    others = {name: fmean(wait.least) for name, wait in waits.items() if name != first}
    next_one = min(others, key=lambda name: others[name])
    own = f"{'' if waits[first].is_exact else 'at most '}{percent(fmean(waits[first].most))}"
    its = f"{'' if waits[next_one].is_exact else 'at least '}{percent(others[next_one])}"
    each = f"each of the others for at least {percent(others[next_one])}"
    who = f"{next_one} for {its}" if len(others) == 1 else each
    count = len(waits[first].most)
    few = count < MANY_PARTS
    sure = f"clear, but in only {count} samples; a longer run is more certain" if few else f"clear in {count} samples"
    return f"while data moved it waited for {own} of the time, {who}: {sure}"


def _waits_more(share: list[float], than: list[float]) -> bool:
    differences = [one - other for one, other in zip(share, than, strict=True)]
    error = stdev(differences) / math.sqrt(len(differences))
    return fmean(differences) > max(WAITS_MUCH, STANDARD_ERRORS * error)


def _why_not(first: str, second: str, waits: Mapping[str, Waiting]) -> str:
    unknown = [name for name in (first, second) if not waits[name].is_exact]
    if unknown:
        if len(unknown) == 2:
            return f"{first} and {second} keep no metrics, and their CPU time does not show how long they wait"
        return f"{unknown[0]} keeps no metrics, and its CPU time does not show how long it waits"
    one, other = (fmean(waits[name].most) for name in (first, second))
    waited = f"{first} waited for {percent(one)} of the time, {second} for {percent(other)}"
    if other - one <= WAITS_MUCH:
        return f"{waited}: about equally long"
    return f"{waited}: in {len(waits[first].most)} samples such a difference may be due to chance"


def _never_both(waits: Mapping[str, Waiting]) -> dict[str, Waiting]:
    """Of two ends one waits for a step while the queue is empty, the other for room while it is full."""
    (one, of_one), (other, of_other) = waits.items()
    return {one: _bounded(of_one, of_other), other: _bounded(of_other, of_one)}


def _bounded(mine: Waiting, its: Waiting) -> Waiting:
    """At most as long as the other end does not wait."""
    return mine if mine.is_exact else Waiting(mine.least, [*map(min, mine.most, (1 - share for share in its.least))])


def _ends_of(stream: StreamPlan) -> list[StageEnd]:
    return [(stream.writer, (stream.name, "write")), *((name, (stream.name, "read")) for name in stream.readers)]


def _time_open(ends: Iterable[StageEnd], records: Records) -> tuple[float, float] | None:
    """From when all these ends were open to the last step at any of them; None when no data were moved."""
    opened, moved = [], []
    for name, (stream, side) in ends:
        metrics, seen = records.metrics[name], records.state.ends[stream, name, side]
        steps, own = metrics.of(stream, side), metrics.opened.get((stream, side))
        opened.append(own[0] if own else seen.opened)
        moved.append(steps[-1].t if steps else seen.last_step)
    known_opened, known_moved = [t for t in opened if t is not None], [t for t in moved if t is not None]
    if not known_opened or not known_moved:
        return None
    return max(known_opened), max(known_moved)


def waiting(name: str, records: Records, start: float, end: float, only: EndOfStream | None = None) -> Waiting:
    """How long a stage waited in each part of this time: at one of its ends, or at all of them."""
    count, metrics = _part_count(end - start), records.metrics[name]
    if steps := metrics.steps if only is None else metrics.of(*only):
        # After its last step it keeps no other stage waiting.
        spans = [*stage_spans(metrics, only), ActivitySpan(steps[-1].t, end, "wait", -1)]
        parts = shares(spans, start, end, count)
        waits = [part.get("wait", 0.0) for part in parts]
        return Waiting(waits, waits)
    cpu = cpu_shares(records.cpu.get(name, []), start, end, count)
    if cpu is None:
        return Waiting([0.0] * count, [1.0] * count)
    # Ranks that wait for another one in MPI use CPU time, too: only what all but one cannot have used is work.
    polling = records.plan.stage(name).ranks - 1
    busy = [use.cores + use.ready for use in cpu]
    return Waiting([1 - min(1.0, cores) for cores in busy], [1 - min(1.0, max(0.0, cores - polling)) for cores in busy])


def _discards(stream: StreamPlan) -> bool:
    return stream.queue is not None and stream.queue.when_full == "discard"


def _too_short(start: float, end: float) -> str:
    """Why so short a time shows nothing; empty when it is long enough."""
    if _part_count(end - start) >= FEWEST_PARTS:
        return ""
    moved, needed = duration(max(0.0, end - start)), duration(PART_S * FEWEST_PARTS)
    return f"the streams moved data for {moved} only; {needed} are needed to tell"


def _part_count(seconds: float) -> int:
    return min(MOST_PARTS, int(seconds / PART_S))


# Less time without a core is the noise of any machine.
MUCH_READY = 0.1
# CPU time is counted in ticks of 10 ms: of a shorter time it says little.
SHORTEST_S = 1.0


@dataclass(frozen=True)
class CoreShare:
    """Shares of the time of one rank: on a CPU, and ready to run without one."""

    had: float
    ready: float


def core_share(name: str, records: Records, start: float, end: float) -> CoreShare | None:
    """Of a stage between two times (Unix s), on the mean of its ranks; None: not seen for long enough."""
    if end - start < SHORTEST_S:
        return None
    use = cpu_shares(records.cpu.get(name, []), start, end, 1)
    ranks = records.plan.stage(name).ranks
    return None if use is None else CoreShare(use[0].cores / ranks, use[0].ready / ranks)


def shortage(name: str, records: Records, start: float, end: float) -> str:
    """`md had a core for 30 % of the time and waited for one for 66 %: the machine was busy`; empty where it had what
    it needed, or is not known."""
    return "".join(_texts([(name, start, end)], records))


def shortages(records: Records) -> list[str]:
    """The stages that lacked a core while they ran: a text for each cause.

    `md had a core for 30 % of the time and waited for one for 66 %; xrd 5 % and 23 %: the machine was busy`
    """
    stages = records.state.stages.items()
    ended = {name: records.state.t if stage.exited is None else stage.exited for name, stage in stages}
    return _texts([(name, stage.started, ended[name]) for name, stage in stages if stage.started is not None], records)


def _texts(stages: Iterable[tuple[str, float, float]], records: Records) -> list[str]:
    """Of stages, each from its start to its end: those that waited, by cause; of members of an ensemble the median."""
    shares: dict[str, dict[str, list[CoreShare]]] = {}
    for name, start, end in stages:
        share = core_share(name, records, start, end)
        if share is not None and share.ready >= MUCH_READY:
            member, why = records.plan.stage(name).member, _why(name, records, start, end)
            who = name if member is None else f"members of {member.ensemble}"
            shares.setdefault(why, {}).setdefault(who, []).append(share)
    by_cause: dict[str, list[str]] = {}
    for why, of in shares.items():
        same = by_cause.setdefault(why, [])
        for who, found in of.items():
            had, waited = (percent(median(values)) for values in zip(*((s.had, s.ready) for s in found), strict=True))
            same.append(
                f"{who} {had} and {waited}"
                if same
                else f"{who} had a core for {had} of the time and waited for one for {waited}"
            )
    return [f"{'; '.join(same)}: {cause}" for cause, same in by_cause.items()]


def _why(name: str, records: Records, start: float, end: float) -> str:
    """Stages beside it that want more cores than the node has, or the work of others."""
    wanted = 0
    for node in range(*records.plan.stage(name).placement.nodes[0]):
        beside = [each for each in records.plan.stages if records.state.runs_on(each.name, node)]
        beside = [each for each in beside if _ran(records.state.stages[each.name], start, end)]
        wanted = max(wanted, sum(each.placement.ranks_per_node * each.placement.cores_per_rank for each in beside))
    cores = records.plan.node.cores
    return (
        f"its node has {plural(cores, 'core')}, and its stages want {wanted}"
        if wanted > cores
        else "the machine was busy"
    )


def _ran(stage: StageState, start: float, end: float) -> bool:
    """Whether a stage ran in this time."""
    return stage.started is not None and stage.started < end and (stage.exited is None or stage.exited > start)
