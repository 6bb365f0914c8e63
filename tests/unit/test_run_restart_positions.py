"""Where the stages of a unit begin again together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workflow.run.restart_positions import Member
from workflow.run.restart_positions import find_positions as find


def begins(members: Sequence[Member]) -> Mapping[str, Mapping[str, int]]:
    return find(members).begins


def states(*pairs: tuple[int, int]) -> list[dict[str, int]]:
    return [{"atoms": read, "sums": written} for read, written in pairs]


def test_without_a_state_all_begin_at_the_same_step() -> None:
    """saxs sends to keep; keep is behind, and its steps are gone."""
    saxs, keep = Member("saxs", reads=["atoms"], passed=["sums"]), Member("keep", reads=["sums"], finished=5)
    assert begins([saxs, keep]) == {"saxs": {"atoms": 5, "sums": 5}, "keep": {"sums": 5}}


def test_what_is_in_a_file_counts_and_the_file_that_is_behind_decides() -> None:
    assert begins([Member("saxs", reads=["atoms"], kept={"a": 7, "b": 6})])["saxs"] == {
        "atoms": 6,
        "a": 6,
        "b": 6,
    }
    assert begins([Member("keep", reads=["sums"], finished=4)]) == {"keep": {"sums": 4}}


def test_the_newest_state_that_is_not_after_what_is_in_the_file() -> None:
    saved = states((12, 12), (10, 10), (8, 8))
    assert begins([Member("sum", ["atoms"], kept={"sums": 11}, states=saved)])["sum"] == saved[1]
    assert begins([Member("sum", ["atoms"], kept={"sums": 7}, states=saved)])["sum"] == {"atoms": 0, "sums": 0}
    assert begins([Member("sum", ["atoms"], kept={"sums": 7}, states=[])])["sum"] == {"atoms": 0, "sums": 0}


def test_one_step_for_several_that_are_read() -> None:
    saved = states((30, 3), (20, 2))
    assert begins([Member("sum", ["atoms"], kept={"sums": 3}, states=saved)])["sum"] == saved[0]


def test_a_state_is_not_after_what_its_reader_needs() -> None:
    saved = states((12, 12), (10, 10), (8, 8))
    unit = [Member("sum", ["atoms"], ["sums"], states=saved), Member("keep", ["sums"], finished=10)]
    assert begins(unit) == {"sum": saved[1], "keep": {"sums": 10}}
    unit[1] = Member("keep", ["sums"], finished=9)
    assert begins(unit) == {"sum": saved[2], "keep": {"sums": 9}}, "step 8 is dropped, keep goes on at its own"


def test_the_writer_goes_back_to_the_state_of_its_reader() -> None:
    saved = states((12, 12), (8, 8))
    unit = [
        Member("thin", ["field"], ["atoms"]),
        Member("sum", ["atoms"], kept={"sums": 11}, states=saved),
    ]
    assert begins(unit) == {"thin": {"field": 8, "atoms": 8}, "sum": saved[1]}


def test_two_states_in_a_row_fit_together() -> None:
    first = [{"field": 12, "atoms": 12}, {"field": 9, "atoms": 9}, {"field": 6, "atoms": 6}]
    unit = [Member("one", ["field"], ["atoms"], states=first), Member("two", ["atoms"], states=[{"atoms": 10}])]
    assert begins(unit) == {"one": first[1], "two": {"atoms": 10}}


def test_readers_of_one_stream_begin_at_the_same_step() -> None:
    unit = [
        Member("md", ["in"], ["sums"]),
        Member("keep", ["sums"], finished=7),
        Member("show", ["sums"], finished=5),
    ]
    assert {name: steps["sums"] for name, steps in begins(unit).items()} == {"md": 5, "keep": 5, "show": 5}
