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
from collections.abc import Mapping, Sequence
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
FEWEST_PROBES = 3
"""Of what is chosen, and of today's: their spread must be known."""

# Of the logarithm of a likelihood: of few probes it prefers one assumption too soon. Found by simulated searches, as in
# tests/unit/test_balance_search.py: with 1 twice as many choices were wrong; 0.25 costs a few more runs.
TEMPER = 0.25
LEAST_WEIGHT = 1e-4
"""Assumptions that are less likely are left out."""

Floats = NDArray[np.float64]


class Candidate(NamedTuple):
    """What the search knows of a candidate before it runs."""

    values: tuple[int, ...]
    """Of each key, the index of its value."""
    forecast: float | None
    """Seconds per step; None: not known."""


class Belief(NamedTuple):
    """The logarithms of the times of all candidates: means and covariance; and the noise of one probe."""

    mean: Floats
    covariance: Floats
    noise: float

    def ratio(self, one: int, other: int) -> RatioBounds:
        """Time of one ÷ time of the other."""
        spread = max(0.0, self.covariance[one, one] + self.covariance[other, other] - 2 * self.covariance[one, other])
        return _interval(float(self.mean[one] - self.mean[other]), math.sqrt(spread))

    def time(self, one: int) -> RatioBounds:
        """Its time."""
        return _interval(float(self.mean[one]), math.sqrt(max(0.0, self.covariance[one, one])))


class RatioBounds(NamedTuple):
    """A value, and the bounds between which it is with 90 % probability."""

    median: float
    low: float
    high: float


def _interval(mean: float, deviation: float) -> RatioBounds:
    return RatioBounds(math.exp(mean), math.exp(mean - BOUND * deviation), math.exp(mean + BOUND * deviation))


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
    noise, ran = _noise(probes), sorted(probes)
    if not ran:
        covariance = SHARED_ERROR**2 + KEY_ERRORS[1] ** 2 * alike + OWN_ERRORS[1] ** 2 * np.eye(len(candidates))
        return Belief(priors[0], covariance, noise)
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
    return Belief(mean, covariance, noise)


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


def _noise(probes: Mapping[int, Sequence[float]]) -> float:
    """The standard deviation of the logarithm of one probe: of all that ran more than once, together."""
    repeated = [np.log(times) for times in probes.values() if len(times) > 1]
    freedom = sum(len(each) - 1 for each in repeated)
    if freedom == 0:
        return FIRST_NOISE
    pooled = sum(float(np.sum((each - each.mean()) ** 2)) for each in repeated)
    # One that was assumed counts as two that were seen: the first pairs may be equal by chance.
    return max(LEAST_NOISE, math.sqrt((pooled + 2 * FIRST_NOISE**2) / (freedom + 2)))


class Standing(NamedTuple):
    """What can be said now."""

    best: int
    rivals: list[int]
    """Those that may be faster than the best by more than the tolerance, the most likely first; none: it is decided."""
    next: int | None
    """The candidate whose probe would tell most; None: nothing is left to be known."""


def standing(belief: Belief, probes: Mapping[int, Sequence[float]], failed: Sequence[int] = ()) -> Standing:
    """The candidate that seems fastest, those that might beat it, and what to run next.

    `failed`: those that cannot run. The first candidate is today's pipeline, which is always measured.
    """
    alive = [each for each in range(len(belief.mean)) if each not in set(failed)]
    best = min(alive, key=lambda each: belief.mean[each])
    low = {each: belief.ratio(each, best).low for each in alive if each != best}
    rivals = sorted((each for each, least in low.items() if least < 1 - TOLERANCE), key=lambda each: low[each])
    if 0 not in failed and not probes.get(0):
        return Standing(best, rivals, 0)
    if rivals:
        return Standing(best, rivals, max((rivals[0], best), key=lambda each: belief.covariance[each, each]))
    wanted = [each for each in (best, 0) if len(probes.get(each, ())) < FEWEST_PROBES and each not in failed]
    return Standing(best, [], min(wanted, key=lambda each: len(probes.get(each, ())), default=None))


def probes_to_decide(belief: Belief, best: int, rival: int, probes: Mapping[int, Sequence[float]]) -> int | None:
    """How many more probes of both would tell them apart, if they are as far apart as they seem; None: no number would.

    `rival` is out when the lower bound of its ratio to `best` is above 1 − tolerance.
    """
    margin = float(belief.mean[rival] - belief.mean[best]) - math.log(1 - TOLERANCE)
    if margin <= 0:
        return None
    each = math.ceil(2 * (BOUND * belief.noise / margin) ** 2)
    return max(1, 2 * each - len(probes.get(best, ())) - len(probes.get(rival, ())))
