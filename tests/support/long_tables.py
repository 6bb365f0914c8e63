"""Tables too long for every run of the tests: `make reliability` runs them whole, every other run a fixed sample.

    @pytest.mark.parametrize("seed", long_table(range(20_000), sample=200))

A test that is run a number of times inside needs the mark alone: `pytest.param(20_000, marks=pytest.mark.reliability)`
beside the number for every run.

Tests that wait long are marked `turns(3)`: with the option `--turns`, which the targets of the Makefile give, one in
three of them runs, by the hash of the commit: another one at other commits. `make reliability` runs all.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import pytest


def long_table(cases: Sequence[Any], *, sample: int, seed: int = 0) -> list[pytest.ParameterSet]:
    """The parameters of a test that is run for all these cases, and for `sample` of them without `-m reliability`."""
    return _marked(cases, set(random.Random(seed).sample(range(len(cases)), sample)))


def covering_table(
    cases: Sequence[Any], facts: Callable[[Any], Iterable[Hashable]], *, seed: int = 0
) -> list[pytest.ParameterSet]:
    """The same with a sample in which each fact of any case is one of a case: `facts` gives pairs of its values."""
    order, covered, sampled = list(range(len(cases))), set[Hashable](), set[int]()
    random.Random(seed).shuffle(order)
    for index in order:
        if new := {*facts(cases[index])} - covered:
            covered |= new
            sampled.add(index)
    return _marked(cases, sampled)


def take_turns(items: Iterable[pytest.Item], commit: int | None) -> None:
    """Mark what is marked `turns` as rows of a long table. `commit`: number of the commit; None: all are sampled."""
    marked = [(item, mark.args[0]) for item in items if (mark := item.get_closest_marker("turns"))]
    for place, (item, number) in enumerate(marked):
        item.add_marker(pytest.mark.reliability)
        if commit is None or place % number == commit % number:
            item.add_marker(pytest.mark.sampled)


def commit_number() -> int:
    """Of the commit that is checked out, which says whose turn it is: also a clone without history has it."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return int(done.stdout, 16) if done.returncode == 0 else 0


def _marked(cases: Sequence[Any], sampled: set[int]) -> list[pytest.ParameterSet]:
    both = [pytest.mark.reliability, pytest.mark.sampled]
    return [pytest.param(case, marks=both if index in sampled else both[:1]) for index, case in enumerate(cases)]
