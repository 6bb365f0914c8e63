"""Reports of campaigns whose truth is known: how often their verdicts are false, and how often a difference is found.

    python -m tests.support.simulated_reports       the tables of docs/explanation/statistics.md, in some minutes

Values are logarithms: all samples of a trial have the median 0, and as much spread as it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from workflow.campaign.statistics import Test, choose_test
from workflow.campaign.verdicts import PairVerdict, TwoSamples, decide_together

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Draw = Callable[[np.random.Generator, tuple[int, int]], tuple[Values, Values]]
WIDE, NARROW = 0.2, 0.02
# Practically none: each significant difference counts.
THRESHOLD = 1e-9
# A tenth of those of a report: bounds scatter by one percent of their distance, and a simulation ends today.
RESAMPLES = 1_000


def equal(generator: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    """Two equal log-normal samples."""
    return generator.normal(0, WIDE, shape), generator.normal(0, WIDE, shape)


def unequal(generator: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    """Log-normal, one with ten times the spread."""
    return generator.normal(0, WIDE, shape), generator.normal(0, NARROW, shape)


def tails(generator: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    """Exponential tails to the slow side, one ten times as long."""
    one, other = (size * (generator.exponential(1, shape) - math.log(2)) for size in (WIDE, NARROW))
    return one, other


def humps(generator: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    """Two humps against one narrow one in the middle between them."""
    centre = np.where(generator.random(shape) < 0.5, -WIDE, WIDE)
    return centre + generator.normal(0, WIDE / 4, shape), generator.normal(0, NARROW, shape)


KINDS: dict[str, Draw] = {"equal": equal, "unequal spread": unequal, "unequal tails": tails, "two humps": humps}


class Plan(NamedTuple):
    """What a report has."""

    repetitions: int
    comparisons: int

    @property
    def test(self) -> Test:
        """That of a campaign with this plan."""
        return choose_test(self.repetitions, self.comparisons)


class Rates(NamedTuple):
    """Shares of the reports."""

    false: float
    """With a verdict *faster* or *slower*, though both medians of each comparison are equal."""
    contradictions: float
    """With such a verdict whose interval includes 1, or lies on the other side."""


def verdicts(one: Values, other: Values, test: Test) -> list[PairVerdict]:
    """Of one report: a row is a comparison, a column a block."""
    samples = []
    for mine, its in zip(np.exp(one).tolist(), np.exp(other).tolist(), strict=True):
        pairs = list(zip(mine, its, strict=True)) if test == "pairs" else None
        samples.append(TwoSamples(mine, its, True, THRESHOLD, "less", pairs))
    with patch("workflow.campaign.verdicts.RESAMPLES", RESAMPLES):
        return decide_together(samples)


def false_verdicts(kind: str, plan: Plan, test: Test, reports: int, seed: int = 1979) -> Rates:
    """How many reports of equal medians have a false verdict, and a contradiction."""
    generator = np.random.default_rng(seed)
    false = contradictions = 0
    for _ in range(reports):
        found = verdicts(*KINDS[kind](generator, (plan.comparisons, plan.repetitions)), test)
        decided = [each for each in found if each.decision in ("faster", "slower")]
        false += bool(decided)
        contradictions += any(is_contradiction(each) for each in decided)
    return Rates(false / reports, contradictions / reports)


def is_contradiction(verdict: PairVerdict) -> bool:
    """Whether *faster* or *slower*, said of a time, is not what its interval says."""
    _, low, high = verdict.ratio
    return low is None or high is None or not (low > 1 if verdict.decision == "slower" else high < 1)


def power(plan: Plan, test: Test, factor: float, noise: float, drift: float, reports: int, seed: int = 1947) -> float:
    """How often one real difference is found in a report; the others are none.

    The machine gets slower and faster between the blocks, by `drift`; within a block by `noise`.
    """
    generator = np.random.default_rng(seed)
    found = 0
    for _ in range(reports):
        blocks = generator.normal(0, drift, plan.repetitions)
        one, other = (blocks + generator.normal(0, noise, (plan.comparisons, plan.repetitions)) for _ in range(2))
        one[0] += math.log(factor)
        found += verdicts(one, other, test)[0].decision == "slower"
    return found / reports


def main() -> None:
    """Print the tables."""
    print("false verdicts, in % of the reports")
    for plan in (Plan(8, 1), Plan(8, 6), Plan(8, 11), Plan(10, 7), Plan(20, 12)):
        for test in ("pairs", "ranks"):
            if test == "pairs" and plan.test == "ranks":
                continue
            reports = 4_000 if test == "pairs" else 1_000
            rates = {kind: false_verdicts(kind, plan, test, reports) for kind in KINDS}
            shown = ", ".join(f"{kind} {rate.false * 100:.1f}" for kind, rate in rates.items())
            print(plan, test, shown, "contradictions", sum(rate.contradictions for rate in rates.values()), flush=True)
    print("power: +10 % found, in %")
    for plan in (Plan(8, 1), Plan(10, 1), Plan(10, 7), Plan(20, 12)):
        for noise in (0.02, 0.05):
            for drift in (0.0, 0.1, 0.3):
                shares = {test: power(plan, test, 1.1, noise, drift, 400) for test in ("pairs", "ranks")}
                print(plan, f"noise {noise} drift {drift}", {k: round(v * 100) for k, v in shares.items()}, flush=True)


if __name__ == "__main__":
    main()
