"""A campaign → its archive."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from workflow.campaign.campaign_directory import CAMPAIGN_FILE, RUNS_FOLDER, Schedule
from workflow.campaign.file.load_campaign import Campaign
from workflow.campaign.ledger import History, read_history
from workflow.campaign.results.campaign_files import write_results
from workflow.campaign.results.samples import all_repetitions
from workflow.crate.archive_contents import RECORDS, ArchiveContents, LeftOut, SourceFiles
from workflow.crate.archive_readme import ReadmeFacts
from workflow.crate.campaign_entities import CrateCampaign, campaign_entities, parameter_ids
from workflow.crate.fill_archive import (
    ArchiveOptions,
    add_data,
    add_records,
    add_source,
    finish,
    input_names,
    log_ids,
    provenance_of,
    secrets_of,
)
from workflow.crate.run_entities import (
    ORGANIZE as ORGANIZE_RUN,
)
from workflow.crate.run_entities import (
    CrateRun,
    Entity,
    definition_entities,
    entity,
    execution_entities,
    file_id,
    iso_time,
)
from workflow.crate.source_files import source_files
from workflow.crate.write_archive import add_tree, write_archive
from workflow.errors import RunError, WfError
from workflow.formatting import plural
from workflow.provenance.provenance_model import FileRecord
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
        log_ids(plan, contents, f"{_RUNS}{example.name}"),
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
        contents.left_out.append(LeftOut("what the stages wrote", None, "`keep: all` and --data take it along"))
    return described


def _entities(run: CrateRun, campaign: CrateCampaign) -> list[Entity]:
    executed = [each for each in execution_entities(run) if each["@id"] != ORGANIZE_RUN]
    controls = [each["@id"] for each in executed if each["@type"] == "ControlAction"]
    said = "plan, provenance, events and logs of each repetition"
    return [
        *definition_entities(run, parameter_ids(campaign)),
        *executed,
        *campaign_entities(campaign, controls),
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
    """The run that the crate describes in full: the first measured repetition that succeeded."""
    for trial in schedule.trials:
        for identity in all_repetitions(trial.key, campaign.spec):
            if not identity.warmup and history.succeeded(identity):
                return directory / RUNS_FOLDER / history.ended[identity].run
    raise RunError(f"no repetition of {campaign.spec.campaign} has succeeded", "run it: wf campaign run")


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
