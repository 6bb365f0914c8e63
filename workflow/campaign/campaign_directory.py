"""The directory of a campaign: finding it, creating it, and the files in it.

campaign.yaml schedule.json ledger.jsonl runs/<key>-r<number>/ table.csv table.parquet report.json report.html pictures/
"""

from __future__ import annotations

import hashlib
import os
import shlex
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workflow.campaign.file.campaign_overlay import NO_OPTIONS, CampaignOptions
from workflow.campaign.file.load_campaign import Campaign, load_campaign
from workflow.campaign.file.trials import Written, written
from workflow.campaign.ledger import CAMPAIGNS, LEDGER_FILE
from workflow.campaign.planning.both_versions import gate_spec, is_gate
from workflow.campaign.planning.content_key import key_versions
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial, plan_notes
from workflow.errors import Problem, RunError, to_message
from workflow.formats.read_json import read_json
from workflow.plan.plan_model import ExpectationPlan
from workflow.provenance.plan_files import size_and_time
from workflow.replace_file import replace_file
from workflow.spec.shipped import is_path
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.user_paths import check_utf8, exists

CAMPAIGN_FILE = "campaign.yaml"
SCHEDULE_FILE = "schedule.json"
RUNS_FOLDER = "runs"


class SchedulePart(BaseModel):
    """Settings of all parts of schedule.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ScheduledTrial(SchedulePart):
    """One trial as it was planned."""

    key: str = Field(description="content key")
    parameters: dict[str, object] = Field(description="the keys that vary → this trial's values")
    written: dict[str, str] = Field({}, description="key → how its number was written, if not as it is printed")
    baseline: str = Field("", description="key of the trial without I/O that belongs to it")
    is_baseline: bool = False
    nodes: int = 1
    engines: dict[str, str] = Field({}, description="stream → ADIOS2 engine")
    expectations: list[ExpectationPlan] = Field([], description="of its pipeline; baselines have none")

    @model_validator(mode="after")
    def _show_as_written(self) -> ScheduledTrial:
        self.parameters.update({key: written(self.parameters[key], text) for key, text in self.written.items()})
        return self


class Schedule(SchedulePart):
    """The trials of a campaign as they were planned last: what status and report need besides the ledger."""

    schedule_version: int = 1
    wf_version: str
    site: str
    host: str
    cores: int = Field(0, description="that the campaign may use on this machine; 0: not known")
    versions: dict[str, str]
    file: str = Field("", description="the campaign file, relative to the campaign's directory")
    options: CampaignOptions = Field(NO_OPTIONS, description="what the command line lays over the file")
    checksums: dict[str, str] = Field({}, description="campaign and pipeline → SHA-256 of the file")
    files: dict[str, tuple[int, float]] = Field(
        {}, description="all files that the plans are made from → size and time when it was planned"
    )
    sized_per_rank: list[str] = Field(
        [], description="`stages.NAME.ranks` of stages whose component has its sizes per rank"
    )
    plan_notes: list[str] = Field([], description="what `wf plan` notes on the plans of the trials")
    trials: list[ScheduledTrial]

    @property
    def is_gate(self) -> bool:
        """Whether it is that of `wf campaign gate`: of two versions of each trial."""
        return is_gate(each.parameters for each in self.trials)


def made_from(planned: PlannedCampaign) -> dict[str, tuple[int, float]]:
    """The files that a campaign is planned from, with their sizes and times; without those that are gone."""
    paths = dict.fromkeys([planned.campaign.path, *(path for each in planned.ready for path in each.made_from)])
    return {str(path): known for path in paths if (known := _size_and_time(path)) is not None}


def is_as_planned(schedule: Schedule) -> bool:
    """Whether nothing that the campaign was planned from has changed, as far as this host can tell without reading."""
    if schedule.host == socket.gethostname() and schedule.versions != key_versions():
        return False
    return all(_size_and_time(Path(path)) == known for path, known in schedule.files.items())


def _size_and_time(path: Path) -> tuple[int, float] | None:
    try:
        return size_and_time(path)
    except OSError:
        return None


def file_checksums(campaign: Campaign) -> dict[str, str]:
    """SHA-256 of the campaign file and of its pipeline file, by which two campaigns see that theirs differ.

    Raises:
        RunError: the pipeline file has gone.
    """
    pipeline = campaign.path.parent / campaign.spec.pipeline
    try:
        texts = {"campaign": campaign.text, "pipeline": pipeline.read_bytes()}
    except OSError as error:
        raise RunError(
            f"cannot read {campaign.pipeline}: {error.strerror}", "the campaign needs this file: put it back"
        ) from error
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}


def to_schedule(
    planned: PlannedCampaign,
    directory: Path,
    *,
    wf_version: str,
    host: str,
    cores: int,
    versions: dict[str, str],
    checksums: dict[str, str],
) -> Schedule:
    """The schedule of a planned campaign that runs in `directory`."""
    site = planned.ready[0].plan.site if planned.ready else ""
    return Schedule(
        wf_version=wf_version,
        site=site,
        host=host,
        cores=cores,
        versions=versions,
        checksums=checksums,
        files=made_from(planned),
        file=os.path.relpath(planned.campaign.path, directory),
        options=planned.campaign.options,
        sized_per_rank=sorted({key for each in planned.ready for key in _sized_per_rank(each)}),
        plan_notes=plan_notes(planned),
        trials=to_trials(planned),
    )


def _sized_per_rank(trial: ReadyTrial) -> Iterator[str]:
    for name, stage in trial.loaded.spec.stages.items():
        component = None if stage.component is None else trial.loaded.components[stage.component]
        if component is not None and any(port.bytes_per_rank for port in component.writes.values()):
            yield f"stages.{name}.ranks"


def to_trials(planned: PlannedCampaign) -> list[ScheduledTrial]:
    """The trials of a planned campaign as its schedule has them."""
    return [to_scheduled(each) for each in planned.ready]


def to_scheduled(trial: ReadyTrial) -> ScheduledTrial:
    """A trial as the schedule has it."""
    return ScheduledTrial(
        key=trial.key,
        parameters=dict(trial.trial.parameters),
        written={key: value.text for key, value in trial.trial.parameters.items() if isinstance(value, Written)},
        baseline=trial.baseline,
        is_baseline=trial.is_baseline,
        nodes=trial.nodes,
        engines={stream.name: stream.engine for stream in trial.plan.streams},
        expectations=[] if trial.is_baseline else trial.plan.expectations,
    )


def directory_of(campaign: Campaign, given: Path | None) -> Path:
    """Where a campaign runs: the directory given, or `campaigns/NAME` below the current one."""
    return (given or Path(CAMPAIGNS) / campaign.spec.campaign).absolute()


def open_directory(directory: Path) -> None:
    """Create the directory of a campaign, which may have been used before.

    Raises:
        RunError: it is none of a campaign, or cannot be created.
    """
    if directory.is_dir() and not (directory / SCHEDULE_FILE).exists() and _has_more_than_runs(directory):
        raise RunError(f"{directory} exists and is not a campaign's directory", "give another --dir, or leave it out")
    try:
        if not directory.exists():
            directory.mkdir(mode=0o700, parents=True)
        (directory / RUNS_FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(directory, error) from error


def prepare(directory: Path, campaign: Campaign, schedule: Schedule) -> None:
    """Write the campaign's file and schedule into its directory. Raises RunError when they cannot be written."""
    try:
        replace_file(directory / SCHEDULE_FILE, (schedule.model_dump_json(indent=2) + "\n").encode())
        replace_file(directory / CAMPAIGN_FILE, campaign.text)
    except OSError as error:
        raise _cannot_write(directory, error) from error


def _cannot_write(directory: Path, error: OSError) -> RunError:
    return RunError(f"cannot write {error.filename or directory}: {error.strerror}", "give another --dir")


def _has_more_than_runs(directory: Path) -> bool:
    """Whether it holds more than a campaign that was killed at its very beginning leaves."""
    return any(
        path.name not in (RUNS_FOLDER, LEDGER_FILE) and not path.name.startswith(".") for path in directory.iterdir()
    )


def find_campaign(
    given: Path, directory: Path | None = None, options: CampaignOptions = NO_OPTIONS
) -> tuple[Path, Campaign, Schedule]:
    """The campaign that is meant: by its file, by its directory, or by its name below `campaigns/`.

    It has the options with which it ran last, and then those given. A file that has been changed since counts as it is
    now: metrics and comparisons can be added.

    Raises:
        RunError: it has not been run.
        SpecError: its file is wrong.
    """
    if given.is_file():
        campaign, found = campaign_of_file(given, directory, options)
        return found, campaign, read_schedule(found)
    found = _known_directory(given)
    schedule = read_schedule(found)
    campaign = load_campaign(os.path.relpath(found / CAMPAIGN_FILE), schedule.options.and_later(options))
    if schedule.is_gate:
        campaign = replace(campaign, spec=gate_spec(campaign.spec))
    return found, campaign, schedule


def campaign_to_run(
    given: Path, directory: Path | None, options: CampaignOptions, as_written: bool = False
) -> tuple[Campaign, Path]:
    """The campaign to plan or to run, and its directory: by its file, or as `find_campaign` finds one that has run.

    Raises:
        RunError: there is none, or its file is not where it was.
        SpecError: its file is wrong.
    """
    found = None if given.is_file() else _with_schedule(given)
    if found is None and (given.is_file() or is_path(str(given))):
        return campaign_of_file(given, directory, options, as_written)
    found = found or _known_directory(given)
    _refuse_archived(found)
    if read_schedule(found).is_gate:
        text = f"{os.path.relpath(found)} holds the records of a gate"
        raise RunError(text, f"go on with it: wf campaign gate OLD NEW --dir {os.path.relpath(found)}")
    file = Path(os.path.relpath(found / read_schedule(found).file))
    if not file.is_file():
        raise RunError(f"the file of this campaign no longer exists: {file}", "name it: wf campaign run FILE")
    return campaign_of_file(file, found, options, as_written)


def _refuse_archived(directory: Path) -> None:
    """Raises RunError for the records of an archive: they stay what was measured."""
    archive = directory.parent
    if not exists(archive / "ro-crate-metadata.json"):
        return
    written = (directory / CAMPAIGN_FILE).read_bytes()
    found = (each for each in sorted((archive / "source").rglob("*.yaml")) if each.read_bytes() == written)
    file = next(found, None)
    hint = "see the README.md there" if file is None else f"wf campaign run {os.path.relpath(file)}"
    text = f"{os.path.relpath(directory)} holds the records of an archive, which are not changed"
    raise RunError(text, f"repeat the campaign in a directory of its own: {hint}")


def campaign_of_file(
    file: Path, directory: Path | None, options: CampaignOptions, as_written: bool = False
) -> tuple[Campaign, Path]:
    """The campaign of a file and its directory; unless `as_written` with the options of its last run there.

    Raises:
        RunError: the directory is that of another campaign file.
        SpecError: the file is wrong.
    """
    campaign = load_campaign(file, options)
    found = directory_of(campaign, directory)
    check_utf8(found, "rename that folder, or name another one: `--dir PATH`")
    if not exists(found / SCHEDULE_FILE):
        return campaign, found
    try:
        last = read_schedule(found)
    except RunError:  # of another version, or empty: a run writes it anew
        return campaign, found
    other = Path(os.path.normpath(found / last.file))
    is_same = other == Path(os.path.normpath(campaign.path))
    if not is_same and not last.is_gate and other.is_file() and not _are_alike(other, campaign.path):
        text = f"{os.path.relpath(found)} is of {os.path.relpath(other)}, not of {os.path.relpath(campaign.path)}"
        raise RunError(text, "give one of the two campaigns another name, or a directory of its own: --dir PATH")
    if as_written or not is_same or not last.options:
        return campaign, found
    return load_campaign(file, last.options.and_later(options)), found


def _are_alike(one: Path, other: Path) -> bool:
    """Whether these are one file, or copies of one."""
    return one.samefile(other) or one.read_bytes() == other.read_bytes()


def options_note(campaign: Campaign, given: CampaignOptions) -> list[Problem]:
    """That a campaign has options which were not given now."""
    if campaign.options == given:
        return []
    text = f"with the options of its last run: {shlex.join(campaign.options.arguments)}"
    return [to_message("note", text, "`--as-written` runs the file as it is")]


def elsewhere_note(campaign: Campaign, directory: Path) -> list[Problem]:
    """That a campaign which begins in `directory` has records beside its file: what these have is measured again."""
    folder = campaign.path.parent
    beside = folder / CAMPAIGNS / campaign.spec.campaign
    if exists(directory / SCHEDULE_FILE) or not exists(beside / SCHEDULE_FILE):
        return []
    text = f"this campaign has already run in {os.path.relpath(beside)}: its measurements do not count here"
    command = f"cd {shlex.quote(os.path.relpath(folder))} && wf campaign run {shlex.quote(campaign.path.name)}"
    return [to_message("note", text, f"go on with it: {command}")]


def _with_schedule(given: Path) -> Path | None:
    """The directory of a campaign that has run, by its path or its name below `campaigns/`."""
    places = (given, Path(CAMPAIGNS) / given)
    return next((each.absolute() for each in places if exists(each / SCHEDULE_FILE)), None)


def _known_directory(given: Path) -> Path:
    """As `_with_schedule`. Raises RunError where there is none."""
    if (found := _with_schedule(given)) is not None:
        return found
    known = sorted(known_campaigns())
    hint = did_you_mean(str(given), known) or f"campaigns here: {listing(known)}"
    raise RunError(f"there is no campaign `{shortened(str(given))}`", hint)


def read_schedule(directory: Path) -> Schedule:
    """The schedule of a campaign's directory. Raises RunError where there is none that can be read."""
    path = directory / SCHEDULE_FILE
    try:
        return Schedule.model_validate(read_json(path.read_bytes()))
    except OSError as error:
        raise RunError(f"this campaign has not been run: no {path}", "start it: wf campaign run CAMPAIGN") from error
    except ValueError as error:
        raise RunError(
            f"{path} cannot be read by this wf", "run the campaign again: wf campaign run CAMPAIGN"
        ) from error


def known_campaigns() -> list[str]:
    """The names of the campaigns below `campaigns/`, by the time of their last entry, the newest last."""
    found = Path(CAMPAIGNS).glob(f"*/{SCHEDULE_FILE}")
    return [path.parent.name for path in sorted(found, key=lambda path: (last_entry_t(path.parent), path.parent.name))]


def last_entry_t(directory: Path) -> float:
    """When its ledger was written last, Unix seconds; that of its schedule while nothing has run."""
    for name in (LEDGER_FILE, SCHEDULE_FILE):
        try:
            return (directory / name).stat().st_mtime
        except OSError:
            continue
    return 0.0
