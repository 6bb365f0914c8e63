"""Where the stages of a unit begin again together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

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


def skipping(*steps: int, **more: object) -> Member:
    return Member("saxs", ["atoms"], skipped=steps, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("written", range(12))
def test_steps_that_were_skipped_are_missing_in_what_was_written(written: int) -> None:
    """Steps 3, 4 and 8 are skipped: 0 1 2 5 6 7 9 10 … are written."""
    (found,) = begins([skipping(3, 4, 8, kept={"sums": written})]).values()
    read = [step for step in range(20) if step not in (3, 4, 8)]
    assert found == {"atoms": read[written - 1] + 1 if written else 0, "sums": written}


def test_what_was_written_is_missing_the_steps_that_were_skipped() -> None:
    """keep has finished five steps of what saxs has written of six that it had read; keep has skipped one itself."""
    saxs, keep = skipping(2, passed=["sums"]), Member("keep", reads=["sums"], finished=5, skipped=[0])
    assert begins([saxs, keep]) == {"saxs": {"atoms": 6, "sums": 5}, "keep": {"sums": 5}}
    thin = Member("thin", ["field"], ["atoms"], skipped=[0])
    assert begins([thin, saxs, keep])["thin"] == {"field": 7, "atoms": 6}


def test_a_state_says_itself_how_many_steps_belong_to_it() -> None:
    saved = states((8, 7), (4, 4))
    found = find([skipping(5, kept={"sums": 9}, states=saved)])
    assert found.begins["saxs"] == saved[0]
    assert found.repeated("saxs") == {"sums": 2}


def test_who_only_passes_on_begins_where_its_reader_does() -> None:
    assert begins([skipping(5, passed=["sums"])])["saxs"] == {"atoms": 0, "sums": 0}
    assert begins([skipping(0, passed=["sums"])])["saxs"] == {"atoms": 0, "sums": 0}
