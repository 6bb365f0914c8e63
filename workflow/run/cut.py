"""Where the next part of a run begins: which stages are done, and at which step the others go on. Pure.

Stages that live streams join must begin at the same step, because nothing joins a step that one has written to a reader
that wants an earlier one. That step is the newest one that all of them can begin at: a stage that reads can begin at
any step up to the first that it has not finished, a simulation where it has saved its state, or at the first step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from workflow.plan.plan_model import Plan, StreamPlan
from workflow.run.state.run_state import RunState


@dataclass(frozen=True)
class Position:
    """How far a stage has come.

    `done`: the steps that it has finished; None: it does not limit where the others begin. `starts`: the steps at which
    it can begin, oldest first; None: at each one up to `done`. `why`: what decides that, for people.
    """

    done: int | None
    starts: tuple[int, ...] | None = None
    why: str = ""


@dataclass(frozen=True)
class Cut:
    """What fits together: `finished` stages are not started again, each other one begins at its first step."""

    finished: tuple[str, ...] = ()
    first_steps: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the run can be used: all begins with the first step."""
        return not self.finished and not any(self.first_steps.values())


def find_cut(plan: Plan, state: RunState, positions: Mapping[str, Position], kept: Collection[str]) -> Cut:
    """The cut of a run that has ended.

    Args:
        plan: of the next part, with the streams and stages of the run.
        state: the last one of the run.
        positions: stage → how far it has come.
        kept: the streams all of whose steps can be read again, from their files or their spools.
    """
    finished = _finished(plan, state, kept)
    first_steps: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for group in live_groups(plan, [stage.name for stage in plan.stages if stage.name not in finished]):
        step, why = _first_step({name: positions[name] for name in group})
        first_steps |= dict.fromkeys(group, step)
        reasons |= dict.fromkeys(group, why)
    return Cut(tuple(stage.name for stage in plan.stages if stage.name in finished), first_steps, reasons)


def _finished(plan: Plan, state: RunState, kept: Collection[str]) -> set[str]:
    """The stages that have done their work, and whose steps nobody misses."""
    found = {name for name, stage in state.stages.items() if stage.status == "succeeded"}
    while again := {name for stream in plan.streams for name in _missed(stream, found, kept)}:
        found -= again
    return found


def _missed(stream: StreamPlan, finished: set[str], kept: Collection[str]) -> Iterator[str]:
    """The finished stages of a stream that have to run again because one at its other end does."""
    if stream.writer in finished and stream.name not in kept and not {*stream.readers} <= finished:
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


def _first_step(positions: Mapping[str, Position]) -> tuple[int, str]:
    """The newest step at which all of a group can begin, and what decides that."""
    limits = {name: position.done for name, position in positions.items() if position.done is not None}
    last = min(limits.values(), default=None)
    slowest = next((name for name in limits if limits[name] == last), "")
    starts = [position.starts for position in positions.values() if position.starts is not None]
    if not starts:
        return last or 0, positions[slowest].why if slowest else ""
    common = set(starts[0]).intersection(*starts[1:]) | {0}
    step = max(each for each in common if last is None or each <= last)
    chooser = next(name for name, position in positions.items() if position.starts is not None)
    newest = max(common)
    why = positions[chooser].why
    if step < newest:
        why = f"{slowest} {positions[slowest].why}" if positions[slowest].why else f"{slowest} was at step {last}"
    return step, why
