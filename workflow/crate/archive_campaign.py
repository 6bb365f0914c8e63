"""A campaign → its archive, with one action per trial as entities of a Workflow Run RO-Crate.

A trial of ten repetitions is one action, from the start of the first to the end of the last: a campaign of 2,000
repetitions stays readable. Each repetition is a row of the table and a line of the ledger, which the archive holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow.campaign.campaign_directory import CAMPAIGN_FILE, RUNS_FOLDER, Schedule, ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.file.load_campaign import Campaign
from workflow.campaign.file.trials import short_names, trial_text, value_text
from workflow.campaign.ledger import Attempt, History, read_history
from workflow.campaign.results.campaign_page import write_results
from workflow.campaign.results.samples import all_repetitions
from workflow.campaign.search import asked_counts
from workflow.crate.archive_files import (
    RECORDS,
    ArchiveContents,
    LeftOut,
    SourceFiles,
    add_tree,
    source_files,
    write_archive,
)
from workflow.crate.fill_archive import (
    ArchiveOptions,
    ReadmeFacts,
    add_data,
    add_records,
    add_source,
    finish,
    input_names,
    provenance_of,
    secrets_of,
)
from workflow.crate.run_entities import (
    CrateRun,
    Entity,
    action,
    agent,
    definition_entities,
    entity,
    execution_entities,
    file_id,
    iso_time,
    reference,
    references,
    value,
)
from workflow.errors import RunError, WfError
from workflow.formatting import plural
from workflow.provenance.provenance_model import FileRecord, Provenance
from workflow.redaction import clean_words
from workflow.report.report_files import compute_report
from workflow.run.records.run_directory import read_filled_plan

_RUNS = f"{RECORDS}/{RUNS_FOLDER}/"
_RESULTS = ("report.json", "report.html", "table.csv", "table.parquet", "ledger.jsonl", "schedule.json")


def archive_campaign(
    directory: Path, campaign: Campaign, schedule: Schedule, target: Path, options: ArchiveOptions
) -> ArchiveContents:
    """Write the archive of a campaign; returns what it holds.

    Raises:
        RunError: nothing has succeeded, or its file is gone or holds a secret; `target` exists.
        WfError: rocrate is not installed.
    """
    history, contents = read_history(directory), ArchiveContents()
    example = _example(directory, campaign, schedule, history)
    secrets = secrets_of([read_filled_plan(example)])
    _renew_results(directory, campaign, schedule, contents)
    provenance, plan = provenance_of(example), read_filled_plan(example)
    records = _records(directory, schedule, history)
    texts = (example / "pipeline.yaml").read_text("utf-8", "replace") + campaign.text.decode("utf-8", "replace")
    place = _campaign_place(directory, schedule, campaign, records)
    source = source_files(records, provenance.stage_pythons, texts, place)
    # Since the last run the files may have changed, the copies have not.
    source.files.update({source.pipeline: example / "pipeline.yaml", source.campaign: directory / CAMPAIGN_FILE})
    add_source(contents, source, records, secrets, options.largest)
    described = _add_results(contents, directory, secrets, options)
    run = CrateRun(
        plan, compute_report(example), provenance, file_id(source.pipeline),
        tuple(file_id(name) for name in input_names(source, records, contents)),
        tuple(file_id(f"{RECORDS}/{name}") for name in _RESULTS if contents.named(f"{RECORDS}/{name}") is not None),
    )  # fmt: skip
    its = CrateCampaign(campaign.spec, schedule, history, provenance, run.pipeline, run.results)
    root = {
        "name": f"Campaign {campaign.spec.campaign}",
        "license": options.license,
        "datePublished": iso_time(time.time()),
        "description": campaign.spec.description or f"{plural(len(schedule.trials), 'trial')} of {plan.pipeline}",
    }  # fmt: skip
    facts = _facts(its, source, clean_words(source.moved(schedule.options.arguments), secrets))
    finish(contents, source, facts, root, run, _entities(run, its), secrets, described)
    write_archive(contents, target)
    return contents


def _add_results(
    contents: ArchiveContents, directory: Path, secrets: Mapping[str, str], options: ArchiveOptions
) -> int:
    """Take the results and the runs; returns how many files come before those of the runs."""
    for name in sorted(os.listdir(directory)):  # noqa: PTH208
        if name != RUNS_FOLDER and not name.startswith("."):
            add_tree(contents, f"{RECORDS}/{name}", directory / name, secrets, options.largest)
    described = len(contents.files)
    for run_dir in sorted((directory / RUNS_FOLDER).iterdir()):
        add_records(contents, run_dir, f"{_RUNS}{run_dir.name}", secrets, options)
        if options.data:
            add_data(contents, run_dir, f"{_RUNS}{run_dir.name}", secrets, options)
    if not options.data:
        contents.left_out.append(LeftOut("what the stages wrote", None, "--data takes along what has been kept"))
    return described


def _entities(run: CrateRun, campaign: CrateCampaign) -> list[Entity]:
    said = "plan, provenance, events and logs of each repetition"
    return [
        *definition_entities(run, parameter_ids(campaign)),
        *execution_entities(run),
        *campaign_entities(campaign),
        entity(_RUNS, "Dataset", name="run directories", description=said),
    ]


def _facts(campaign: CrateCampaign, source: SourceFiles, options: Sequence[str]) -> ReadmeFacts:
    name = campaign.spec.campaign
    return ReadmeFacts(
        title=f"Campaign {name}",
        repeat=("wf", "campaign", "run", source.campaign, *options),
        compare=f"`wf campaign compare {RECORDS} {name}` then compares the two.",
        provenance=campaign.provenance,
        folders=(
            ("source/", "the campaign file, the pipeline, and what it is made from"),
            (f"{RECORDS}/", f"results and ledger; `wf campaign report {RECORDS}` shows them"),
            (_RUNS, "the run directory of each repetition: plan, provenance, events, logs"),
        ),
    )


def _example(directory: Path, campaign: Campaign, schedule: Schedule, history: History) -> Path:
    """The run that the crate describes: the first measured repetition that succeeded."""
    for trial in schedule.trials:
        for identity in all_repetitions(trial.key, campaign.spec):
            if not identity.warmup and history.succeeded(identity):
                return directory / RUNS_FOLDER / history.ended[identity].run
    raise RunError(f"no repetition of {campaign.spec.campaign} has succeeded", "run it: wf campaign run CAMPAIGN")


def _records(directory: Path, schedule: Schedule, history: History) -> list[FileRecord]:
    """The files that its trials were started from, each once: of one run of each trial."""
    keys = {trial.key for trial in schedule.trials}
    first = {identity.key: attempt.run for identity, attempt in history.ended.items() if identity.key in keys}
    found: dict[str, FileRecord] = {}
    for run in first.values():
        for record in provenance_of(directory / RUNS_FOLDER / run).files:
            found.setdefault(record.path, record)
    return list(found.values())


def _campaign_place(directory: Path, schedule: Schedule, campaign: Campaign, records: Sequence[FileRecord]) -> Path:
    """Where the campaign file was, from which `pipeline:` leads to the pipeline.

    Raises RunError where that cannot be known: the campaign's directory was moved.
    """
    pipeline = next(Path(each.path) for each in records if each.role == "pipeline")
    place, written = Path(os.path.normpath(directory / schedule.file)), Path(campaign.spec.pipeline)
    if os.path.normpath(place.parent / written) == str(pipeline):
        return place
    if ".." not in written.parts and not written.is_absolute():
        return pipeline.parents[len(Path(os.path.normpath(written)).parts) - 1] / CAMPAIGN_FILE
    text = f"{directory} was moved: its pipeline {written} is not found from {place.parent}"
    raise RunError(text, "move it back, or run the campaign again from its new place")


def _renew_results(directory: Path, campaign: Campaign, schedule: Schedule, contents: ArchiveContents) -> None:
    try:
        write_results(directory, campaign.spec, schedule)
    except RunError:
        raise
    except WfError as error:
        contents.warnings.append(f"the report is that of an earlier time, or missing: {error.message}")


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


def campaign_entities(campaign: CrateCampaign) -> list[Entity]:
    """What varies, and what was executed."""
    keys = _keys(campaign.schedule)
    names = short_names(keys)
    values: dict[str, Entity] = {}
    for trial in campaign.schedule.trials:
        for key, content in trial.parameters.items():
            identity = _value_id(key, content)
            values[identity] = value(identity, key, value_text(content), exampleOfWork=reference(_parameter(key)))
    found = [_formal(key, names[key], values.values()) for key in keys] + list(values.values())
    asked = asked_counts(campaign.spec, campaign.schedule.trials, campaign.history)
    of_trials = (_trial(trial, asked[trial.key], campaign, names) for trial in campaign.schedule.trials)
    return [*found, *(each for each in of_trials if each is not None)]


def _trial(trial: ScheduledTrial, most: int, campaign: CrateCampaign, names: Mapping[str, str]) -> Entity | None:
    """The action of a trial, of which so many repetitions are asked for; None where none of them has ended."""
    wanted = [each for each in all_repetitions(trial.key, campaign.spec) if each.warmup or each.number <= most]
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
