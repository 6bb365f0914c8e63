"""Which repetitions of two trials were interleaved, by the times at which they started."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.measured_campaign import spec_of
from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.campaign.results.comparisons import blocks_apart, compared_measurements, is_interleaved, to_measure_again

COUNT = 8
SPEC = spec_of(repetitions=COUNT, warmup=1)


def history_of(mine: Sequence[float], other: Sequence[float]) -> History:
    """Repetitions 1, 2, … of the trials `a` and `b` started at these times."""
    history = History()
    for key, starts in (("a", mine), ("b", other)):
        for number, start in enumerate(starts, start=1):
            history.end(Repetition(key, number), Attempt("succeeded", 1, f"{key}{number}", start, 1.0))
    return history


def pairs_of(mine: Sequence[float], other: Sequence[float]) -> dict[int, tuple[Attempt, Attempt]]:
    return {
        number: (Attempt("succeeded", 1, "", first, 1.0), Attempt("succeeded", 1, "", second, 1.0))
        for number, (first, second) in enumerate(zip(mine, other, strict=True), start=1)
    }


EVEN = [float(2 * number) for number in range(COUNT)]


@pytest.mark.parametrize(
    ("mine", "other", "expected"),
    [  # the sixth: it was interrupted in the middle of a block, and went on later
        (EVEN, [t + 1 for t in EVEN], True),
        (EVEN, EVEN, True),  # all at once, on many nodes
        (EVEN, [t - 3 for t in EVEN], True),  # the next block begins early
        (EVEN, [t + 1000 for t in EVEN], False),
        (EVEN, [t - 1000 for t in EVEN], False),
        ([*EVEN[:4], *[t + 1000 for t in EVEN[4:]]], [*[t + 1 for t in EVEN[:3]], *[t + 1001 for t in EVEN[3:]]], True),
        (EVEN, [*[t + 1 for t in EVEN[:7]], 5000.0], True),  # one failed, and ran again a day later
    ],
)
def test_blocks_show_in_the_times(mine: list[float], other: list[float], expected: bool) -> None:
    assert is_interleaved(pairs_of(mine, other)) is expected


def test_a_trial_that_got_more_repetitions_with_a_new_one_is_apart_in_the_old_ones() -> None:
    mine = [*EVEN[:4], *[t + 1000 for t in EVEN[4:]]]
    other = [t + 999 for t in EVEN]
    assert blocks_apart(pairs_of(mine, other)) == [1, 2, 3, 4] and is_interleaved(pairs_of(mine, other)) is False


def test_without_a_common_repetition_nothing_is_known() -> None:
    assert is_interleaved({}) is None


def test_what_was_measured_beside_the_other_is_compared() -> None:
    history = history_of(EVEN, [t + 1 for t in EVEN])
    for number, start in enumerate(EVEN, start=1):
        history.end(Repetition("b", number), Attempt("succeeded", 2, f"again{number}", start + 1000, 1.0))
    found = compared_measurements("a", "b", SPEC, history)
    assert found.is_interleaved
    assert [each.run for each in found.other.values()] == [f"b{n}" for n in range(1, COUNT + 1)]
    assert len(history.measurements(Repetition("b", 1))) == 2


@pytest.mark.parametrize(
    ("mine", "other", "again"),
    [
        (EVEN, [], "a"),  # what is compared with it is new
        ([], EVEN, "b"),
        (EVEN, [t + 1 for t in EVEN], ""),
        (EVEN, [t + 1000 for t in EVEN], "ab"),
        ([], [], ""),
    ],
)
def test_what_is_measured_again(mine: list[float], other: list[float], again: str) -> None:
    found = to_measure_again(SPEC, [("a", "b")], {}, history_of(mine, other))
    expected = {Repetition(key, number): 1 for key in again for number in range(1, COUNT + 1)}
    warmup = {Repetition(key, 1, warmup=True): 0 for key in again}
    assert found == expected | warmup


def test_a_baseline_is_measured_again_with_its_trial() -> None:
    """A metric that is computed with it compares the times of both: they must be of one moment."""
    history = history_of(EVEN, [])
    found = to_measure_again(SPEC, [("a", "b")], {"a": "quiet"}, history)
    assert {each.key for each in found} == {"a", "quiet"}
    assert {each.number for each in found if each.key == "quiet" and not each.warmup} == set(range(1, COUNT + 1))
