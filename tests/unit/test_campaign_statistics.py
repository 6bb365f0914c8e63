"""The statistics of a campaign: against scipy on known samples, and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from workflow.campaign.statistics import (
    ALPHA,
    choose_test,
    coverage,
    holm,
    median_interval,
    outliers,
    rank_test,
    repetitions_needed,
    sign_test,
    smallest_p,
    welch,
)
from workflow.campaign.verdicts import (
    INCLUDES_ONE,
    NO_RATIO,
    OPPOSITE,
    MedianRatio,
    decide,
    median_ratio,
    paired_ratio,
)

Samples = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Draw = Callable[[np.random.Generator, int, int], Samples]


def normal(generator: np.random.Generator, reports: int, count: int) -> Samples:
    return generator.normal(0.0, 1.0, (reports, count))


def log_normal(generator: np.random.Generator, reports: int, count: int) -> Samples:
    return generator.lognormal(0.0, 1.0, (reports, count)) - 1.0


def bimodal(generator: np.random.Generator, reports: int, count: int) -> Samples:
    centre = np.where(generator.random((reports, count)) < 0.5, -2.0, 2.0)
    return centre + generator.normal(0.0, 1.0, (reports, count))


@pytest.mark.parametrize("draw", [normal, log_normal, bimodal])
@pytest.mark.parametrize("count", [8, 20, 50])
def test_the_interval_of_the_median_covers_it_as_often_as_it_says(draw: Draw, count: int) -> None:
    samples = draw(np.random.default_rng(1986), 10_000, count)
    intervals = [median_interval(sample) for sample in samples.tolist()]
    hits = sum(each.low is not None and each.high is not None and each.low <= 0 <= each.high for each in intervals)
    assert 0.93 <= hits / len(intervals) <= 0.97


@pytest.mark.parametrize("count", [6, 7, 8, 20, 50])
def test_order_statistics_cover_as_the_binomial_distribution_says(count: int) -> None:
    for depth in range(1, count // 2 + 1):
        assert coverage(count, depth) == pytest.approx(1 - 2 * stats.binom.cdf(depth - 1, count, 0.5), abs=1e-12)


def test_six_and_seven_values_have_their_smallest_and_largest() -> None:
    assert median_interval([5, 1, 2, 3, 4, 6]) == (3.5, 1, 6)
    assert median_interval([5, 1, 2, 3, 4, 6, 7]) == (4, 1, 7)


def test_fewer_than_six_values_have_no_interval() -> None:
    assert median_interval([3, 1, 2, 5, 4]) == (3, None, None)


def test_the_interpolated_interval_of_ten_values_by_hand() -> None:
    # Coverage of depth 2: 1 − 2·11/1024 = 0.97852; of depth 3: 1 − 2·56/1024 = 0.89063. I = 0.3244, and
    # λ = 8 I/(2 + 6 I) = 0.6577: the bounds are 0.3423·x₂ + 0.6577·x₃, and the same from above.
    _, low, high = median_interval([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert low == pytest.approx(2.6577, abs=1e-4)
    assert high == pytest.approx(8.3423, abs=1e-4)


def test_more_confidence_makes_the_interval_wider() -> None:
    values = [float(value) for value in range(30)]
    wide, narrow = median_interval(values, 0.99), median_interval(values, 0.9)
    assert wide.low is not None and narrow.low is not None and wide.low < narrow.low
    assert wide.high is not None and narrow.high is not None and wide.high > narrow.high


@pytest.mark.parametrize("sizes", [(6, 6), (8, 12), (20, 20)])
def test_mann_whitney_is_that_of_scipy_without_ties(sizes: tuple[int, int]) -> None:
    generator = np.random.default_rng(7)
    one, other = (generator.normal(index * 0.5, 1.0, size).tolist() for index, size in enumerate(sizes))
    expected = stats.mannwhitneyu(one, other, alternative="two-sided", method="exact").pvalue
    assert rank_test(one, other).p == expected


def test_mann_whitney_with_ties_is_corrected_for_them() -> None:
    one, other = [1.0, 2, 2, 3, 3, 4, 5, 5], [3.0, 4, 4, 5, 6, 6, 7, 8]
    assert rank_test(one, other).p == stats.mannwhitneyu(one, other, method="asymptotic").pvalue


def test_equal_values_do_not_differ() -> None:
    assert rank_test([2.0] * 8, [2.0] * 8) == (1.0, 0)


def test_the_smallest_p_is_what_the_test_gives_for_separate_samples() -> None:
    for count in (3, 5, 8):
        below, above = [float(value) for value in range(count)], [100.0 + value for value in range(count)]
        assert smallest_p(count, count) == pytest.approx(rank_test(below, above).p)


def test_repetitions_needed_are_the_fewest_that_can_be_significant() -> None:
    for comparisons in (1, 4, 30):
        needed = repetitions_needed(comparisons)
        assert smallest_p(needed, needed) * comparisons <= ALPHA
        assert smallest_p(needed - 1, needed - 1) * comparisons > ALPHA


def test_holm_is_that_of_the_textbook() -> None:
    # Sorted 0.005, 0.01, 0.03, 0.04 → 4·0.005, 3·0.01, 2·0.03, then the largest so far.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_ratio_of_medians_has_an_interval_around_it() -> None:
    generator = np.random.default_rng(3)
    one, other = generator.lognormal(math.log(2), 0.1, 20).tolist(), generator.lognormal(0, 0.1, 20).tolist()
    ratio = median_ratio(one, other)
    assert ratio.ratio == pytest.approx(np.median(one) / np.median(other))
    assert ratio.low is not None and ratio.high is not None and ratio.ratio is not None
    assert 1.7 < ratio.low < ratio.ratio < ratio.high < 2.4
    assert median_ratio(one, other) == ratio


def test_the_interval_of_a_ratio_is_the_percentile_bootstrap_of_scipy() -> None:
    generator = np.random.default_rng(11)
    one, other = generator.lognormal(0.5, 0.2, 12), generator.lognormal(0, 0.2, 9)
    expected = stats.bootstrap(
        (one, other), lambda a, b, axis: np.median(a, axis=axis) / np.median(b, axis=axis), n_resamples=20_000,
        method="percentile", rng=np.random.default_rng(12),
    ).confidence_interval  # fmt: skip
    ratio = median_ratio(one.tolist(), other.tolist())
    assert ratio.low == pytest.approx(expected.low, rel=0.03) and ratio.high == pytest.approx(expected.high, rel=0.03)


@pytest.mark.parametrize("count", [6, 7])
def test_the_interval_of_few_values_is_that_of_scipy(count: int) -> None:
    values = np.random.default_rng(count).lognormal(0, 1, count)
    expected = stats.quantile_test(values, q=np.median(values), p=0.5).confidence_interval(0.95)
    assert median_interval(values.tolist())[1:] == (expected.low, expected.high)


def test_equal_values_have_the_ratio_one_also_where_they_are_zero() -> None:
    assert median_ratio([0.0] * 8, [0.0] * 6) == (1.0, 1.0, 1.0)
    assert median_ratio([12.0] * 8, [12.0] * 8) == (1.0, 1.0, 1.0)
    assert decide(median_ratio([12.0] * 8, [12.0] * 8), 1.0, 0.05, "less", 0).decision == "same"
    assert paired_ratio([(0.0, 0.0)] * 6) == (1.0, 1.0, 1.0)


def test_the_interval_of_a_ratio_covers_it() -> None:
    generator = np.random.default_rng(4)
    hits, reports = 0, 200
    for _ in range(reports):
        _, low, high = median_ratio(generator.lognormal(0, 0.3, 10).tolist(), generator.lognormal(0, 0.3, 10).tolist())
        hits += low is not None and high is not None and low <= 1 <= high
    assert hits / reports >= 0.93


def test_a_ratio_needs_positive_values_and_six_of_them_for_an_interval() -> None:
    assert median_ratio([1.0, 0.0], [1.0, 2.0]) == (None, None, None)
    assert median_ratio([2.0] * 5, [1.0] * 8) == (2.0, None, None)


def test_outliers_are_marked() -> None:
    assert outliers([1.0, 1.1, 0.9, 1.05, 0.95, 9.0]) == [False] * 5 + [True]
    assert outliers([1.0] * 7 + [1.2]) == [False] * 7 + [True]
    assert outliers([1.0] * 8) == [False] * 8
    assert outliers([1.0, 1.0, 50.0]) == [False] * 3


@pytest.mark.parametrize(
    ("ratio", "p", "better", "direction", "verdict"),
    [
        (MedianRatio(1.5, 1.3, 1.7), 0.001, "more", 1, ("faster", "")),
        (MedianRatio(1.5, 1.3, 1.7), 0.001, "less", 1, ("slower", "")),
        (MedianRatio(0.5, 0.4, 0.6), 0.001, "less", -1, ("faster", "")),
        (MedianRatio(1.5, 0.9, 1.9), 0.2, "less", 1, ("undecided", "")),
        (MedianRatio(1.5, 0.9, 1.9), 0.001, "less", 1, ("undecided", INCLUDES_ONE)),
        (MedianRatio(1.5, 1.3, 1.7), 0.001, "less", -1, ("undecided", OPPOSITE)),
        (MedianRatio(1.02, 1.01, 1.03), 0.001, "less", 1, ("same", "")),
        (MedianRatio(1.02, 0.98, 1.04), 0.6, "less", 1, ("same", "")),
        (MedianRatio(1.02, 0.9, 1.2), 0.001, "less", 1, ("undecided", "")),
        (MedianRatio(2.0, None, None), 0.001, "less", 1, ("undecided", "")),
        (MedianRatio(None, None, None), 0.001, "less", 1, ("undecided", NO_RATIO)),
    ],
)
def test_verdicts(ratio: MedianRatio, p: float, better: str, direction: int, verdict: tuple[str, str]) -> None:
    assert decide(ratio, p, 0.05, "more" if better == "more" else "less", direction) == verdict


def test_a_bimodal_sample_whose_ranks_and_median_disagree_is_undecided() -> None:
    """Most values of the first are a little smaller, its median is larger: neither *faster* nor *slower* is true."""
    one = [*(0.9 + 0.001 * n for n in range(14)), *(2.0 + 0.001 * n for n in range(16))]
    other = [
        *(0.95 + 0.001 * n for n in range(13)),
        *(1.9 + 0.001 * n for n in range(3)),
        *(2.5 + 0.01 * n for n in range(14)),
    ]
    significance = rank_test(one, other)
    ratio = median_ratio(one, other)
    assert ratio.ratio is not None and significance.direction == -1 and ratio.ratio > 1
    assert decide(MedianRatio(ratio.ratio, 1.01, 1.1), 0.001, 0.01, "less", significance.direction).reason == OPPOSITE


def test_the_plan_chooses_the_test() -> None:
    """2/2⁸ · 6 is below 0.05, and 2/2⁸ · 7 is not."""
    assert [choose_test(8, comparisons) for comparisons in (0, 1, 6, 7)] == ["pairs", "pairs", "pairs", "ranks"]
    assert [choose_test(repetitions, 1) for repetitions in (5, 6)] == ["ranks", "pairs"]
    assert repetitions_needed(7, "pairs") == 9 and choose_test(9, 7) == "pairs"


def test_the_sign_test_is_that_of_the_binomial_distribution() -> None:
    for above in range(11):
        pairs = [(2.0, 1.0)] * above + [(1.0, 2.0)] * (10 - above)
        assert sign_test(pairs).p == pytest.approx(stats.binomtest(above, 10).pvalue)
    assert sign_test([(2.0, 1.0)] * 8 + [(1.0, 1.0)]).p == pytest.approx(stats.binomtest(8, 9).pvalue), (
        "a tie is against"
    )
    assert sign_test([]) == (1.0, 0)


def test_welch_is_that_of_scipy() -> None:
    generator = np.random.default_rng(12)
    one, other = generator.normal(0, 1, 8).tolist(), generator.normal(1, 5, 12).tolist()
    assert welch(one, other) == pytest.approx(stats.ttest_ind(one, other, equal_var=False).pvalue)
    assert welch([1.0] * 6, [2.0] * 6) == 0 and welch([1.0] * 6, [1.0] * 6) == 1


def test_the_sign_test_and_the_interval_of_paired_ratios_never_contradict_each_other() -> None:
    generator = np.random.default_rng(1945)
    for count in (6, 7, 8, 10, 17, 30):
        for _ in range(300):
            pairs = np.round(generator.lognormal(0.15, 0.3, (count, 2)), 1).tolist()
            ratio, (p, direction) = paired_ratio(pairs), sign_test(pairs)
            if p < ALPHA and ratio.ratio is not None and ratio.low is not None and ratio.high is not None:
                assert not ratio.low <= 1 <= ratio.high and (ratio.ratio > 1) == (direction > 0)
