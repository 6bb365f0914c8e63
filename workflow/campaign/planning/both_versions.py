"""The campaign of `wf campaign gate`: two versions of a program, whose trials run interleaved. Pure.

Each trial appears twice, with `version: old` and `version: new` among its values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from workflow.campaign.file.campaign_spec import CampaignSpec, ComparisonRequest
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial

VERSION = "version"
"""What tells the two apart. No key of a pipeline has one word that is called so."""


def is_gate(trials: Iterable[Mapping[str, Any]]) -> bool:
    """Whether these values of trials are those of two versions."""
    return any(VERSION in parameters for parameters in trials)


def gate_spec(spec: CampaignSpec) -> CampaignSpec:
    """A campaign file whose only comparison is that of the two versions, interleaved whatever the file says."""
    request = ComparisonRequest(vary=VERSION, against="old", metrics=None)
    order = spec.order.model_copy(update={"by": "blocks"})
    return spec.model_copy(update={"comparisons": [request], "order": order, "search": None})


def both_versions(old: PlannedCampaign, new: PlannedCampaign) -> PlannedCampaign:
    """The trials that both have, the file and the options of the new one."""
    common = {_point(each) for each in old.ready} & {_point(each) for each in new.ready}
    ready = [*_of_version("old", old, common), *_of_version("new", new, common)]
    campaign = replace(new.campaign, spec=gate_spec(new.campaign.spec))
    return PlannedCampaign(campaign, tuple(ready), (*old.refused, *new.refused))


def have_one_content(old: PlannedCampaign, new: PlannedCampaign) -> bool:
    """Whether no trial that both have differs in plan, programs, inputs or versions of packages."""
    keys = {_point(each): each.key for each in old.ready}
    return all(keys.get(_point(each), each.key) == each.key for each in new.ready)


def trials_without(its: PlannedCampaign, other: PlannedCampaign) -> Iterator[Mapping[str, Any]]:
    """The trials of one version that the other one does not have."""
    known = {_point(each) for each in other.ready}
    for each in its.ready:
        if not each.is_baseline and _point(each) not in known:
            yield each.trial.parameters


def _of_version(version: str, planned: PlannedCampaign, common: set[str]) -> Iterator[ReadyTrial]:
    """Its trials, and the baselines of these."""
    trials = [each for each in planned.ready if not each.is_baseline and _point(each) in common]
    baselines = {each.baseline for each in trials}
    for each in [*trials, *(one for one in planned.ready if one.is_baseline and one.key in baselines)]:
        parameters = {VERSION: version, **each.trial.parameters}
        yield replace(
            each,
            trial=replace(each.trial, parameters=parameters),
            content=replace(each.content, parameters=parameters),
            key=f"{each.key}-{version}",  # versions of equal content are two trials all the same
            baseline=each.baseline and f"{each.baseline}-{version}",
        )


def _point(trial: ReadyTrial) -> str:
    return json.dumps([trial.trial.parameters, trial.is_baseline], sort_keys=True)
