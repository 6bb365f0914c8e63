"""The comparisons of a campaign: which trials are compared, whether they can be, and the verdicts. Pure.

Two trials are compared only where their measurements were interleaved, so that a drift of the machine affected both
alike. A repetition may have been measured more than once, by `--remeasure-reference`.
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workflow.campaign.campaign_directory import ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec, ComparisonRequest
from workflow.campaign.file.load_campaign import same, values_of
from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.campaign.planning.content_key import same_runs
from workflow.campaign.results.results_model import (
    ComparisonResult,
    MetricFacts,
    SearchDecision,
    SearchResult,
    TrialResult,
)
from workflow.campaign.results.samples import of_attempts, trial_result
from workflow.campaign.search import Survivors, search_states, values_besides
from workflow.campaign.statistics import Test, choose_test
from workflow.campaign.verdicts import OPPOSITE, MedianRatio, PairVerdict, TwoSamples, decide_together
from workflow.engines import traits_of
from workflow.formatting import plural
from workflow.report_figures import to_figure_name

NOT_INTERLEAVED = "not interleaved"
MOST_BETWEEN = 2
"""Repetitions of the two trials that may start between those of one block: side by side, the next one begins early."""
LARGEST_SHARE = 0.25
"""Of the blocks, that may be apart: a few repetitions were interrupted, or failed and ran again later."""
UNLIKE = "a file and a stream"
NO_VALUES = "not measured of both"
UNDEFINED = "not defined in each repetition"
SAME_RUN = "both run the same"
# Of a file, how fast steps are written, into memory perhaps; of a stream, how fast they are written and taken.
_RATES = ("throughput", "transfer_rate")
Measurements = Mapping[int, Sequence[Attempt]]
"""Number → its measurements, the oldest first."""


@dataclass(frozen=True)
class Pair:
    """Two trials that differ in one key, or in keys that change together."""

    vary: str
    value: object
    against: object
    at: Mapping[str, object]
    """The keys that both have in common."""
    trial: ScheduledTrial
    reference: ScheduledTrial


@dataclass(frozen=True)
class ComparedTrials:
    """One metric of two trials with what both measured, or of one trial in two campaigns."""

    metric: MetricFacts
    vary: str
    value: object
    against: object
    at: Mapping[str, object]
    mine: TrialResult
    other: TrialResult
    why_not: str
    """Why there is no verdict, whatever was measured; empty where there may be one."""
    is_interleaved: bool | None = None

    def samples(self, test: Test) -> TwoSamples:
        """What is tested."""
        pairs = self.mine.pairs_with(self.other) if test == "pairs" else None
        return TwoSamples(
            self.mine.values, self.other.values, not self.why_not, self.metric.threshold, self.metric.better, pairs
        )

    def result(self, verdict: PairVerdict) -> ComparisonResult:
        """What the report says of it."""
        return ComparisonResult(
            metric=self.metric.name,
            vary=self.vary,
            value=self.value,
            against=self.against,
            at=dict(self.at),
            count=len(self.mine.values),
            count_against=len(self.other.values),
            median=self.mine.median,
            median_against=self.other.median,
            **verdict.ratio._asdict(),
            test=verdict.test,
            p=verdict.p,
            corrected_p=verdict.corrected_p,
            decision=verdict.decision,
            reason=self.why_not or verdict.reason,
            in_turns=self.is_interleaved,
        )


def why_untested(mine: TrialResult, other: TrialResult) -> str:
    """Why what was measured cannot be tested; empty where it can be."""
    if not all(each.values or each.undefined for each in (mine, other)):
        return NO_VALUES
    return "" if mine.is_whole and other.is_whole else UNDEFINED


def compare_trials(
    spec: CampaignSpec, trials: Sequence[ScheduledTrial], facts: Sequence[MetricFacts], history: History
) -> list[ComparisonResult]:
    """Every comparison that was asked for; the p-values of all of them are corrected together."""
    asked: list[ComparedTrials] = []
    for request in spec.comparisons:
        metrics = [each for each in facts if request.metrics is None or each.name in request.metrics]
        asked += _compared(spec, make_pairs(spec, request, trials), metrics, history)
    test = choose_test(spec.repetitions, count_comparisons(spec, trials))
    verdicts = decide_together([each.samples(test) for each in asked])
    return [each.result(verdict) for each, verdict in zip(asked, verdicts, strict=True)]


def _compared(
    spec: CampaignSpec, pairs: Sequence[Pair], facts: Sequence[MetricFacts], history: History
) -> Iterator[ComparedTrials]:
    """Of a trial that was measured more than once, each uses what was measured beside the other trial."""
    same_as = same_runs(history.contents)
    beside = [compared_measurements(pair.trial.key, pair.reference.key, spec, history) for pair in pairs]
    sides = [
        (of_attempts(pair.trial, its.mine, spec, history), of_attempts(pair.reference, its.other, spec, history))
        for pair, its in zip(pairs, beside, strict=True)
    ]
    for metric in facts:
        for pair, its, (one, other) in zip(pairs, beside, sides, strict=True):
            mine, theirs = trial_result(pair.trial, metric, one), trial_result(pair.reference, metric, other)
            if not is_comparable(metric.of, pair.trial, pair.reference):
                why_not = UNLIKE
            elif _run_the_same(pair.trial.key, pair.reference.key, same_as, history):
                why_not = SAME_RUN
            else:
                why_not = why_untested(mine, theirs) or (NOT_INTERLEAVED if its.is_interleaved is False else "")
            yield ComparedTrials(
                metric, pair.vary, pair.value, pair.against, pair.at, mine, theirs, why_not, its.is_interleaved
            )


def search_results(
    spec: CampaignSpec, trials: Sequence[ScheduledTrial], facts: Sequence[MetricFacts], history: History
) -> list[SearchResult]:
    """What each search has found: its last two trials are compared like any two, all searches together."""
    if spec.search is None:
        return []
    metric = next(each for each in facts if each.of == spec.search.best)
    by_key = {each.key: each for each in trials}
    states = search_states(spec, trials, history)
    last: list[tuple[str, ...]] = [state.left for _, state in states if state.finished and len(state.left) == 2]
    pairs = [Pair("", None, None, {}, *(by_key[key] for key in left)) for left in last]
    compared = list(_compared(spec, pairs, [metric], history))
    # With those that are still to come: no verdict is withdrawn by theirs.
    verdicts = decide_together([each.samples("pairs") for each in compared], of=len(states))
    results = {left: each.result(verdict) for left, each, verdict in zip(last, compared, verdicts, strict=True)}
    over = spec.search.over
    return [_search_result(over, metric.name, group, state, results.get(state.left)) for group, state in states]


def _search_result(
    over: Sequence[str],
    metric: str,
    group: Sequence[ScheduledTrial],
    state: Survivors,
    compared: ComparisonResult | None,
) -> SearchResult:
    parameters = {each.key: each.parameters for each in group}
    reason, ratio = "", MedianRatio(None, None, None)
    decision: SearchDecision = "undecided"
    if not state.finished:
        decision = "unfinished"
    elif not state.left:
        decision = "none"
    elif len(state.left) < 2 and state.only_failed:
        decision, reason = "found", "all others failed, or have no such figure"
    elif len(state.left) < 2:
        reason = "the others failed, or dropped out before"
    elif compared is not None:
        ratio = MedianRatio(compared.ratio, compared.low, compared.high)
        reason = {"same": "same", "slower": OPPOSITE}.get(compared.decision, compared.reason)
        decision = "found" if compared.decision == "faster" else "undecided"
    return SearchResult(
        metric=metric,
        at=values_besides(set(over), group[0]),
        trials=len(group),
        repetitions=sum(state.repetitions.values()),
        left=[{key: parameters[each][key] for key in over} for each in state.left],
        decision=decision,
        reason=reason,
        **ratio._asdict(),
    )


def _run_the_same(one: str, other: str, same_as: Mapping[str, str], history: History) -> bool:
    """Whether two trials differ in settings without effect only. Two versions of one plan are another matter."""
    is_same = one in same_as and same_as[one] == same_as.get(other)
    return is_same and history.contents[one].plan != history.contents[other].plan


def make_pairs(spec: CampaignSpec, request: ComparisonRequest, trials: Sequence[ScheduledTrial]) -> list[Pair]:
    """The pairs of trials that a comparison asks for, in the order of the trials.

    Keys of `zip` whose values follow from that of the key which varies are one with it.
    """
    together = keys_together(spec, request.vary)
    against = values_of(spec, request.vary)[0] if request.against is None else request.against
    groups: dict[str, list[ScheduledTrial]] = {}
    for trial in trials:
        if request.vary in trial.parameters:
            groups.setdefault(json.dumps(_others(trial.parameters, together), sort_keys=True), []).append(trial)
    pairs = []
    for group in groups.values():
        reference = next((each for each in group if same(each.parameters[request.vary], against)), None)
        for trial in group if reference is not None else []:
            if reference is not None and trial is not reference:
                at = _others(trial.parameters, together)
                pairs.append(Pair(request.vary, trial.parameters[request.vary], against, at, trial, reference))
    return pairs


def compared_keys(spec: CampaignSpec, trials: Sequence[ScheduledTrial], history: History) -> list[tuple[str, str]]:
    """The keys of each two trials that are compared; of a search those of the last two."""
    shown = [trial for trial in trials if not trial.is_baseline]
    pairs = (pair for request in spec.comparisons for pair in make_pairs(spec, request, shown))
    last = [state.left for _, state in search_states(spec, trials, history) if len(state.left) == 2]
    return list(dict.fromkeys([*((pair.trial.key, pair.reference.key) for pair in pairs), *last]))


def count_comparisons(spec: CampaignSpec, trials: Sequence[ScheduledTrial]) -> int:
    """How many tests the report makes at most: Holm's correction grows with it.

    By the file alone, never by what was measured: the choice of the test follows from it.
    """
    return sum(
        is_comparable(spec.metrics[metric].of, pair.trial, pair.reference)
        for request in spec.comparisons
        for pair in make_pairs(spec, request, trials)
        for metric in request.metrics or spec.metrics
    )


def keys_together(spec: CampaignSpec, key: str) -> frozenset[str]:
    """A key, and those of `zip` that have one value for each of its values: they cannot be told apart."""
    found = {key}
    mine = spec.zip_.get(key, [])
    for other, values in spec.zip_.items():
        rows = list(zip(mine, values, strict=False))
        if rows and all(same(value, second) for one, value in rows for two, second in rows if same(one, two)):
            found.add(other)
    return frozenset(found)


def _others(parameters: Mapping[str, object], keys: frozenset[str]) -> dict[str, object]:
    return {name: value for name, value in parameters.items() if name not in keys}


def interleaving_notes(
    comparisons: Sequence[ComparisonResult], searches: Sequence[SearchResult], spec: CampaignSpec
) -> list[str]:
    """That trials are compared of which one was measured after the other."""
    count = sum(each.in_turns is False for each in comparisons)
    count += sum(each.reason == NOT_INTERLEAVED for each in searches)
    if not count:
        return []
    one = "it has" if count == 1 else "they have"
    text = f"{plural(count, 'comparison')} of trials that were not interleaved: {one} no verdict"
    by_file = "`order: {by: blocks}` interleaves them"
    how = by_file if spec.order.by == "file" else "`wf campaign run --remeasure-reference` measures both side by side"
    return [f"{text}, because the machine may have changed in between; {how}"]


@dataclass(frozen=True)
class ComparedMeasurements:
    """The measurements of two trials that are compared, and whether they were interleaved."""

    mine: dict[Repetition, Attempt]
    other: dict[Repetition, Attempt]
    is_interleaved: bool | None


def compared_measurements(key: str, other: str, spec: CampaignSpec, history: History) -> ComparedMeasurements:
    """Of each repetition of two trials the measurement that was made beside that of the other, else the last one."""
    sides = measurements(key, spec, history), measurements(other, spec, history)
    pairs = nearest_pairs(*sides)
    found = []
    for index, (name, its) in enumerate(zip((key, other), sides, strict=True)):
        found.append({
            Repetition(name, number): pairs[number][index] if number in pairs else attempts[-1]
            for number, attempts in its.items()
        })  # fmt: skip
    return ComparedMeasurements(found[0], found[1], is_interleaved(pairs))


def measurements(key: str, spec: CampaignSpec, history: History) -> dict[int, list[Attempt]]:
    """Those of a trial, without the warm-up."""
    identities = (Repetition(key, number) for number in range(1, spec.repetitions + 1))
    return {each.number: history.measurements(each) for each in identities if history.succeeded(each)}


def nearest_pairs(mine: Measurements, other: Measurements) -> dict[int, tuple[Attempt, Attempt]]:
    """Of each repetition that both have, the two measurements that are nearest in time."""
    return {
        number: min(
            itertools.product(reversed(mine[number]), reversed(other[number])),
            key=lambda both: abs(both[0].started - both[1].started),
        )
        for number in mine
        if number in other
    }


def blocks_apart(pairs: Mapping[int, tuple[Attempt, Attempt]]) -> list[int]:
    """The numbers of the blocks between whose two repetitions many others of the same trials were started."""
    times = sorted(each.started for pair in pairs.values() for each in pair)
    found = []
    for number, pair in pairs.items():
        first, last = sorted(each.started for each in pair)
        if bisect_left(times, last) - bisect_right(times, first) > MOST_BETWEEN:
            found.append(number)
    return found


def is_interleaved(pairs: Mapping[int, tuple[Attempt, Attempt]]) -> bool | None:
    """Whether all blocks, or all but a few, were measured together; None where there are none."""
    return len(blocks_apart(pairs)) <= LARGEST_SHARE * len(pairs) if pairs else None


def to_measure_again(
    spec: CampaignSpec, compared: Iterable[tuple[str, str]], baselines: Mapping[str, str], history: History
) -> dict[Repetition, int]:
    """What to measure again so that both trials of each comparison are interleaved.

    `compared`: the keys of both; `baselines`: key → that of the trial's baseline. Returns how often each has been
    measured yet. What is to run beside something that is not finished, and both of a block that was measured apart;
    with their warm-up, and with their baselines: a metric that is computed with one compares two times.
    """
    found: dict[Repetition, int] = {}
    for keys in compared:
        both = [measurements(key, spec, history) for key in keys]
        pairs = nearest_pairs(*both)
        far = [] if is_interleaved(pairs) else blocks_apart(pairs)
        for key, its, others in zip(keys, both, reversed(both), strict=True):
            numbers = [number for number in its if number in far or number not in others]
            its_keys = [key, baselines[key]] if key in baselines else [key]
            again = [Repetition(each, number) for each in its_keys for number in numbers]
            if again:
                again += [
                    Repetition(each, number, warmup=True) for each in its_keys for number in range(1, spec.warmup + 1)
                ]
            found |= {each: len(history.measurements(each)) for each in again}
    return found


def is_comparable(metric: str, *trials: ScheduledTrial) -> bool:
    """Whether a metric of these trials can be compared; also where the engine of a stream is not known."""
    figure = to_figure_name(metric)
    if figure is None or figure.section != "streams" or figure.field not in _RATES:
        return True
    engines = [each.engines[figure.name] for each in trials if figure.name in each.engines]
    return len({traits_of(engine).in_memory for engine in engines}) < 2
