"""The search of `wf balance`: it finds the fastest candidate with few runs, and says when it cannot."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence

import pytest

from workflow.balance.search import (
    FEWEST_PROBES,
    TOLERANCE,
    Candidate,
    believe,
    probes_to_decide,
    standing,
)

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


def search(
    truth: Sequence[float], forecast: Callable[[int], float | None], seed: int, most: int = 60, noise: float = 0.03
) -> tuple[int, bool, int]:
    """(what is chosen, whether it is decided, how many probes it took)."""
    dice, probes = random.Random(seed), dict[int, list[float]]()
    candidates = [Candidate(point, forecast(number)) for number, point in enumerate(POINTS)]
    for count in range(most):
        now = standing(believe(candidates, probes), probes)
        if now.next is None:
            return now.best, not now.rivals, count
        probes.setdefault(now.next, []).append(truth[now.next] * math.exp(dice.gauss(0, noise)))
    now = standing(believe(candidates, probes), probes)
    return now.best, not now.rivals, most


def unknown(_number: int) -> None:
    return None


def test_without_a_forecast_it_finds_the_best_of_48_in_a_fraction_of_their_runs() -> None:
    ends = []
    for seed in range(40):
        truth = world(seed)
        chosen, decided, count = search(truth, unknown, seed)
        ends.append((truth[chosen] / min(truth), decided, count))
    # The bounds are for 90 %: of 40 choices a few may be wrong.
    assert sum(ratio < 1 + TOLERANCE for ratio, *_ in ends) >= 38
    assert sum(decided for _, decided, _ in ends) >= 38
    assert sorted(count for *_, count in ends)[20] <= 20


def test_a_good_forecast_saves_runs() -> None:
    counts: dict[str, list[int]] = {"with": [], "without": []}
    for seed in range(20):
        truth, dice = world(seed), random.Random(seed)
        # All too short by half, as where a part is not known: only their order is right.
        said = [0.5 * time * math.exp(dice.gauss(0, 0.05)) for time in truth]
        chosen, decided, count = search(truth, said.__getitem__, seed)
        assert truth[chosen] < (1 + 2 * TOLERANCE) * min(truth) or not decided
        counts["with"].append(count)
        counts["without"].append(search(truth, unknown, seed)[2])
    assert sum(counts["with"]) < 0.85 * sum(counts["without"])


def test_a_forecast_that_is_wrong_is_corrected_by_what_runs() -> None:
    """Shuffled times: the forecast is worth nothing, and the choice must still not be a bad one that is claimed."""
    bad = 0
    for seed in range(20):
        truth = world(seed)
        said = random.Random(seed).sample(truth, len(truth))
        chosen, decided, _ = search(truth, said.__getitem__, seed, most=100)
        bad += decided and truth[chosen] > 1.1 * min(truth)
    assert bad <= 1


def test_nothing_is_claimed_of_equal_candidates_and_it_ends() -> None:
    chosen, decided, count = search([1.0] * len(POINTS), unknown, 1, most=120, noise=0.01)
    assert decided and count < 120, (chosen, count)


def test_with_great_noise_it_is_undecided_and_says_how_many_runs_would_decide() -> None:
    probes = {0: [1.0, 1.4, 0.8], 1: [0.9, 1.3, 0.75]}
    belief = believe([Candidate((0,), None), Candidate((1,), None)], probes)
    now = standing(belief, probes)
    assert (now.best, now.rivals) == (1, [0])
    more = probes_to_decide(belief, 1, 0, probes)
    assert more is not None and more > 10
    assert belief.noise > 0.15


def test_todays_pipeline_runs_first_and_often_enough_to_be_compared_with() -> None:
    candidates = [Candidate((0,), 10.0), Candidate((1,), 1.0)]
    probes: dict[int, list[float]] = {}
    order = []
    while (number := standing(believe(candidates, probes), probes).next) is not None:
        order.append(number)
        probes.setdefault(number, []).append([10.0, 1.0][number])
    assert order[0] == 0
    assert order.count(0) == order.count(1) == FEWEST_PROBES


def test_what_failed_is_not_run_again_and_not_chosen() -> None:
    candidates = [Candidate((0,), 1.0), Candidate((1,), 0.1), Candidate((2,), 0.9)]
    probes = {0: [1.0] * 3, 2: [0.5] * 3}
    now = standing(believe(candidates, probes), probes, failed=[1])
    assert now == (2, [], None)


def test_a_probe_tells_of_those_that_share_its_values() -> None:
    points = [(0, 0), (0, 1), (1, 0), (1, 1)]
    belief = believe([Candidate(each, None) for each in points], {0: [1.0], 1: [1.0], 2: [0.5]})
    assert belief.ratio(3, 1).median == pytest.approx(0.5, rel=0.3)
    assert belief.ratio(3, 1).low < 0.5 < belief.ratio(3, 1).high
    assert belief.time(2).median == pytest.approx(0.5, rel=0.1)
