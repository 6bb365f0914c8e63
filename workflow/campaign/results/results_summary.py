"""The first sentence of a campaign's report: what ran, what was decided, and what is fastest by how much. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from workflow.campaign.file.trials import short_names, trial_text, value_in_words
from workflow.campaign.results.campaign_tables import varied
from workflow.campaign.results.results_model import (
    CampaignResults,
    ComparisonResult,
    MetricFacts,
    SearchResult,
    TrialCount,
    certain,
    machine_is_busy,
)
from workflow.formatting import plain_figure, plural


def results_summary(results: CampaignResults) -> str:
    """`32 of 32 repetitions succeeded; 2 comparisons decided; median load 0.4 on 2 cores; sst is the fastest: …`."""
    parts = [_search_text(each, results) for each in results.searches]
    parts += [_count_text(results.trials), _decided_text(results.comparisons), _load_text(results), _best_text(results)]
    return "; ".join(part for part in parts if part) + "."


def _count_text(trials: Sequence[TrialCount]) -> str:
    done, wanted = sum(each.succeeded for each in trials), sum(each.wanted for each in trials)
    text = f"{done} of {plural(wanted, 'repetition')} succeeded"
    failed, violated = sum(each.failed for each in trials), sum(each.violated for each in trials)
    left = wanted - done - failed
    more = [f"{failed} failed"] if failed else []
    more += [f"{left} still to run"] if left > 0 else []
    more += [f"{violated} did not meet an expectation"] if violated else []
    return ", ".join([text, *more])


def _decided_text(comparisons: Sequence[ComparisonResult]) -> str:
    if not comparisons:
        return ""
    undecided = sum(each.decision == "undecided" for each in comparisons)
    if undecided == len(comparisons):
        return f"{plural(undecided, 'comparison')} undecided"
    text = f"{plural(len(comparisons) - undecided, 'comparison')} decided"
    return f"{text}, {undecided} undecided" if undecided else text


def _load_text(results: CampaignResults) -> str:
    if results.load is None or (busy := machine_is_busy(results.load, results.cores)) is None:
        return ""
    load = f"median load {results.load:.1f} on {plural(results.cores, 'core')}"
    return f"the machine was busy: {load}" if busy else load


def _search_text(search: SearchResult, results: CampaignResults) -> str:
    """`the better of the last two of 8 trials: via=sst, 0.71 of the stages.s.step_s of via=bp5 [0.69, 0.74]`."""
    names = short_names([*search.at, *(key for its in search.left[:1] for key in its)])
    left = [trial_text(its, names) for its in search.left]
    among = plural(search.trials, "trial") + (f" with {trial_text(search.at, names)}" if search.at else "")
    if search.decision == "none":
        return f"none of {among} has a result"
    if search.decision == "unfinished":
        return f"the search among {among} is not finished: {len(left)} of them are left"
    metric = next(each for each in results.metrics if each.name == search.metric)
    ratio, reason = "", search.reason
    if search.ratio is not None:
        word = "of" if search.ratio < 1 else "times"
        ratio = f"{plain_figure(search.ratio)} {word} the {metric.of} of {left[1]}"
        if search.low is not None and search.high is not None:
            ratio += f" [{plain_figure(search.low)}, {plain_figure(search.high)}]"
    if search.decision == "found":
        best = "better of the last two" if ratio else "best"
        return f"the {best} of {among}: {left[0]}, {ratio or reason}"
    if reason == "same":
        reason = f"the same within {metric.threshold * 100:g} %"
    more = "; ".join(filter(None, (ratio and f"the first has {ratio}", reason)))
    return f"undecided which of {among} is the best: {' or '.join(left)}" + (f" ({more})" if more else "")


class _Best(NamedTuple):
    """The best value of one comparison: `text` tells by how much."""

    names: tuple[str, ...]
    text: str


def _best_text(results: CampaignResults) -> str:
    """What the metric and the key of the largest certain difference say, or those of the first comparison."""
    if all(each.decision == "undecided" for each in results.comparisons):
        return ""  # that has been said
    first, *_ = [*certain(results.comparisons), *results.comparisons]
    metric = next(each for each in results.metrics if each.name == first.metric)
    chosen = [each for each in results.comparisons if (each.metric, each.vary) == (first.metric, first.vary)]
    word = "fastest" if metric.unit in ("s", "B/s") else "best"
    best = [_best(group, metric) for group in _groups(chosen)]
    found = [each for each in best if each is not None]
    if not found:
        return f"it is not decided which is the {word}"
    if len({each.names for each in found}) > 1:
        keys = varied(each.at for each in chosen)
        names = short_names(keys)
        return f"which is the {word} depends on {' and '.join(names[key] for key in keys)}"
    names_text = " or ".join(found[0].names)
    if len(best) == 1:
        return f"{names_text} is the {word}: {found[0].text}"
    return f"{names_text} is the {word} in {len(found)} of {len(best)} cases; in the first of them {found[0].text}"


def _groups(comparisons: Iterable[ComparisonResult]) -> list[list[ComparisonResult]]:
    """Those with equal values of all other keys, which are compared with one value."""
    groups: dict[str, list[ComparisonResult]] = {}
    for each in comparisons:
        groups.setdefault(_identity(each.at, each.against), []).append(each)
    return list(groups.values())


def _identity(at: Mapping[str, object], against: object) -> str:
    return repr((sorted(at.items(), key=lambda item: item[0]), against))


def _best(group: Sequence[ComparisonResult], metric: MetricFacts) -> _Best | None:
    """The winner; values whose intervals overlap its own are named with it. None: none is known to be better."""
    better = [each for each in group if each.decision == "faster" and each.ratio is not None]
    if better:
        better.sort(key=lambda each: each.ratio or 0.0, reverse=metric.better == "more")
        winner = better[0]
        names = [_word(each.vary, each.value) for each in better if _overlap(each, winner)]
        return _Best(tuple(names), _ratio_text(winner, _word(winner.vary, winner.against), metric))
    if all(each.decision == "slower" for each in group):
        nearest = sorted(group, key=lambda each: each.ratio or 0.0, reverse=metric.better == "more")[0]
        against = _word(nearest.vary, nearest.against)
        text = f"{_word(nearest.vary, nearest.value)} has {_ratio_text(nearest, against, metric)}"
        return _Best((against,), text)
    return None


def _word(key: str, value: object) -> str:
    return value_in_words(key.rpartition(".")[2], value)


def _overlap(one: ComparisonResult, other: ComparisonResult) -> bool:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return one is other
    return one.low <= other.high and other.low <= one.high


def _ratio_text(comparison: ComparisonResult, against: str, metric: MetricFacts) -> str:
    """`0.71 of the time of none [0.69, 0.74]`; of what is no part, `1.3 times the rate of none`."""
    ratio = comparison.ratio or 0.0
    text = f"{plain_figure(ratio)} {'of' if ratio < 1 else 'times'} the {metric.title} of {against}"
    if comparison.low is None or comparison.high is None:
        return text
    return f"{text} [{plain_figure(comparison.low)}, {plain_figure(comparison.high)}]"
