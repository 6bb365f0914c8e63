"""A campaign as entities of a Workflow Run RO-Crate: one action per trial. Pure.

A trial of ten repetitions is one action, from the start of the first to the end of the last: a campaign of 2,000
repetitions stays readable. Each repetition is a row of the table and a line of the ledger, which the archive holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.file.trials import short_names, trial_text, value_text
from workflow.campaign.ledger import Attempt, History
from workflow.campaign.results.samples import all_repetitions
from workflow.crate.run_entities import Entity, action, agent, entity, reference, references, value
from workflow.formatting import plural
from workflow.provenance.provenance_model import Provenance

ORGANIZE = "#wf-campaign"


@dataclass(frozen=True)
class CrateCampaign:
    """A campaign with all that its entities tell."""

    spec: CampaignSpec
    schedule: Schedule
    history: History
    provenance: Provenance
    """Of one of its runs."""
    pipeline: str
    """Id of the pipeline file."""
    results: tuple[str, ...]
    """Ids of the table and the report."""


def parameter_ids(campaign: CrateCampaign) -> list[str]:
    """The parameters of the pipeline that vary."""
    return [_parameter(key) for key in _keys(campaign.schedule)]


def campaign_entities(campaign: CrateCampaign, controls: Sequence[str]) -> list[Entity]:
    """What varies, and what was executed. `controls`: ids of the steps of the run that is described in full."""
    keys = _keys(campaign.schedule)
    names = short_names(keys)
    values: dict[str, Entity] = {}
    for trial in campaign.schedule.trials:
        for key, content in trial.parameters.items():
            identity = _value_id(key, content)
            values[identity] = value(identity, key, value_text(content), exampleOfWork=reference(_parameter(key)))
    found = [_formal(key, names[key], values.values()) for key in keys] + list(values.values())
    actions = [each for trial in campaign.schedule.trials if (each := _trial(trial, campaign, names)) is not None]
    found += actions
    ended = list(campaign.history.ended.values())
    whole = all(each["actionStatus"].endswith("CompletedActionStatus") for each in actions)
    found.append(
        action(
            ORGANIZE, f"campaign {campaign.spec.campaign}", whole,
            min((each.started for each in ended), default=None), max((_end(each) for each in ended), default=None),
            reference(agent(campaign.provenance)["@id"]), kind="OrganizeAction", error="not all repetitions succeeded",
            description=campaign.spec.description or f"{plural(len(actions), 'trial')} of a pipeline",
            instrument=reference("#wf"), object=references(controls),
            result=references(each["@id"] for each in actions),
        )
    )  # fmt: skip
    return found


def _trial(trial: ScheduledTrial, campaign: CrateCampaign, names: Mapping[str, str]) -> Entity | None:
    """The action of a trial; None where none of its repetitions has ended."""
    wanted = list(all_repetitions(trial.key, campaign.spec))
    ended = [campaign.history.ended[each] for each in wanted if each in campaign.history.ended]
    if not ended:
        return None
    good = sum(each.state == "succeeded" for each in ended)
    said = f"{good} of {plural(len(wanted), 'repetition')} succeeded"
    kind = ", without I/O: the baseline of others" if trial.is_baseline else ""
    return action(
        f"#trial-{trial.key}", trial_text(trial.parameters, names), good == len(wanted),
        min(each.started for each in ended), max(_end(each) for each in ended),
        reference(agent(campaign.provenance)["@id"]), error=said, instrument=reference(campaign.pipeline),
        description=f"trial {trial.key}: {said}{kind}", result=references(campaign.results),
        object=references(_value_id(key, content) for key, content in trial.parameters.items()),
    )  # fmt: skip


def _end(attempt: Attempt) -> float:
    return attempt.started + attempt.wall_s


def _keys(schedule: Schedule) -> list[str]:
    return list(dict.fromkeys(key for trial in schedule.trials for key in trial.parameters))


def _formal(key: str, name: str, values: Any) -> Entity:
    examples = [each["@id"] for each in values if each["name"] == key]
    return entity(
        _parameter(key), "FormalParameter", name=name, description=f"key `{key}` of the pipeline",
        additionalType="PropertyValue", workExample=references(examples),
    )  # fmt: skip


def _parameter(key: str) -> str:
    return f"#parameter-{key.replace('*', 'all')}"


def _value_id(key: str, content: Any) -> str:
    """The same for equal values, and short: a value may be a long list."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:12]
    return f"{_parameter(key).replace('#parameter', '#value')}-{digest}"
