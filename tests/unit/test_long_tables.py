"""Long tables: whole by `make reliability`, a subset otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.long_tables import long_table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", long_table(range(12), sample=3))
def test_one_of_twelve(number: int) -> None:
    assert number in range(12)


def collected(*arguments: str) -> list[str]:
    line = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--no-header", *arguments, __file__]
    shown = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [row for row in shown.splitlines() if "test_one_of_twelve" in row]


def test_a_subset_and_the_whole() -> None:
    subset, whole = collected(), collected("-m", "reliability")
    assert (len(subset), len(whole)) == (3, 12)
    assert set(subset) < set(whole)


def test_the_subset_stays_the_same() -> None:
    assert long_table(range(12), sample=3) == long_table(range(12), sample=3)
    assert long_table(range(12), sample=3) != long_table(range(12), sample=3, seed=1)
