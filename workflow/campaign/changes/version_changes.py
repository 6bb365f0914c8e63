"""The campaign of a gate → what changed from the old version to the new one. Pure.

The verdicts are those of the campaign's own comparisons, whose repetitions ran interleaved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from workflow.campaign.changes.changes_model import (
    CampaignChanges,
    FactChange,
    SideMedian,
    TrialChange,
    UnmatchedTrial,
)
from workflow.campaign.planning.both_versions import VERSION, WhichVersion
from workflow.campaign.results.results_model import CampaignResults

_SIDES: dict[WhichVersion, Literal["base", "new"]] = {"old": "base", "new": "new"}


def version_changes(
    results: CampaignResults,
    names: tuple[str, str],
    facts: Sequence[FactChange],
    unmatched: Iterable[tuple[WhichVersion, Mapping[str, Any]]],
    old_metrics: Iterable[str],
) -> CampaignChanges:
    """What changed, in the form of a comparison of two campaigns.

    Args:
        results: of the campaign that ran both versions.
        names: of the old and the new version, for people.
        facts: what is known of both.
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
        facts=list(facts),
        metrics=results.metrics,
        changes=changes,
        unmatched=[UnmatchedTrial(side=_SIDES[version], parameters=dict(its)) for version, its in unmatched],
        unmatched_metrics=dict.fromkeys(old_metrics, "base"),
        notes=[_content_note(results), *results.notes],
    )


def _content_note(results: CampaignResults) -> str:
    """Whether the two versions are the same program, by the first part of their keys."""
    keys: dict[str, set[str]] = {}
    for each in results.results:
        of = json.dumps({name: value for name, value in each.parameters.items() if name != VERSION}, sort_keys=True)
        keys.setdefault(of, set()).add(each.trial.rpartition("-")[0])
    different = sum(len(each) > 1 for each in keys.values())
    if not different:
        return "both versions have the same content: plan, programs, inputs and versions of packages"
    return f"the content of {different} of {len(keys)} trials differs: plan, programs, inputs or versions of packages"
