"""Tables too long for every run of the tests: `make reliability` runs them whole, every other run a fixed sample.

    @pytest.mark.parametrize("seed", long_table(range(20_000), sample=200))

A test that is run a number of times inside needs the mark alone: `pytest.param(20_000, marks=pytest.mark.reliability)`
beside the number for every run.
"""

from __future__ import annotations

import random
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


def _marked(cases: Sequence[Any], sampled: set[int]) -> list[pytest.ParameterSet]:
    both = [pytest.mark.reliability, pytest.mark.sampled]
    return [pytest.param(case, marks=both if index in sampled else both[:1]) for index, case in enumerate(cases)]
