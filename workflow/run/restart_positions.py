"""At which step each stage of a unit begins that goes on together. Pure.

A stage that keeps no state can begin at any step; one that keeps a state between its steps only where it has saved one,
or at its first step. What a stage writes again that its readers have already, or that is in a file, is suppressed: so
a stage may begin before the others, but not after them. A program that does not suppress what it writes again takes its
readers along to the step at which it begins.

A stage that skips a step of what it reads writes nothing for it. So its streams are counted apart: the steps of what it
reads, and those of what it writes, in which the skipped ones are missing.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

_ANY = sys.maxsize  # of a stage that only passes on what it reads: where its readers begin


@dataclass(frozen=True)
class Member:
    """One stage of the unit.

    Args:
        kept: stream that it writes → the steps that are kept of it, whole.
        passed: the streams that it writes whose readers, members too, get only what it sends from now on.
        reads: the streams that it reads.
        finished: how many steps it has read, if it writes nothing.
        states: stream → steps of each state that it has saved, the newest first; None: it keeps no state.
        suppresses: whether it suppresses what it writes again.
        skipped: the steps of what it reads that it skips.
    """

    name: str
    reads: Sequence[str] = ()
    passed: Sequence[str] = ()
    kept: Mapping[str, int] = field(default_factory=dict)
    finished: int = 0
    states: Sequence[Mapping[str, int]] | None = None
    suppresses: bool = True
    skipped: Sequence[int] = ()

    @property
    def streams(self) -> list[str]:
        """All that it reads and writes."""
        return list(dict.fromkeys([*self.reads, *self.passed, *self.kept]))

    def at(self, step: int) -> dict[str, int]:
        """Stream → where a stage without a state is, when the next step that it reads is this one."""
        written = written_before(step, self.skipped)
        return {stream: step if stream in self.reads else written for stream in self.streams}

    def step_at(self, stream: str, step: int) -> int:
        """The next step that a stage without a state reads, when it is at this step of one of its streams."""
        return step if stream in self.reads else read_before(step, self.skipped)


def written_before(step: int, skipped: Collection[int]) -> int:
    """How many steps a stage has written when the next one that it reads is this one."""
    return step if step == _ANY else step - sum(each < step for each in skipped)


def read_before(written: int, skipped: Collection[int]) -> int:
    """The next step that a stage reads, or skips, when it has written so many: those before it that it has skipped are
    added."""
    step = written
    for each in sorted(skipped):
        step += each < step != _ANY
    return step


@dataclass(frozen=True)
class Positions:
    """Where the stages of a unit go on.

    `begins`: stage → stream → the step at which its program begins. `ends`: stage → stream → the step at which the
    stream goes on there. They differ by what the program writes again, which is suppressed.
    """

    begins: Mapping[str, Mapping[str, int]]
    ends: Mapping[str, Mapping[str, int]]

    def repeated(self, stage: str) -> dict[str, int]:
        """Stream → how many steps the stage writes again, where it does."""
        begins = self.begins[stage]
        return {stream: again for stream, step in self.ends[stage].items() if (again := step - begins[stream])}


def find_positions(members: Sequence[Member]) -> Positions:
    """The latest positions of the members of a unit that fit together."""
    begins = _find_begins(members)
    ends = {name: dict(steps) for name, steps in begins.items()}
    for each in members:
        arrived = {
            stream: min(steps)
            for stream in each.passed
            if (steps := [begins[other.name][stream] for other in members if stream in other.reads])
        }
        for stream, there in {**each.kept, **arrived}.items():
            if each.suppresses:
                ends[each.name][stream] = max(there, begins[each.name][stream])
    return Positions(begins, ends)


def _find_begins(members: Sequence[Member]) -> dict[str, dict[str, int]]:
    found = {each.name: _newest(each) for each in members}
    changed = True
    while changed:
        changed = False
        for writer in members:
            for stream in dict.fromkeys([*writer.passed, *writer.kept]):
                readers = [each for each in members if stream in each.reads]
                limit = _limit(writer, stream, found, readers)
                for each in (writer, *readers):
                    if found[each.name][stream] > limit:
                        found[each.name] = _not_after(each, found[each.name], stream, limit)
                        changed = True
    return {
        name: {stream: 0 if step == _ANY else step for stream, step in steps.items()} for name, steps in found.items()
    }


def _limit(writer: Member, stream: str, found: Mapping[str, Mapping[str, int]], readers: Sequence[Member]) -> int:
    """The step of a stream that no end of it may begin after: there is none behind it, or nobody sends it again."""
    limits = [writer.kept.get(stream, _ANY)]
    if stream in writer.passed:
        limits += [found[each.name][stream] for each in readers]
        if not writer.suppresses:
            limits.append(found[writer.name][stream])
    return min(limits)


def _newest(member: Member) -> dict[str, int]:
    if member.states is None:
        own = member.kept.values()
        if not own and not member.passed:
            return member.at(member.finished)
        return member.at(read_before(min(own, default=_ANY), member.skipped))
    fitting = (state for state in member.states if all(state[name] <= steps for name, steps in member.kept.items()))
    return dict(next(fitting, _first(member)))


def _not_after(member: Member, now: Mapping[str, int], stream: str, limit: int) -> dict[str, int]:
    """The next earlier beginning of a stage that is not after this step of a stream."""
    if member.states is None:
        return member.at(member.step_at(stream, limit))
    earlier = (
        state for state in member.states
        if state[stream] <= limit and all(state[name] <= step for name, step in now.items())
    )  # fmt: skip
    return dict(next(earlier, _first(member)))


def _first(member: Member) -> dict[str, int]:
    return dict.fromkeys(member.streams, 0)
