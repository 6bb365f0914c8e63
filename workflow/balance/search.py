"""Which candidate is the fastest, as far as is known, and which one is to be run next. Pure.

The times of the candidates are random variables: their logarithms are normally distributed and correlated. Before
anything has run they are what the forecast says, with an error that all share (the machine), one for each value of
each key, and one of each candidate. A probe of one candidate so tells something of those that share its values: this is
a Gaussian process with an additive kernel (Duvenaud et al. 2011, arXiv:1112.4394).

What runs next: of the candidate that seems best and the one that might still beat it by more than the tolerance, that
of which less is known. It ends when there is no such other one (LUCB: Kalyanakrishnan et al. 2012, PAC subset
selection in stochastic multi-armed bandits).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Standard deviations of logarithms of times, before a probe. How far the forecast can be trusted, how much the value of
# a key matters and how much remains to each candidate is not known beforehand: all combinations of these are weighed by
# how well they explain the probes.
SHARED_ERROR = 1.0
KEY_ERRORS, OWN_ERRORS = (0.05, 0.15, 0.4, 1.0), (0.03, 0.1, 0.3, 0.6)
LEAST_NOISE, FIRST_NOISE = 0.02, 0.06
"""What two runs of the same differ by at least, and as assumed until one has run twice."""
# Of both sides: 90 % of a normal distribution lie inside, and 5 % on each side.
BOUND = 1.645
TOLERANCE = 0.05
"""Candidates whose times differ by less are the same."""
TODAY = 0
"""The candidate that is the pipeline as it is."""
LEAST_MARGIN = 0.002
FEWEST_PROBES = 3
"""Of what is chosen, and of today's: their spread must be known."""
FAILURES = 2
"""So many candidates with one value must fail, and none run, before all with it are given up."""

# Of the logarithm of a likelihood: of few probes it prefers one assumption too soon. Found by simulated searches, as in
# tests/unit/test_balance_search.py: with 1 twice as many choices were wrong; 0.25 costs a few more runs.
TEMPER = 0.25
LEAST_WEIGHT = 1e-4
"""Assumptions that are less likely are left out."""

Floats = NDArray[np.float64]
KeyValue = tuple[int, int]
"""The number of a key, and that of one of its values."""


class Candidate(NamedTuple):
    """What the search knows of a candidate before it runs."""

    values: tuple[int, ...]
    """Of each key, the index of its value."""
    forecast: float | None
    """Seconds per step; None: not known."""


class Belief(NamedTuple):
    """The logarithms of the times of all candidates: means and covariance; and the noise of one probe.

    `freedom`: from how many differences the noise is known. Few make all bounds wider, as in Student's distribution.
    """

    mean: Floats
    covariance: Floats
    noise: float
    freedom: int

    @property
    def bound(self) -> float:
        """How many standard deviations a bound is away: the first term of Cornish and Fisher's expansion of t."""
        return BOUND + (BOUND**3 + BOUND) / (4 * self.freedom)

    def ratio(self, one: int, other: int) -> RatioBounds:
        """Time of one ÷ time of the other."""
        spread = max(0.0, self.covariance[one, one] + self.covariance[other, other] - 2 * self.covariance[one, other])
        return _interval(float(self.mean[one] - self.mean[other]), self.bound * math.sqrt(spread))

    def time(self, one: int) -> RatioBounds:
        """Its time."""
        return _interval(float(self.mean[one]), self.bound * self.deviation(one))

    def deviation(self, one: int) -> float:
        """The standard deviation of the logarithm of its time."""
        return math.sqrt(max(0.0, float(self.covariance[one, one])))


class RatioBounds(NamedTuple):
    """A value, and the bounds between which it is with 90 % probability."""

    median: float
    low: float
    high: float


def _interval(mean: float, distance: float) -> RatioBounds:
    return RatioBounds(math.exp(mean), math.exp(mean - distance), math.exp(mean + distance))


def believe(candidates: Sequence[Candidate], probes: Mapping[int, Sequence[float]]) -> Belief:
    """What the forecasts and the probes say of all candidates.

    Args:
        candidates: all of them.
        probes: index of a candidate → the times that it took.

    Forecasts are used where all candidates have one: between those with and without one nothing could be compared.
    """
    known = [each.forecast for each in candidates if each.forecast]
    nothing = np.zeros(len(candidates))
    priors = [np.log(np.array(known)), nothing] if len(known) == len(candidates) else [nothing]
    values = np.array([each.values for each in candidates]).reshape(len(candidates), -1)
    alike = np.zeros((len(candidates), len(candidates)))
    for column in values.T:
        alike += column[:, None] == column[None, :]
    (noise, freedom), ran = _noise(probes), sorted(probes)
    if not ran:
        covariance = SHARED_ERROR**2 + KEY_ERRORS[1] ** 2 * alike + OWN_ERRORS[1] ** 2 * np.eye(len(candidates))
        return Belief(priors[0], covariance, noise, freedom)
    beliefs = [
        _given(prior, SHARED_ERROR**2 + key**2 * alike + own**2 * np.eye(len(candidates)), ran, probes, noise)
        for prior, key, own in itertools.product(priors, KEY_ERRORS, OWN_ERRORS)
    ]
    likelihoods = np.array([each.likelihood for each in beliefs])
    weights = np.exp(TEMPER * (likelihoods - likelihoods.max()))
    weights /= weights.sum()
    mean = sum((weight * each.mean for weight, each in zip(weights, beliefs, strict=True)), nothing)
    covariance = np.zeros_like(alike)
    for weight, each in zip(weights, beliefs, strict=True):
        if weight > LEAST_WEIGHT:
            covariance += weight * (each.covariance() + np.outer(each.mean - mean, each.mean - mean))
    return Belief(mean, covariance, noise, freedom)


class _Conditioned(NamedTuple):
    """One assumption about the errors, given the probes."""

    mean: Floats
    prior_covariance: Floats
    gain: Floats
    across: Floats
    likelihood: float
    """Logarithm of the probability of the probes under it."""

    def covariance(self) -> Floats:
        left: Floats = self.prior_covariance - self.gain @ self.across.T
        return left


def _given(
    prior: Floats, covariance: Floats, ran: Sequence[int], probes: Mapping[int, Sequence[float]], noise: float
) -> _Conditioned:
    counts = np.array([len(probes[each]) for each in ran])
    seen = np.array([np.mean(np.log(probes[each])) for each in ran])
    # The level of all times is what the probes say.
    level = float(np.mean(seen - prior[ran]))
    off = seen - prior[ran] - level
    across, among = covariance[:, ran], covariance[np.ix_(ran, ran)] + np.diag(noise**2 / counts)
    gain = np.linalg.solve(among, across.T).T
    likelihood = -0.5 * float(off @ np.linalg.solve(among, off) + np.linalg.slogdet(among)[1])
    return _Conditioned(prior + level + gain @ off, covariance, gain, across, likelihood)


def _noise(probes: Mapping[int, Sequence[float]]) -> tuple[float, int]:
    """The standard deviation of the logarithm of one probe, of all that ran more than once together; and how many
    differences it is known from. One that was assumed counts as two that were seen: the first pairs may be equal by
    chance.
    """
    repeated = [np.log(times) for times in probes.values() if len(times) > 1]
    freedom = 2 + sum(len(each) - 1 for each in repeated)
    pooled = 2 * FIRST_NOISE**2 + sum(float(np.sum((each - each.mean()) ** 2)) for each in repeated)
    return max(LEAST_NOISE, math.sqrt(pooled / freedom)), freedom


class Standing(NamedTuple):
    """What can be said now."""

    choice: int
    """The fastest, or today's pipeline where nothing is faster by more than the tolerance."""
    rivals: list[int]
    """Those that may be faster by more than the tolerance, the most likely first; today's where it is not certain that
    the choice is faster at all. None: nothing is open."""
    next: int | None
    """The candidate whose probe would tell most; None: it is decided."""


def standing(belief: Belief, probes: Mapping[int, Sequence[float]], failed: Sequence[int] = ()) -> Standing:
    """The choice, what is open, and what to run next.

    `failed`: those that cannot run. The first candidate is today's pipeline, which is always measured.
    """
    alive = [each for each in range(len(belief.mean)) if each not in set(failed)]
    best = min(alive, key=lambda each: belief.mean[each])
    low = {each: belief.ratio(each, best).low for each in alive if each != best}
    rivals = sorted((each for each, least in low.items() if least < 1 - TOLERANCE), key=lambda each: low[each])
    gain = belief.ratio(best, TODAY)
    if not rivals and best != TODAY and TODAY in alive:
        if gain.median >= 1 - TOLERANCE and gain.low >= 1 - 2 * TOLERANCE:
            best = TODAY  # so little is no reason to change a file
        elif gain.high >= 1:
            rivals = [TODAY]
    if TODAY in alive and not probes.get(TODAY):
        return Standing(best, rivals, TODAY)
    if rivals:
        return Standing(best, rivals, max((rivals[0], best), key=lambda each: belief.covariance[each, each]))
    wanted = [each for each in (best, TODAY) if len(probes.get(each, ())) < FEWEST_PROBES and each in alive]
    return Standing(best, [], min(wanted, key=lambda each: len(probes.get(each, ())), default=None))


def best_that_ran(belief: Belief, now: Standing, ran: Collection[int]) -> int:
    """The choice as long as it is undecided: the fastest of those that ran, as far as is known, or today's pipeline if
    that is not faster by more than the tolerance. If nothing ran, it is that of the forecast, where its gain is larger
    than the error of a forecast.
    """
    best = now.choice if now.choice in ran else min(ran, key=lambda each: belief.mean[each], default=now.choice)
    ratio = belief.ratio(best, TODAY)
    return TODAY if (ratio.median > 1 - TOLERANCE if best in ran else ratio.high >= 1) else best


def still_open(belief: Belief, now: Standing, chosen: int) -> list[int]:
    """The rivals, and what seems fastest if it is not what is chosen, and may gain more than the tolerance."""
    is_open = now.choice != chosen and belief.ratio(now.choice, chosen).low < 1 - TOLERANCE
    return [*([now.choice] if is_open else []), *(each for each in now.rivals if each != chosen)]


def values_that_fail(candidates: Sequence[Candidate], failed: Collection[int], ran: Collection[int]) -> set[KeyValue]:
    """The values with which `FAILURES` candidates have failed and none has run: of each of these candidates all other
    values have run, so that no other one can be the cause."""
    seen = {value for each in ran for value in enumerate(candidates[each].values)}
    causes = [{*enumerate(candidates[each].values)} - seen for each in failed]
    alone = [next(iter(each)) for each in causes if len(each) == 1]
    return {value for value in alone if alone.count(value) >= FAILURES}


def fail_too(candidates: Sequence[Candidate], failing: Collection[KeyValue]) -> set[int]:
    """The candidates that have one of these values."""
    return {index for index, each in enumerate(candidates) if not {*enumerate(each.values)}.isdisjoint(failing)}


def least_probes_to_decide(belief: Belief, now: Standing, probes: Mapping[int, Sequence[float]]) -> int:
    """How many more probes it takes at least, if all are as far apart as they seem: of each rival so many as tell it
    from the choice, and those without which nothing is decided.
    """
    missing = sum(max(0, FEWEST_PROBES - len(probes.get(each, ()))) for each in {now.choice, TODAY})
    more = missing
    for rival in now.rivals:
        apart = abs(float(belief.mean[rival] - belief.mean[now.choice]))
        margin = max(apart if rival == TODAY else apart - math.log(1 - TOLERANCE), LEAST_MARGIN)
        each = math.ceil(2 * (belief.bound * belief.noise / margin) ** 2)
        more += max(1, each - len(probes.get(rival, ())))
    return max(1, more)
