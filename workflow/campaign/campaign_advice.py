"""What to know before a campaign runs: its time and cost, and whether its repetitions can show anything. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from workflow.campaign.campaign_directory import to_trials
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.file.trials import short_names, trial_text
from workflow.campaign.ledger import History, Repetition
from workflow.campaign.planning.content_key import same_runs
from workflow.campaign.planning.planned_trials import PlannedCampaign, plan_notes
from workflow.campaign.results.comparisons import count_comparisons, is_comparable
from workflow.campaign.search import asked_repetitions, fewest_repetitions, search_groups
from workflow.campaign.statistics import FEWEST, choose_test, repetitions_needed
from workflow.errors import Problem, Severity, to_message, to_notes
from workflow.formatting import duration, node_hours, plural, size
from workflow.plan.plan_model import Plan
from workflow.report_figures import to_figure_name
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import Node


@dataclass(frozen=True)
class CampaignCost:
    """What all repetitions together take, those of a search at most; None where it is not known."""

    repetitions: int
    time_s: float | None
    node_hours: float | None


def expected_cost(planned: PlannedCampaign) -> CampaignCost:
    """The cost by the `expected` time of a repetition."""
    asked = asked_repetitions(planned, History(), to_the_end=True)
    count, expected = len(asked), planned.spec.expected
    if expected is None:
        return CampaignCost(count, None, None)
    node_s = sum(planned.by_key[each.key].nodes for each in asked) * expected
    return CampaignCost(count, count * expected, node_s / 3600)


def advise_campaign(planned: PlannedCampaign) -> list[Problem]:
    """All that can be said before it runs: errors, warnings and notes with their places in the campaign file."""
    search = planned.campaign.root.child("search")
    ignored = search is not None and search.value is not None and planned.spec.search is None  # by a gate
    return [
        *budget_problems(planned),
        *(search_problems(planned) if planned.spec.search is not None else repetition_advice(planned)),
        *empty_comparisons(planned),
        *equal_trials(planned),
        *times_without_readers(planned),
        *to_notes(["`search` has no effect: a gate runs all trials of both versions"] if ignored else []),
        *to_notes(plan_notes(planned)),
    ]


def search_problems(planned: PlannedCampaign) -> list[Problem]:
    """That a search has nothing to search, or ends before it can decide."""
    spec, root, search = planned.spec, planned.campaign.root, planned.spec.search
    if search is None or planned.refused:
        return []
    groups = search_groups(spec, to_trials(planned))
    if not groups:
        return [problem_at(root, ("search", "over"), "no two trials differ in these keys only", "give more values")]
    count = max(map(len, groups))
    total, each = fewest_repetitions(count, len(groups))
    why = f"of {count} trials the better half runs again until two are left, and these run {each} times for a verdict"
    found = []
    if not all(is_comparable(search.best, *group) for group in groups):
        message = f"{search.best} of a file and of a stream cannot be compared"
        hint = "write `best: run.wall_s` or another time, or search each of the two in a campaign of its own"
        found.append(problem_at(root, ("search", "best"), message, hint))
    if search.trials < total:
        message = f"{plural(search.trials, 'repetition')} are too few: {why}"
        found.append(problem_at(root, ("search", "trials"), message, f"`trials: {total}` or more, or fewer values"))
    if spec.repetitions < each:
        message = f"{plural(spec.repetitions, 'repetition')} per trial are too few: {why}"
        found.append(_at_repetitions(root, message, f"`repetitions: {each}` or more", "error"))
    return found


def times_without_readers(planned: PlannedCampaign) -> list[Problem]:
    """That times of a stage are compared of which some have the work of its readers in them, and some have not."""
    found = []
    for name, metric in planned.spec.metrics.items():
        figure = to_figure_name(metric.of)
        if figure is None or figure.section != "stages" or figure.figure.unit != "s":
            continue
        streams = [stream for each in planned.ready for stream in each.plan.streams if stream.writer == figure.name]
        after = sorted({stream.name for stream in streams if stream.coupling == "after"})
        if after and any(stream.coupling != "after" for stream in streams if stream.name in after):
            text = (
                f"metric {name}: {metric.of} has the work of the readers of {' and '.join(after)} in it where they "
                f"read while {figure.name} runs, and not where they read afterwards; `run.wall_s` has all of it"
            )
            found.append(to_message("note", text))
    return found


def equal_trials(planned: PlannedCampaign) -> list[Problem]:
    """Trials that differ only in a setting that has no effect here: each value once, with the first trial like it."""
    trials = {each.key: each.trial for each in planned.ready}
    names = short_names(list(dict.fromkeys(key for each in trials.values() for key in each.parameters)))
    found: dict[tuple[str, int, int], Problem] = {}
    for key, first in same_runs({each.key: each.content for each in planned.ready}).items():
        if key == first:
            continue
        one, other = trials[first], trials[key]
        keys = [name for name, value in other.parameters.items() if one.parameters.get(name) != value]
        both = " and ".join(f"`{trial_text(trial.parameters, names)}`" for trial in (one, other))
        text = f"{both} run the same: {', '.join(keys)} has no effect with the ADIOS2 that is here"
        varied = next((each for each in other.settings if each.key in keys), None)
        place = varied.value.place if varied is not None else other.place
        found.setdefault(place, Problem(*place, "", text, "leave one of them out with `exclude`", "warning"))
    return list(found.values())


def budget_problems(planned: PlannedCampaign) -> list[Problem]:
    """That the campaign costs more than its budget."""
    cost, budget, root = expected_cost(planned), planned.spec.budget, planned.campaign.root
    found = []
    hint = "fewer values or repetitions, a shorter `expected`, or a larger budget"
    if cost.time_s is not None and budget.time is not None and cost.time_s > budget.time:
        runs = f"{plural(cost.repetitions, 'repetition')} of {duration(planned.spec.expected)}"
        message = f"{runs} take {duration(cost.time_s)}, more than {duration(budget.time)}"
        found.append(problem_at(root, ("budget", "time"), message, hint))
    if cost.node_hours is not None and budget.node_hours is not None and cost.node_hours > budget.node_hours:
        most = "" if planned.spec.search is None else "at most "
        message = f"all repetitions take {most}{node_hours(cost.node_hours)}, more than {budget.node_hours:g}"
        its = problem_at(root, ("budget", "node_hours"), message, hint)
        found.append(_as(its, "warning" if most else "error"))
    if cost.time_s is None and (budget.time is not None or budget.node_hours is not None):
        message = "how long a repetition takes is not known: the campaign stops when the budget is spent"
        found.append(_as(problem_at(root, ("budget",), message, "add `expected: 20 s`", at_key=True), "note"))
    return found


def repetition_advice(planned: PlannedCampaign) -> list[Problem]:
    """That the repetitions are too few: one message, which says what each number is for."""
    spec, root = planned.spec, planned.campaign.root
    count = plural(spec.repetitions, "repetition")
    comparisons = _count_comparisons(planned)
    if not comparisons:
        message = f"{count} per trial: the interval of a median needs {FEWEST}"
        hint = f"`repetitions: {FEWEST}` or more"
        return [_at_repetitions(root, message, hint, "warning")] if spec.repetitions < FEWEST else []
    verdict = max(FEWEST, repetitions_needed(comparisons, "ranks"))  # there is none without an interval
    pairs = repetitions_needed(comparisons, "pairs")
    hint = f"`repetitions: {pairs}` or more, or fewer comparisons"
    among = plural(comparisons, "comparison")
    if spec.repetitions < verdict:
        message = (
            f"{count} per trial are too few for a verdict: the interval of a median needs {FEWEST}, a verdict with "
            f"{among} needs {verdict}, and a comparison in pairs, within the blocks, needs {pairs}"
        )
        return [_at_repetitions(root, message, hint, "warning")]
    if spec.repetitions < pairs:
        message = (
            f"{count} per trial are too few to compare in pairs, within the blocks: {among} need {pairs}. Trials are "
            "compared by ranks instead, where a drift of the machine can hide differences"
        )
        return [_at_repetitions(root, message, hint, "note")]
    return []


def empty_comparisons(planned: PlannedCampaign) -> list[Problem]:
    """Comparisons for which no two trials differ in that key only."""
    trials = to_trials(planned)
    if planned.refused:  # their messages say why; which pairs they leave is not known
        return []
    found = []
    for index, request in enumerate(planned.spec.comparisons):
        alone: CampaignSpec = planned.spec.model_copy(update={"comparisons": [request]})
        if planned.ready and not count_comparisons(alone, trials):
            message = f"no two trials differ only in `{request.vary}`"
            hint = "compare a key of the matrix"
            found.append(_as(problem_at(planned.campaign.root, ("comparisons", index), message, hint), "warning"))
    return found


class _DataSize(NamedTuple):
    """Bytes that stages write, as far as they are known; `is_all`: those of each repetition have been measured."""

    bytes: int
    is_all: bool

    @property
    def text(self) -> str:
        if self.is_all:
            return f"about {size(self.bytes)} by what has been measured"
        return f"at least {size(self.bytes)}" if self.bytes else "how much is not known before it has run"


def data_advice(planned: PlannedCampaign, history: History, directory: Path, free_bytes: int | None) -> list[Problem]:
    """What becomes of the data that the stages write, and how much it is.

    That data are removed is a note without a place: `wf campaign run` shows it, too. So is a warning that there is no
    room for those that stay. `free_bytes`: of the disk of the campaign's directory; None: not known.
    """
    asked = asked_repetitions(planned, history, to_the_end=True)
    left = [each for each in asked if not history.succeeded(each)]
    if planned.spec.keep == "records":
        its = _data_size(planned, left, history)
        if not left or its == (0, True):
            return []
        text = (
            f"the data that the stages write are removed after each repetition that succeeds ({its.text}); wf's "
            "records, the logs and figures.json stay"
        )
        return [to_message("note", text, "`keep: all` in the campaign file, the default, keeps them")]
    its, more = (_data_size(planned, which, history) for which in (asked, left))
    if its == (0, True):
        return []
    text = f"the data that the stages write stay in {os.path.relpath(directory / 'runs')}: {its.text}"
    if too_much := free_bytes is not None and more.bytes > free_bytes:
        text += f", of which {size(more.bytes)} are still to be written, and {size(free_bytes or 0)} are free there"
    root, hint = planned.campaign.root, "`keep: records` removes them after each repetition that succeeds"
    found = problem_at(root, ("keep",), text, hint)
    if root.child("keep") is None:
        found = found._replace(line=0, column=0)  # no line of the file says it
    return [_as(found, "warning" if too_much else "note")]


def _data_size(planned: PlannedCampaign, repetitions: list[Repetition], history: History) -> _DataSize:
    """Of all these repetitions: the median of those of the trial that were measured, else what its plan tells."""
    measured: dict[str, list[int]] = {}
    for each, attempt in history.ended.items():
        if attempt.state == "succeeded" and attempt.data_bytes is not None:
            measured.setdefault(each.key, []).append(attempt.data_bytes)
    of_trial = {
        key: int(median(measured[key])) if key in measured else _planned_bytes(each.plan)
        for key, each in planned.by_key.items()
    }
    total = sum(of_trial[each.key] for each in repetitions)
    return _DataSize(total, all(each.key in measured for each in repetitions))


def _planned_bytes(plan: Plan) -> int:
    """Bytes of the files of the streams whose steps have a known number and size; other files are not known."""
    found = 0
    for stream in plan.streams:
        if not stream.traits.in_memory and stream.keep and stream.step_size is not None:
            found += (plan.stage(stream.writer).end(stream.name, "write").steps or 0) * stream.step_size
    return found


def compares_by_ranks(planned: PlannedCampaign) -> bool:
    """Whether it makes comparisons by ranks, for which it needs scipy."""
    count = _count_comparisons(planned)
    return count > 0 and choose_test(planned.spec.repetitions, count) == "ranks"


def _count_comparisons(planned: PlannedCampaign) -> int:
    return count_comparisons(planned.spec, [each for each in to_trials(planned) if not each.is_baseline])


def _at_repetitions(root: Node, message: str, hint: str, level: Severity) -> Problem:
    return _as(problem_at(root, ("repetitions",), message, hint), level)


def _as(problem: Problem, level: Severity) -> Problem:
    return problem._replace(level=level)
