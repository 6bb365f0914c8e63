"""Two campaigns → ratios and verdicts for every metric of every trial that both have. Pure.

Trials are matched by their parameters: content keys differ between versions of a program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from workflow.campaign.changes.changes_model import CampaignChanges, FactChange, SideMedian, TrialChange, UnmatchedTrial
from workflow.campaign.changes.compared_campaign import ComparedCampaign
from workflow.campaign.file.trials import short_names, trial_text, value_text
from workflow.campaign.planning.both_versions import VERSION, WhichVersion
from workflow.campaign.results.campaign_tables import column_names, varied
from workflow.campaign.results.results_model import CampaignResults, MetricFacts, TrialResult
from workflow.campaign.statistics import ALPHA, FEWEST, repetitions_needed, smallest_p
from workflow.campaign.verdicts import TwoSamples, decide_together
from workflow.errors import WfError
from workflow.formatting import moment, plural
from workflow.spec.suggest import did_you_mean, listing

CHECKSUM_LENGTH = 12
_SIDES: dict[WhichVersion, Literal["base", "new"]] = {"old": "base", "new": "new"}


@dataclass(frozen=True)
class _Side:
    """The trials of one campaign by what identifies them in both."""

    parameters: Mapping[str, Mapping[str, object]]
    keys: Mapping[str, str]
    """Trial → its content key."""
    measured: Mapping[tuple[str, str], TrialResult]
    """Metric and trial → what was measured."""

    def result(self, metric: str, trial: str) -> TrialResult | None:
        """None where the campaign has no such metric of that trial."""
        return self.measured.get((metric, trial))


def make_changes(
    base: ComparedCampaign, new: ComparedCampaign, metrics: Sequence[str] = (), tolerance: float | None = None
) -> CampaignChanges:
    """Compare `new` with `base`.

    Args:
        base: what is compared with.
        new: what the verdicts are about.
        metrics: names of metrics; all that both have where none is given.
        tolerance: smallest relative difference that counts; by default the threshold of each metric in `new`.

    Raises:
        WfError: no trial or no metric is in both; a metric is not known, or means something else in the two.
    """
    facts = _metrics(base, new, metrics, tolerance)
    in_texts = base.is_table or new.is_table
    before, after = _side(base.results, in_texts), _side(new.results, in_texts)
    common = [trial for trial in after.parameters if trial in before.parameters]
    if not common:
        hint = "trials are matched by the keys that vary and their values"
        raise WfError(_nothing_common(base.results, new.results), hint)
    changes = _changes(facts, common, before, after)
    unmatched = [
        *_unmatched("base", before, after),
        *_unmatched("new", after, before),
    ]
    return CampaignChanges(
        base=base.source,
        new=new.source,
        facts=_facts(base.results, new.results),
        metrics=facts,
        changes=changes,
        unmatched=unmatched,
        unmatched_metrics={} if metrics else _unmatched_metrics(base.results, new.results),
        notes=[_content_note(common, before, after), *_notes(base, new, changes)],
    )


def _side(results: CampaignResults, in_texts: bool) -> _Side:
    """In texts: keys and values as a table has them, which keeps neither whole names nor types."""
    names = column_names(varied(each.parameters for each in results.trials))

    def shown(parameters: Mapping[str, object]) -> Mapping[str, object]:
        return {names.get(k, k): value_text(v) for k, v in parameters.items()} if in_texts else parameters

    trials, keys, measured = {}, {}, {}
    for each in results.results:
        parameters = shown(each.parameters)
        identity = json.dumps(parameters, sort_keys=True)
        trials[identity] = parameters
        keys[identity] = each.trial
        measured[each.metric, identity] = each
    return _Side(trials, keys, measured)


def _metrics(
    base: ComparedCampaign, new: ComparedCampaign, asked: Sequence[str], tolerance: float | None
) -> list[MetricFacts]:
    """The metrics to compare. Raises WfError for one that is not in both, or is not the same thing in both."""
    before, after = ({each.name: each for each in side.results.metrics} for side in (base, new))
    known = [name for name in after if name in before]
    for name in asked:
        if name not in known:
            alone = base.source if name in before else new.source if name in after else ""
            text = f"only {alone} has the metric `{name}`" if alone else f"there is no metric `{name}`"
            raise WfError(text, did_you_mean(name, known) or f"metrics of both: {listing(known)}")
    if not known:
        text = f"no metric is in both campaigns: {base.source} has {listing(before)}, {new.source} has {listing(after)}"
        raise WfError(text, "use the same names in both campaign files; renaming a metric needs no new run")
    chosen = []
    for name in dict.fromkeys(asked or known):
        one, other = before[name], after[name]
        for what, old, now in (("measures", one.of, other.of), ("has the unit", one.unit, other.unit)):
            if old != now:
                text = f"`{name}` {what} {old} in {base.source} and {now} in {new.source}"
                raise WfError(text, "give the metric another name in one of the campaign files")
        if one.better != other.better:
            text = f"of `{name}` {one.better} is better in {base.source}, and {other.better} in {new.source}"
            hint = "write the same `better:` in both campaign files; a table always has the figure's own"
            raise WfError(text, hint)
        chosen.append(other.model_copy(update={"threshold": tolerance}) if tolerance is not None else other)
    return chosen


def _changes(facts: Sequence[MetricFacts], trials: Sequence[str], before: _Side, after: _Side) -> list[TrialChange]:
    """Every metric of every trial; the p-values of all are corrected together."""
    asked = [(metric, trial) for metric in facts for trial in trials]
    sides = [(before.result(metric.name, trial), after.result(metric.name, trial)) for metric, trial in asked]
    pairs = [
        TwoSamples(
            new.values if new else [],
            old.values if old else [],
            bool(old and new and old.is_whole and new.is_whole),
            metric.threshold,
            metric.better,
        )
        for (metric, _), (old, new) in zip(asked, sides, strict=True)
    ]
    found = []
    for (metric, trial), (old, new), verdict in zip(asked, sides, decide_together(pairs), strict=True):
        found.append(
            TrialChange(
                parameters=dict(after.parameters[trial]),
                metric=metric.name,
                base=SideMedian.of(old),
                new=SideMedian.of(new),
                **verdict.ratio._asdict(),
                test=verdict.test,
                p=verdict.p,
                corrected_p=verdict.corrected_p,
                decision=verdict.decision,
                reason=verdict.reason,
            )
        )
    return found


def _unmatched(side: Literal["base", "new"], its: _Side, other: _Side) -> Iterator[UnmatchedTrial]:
    for trial, parameters in its.parameters.items():
        if trial not in other.parameters:
            yield UnmatchedTrial(side=side, parameters=dict(parameters))


def _unmatched_metrics(base: CampaignResults, new: CampaignResults) -> dict[str, Literal["base", "new"]]:
    before, after = ({each.name for each in side.metrics} for side in (base, new))
    found: dict[str, Literal["base", "new"]] = dict.fromkeys(sorted(before - after), "base")
    return found | dict.fromkeys(sorted(after - before), "new")


def _nothing_common(base: CampaignResults, new: CampaignResults) -> str:
    """With a trial of each, so that the difference is seen."""
    keys = varied(each.parameters for side in (base, new) for each in side.results)
    names = short_names(keys)
    one, other = (trial_text(side.results[0].parameters, names) if side.results else "nothing" for side in (base, new))
    return f"no trial is in both campaigns: one has {one}, the other {other}"


# A fact of the versions of a gate.
PYTHON = "Python of components"


def _facts(base: CampaignResults, new: CampaignResults) -> list[FactChange]:
    """What is known of both. Checksums are cut as keys are."""
    sides = []
    for side in (base, new):
        files = {f"{name} file": checksum[:CHECKSUM_LENGTH] for name, checksum in side.checksums.items()}
        load = {} if side.load is None else {"load average": f"{side.load:.1f}"}
        began = {} if side.started is None else {"measured": moment(side.started)}
        place = {"campaign": side.campaign, "site": side.site, "host": side.host}
        sides.append({**place, **began, **side.versions, **files, **load})
    before, after = sides
    return [
        FactChange(fact=fact, base=before[fact], new=after[fact]) for fact in before if before[fact] and after.get(fact)
    ] + [
        FactChange(
            fact=name, base=base.versions.get(name, "not installed"), new=new.versions.get(name, "not installed")
        )
        for name in {**base.versions, **new.versions}
        if base.versions and new.versions and (name in base.versions) != (name in new.versions)
    ]


def _content_note(common: Sequence[str], before: _Side, after: _Side) -> str:
    """Whether the two measured the same thing, by content keys."""
    different = sum(before.keys[trial] != after.keys[trial] for trial in common)
    if not different:
        return "the trials of both have the same content: plan, programs, inputs and versions"
    of = f"{different} of {plural(len(common), 'trial')}" if different < len(common) else "all trials"
    return f"the content of {of} differs: plan, programs, inputs or versions"


def _notes(base: ComparedCampaign, new: ComparedCampaign, changes: Sequence[TrialChange]) -> list[str]:
    notes = [
        f"{side.source} is a table: where and with which versions it was measured is not known"
        for side in (base, new)
        if side.is_table
    ]
    for side in (base, new):
        failed = sum(each.failed for each in side.results.trials)
        if failed:
            notes.append(f"{plural(failed, 'repetition')} of {side.source} failed and are not included in the figures")
    counts = [(each.base.count, each.new.count) for each in changes if each.base.count and each.new.count]
    few = [pair for pair in counts if min(pair) < FEWEST]
    if few:
        notes.append(f"a verdict needs at least {FEWEST} repetitions on each side")
    elif counts:
        typical = int(median(min(pair) for pair in counts))
        if smallest_p(typical, typical) * len(counts) > ALPHA:
            text = f"{plural(typical, 'repetition')} on each side cannot show a difference among {len(counts)} ratios"
            notes.append(f"{text}: {repetitions_needed(len(counts))} or more can, or fewer metrics by --metric")
    if base.results == new.results:
        notes.append("both sides are the same campaign")
    return notes


def version_changes(
    results: CampaignResults,
    names: tuple[str, str],
    facts: Sequence[FactChange],
    unmatched: Iterable[tuple[WhichVersion, Mapping[str, Any]]],
    old_metrics: Iterable[str],
) -> CampaignChanges:
    """What changed from the old version of a gate to the new one, in the form of a comparison of two campaigns.

    The verdicts are those of the campaign's own comparisons, whose repetitions ran interleaved.

    Args:
        results: of the campaign that ran both versions.
        names: of the old and the new version, for people.
        facts: what is known of both besides where, when and with what the campaign ran.
        unmatched: the trials that one version alone has.
        old_metrics: the names of metrics that the old version's file has and the new one's has not.
    """
    measured = {(each.metric, json.dumps(each.parameters, sort_keys=True)): each for each in results.results}

    def median_of(metric: str, at: Mapping[str, Any], version: WhichVersion) -> SideMedian:
        return SideMedian.of(measured[metric, json.dumps({**at, VERSION: version}, sort_keys=True)])

    changes = [
        TrialChange(
            parameters=each.at,
            metric=each.metric,
            base=median_of(each.metric, each.at, "old"),
            new=median_of(each.metric, each.at, "new"),
            ratio=each.ratio,
            low=each.low,
            high=each.high,
            test=each.test,
            p=each.p,
            corrected_p=each.corrected_p,
            decision=each.decision,
            reason=each.reason,
        )
        for each in results.comparisons
        if each.vary == VERSION
    ]
    return CampaignChanges(
        base=names[0],
        new=names[1],
        facts=[*facts, *_facts_of_both(results, facts)],
        metrics=results.metrics,
        changes=changes,
        unmatched=[UnmatchedTrial(side=_SIDES[version], parameters=dict(its)) for version, its in unmatched],
        unmatched_metrics=dict.fromkeys(old_metrics, "base"),
        notes=[_version_note(results), *results.notes],
    )


def _facts_of_both(results: CampaignResults, others: Sequence[FactChange]) -> Iterator[FactChange]:
    """Where, when and with what the two versions ran side by side; `others` are of one version each."""
    own = {f"{name} file" for name in results.checksums}  # of NEW's
    if any(each.base != each.new for each in others if each.fact == PYTHON):
        own |= results.versions.keys()
    return (each for each in _facts(results, results) if each.fact not in own)


def _version_note(results: CampaignResults) -> str:
    """Whether the two versions are the same program, by the first part of their keys."""
    keys: dict[str, set[str]] = {}
    for each in results.results:
        of = json.dumps({name: value for name, value in each.parameters.items() if name != VERSION}, sort_keys=True)
        keys.setdefault(of, set()).add(each.trial.rpartition("-")[0])
    different = sum(len(each) > 1 for each in keys.values())
    if not different:
        return "both versions have the same content: plan, programs, inputs and versions of packages"
    return f"the content of {different} of {len(keys)} trials differs: plan, programs, inputs or versions of packages"
