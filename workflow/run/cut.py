"""Where the next part of a run begins: which stages are done, and at which step the others go on. Pure.

What two stages send each other while both run, no part has: so those that live streams join begin at steps that fit
together. What is kept of a stream is the beginning of what the next part writes of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workflow.plan.plan_model import Plan, StagePlan, StreamPlan
from workflow.plan.topology.start_dependencies import live_groups
from workflow.run.restart_positions import Member, Positions, find_positions
from workflow.run.state.run_state import RunState


@dataclass(frozen=True)
class SavedState:
    """What a stage has saved: stream → the steps that belong to it; `path`: of the file by which it is found."""

    steps: Mapping[str, int]
    path: str


@dataclass(frozen=True)
class Reached:
    """How far a stage has come: the steps that are kept and that it has finished, the states that it has saved.

    `why`: what decides where it begins, for people. `saved`: the states of `member`, in the same order.
    """

    member: Member
    why: str = ""
    saved: Sequence[SavedState] = ()


@dataclass(frozen=True)
class Cut:
    """What fits together: `finished` stages are not started again, each other one has its positions.

    `states`: stage → the file of the state from which it goes on. `reasons`: what decides where a stage begins, for
    people.
    """

    finished: tuple[str, ...] = ()
    positions: Positions = field(default_factory=lambda: Positions({}, {}))
    states: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the run can be used: all begins with the first step."""
        return not self.finished and not any(self.first_step(name) for name in self.positions.begins)

    def first_step(self, stage: str) -> int:
        """The first step that a stage reads or, where it reads none, writes."""
        return max(self.positions.begins[stage].values(), default=0)


def find_cut(plan: Plan, state: RunState, reached: Mapping[str, Reached], kept: Collection[str]) -> Cut:
    """The cut of a run that has ended.

    Args:
        plan: of the next part, with the streams and stages of the run.
        state: the last one of the run.
        reached: stage → how far it has come.
        kept: the streams all of whose steps can be read again, from their files or their spools.
    """
    finished = _finished(plan, state, kept)
    optional = [name for name in _come_along(plan, reached) if name not in finished]
    apart = {*finished, *optional}
    begins, ends = dict[str, Mapping[str, int]](), dict[str, Mapping[str, int]]()
    states, reasons = dict[str, str](), dict[str, str]()
    for group in joined_stages(plan, [stage.name for stage in plan.stages if stage.name not in apart]):
        found = find_positions([reached[name].member for name in group])
        begins |= found.begins
        reasons |= _reasons([reached[name] for name in group], found)
        for name in group:
            # What is kept after that is written anew, in the file of the next part: its readers skip what they have.
            again = {stream: found.begins[name][stream] for stream in reached[name].member.kept}
            ends[name] = {**found.ends[name], **again}
            fitting = (each.path for each in reached[name].saved if each.steps.items() <= found.begins[name].items())
            if path := next(fitting, ""):
                states[name] = path
    for name in optional:
        begins[name] = ends[name] = _as_it_comes(plan, plan.stage(name), apart, ends)
        reasons[name] = "keeps only what follows" if any(begins[name].values()) else ""
    done = tuple(stage.name for stage in plan.stages if stage.name in finished)
    return Cut(done, Positions(begins, ends), states, reasons)


def _come_along(plan: Plan, reached: Mapping[str, Reached]) -> list[str]:
    """The stages that begin with what comes: taps, and what may fail and would need all steps, such as what has a state
    that it did not save. Nobody goes back for them."""
    return [
        stage.name
        for stage in plan.stages
        if stage.optional
        and (stage.added is not None or stage.from_start != "" or reached[stage.name].member.states == [])
    ]


def _as_it_comes(
    plan: Plan, stage: StagePlan, apart: Collection[str], ends: Mapping[str, Mapping[str, int]]
) -> dict[str, int]:
    """Where such a stage begins: with the next step of a live stream, or with the first one of a complete file.

    `apart`: the stages that are finished, and those like this one.
    """
    found = {}
    for end in stage.ends:
        stream = plan.stream(end.stream)
        comes = end.side == "read" and stream.coupling == "live" and stream.writer not in apart
        found[stream.name] = ends[stream.writer][stream.name] if comes else 0
    return found


def _finished(plan: Plan, state: RunState, kept: Collection[str]) -> set[str]:
    """The stages that have done their work, and whose steps nobody misses."""
    found = {name for name, stage in state.stages.items() if stage.status == "succeeded"}
    # A spool that holds all steps of a writer that has ended has done its work, whether it has closed its file or not.
    spooled = [each for each in plan.streams if each.spool and each.name in kept and each.writer in found]
    found |= {plan.stream(each.spool).writer for each in spooled}
    optional = {stage.name for stage in plan.stages if stage.optional}
    while again := {name for stream in plan.streams for name in _missed(stream, found, kept, optional)}:
        found -= again
    # What is optional and has nothing left to read is not started.
    gone = [each for each in plan.streams if each.writer in found and each.name not in kept]
    return found | {reader for stream in gone for reader in stream.readers}


def _missed(stream: StreamPlan, finished: set[str], kept: Collection[str], optional: Collection[str]) -> Iterator[str]:
    """The finished stages of a stream that have to run again because one at its other end does."""
    needed = {*stream.readers} - {*optional}
    if stream.writer in finished and stream.name not in kept and not needed <= finished:
        yield stream.writer
    if stream.writer not in finished:
        yield from {*stream.readers} & finished


def joined_stages(plan: Plan, names: Collection[str]) -> list[list[str]]:
    """The stages of these that streams join which are read while they are written, each group in the plan's order."""
    live = [stream for stream in plan.streams if stream.coupling == "live" and stream.writer in names]
    ends = ([stream.writer, *(each for each in stream.readers if each in names)] for stream in live)
    group_of = live_groups(names, ends)
    groups: dict[str, list[str]] = {}
    for stage in plan.stages:
        if stage.name in group_of:
            groups.setdefault(group_of[stage.name], []).append(stage.name)
    return list(groups.values())


def _reasons(group: Sequence[Reached], found: Positions) -> dict[str, str]:
    """What decides where each stage of a group begins: what it has saved, or another stage, which was not so far."""
    newest = {each.member.name: _newest_step(each.member) for each in group}
    reasons = {}
    for each in group:
        name = each.member.name
        begin = max(found.begins[name].values(), default=0)
        # A stage that begins before this one sends again what this one lacks: it holds nobody.
        others = [other for other in newest if other != name and newest[other] >= begin]
        slowest = min(others, key=lambda other: newest[other], default="")
        is_held = begin < newest[name] and slowest
        reasons[name] = f"{slowest} can go on from step {newest[slowest]} only" if is_held else each.why
    return reasons


def _newest_step(member: Member) -> int:
    """Where a stage could begin if it were alone."""
    return max(find_positions([replace(member, passed=())]).begins[member.name].values(), default=0)
