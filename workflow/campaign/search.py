"""The search of a campaign: which trials run once more, by successive halving. Pure.

Karnin, Koren and Somekh 2013, https://proceedings.mlr.press/v28/karnin13.html: every candidate runs once, the better
half runs once more, and so on until two are left, which run until they can be compared. What runs next follows from the
trials and the ledger alone, so that a search that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from workflow.campaign.campaign_directory import ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import History, Repetition
from workflow.campaign.statistics import FEWEST, repetitions_needed
from workflow.report_figures import Better, to_figure_name

Results = Mapping[str, Sequence[float | None]]
"""Key of a trial → the values of its repetitions that have ended, in their order; None: one failed, or has none."""


class Survivors(NamedTuple):
    """How far a search is."""

    left: tuple[str, ...]
    """The trials that can still be the best one, the best first as far as is known."""
    repetitions: Mapping[str, int]
    """Trial → how many repetitions of it have run, or are to run now."""
    finished: bool


def survivors(
    trials: Sequence[str],
    results: Results,
    *,
    better: Better = "less",
    most: int,
    repetitions: int,
    to_the_end: bool = False,
) -> Survivors:
    """Which trials go on.

    A trial of which a repetition failed, or has no value, does not. Of equal trials the first ones do.

    Args:
        trials: their keys, in the order of the file.
        results: what has been measured; values after the repetitions that are asked for count when these are.
        most: largest number of repetitions of all together.
        repetitions: largest number of repetitions of one trial.
        to_the_end: as if in each block that has not ended all trials were equal.
    """
    left, asked, block = tuple(trials), dict.fromkeys(trials, 1), 1
    while (ended := _have_ended(left, results, block)) or to_the_end:
        its = {each for each in left if None not in results.get(each, ())[:block]}
        whole = tuple(each for each in trials if each in its)
        left = (_ordered(whole, results, block, better) if ended else whole)[: max(2, (len(left) + 1) // 2)]
        free = most - sum(asked.values())
        more = min(repetitions - block, free // 2 if len(left) == 2 else min(1, free // max(1, len(left))))
        if len(left) < 2 or more < 1:
            return Survivors(left, asked, True)
        block += more
        asked.update(dict.fromkeys(left, block))
    return Survivors(left, asked, False)


def _have_ended(trials: Sequence[str], results: Results, block: int) -> bool:
    return all(len(results.get(each, ())) >= block for each in trials)


def _ordered(trials: Sequence[str], results: Results, block: int, better: Better) -> tuple[str, ...]:
    """The best median first; those without a value last."""

    def place(trial: str) -> tuple[bool, float]:
        values = [each for each in results.get(trial, ())[:block] if each is not None]
        middle = median(values) if values else 0.0
        return not values, -middle if better == "more" else middle

    return tuple(sorted(trials, key=place))


def fewest_repetitions(count: int, searches: int) -> tuple[int, int]:
    """(of all trials together, of each of the last two) that a search among so many trials needs for a verdict."""
    final = max(FEWEST, repetitions_needed(searches, "pairs"))
    total, block = count, 1
    while count > 2:
        count = (count + 1) // 2
        total, block = total + count, block + 1
    final = max(final, block)
    return total + 2 * (final - block), final


def search_groups(spec: CampaignSpec, trials: Sequence[ScheduledTrial]) -> list[list[ScheduledTrial]]:
    """The trials of each search: they differ in the keys that are searched only. A trial alone is not searched."""
    found: dict[str, list[ScheduledTrial]] = {}
    over = set(spec.search.over) if spec.search is not None else set()
    for trial in trials:
        if over and over <= trial.parameters.keys():
            found.setdefault(json.dumps(values_besides(over, trial), sort_keys=True), []).append(trial)
    return [group for group in found.values() if len(group) > 1]


def values_besides(keys: set[str], trial: ScheduledTrial) -> dict[str, object]:
    """The values of a trial without these keys."""
    return {key: value for key, value in trial.parameters.items() if key not in keys}


def search_state(spec: CampaignSpec, results: Results, *, to_the_end: bool = False) -> Survivors:
    """How far the search among the trials of these results is."""
    assert spec.search is not None
    figure, metric = to_figure_name(spec.search.best), search_metric(spec)
    assert figure is not None, "checked when the file was read"
    return survivors(
        list(results),
        results,
        better=spec.metrics[metric].better or figure.figure.better,
        most=spec.search.trials,
        repetitions=spec.repetitions,
        to_the_end=to_the_end,
    )


def search_metric(spec: CampaignSpec) -> str:
    """The name of the metric that decides: a campaign that is read has one of that figure."""
    return next(name for name, metric in spec.metrics.items() if spec.search and metric.of == spec.search.best)


def measured_values(spec: CampaignSpec, group: Sequence[ScheduledTrial], history: History) -> Results:
    """What the ledger holds of these trials."""
    return {each.key: list(_values(spec, each.key, history)) for each in group}


def _values(spec: CampaignSpec, key: str, history: History) -> list[float | None]:
    assert spec.search is not None
    found: list[float | None] = []
    for number in range(1, spec.repetitions + 1):
        each = Repetition(key, number)
        if history.succeeded(each):
            found.append(history.ended[each].figures.get(spec.search.best))
        elif history.failures.get(each, 0) > spec.retries:
            found.append(None)
        else:
            break
    return found


def asked_counts(
    spec: CampaignSpec, trials: Sequence[ScheduledTrial], history: History, *, to_the_end: bool = False
) -> dict[str, int]:
    """Trial → how many measured repetitions of it are asked for.

    `to_the_end`: as many as will have been when a search ends, at most. Which trials these are is not known before:
    as if those that need the most nodes went on.
    """
    asked = {each.key: spec.repetitions for each in trials}
    for group in search_groups(spec, sorted(trials, key=lambda each: -each.nodes) if to_the_end else trials):
        state = search_state(spec, measured_values(spec, group, history), to_the_end=to_the_end)
        asked.update(state.repetitions)
    return asked
