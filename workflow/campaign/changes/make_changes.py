"""Two campaigns → ratios and verdicts for every metric of every trial that both have. Pure.

Trials are matched by their parameters: content keys differ between versions of a program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal

from workflow.campaign.changes.changes_model import CampaignChanges, FactChange, UnmatchedTrial
from workflow.campaign.changes.compared_campaign import ComparedCampaign
from workflow.campaign.file.trials import short_names, trial_text
from workflow.campaign.results.campaign_tables import varied
from workflow.campaign.results.comparisons import ComparedTrials, why_untested
from workflow.campaign.results.results_model import CampaignResults, ComparisonResult, MetricFacts, TrialResult
from workflow.campaign.statistics import ALPHA, FEWEST, repetitions_needed, smallest_p
from workflow.campaign.verdicts import decide_together
from workflow.errors import WfError
from workflow.formatting import moment, plural
from workflow.spec.suggest import listing

CHECKSUM_LENGTH = 12
# What identifies a trial in both campaigns → name of a metric → what was measured.
MeasuredTrials = Mapping[str, Mapping[str, TrialResult]]


def make_changes(base: ComparedCampaign, new: ComparedCampaign, tolerance: float | None = None) -> CampaignChanges:
    """Compare `new` with `base`.

    Args:
        base: what is compared with.
        new: what the verdicts are about.
        tolerance: smallest relative difference that counts; by default the threshold of each metric in `new`.

    Raises:
        WfError: no trial or no metric is in both; a metric means something else in the two.
    """
    metrics = _common_metrics(base, new)
    if tolerance is not None:
        metrics = [each.model_copy(update={"threshold": tolerance}) for each in metrics]
    before, after = _measured(base.results), _measured(new.results)
    common = [trial for trial in after if trial in before]
    if not common:
        hint = "trials are matched by the keys that vary and their values"
        raise WfError(_nothing_common(base.results, new.results), hint)
    asked = [
        _compared(metric, (base.source, new.source), before[trial], after[trial])
        for metric in metrics
        for trial in common
    ]
    verdicts = decide_together([each.samples("ranks") for each in asked])
    changes = [each.result(verdict) for each, verdict in zip(asked, verdicts, strict=True)]
    names = [{each.name for each in side.results.metrics} for side in (base, new)]
    return CampaignChanges(
        base=base.source,
        new=new.source,
        facts=_facts(base.results, new.results),
        metrics=metrics,
        changes=changes,
        unmatched=[
            *unmatched("base", (_parameters(its) for trial, its in before.items() if trial not in after)),
            *unmatched("new", (_parameters(its) for trial, its in after.items() if trial not in before)),
        ],
        unmatched_metrics={
            **dict.fromkeys(sorted(names[0] - names[1]), "base"),
            **dict.fromkeys(sorted(names[1] - names[0]), "new"),
        },
        notes=[_content_note([(before[trial], after[trial]) for trial in common]), *_notes(base, new, changes)],
    )


def unmatched(side: Literal["base", "new"], trials: Iterable[Mapping[str, object]]) -> list[UnmatchedTrial]:
    """Trials that one side alone has, by their values."""
    return [UnmatchedTrial(side=side, parameters=dict(each)) for each in trials]


def _measured(results: CampaignResults) -> MeasuredTrials:
    found: dict[str, dict[str, TrialResult]] = {}
    for each in results.results:
        found.setdefault(json.dumps(each.parameters, sort_keys=True), {})[each.metric] = each
    return found


def _parameters(trial: Mapping[str, TrialResult]) -> Mapping[str, object]:
    return next(iter(trial.values())).parameters


def _compared(
    metric: MetricFacts, sources: tuple[str, str], before: Mapping[str, TrialResult], after: Mapping[str, TrialResult]
) -> ComparedTrials:
    at = _parameters(after)
    empty = TrialResult(
        trial="", parameters=dict(at), metric=metric.name, values=[], outliers=[], median=None, low=None, high=None
    )
    mine, other = after.get(metric.name, empty), before.get(metric.name, empty)
    return ComparedTrials(metric, "campaign", sources[1], sources[0], at, mine, other, why_untested(mine, other))


def _common_metrics(base: ComparedCampaign, new: ComparedCampaign) -> list[MetricFacts]:
    """The metrics of both. Raises WfError where there is none, or where one is not the same thing in both."""
    before, after = ({each.name: each for each in side.results.metrics} for side in (base, new))
    common = [name for name in after if name in before]
    if not common:
        text = f"no metric is in both campaigns: {base.source} has {listing(before)}, {new.source} has {listing(after)}"
        raise WfError(text, "use the same names in both campaign files; renaming a metric needs no new run")
    for name in common:
        one, other = before[name], after[name]
        for what, old, now in (
            ("measures", one.of, other.of),
            ("has the unit", one.unit, other.unit),
            ("has `better:`", one.better, other.better),
        ):
            if old != now:
                text = f"`{name}` {what} {old} in {base.source} and {now} in {new.source}"
                hint = "write the same in both campaign files, or give the metric another name in one of them"
                raise WfError(text, hint)
    return [after[name] for name in common]


def _nothing_common(base: CampaignResults, new: CampaignResults) -> str:
    """With a trial of each, so that the difference is seen."""
    keys = varied(each.parameters for side in (base, new) for each in side.results)
    names = short_names(keys)
    one, other = (trial_text(side.results[0].parameters, names) if side.results else "nothing" for side in (base, new))
    return f"no trial is in both campaigns: one has {one}, the other {other}"


def _facts(base: CampaignResults, new: CampaignResults) -> list[FactChange]:
    """What is known of both. Checksums are cut as keys are."""
    installed = {**base.versions, **new.versions} if base.versions and new.versions else {}
    before, after = (
        {
            "campaign": side.campaign,
            "site": side.site,
            "host": side.host,
            "measured": "" if side.started is None else moment(side.started),
            **dict.fromkeys(installed, "not installed"),
            **side.versions,
            **{f"{name} file": checksum[:CHECKSUM_LENGTH] for name, checksum in side.checksums.items()},
            "load average": "" if side.load is None else f"{side.load:.1f}",
        }
        for side in (base, new)
    )
    return [
        FactChange(fact=fact, base=value, new=after[fact])
        for fact, value in before.items()
        if value and after.get(fact)
    ]


def _content_note(common: Sequence[tuple[Mapping[str, TrialResult], Mapping[str, TrialResult]]]) -> str:
    """Whether the two measured the same thing, by content keys."""
    keys = [[next(iter(trial.values())).trial for trial in both] for both in common]
    different = sum(before != after for before, after in keys)
    if not different:
        return "the trials of both have the same content: plan, programs, inputs and versions"
    of = f"{different} of {plural(len(common), 'trial')}" if different < len(common) else "all trials"
    return f"the content of {of} differs: plan, programs, inputs or versions"


def _notes(base: ComparedCampaign, new: ComparedCampaign, changes: Sequence[ComparisonResult]) -> list[str]:
    notes = []
    for side in (base, new):
        failed = sum(each.failed for each in side.results.trials)
        if failed:
            notes.append(f"{plural(failed, 'repetition')} of {side.source} failed and are not included in the figures")
    counts = [min(each.count, each.count_against) for each in changes if each.count and each.count_against]
    typical = int(median(counts)) if counts else FEWEST
    if any(count < FEWEST for count in counts):
        notes.append(f"a verdict needs at least {FEWEST} repetitions on each side")
    elif smallest_p(typical, typical) * len(counts) > ALPHA:
        text = f"{plural(typical, 'repetition')} on each side cannot show a difference among {len(counts)} ratios"
        notes.append(f"{text}: {repetitions_needed(len(counts))} or more can, or fewer metrics")
    if base.results == new.results:
        notes.append("both sides are the same campaign")
    return notes
