"""The search of `wf balance`: it finds the fastest candidate with few runs, and says when it cannot."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from tests.support.imagined_balances import balance, candidate
from workflow.balance.search import (
    FEWEST_PROBES,
    TODAY,
    TOLERANCE,
    Candidate,
    RatioBounds,
    Standing,
    believe,
    best_that_ran,
    fail_too,
    least_probes_to_decide,
    standing,
    still_open,
    values_that_fail,
)
from workflow.balance.show_balance import verdict_lines
from workflow.forecast.quartiles import Estimate

SHAPE = (4, 3, 2, 2)
POINTS = list(itertools.product(*(range(count) for count in SHAPE)))


def world(seed: int, spread: float = 0.5, own: float = 0.05) -> list[float]:
    """The true times of 48 candidates: a factor for each value of each key, and one of each candidate."""
    dice = random.Random(seed)
    effects = [[dice.gauss(0, spread) for _ in range(count)] for count in SHAPE]
    return [
        math.exp(sum(effect[value] for effect, value in zip(effects, point, strict=True)) + dice.gauss(0, own))
        for point in POINTS
    ]


class End(NamedTuple):
    """How a search has ended."""

    choice: int
    decided: bool
    probes: int
    ratio: RatioBounds
    """Of the choice to today's."""


def search(
    truth: Sequence[float], forecast: Callable[[int], float | None], seed: int, most: int = 60, noise: float = 0.03
) -> End:
    dice, probes = random.Random(seed), dict[int, list[float]]()
    candidates = [Candidate(point, forecast(number)) for number, point in enumerate(POINTS)]
    for count in range(most + 1):
        belief = believe(candidates, probes)
        now = standing(belief, probes)
        if now.next is None or count == most:
            break
        probes.setdefault(now.next, []).append(truth[now.next] * math.exp(dice.gauss(0, noise)))
    return End(now.choice, now.next is None, count, belief.ratio(now.choice, TODAY))


def unknown(_number: int) -> None:
    return None


# Standard deviations: of the effect of a value, of what remains to each candidate, of a run.
WORLDS = [(0.5, 0.05, 0.03), (0.5, 0.2, 0.03), (0.2, 0.2, 0.03), (0.05, 0.02, 0.03), (1.0, 0.5, 0.03), (0.3, 0.05, 0.1)]


@pytest.mark.parametrize(("spread", "own", "noise"), WORLDS)
def test_the_best_of_48_is_found_and_what_is_decided_is_right(spread: float, own: float, noise: float) -> None:
    decided, wrong, claims, covered, counts = 0, 0, 0, 0, []
    for seed in range(40):
        truth = world(seed, spread, own)
        end = search(truth, unknown, seed, most=100, noise=noise)
        decided += end.decided
        wrong += end.decided and truth[end.choice] > (1 + TOLERANCE) * 1.001 * min(truth)
        if end.decided and end.choice != TODAY:
            claims += 1
            covered += end.ratio.low <= truth[end.choice] / truth[TODAY] <= end.ratio.high
        counts.append(end.probes)
    # Each bound is for 90 %: of 40 choices a few may be wrong, and of the gains a few outside.
    assert decided >= 38 and wrong <= 3
    assert covered >= 0.8 * claims
    assert sorted(counts)[20] <= 40


def test_a_good_forecast_saves_runs() -> None:
    counts: dict[str, list[int]] = {"with": [], "without": []}
    for seed in range(20):
        truth, dice = world(seed), random.Random(seed)
        # All too short by half, as where a part is not known: only their order is right.
        said = [0.5 * time * math.exp(dice.gauss(0, 0.05)) for time in truth]
        end = search(truth, said.__getitem__, seed)
        assert truth[end.choice] < (1 + 2 * TOLERANCE) * min(truth)
        counts["with"].append(end.probes)
        counts["without"].append(search(truth, unknown, seed).probes)
    assert sum(counts["with"]) < 0.9 * sum(counts["without"])


def test_a_forecast_that_is_wrong_is_corrected_by_what_runs() -> None:
    """Shuffled times: the forecast is worth nothing, and nothing wrong may be claimed for its sake."""
    bad = 0
    for seed in range(20):
        truth = world(seed)
        said = random.Random(seed).sample(truth, len(truth))
        end = search(truth, said.__getitem__, seed, most=100)
        bad += end.decided and truth[end.choice] > 1.1 * min(truth)
    assert bad <= 1


def test_of_equal_candidates_the_file_is_kept() -> None:
    ends = [search([1.0] * len(POINTS), unknown, seed, most=150) for seed in range(20)]
    assert sum(end.decided and end.choice != TODAY for end in ends) <= 1
    assert sum(end.decided for end in ends) >= 18


def test_with_great_noise_it_is_undecided_and_says_how_many_runs_would_decide() -> None:
    probes = {0: [1.0, 1.4, 0.8], 1: [0.9, 1.3, 0.75]}
    belief = believe([Candidate((0,), None), Candidate((1,), None)], probes)
    now = standing(belief, probes)
    assert (now.choice, now.rivals) == (1, [TODAY])
    assert least_probes_to_decide(belief, now, probes) > 10
    assert belief.noise > 0.15


@pytest.mark.parametrize(
    ("other", "kept"), [(0.98, True), (0.8, False)], ids=["within the tolerance", "clearly faster"]
)
def test_as_long_as_it_is_undecided_a_small_gain_is_no_reason_to_change_a_file(other: float, kept: bool) -> None:
    candidates = [Candidate((index,), None) for index in range(4)]
    probes = {0: [1.0, 1.01, 0.99], 1: [other, other * 1.01]}
    belief = believe(candidates, probes)
    now = standing(belief, probes)
    assert now.choice == 1 and now.next is not None and {2, 3} <= set(now.rivals)
    chosen = best_that_ran(belief, now, probes)
    assert chosen == (TODAY if kept else 1)
    left = still_open(belief, now, chosen)
    assert (1 in left) == kept and {2, 3} <= set(left)


def test_what_never_ran_is_chosen_only_where_nothing_ran() -> None:
    candidates = [Candidate((0,), 10.0), Candidate((1,), 1.0)]
    now = Standing(choice=1, rivals=[], next=0)
    assert best_that_ran(believe(candidates, {}), now, {}) == 1
    ran = {TODAY: [10.0]}
    assert best_that_ran(believe(candidates, ran), now, ran) == TODAY
    assert still_open(believe(candidates, ran), now, TODAY) == [1]


def test_what_gains_no_more_than_the_error_of_a_forecast_is_not_chosen_by_it() -> None:
    """The simulation may set the pace: then all forecasts are the same but for the last digits."""
    now = Standing(choice=1, rivals=[], next=0)
    for gained, kept in ((0.999, True), (0.8, True), (0.3, False)):
        belief = believe([Candidate((0,), 1.0), Candidate((1,), gained)], {})
        assert best_that_ran(belief, now, {}) == (TODAY if kept else 1)


@pytest.mark.parametrize(
    ("gained", "said"),
    [
        (0.999, "the pace is limited by stage sim, and none of 9 candidates gains more than 5 %: the file is kept"),
        (0.998, "by the forecast none of 9 candidates gains more than 5 %: the file is kept"),
        (0.8, "sim.ranks=2, time per step smaller by a factor of 1.25\n  the file is kept: the error of a forecast"),
        (None, "not all have a forecast (`wf calibrate`)"),
    ],
)
def test_where_nothing_has_run_it_is_said_what_the_forecast_can_decide(gained: float | None, said: str) -> None:
    today, other = (each.model_copy(update={"forecast": gained}) for each in (candidate(), candidate(ranks=2)))
    other = other.model_copy(update={"ratio": Estimate(median=gained or 1.0, low=0.5, high=2.0)})
    found = balance(
        today, today=today, rivals=[other], limited_by=None if gained == 0.998 else "stage sim", decided=False, probes=0
    )
    assert said in "\n".join(verdict_lines(found))


def test_the_number_of_missing_runs_has_those_of_all_rivals() -> None:
    candidates = [Candidate((index,), None) for index in range(10)]
    probes = {index: [1.0] for index in range(4)}
    belief = believe(candidates, probes)
    now = standing(belief, probes)
    assert len(now.rivals) >= 6
    assert least_probes_to_decide(belief, now, probes) >= len(now.rivals)


def test_todays_pipeline_runs_first_and_often_enough_to_be_compared_with() -> None:
    candidates = [Candidate((0,), 10.0), Candidate((1,), 1.0)]
    probes: dict[int, list[float]] = {}
    order = []
    while (number := standing(believe(candidates, probes), probes).next) is not None:
        order.append(number)
        probes.setdefault(number, []).append([10.0, 1.0][number])
    assert order[0] == 0
    assert order.count(0) >= FEWEST_PROBES and order.count(1) >= FEWEST_PROBES
    assert len(order) <= 2 * FEWEST_PROBES + 2


def test_what_failed_is_not_run_again_and_not_chosen() -> None:
    candidates = [Candidate((0,), 1.0), Candidate((1,), 0.1), Candidate((2,), 0.9)]
    probes = {0: [1.0] * 5, 2: [0.5] * 5}
    now = standing(believe(candidates, probes), probes, failed=[1])
    assert now == (2, [], None)


def test_a_value_that_fails_twice_and_never_runs_is_given_up() -> None:
    points = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    candidates = [Candidate(each, None) for each in points]

    def given_up(failed: list[int], ran: list[int]) -> set[int]:
        return fail_too(candidates, values_that_fail(candidates, failed, ran))

    assert given_up([2], [0, 1]) == set(), "one may have failed for another reason"
    assert given_up([2, 3], [0, 1]) == {2, 3}, "the second value of the first key"
    assert given_up([3, 5], [0, 2, 4]) == {1, 3, 5}, "the second value of the second key"
    assert given_up([2, 4], [0, 3]) == set(), "each of the values has one that runs, or fails once"
    assert given_up([3, 5], [0]) == set(), "which of the values is the cause is not known"


def test_a_probe_tells_of_those_that_share_its_values() -> None:
    points = [(0, 0), (0, 1), (1, 0), (1, 1)]
    belief = believe([Candidate(each, None) for each in points], {0: [1.0], 1: [1.0], 2: [0.5]})
    assert belief.ratio(3, 1).median == pytest.approx(0.5, rel=0.3)
    assert belief.ratio(3, 1).low < 0.5 < belief.ratio(3, 1).high
    assert belief.time(2).median == pytest.approx(0.5, rel=0.1)
