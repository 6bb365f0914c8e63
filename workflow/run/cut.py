"""Where the next part of a run begins: which stages are done, and at which step the others go on. Pure.

What two stages send each other while both run, no part has: so those that live streams join begin at steps that fit
together. What is kept of a stream is the beginning of what the next part writes of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workflow.plan.plan_model import Plan, StagePlan, StreamPlan
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
    begins, ends = dict[str, Mapping[str, int]](), dict[str, Mapping[str, int]]()
    reasons: dict[str, str] = {}
    optional = [name for name in _come_along(plan) if name not in finished]
    for group in live_groups(plan, [stage.name for stage in plan.stages if stage.name not in {*finished, *optional}]):
        members = [reached[name] for name in group]
        found = find_positions([each.member for each in members])
        begins |= found.begins
        # What is kept after that is written anew, in the file of the next part: its readers skip what they have.
        ends |= {each.member.name: {**found.ends[each.member.name], **_again(each.member, found)} for each in members}
        reasons |= {name: _reason(reached[name].member, members, found) for name in group}
    for name in optional:
        begins[name] = ends[name] = _as_it_comes(plan, plan.stage(name), finished, ends)
        reasons[name] = "keeps only what follows" if any(begins[name].values()) else ""
    done = tuple(stage.name for stage in plan.stages if stage.name in finished)
    states = {
        name: path
        for name, steps in begins.items()
        if name not in optional
        and (path := next((each.path for each in reached[name].saved if each.steps.items() <= steps.items()), ""))
    }
    return Cut(done, Positions(begins, ends), states, reasons)


def _come_along(plan: Plan) -> list[str]:
    """The stages that begin with what comes: taps, and what may fail and would need all steps. Nobody goes back for
    them."""
    return [
        stage.name for stage in plan.stages if stage.optional and (stage.added is not None or stage.from_start != "")
    ]


def _as_it_comes(
    plan: Plan, stage: StagePlan, finished: Collection[str], ends: Mapping[str, Mapping[str, int]]
) -> dict[str, int]:
    """Where such a stage begins: with the next step of a live stream, or with the first one of a complete file."""
    along, found = _come_along(plan), {}
    for end in stage.ends:
        stream = plan.stream(end.stream)
        comes = end.side == "read" and stream.coupling == "live" and stream.writer not in {*finished, *along}
        found[stream.name] = ends[stream.writer][stream.name] if comes else 0
    return found


def _again(member: Member, found: Positions) -> dict[str, int]:
    return {stream: found.begins[member.name][stream] for stream in member.kept}


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


def live_groups(plan: Plan, names: Collection[str]) -> list[list[str]]:
    """The stages of these that streams join which are read while they are written, each group in the plan's order."""
    group_of = {name: {name} for name in names}
    for stream in plan.streams:
        ends = [name for name in (stream.writer, *stream.readers) if name in group_of]
        if stream.coupling == "live" and stream.writer in group_of:
            joined = set().union(*(group_of[name] for name in ends))
            group_of |= dict.fromkeys(joined, joined)
    groups = {id(group): group for group in group_of.values()}
    return [[stage.name for stage in plan.stages if stage.name in group] for group in groups.values()]


def _reason(member: Member, group: Collection[Reached], found: Positions) -> str:
    """What decides where a stage begins: what it has saved, or another stage, which was not so far."""
    alone = {each.member.name: find_positions([replace(each.member, passed=())]).begins for each in group}
    newest = {name: max(steps[name].values(), default=0) for name, steps in alone.items()}
    own = next(each.why for each in group if each.member is member)
    if max(found.begins[member.name].values(), default=0) >= newest[member.name]:
        return own
    slowest = min((name for name in newest if name != member.name), key=lambda name: newest[name], default="")
    return f"{slowest} was at step {newest[slowest]}" if slowest else own
