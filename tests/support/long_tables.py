"""Tables too long for every run of the tests: `make reliability` runs them whole, every other run a fixed sample.

    @pytest.mark.parametrize("seed", long_table(range(20_000), sample=200))

A test that is run a number of times inside needs the mark alone: `pytest.param(20_000, marks=pytest.mark.reliability)`
beside the number for every run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest


def long_table(cases: Sequence[Any], *, sample: int, seed: int = 0) -> list[pytest.ParameterSet]:
    """The parameters of a test that is run for all these cases, and for `sample` of them without `-m reliability`."""
    sampled = set(random.Random(seed).sample(range(len(cases)), sample))
    both = [pytest.mark.reliability, pytest.mark.sampled]
    return [pytest.param(case, marks=both if index in sampled else both[:1]) for index, case in enumerate(cases)]
