"""The search of a campaign: which trials run once more, by successive halving. Pure.

Karnin, Koren and Somekh 2013, https://proceedings.mlr.press/v28/karnin13.html: every candidate runs once, the better
half runs once more, and so on until two are left, which run until they can be compared. What runs next follows from the
trials and the ledger alone, so that a search that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import NamedTuple

from workflow.campaign.campaign_directory import ScheduledTrial, to_trials
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import History, Repetition
from workflow.campaign.planning.planned_trials import PlannedCampaign
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
    only_failed: bool = True
    """Whether all others have failed: none dropped out because it was in the worse half."""


def survivors(
    results: Results, *, better: Better = "less", most: int, repetitions: int, to_the_end: bool = False
) -> Survivors:
    """Which trials go on.

    A trial of which a repetition failed, or has no value, does not. Of equal trials the first ones do.

    Args:
        results: what has been measured of all trials, in the order of the file; values after the repetitions that are
            asked for count when these are.
        most: largest number of repetitions of all together.
        repetitions: largest number of repetitions of one trial.
        to_the_end: as if in each block that has not ended all trials were equal.
    """
    left, asked, block, only_failed = tuple(results), dict.fromkeys(results, 1), 1, True
    while (ended := all(len(results[each]) >= block for each in left)) or to_the_end:
        kept = max(2, (len(left) + 1) // 2)
        its = {each for each in left if None not in results[each][:block]}
        whole = tuple(each for each in results if each in its)
        left = (_ordered(whole, results, block, better) if ended else whole)[:kept]
        only_failed = only_failed and len(whole) <= kept
        free = most - sum(asked.values())
        more = min(repetitions - block, free // 2 if len(left) == 2 else min(1, free // max(1, len(left))))
        if len(left) < 2 or more < 1:
            return Survivors(left, asked, True, only_failed)
        block += more
        asked.update(dict.fromkeys(left, block))
    return Survivors(left, asked, False, only_failed)


def _ordered(trials: Sequence[str], results: Results, block: int, better: Better) -> tuple[str, ...]:
    """The best median first. All have their values."""
    sign = -1 if better == "more" else 1
    return tuple(sorted(trials, key=lambda each: sign * median(value or 0.0 for value in results[each][:block])))


def fewest_repetitions(count: int, searches: int) -> tuple[int, int]:
    """(of all trials together, of each of the last two) that a search among so many trials needs for a verdict."""
    each = max(FEWEST, repetitions_needed(searches, "pairs"), (count - 1).bit_length())  # these until two are left
    trials = {str(number): () for number in range(count)}
    state = survivors(trials, most=count * each, repetitions=each, to_the_end=True)
    return sum(state.repetitions.values()), each


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


def search_states(
    spec: CampaignSpec, trials: Sequence[ScheduledTrial], history: History, *, to_the_end: bool = False
) -> list[tuple[list[ScheduledTrial], Survivors]]:
    """The trials of each search, and how far it is."""
    if spec.search is None:
        return []
    figure = to_figure_name(spec.search.best)
    assert figure is not None, "checked when the file was read"
    limits = partial(survivors, most=spec.search.trials, repetitions=spec.repetitions, to_the_end=to_the_end)
    better = next(each.better for each in spec.metrics.values() if each.of == spec.search.best) or figure.figure.better
    groups = search_groups(spec, trials)
    return [(group, limits(_measured(spec, group, history), better=better)) for group in groups]


def _measured(spec: CampaignSpec, group: Sequence[ScheduledTrial], history: History) -> Results:
    """What the ledger holds of these trials."""
    assert spec.search is not None
    found: dict[str, list[float | None]] = {trial.key: [] for trial in group}
    for key, its in found.items():
        for each in (Repetition(key, number) for number in range(1, spec.repetitions + 1)):
            if history.succeeded(each):
                its.append(history.ended[each].figures.get(spec.search.best))
            elif history.failures.get(each, 0) > spec.retries:
                its.append(None)
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
    ordered = sorted(trials, key=lambda each: -each.nodes) if to_the_end else trials
    for _, state in search_states(spec, ordered, history, to_the_end=to_the_end):
        asked.update(state.repetitions)
    return asked


def asked_repetitions(planned: PlannedCampaign, history: History, *, to_the_end: bool = False) -> list[Repetition]:
    """The repetitions that a campaign asks for: all, or of a search those of its trials that go on.

    `to_the_end`: as many as there will be at the end of the search.
    """
    if planned.spec.search is None:
        return planned.repetitions
    asked = asked_counts(planned.spec, to_trials(planned), history, to_the_end=to_the_end)
    return [each for each in planned.repetitions if each.warmup or each.number <= asked[each.key]]
