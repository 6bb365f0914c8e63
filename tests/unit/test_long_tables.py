"""Long tables: whole by `make reliability`, a subset otherwise."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.long_tables import long_table, take_turns

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", long_table(range(12), sample=3))
def test_one_of_twelve(number: int) -> None:
    assert number in range(12)


@dataclass
class FakeItem:
    """Of an item of pytest what turns are taken by."""

    number: int
    marks: list[str] = field(default_factory=list, compare=False)

    def get_closest_marker(self, name: str) -> Any:
        return getattr(pytest.mark, name)(3).mark

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.marks.append(marker.name)


def collected(*arguments: str, name: str = "test_one_of_twelve") -> list[str]:
    line = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--no-header", *arguments, __file__]
    shown = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [row for row in shown.splitlines() if name in row]


def test_a_subset_and_the_whole() -> None:
    subset, whole = collected(), collected("-m", "reliability")
    assert (len(subset), len(whole)) == (3, 12)
    assert set(subset) < set(whole)


def test_the_subset_stays_the_same() -> None:
    assert long_table(range(12), sample=3) == long_table(range(12), sample=3)
    assert long_table(range(12), sample=3) != long_table(range(12), sample=3, seed=1)


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", range(7))
def test_one_in_turn(number: int) -> None:
    assert number in range(7)


def test_all_take_turns_at_three_commits() -> None:
    items = [FakeItem(number) for number in range(7)]

    def at(commit: int | None) -> list[FakeItem]:
        fresh = [FakeItem(item.number) for item in items]
        take_turns(cast("list[pytest.Item]", fresh), commit)
        assert all("reliability" in item.marks for item in fresh), "make reliability runs all"
        return [item for item in fresh if "sampled" in item.marks]

    assert sorted(item.number for commit in (40, 41, 42) for item in at(commit)) == list(range(7))
    assert at(None) == items


def test_turns_are_taken_where_they_are_asked_for() -> None:
    assert len(collected(name="test_one_in_turn")) == 7
    assert len(collected("--turns", name="test_one_in_turn")) in {2, 3}
    assert len(collected("-m", "reliability", name="test_one_in_turn")) == 7
