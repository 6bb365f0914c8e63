"""Whatever fails, and in whatever order: a run goes on or ends, and never waits for what does not come.

Small pipelines, with each rule of `on_failure:` at each stage and each way of each stream; all that fails once, and a
number of sequences of two and three failures. The programs are imagined (`tests.support.imagined_failures`).
"""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import pytest

from tests.support.imagined_failures import Failure, HowEnded, Moment, Programs
from tests.support.planner import Planner
from workflow.errors import WfError
from workflow.plan.plan_model import Plan
from workflow.run.state.lifecycle_events import DeadlinePassed

RULES = {
    "stop": "stop",
    "ignore": "ignore",
    "restart": "{do: restart, times: 2, backoff: 1 s}",
    "then": "{do: restart, times: 1, backoff: 1 s, then: ignore}",
}
WAYS = {"sst": "via: sst", "spool": "via: sst, keep: true", "file": "via: bp5", "followed": "via: bp5, coupling: live"}
# Name → stream → (writer, readers).
SHAPES: dict[str, dict[str, tuple[str, list[str]]]] = {
    "fan": {"f": ("sim", ["work"]), "s": ("work", ["keep", "look"])},
    "chain": {"f": ("sim", ["work"]), "s": ("work", ["look"]), "d": ("look", ["last"])},
    "two readers": {"f": ("sim", ["a", "b"])},
    "triangle": {"f": ("sim", ["a", "b"]), "s": ("a", ["b"])},
    "two writers": {"f": ("x", ["b"]), "g": ("y", ["b"])},
}
SEQUENCES = 40
SAMPLE = 8


class Case(NamedTuple):
    """A pipeline: its shape, the rules of its stages, the ways of its streams."""

    shape: str
    rules: tuple[str, ...]
    ways: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.shape}: {' '.join(self.rules)}; {' '.join(self.ways)}"


def stages_of(shape: str) -> list[str]:
    return list(dict.fromkeys(name for writer, readers in SHAPES[shape].values() for name in (writer, *readers)))


CASES = [
    Case(shape, rules, ways)
    for shape, streams in SHAPES.items()
    for rules in itertools.product(RULES, repeat=len(stages_of(shape)))
    for ways in itertools.product(WAYS, repeat=len(streams))
]


def text_of(case: Case) -> str:
    streams = SHAPES[case.shape]
    lines = ["deadlines: {start: 60 s, step: 60 s, run: 10 d, stop: 2 s}", "stages:"]
    for name, rule in zip(stages_of(case.shape), case.rules, strict=True):
        reads = ", ".join(f"{stream}: {{}}" for stream, (_, readers) in streams.items() if name in readers)
        writes = ", ".join(f"{stream}: {{}}" for stream, (writer, _) in streams.items() if name == writer)
        command = f'["${{{{ wf.python }}}}", {name}]'
        ends = f"reads: {{{reads}}}, writes: {{{writes}}}"
        lines.append(f"  {name}: {{command: {command}, {ends}, on_failure: {RULES[rule]}}}")
    lines.append("streams:")
    for (stream, (writer, readers)), way in zip(streams.items(), case.ways, strict=True):
        lines.append(f"  {stream}: {{from: {writer}, to: [{', '.join(readers)}], {WAYS[way]}}}")
    return "\n".join(lines)


def sequences(plan: Plan, seed: str) -> list[list[Failure]]:
    """All single failures, and some sequences."""
    names = [stage.name for stage in plan.stages]
    moments: list[Moment] = ["at once", "unopened", "open"]
    ends: list[HowEnded] = ["exit", "kill"]
    single = [Failure(*each) for each in itertools.product(names, moments, ends, (False, True))]
    drawn = random.Random(seed)
    return [[each] for each in single] + [drawn.choices(single, k=drawn.choice((2, 3))) for _ in range(SEQUENCES)]


def check(case: Case, plan: Plan) -> None:
    for failures in sequences(plan, str(case)):
        programs = Programs(plan)
        said = f"{case}: " + ", ".join(str(each) for each in failures if programs.fail(each))
        programs.end(said)
        # Only deadlines would end it: that a program hangs is none of these failures.
        assert not programs.run.decisions(DeadlinePassed), said
        assert programs.run.verdict.state == "succeeded" or programs.run.verdict.reason, said


def planned(case: Case, plan_of: Planner) -> Plan | None:
    """None for rules that the plan refuses for these streams."""
    try:
        return plan_of(text_of(case))
    except WfError:
        return None


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_goes_on_or_ends(shape: str, plan_of: Planner) -> None:
    """Of each shape as many cases as have a plan."""
    cases = [each for each in CASES if each.shape == shape]
    random.Random(shape).shuffle(cases)
    checked = 0
    for case in cases:
        if (plan := planned(case, plan_of)) is not None:
            check(case, plan)
            checked += 1
        if checked == SAMPLE:
            break
    assert checked == SAMPLE


@pytest.mark.reliability
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_run_goes_on_or_ends(case: Case, plan_of: Planner) -> None:
    if (plan := planned(case, plan_of)) is not None:
        check(case, plan)
