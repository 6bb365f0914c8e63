"""What is looked at: the files of data of a run, of an archive of one, of any folder, or one file; and their titles.

Runs and files are called by their plans: by what differs, not by ids and paths.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from workflow.campaign.campaign_directory import RUNS_FOLDER, SCHEDULE_FILE
from workflow.compare.compare_runs import incomplete_notes
from workflow.crate.archive_files import RECORDS
from workflow.data_files.read_steps import as_far_as_it_goes, find_data, is_data, is_open
from workflow.engines import BP_SUFFIXES, HDF5_SUFFIXES
from workflow.errors import RunError, WfError
from workflow.formats.lease_file import DEAD_S
from workflow.plan.plan_model import RUN_DIR, Plan
from workflow.plan.read_plan import read_plan
from workflow.run.control.lease import examine_leases
from workflow.run.records.find_runs import find_run, is_run
from workflow.run.records.run_directory import PLAN_FILE
from workflow.spec.suggest import shortened
from workflow.spec.user_paths import path_mistake

HINT = "wf look RUN, or wf look FILE.bp"
_PLAN = PurePosixPath(RECORDS, PLAN_FILE)
_NOT_CLOSED = "its writer has not closed it"


@dataclass(frozen=True)
class LookedAt:
    """The files of one run, by the path that they have in it; `notes`: what to consider; `plan`: None where it is not
    a run, or its plan cannot be read."""

    name: str
    files: dict[str, Path]
    notes: list[str] = field(default_factory=list)
    plan: Plan | None = None


def find_files(given: Path, scratch: Path) -> LookedAt:
    """The files of a run (by path, by name, or `latest`), an archive of one, a folder, or a BP or HDF5 file.

    An archive is unpacked into `scratch`. Files that a living run writes are left out, with a note; those that a dead
    writer has left open are shown as far as they go.

    Raises:
        WfError: it is none of these. RunError: there is no such run, no file of data, or each is still written.
    """
    if mistake := path_mistake(given):
        raise WfError(f"{shortened(str(given))}: {mistake}", HINT)
    if is_data(given):
        return _without_open_files(given, LookedAt(_name(given), {_name(given): given}), scratch)
    if given.is_file():
        return LookedAt(given.stem, _unpack(given, scratch), plan=_read_plan(_records(scratch)))
    if given.is_dir() and not is_run(str(given)):
        plan = _read_plan(_records(given))
        return _without_open_files(given, LookedAt(_name(given), _some_data(given), plan=plan), scratch)
    if given.suffix in (*BP_SUFFIXES, *HDF5_SUFFIXES) and not is_run(str(given)):
        raise RunError(f"there is no file {shortened(str(given))}", HINT)
    run = find_run(given)
    notes = list(incomplete_notes(Path(run.name), run))
    return _without_open_files(run, LookedAt(run.name, _some_data(run), notes, _read_plan(run)), scratch)


def _name(path: Path) -> str:
    """Its last part, also of `.` and `..`."""
    return path.resolve().name if path.name in ("", "..") else path.name


def _some_data(folder: Path) -> dict[str, Path]:
    found = find_data(_records(folder))
    if found:
        return found
    if partial := sorted(folder.rglob("*.partial")):
        raise RunError(f"{partial[0].name}: {_NOT_CLOSED}", _look_again(folder))
    if is_run(str(folder)):
        if (folder.parent.parent / SCHEDULE_FILE).is_file() and (plan := _read_plan(folder)) and _writes_files(plan):
            hint = "`keep: all` at the top level of the campaign file, the default: later repetitions keep their data"
            raise RunError(f"{folder.name} has no data; with `keep: records` its campaign removes them", hint)
        raise RunError(
            f"{folder.name} has no BP or HDF5 file: its streams left none, and no sink wrote one",
            "add a sink, `keep: {component: archive}`, with a stream to it; or run it by files: `--via bp5`",
        )
    if (folder / SCHEDULE_FILE).is_file():
        runs = sorted(path.parent for path in folder.glob(f"{RUNS_FOLDER}/*/{PLAN_FILE}"))
        hint = f"look at one of its runs ({len(runs)}): wf look {runs[0]}" if runs else "it has no run yet"
        raise RunError(f"{folder} is a campaign, not a run", hint)
    raise RunError(f"{folder} is no run, and there is no BP and no HDF5 file in it", "the runs here: wf runs")


def _read_plan(run: Path) -> Plan | None:
    try:
        return read_plan((run / PLAN_FILE).read_bytes(), PLAN_FILE)
    except (OSError, RunError):
        return None


def _writes_files(plan: Plan) -> bool:
    return any(not each.traits.in_memory for each in plan.streams) or any(
        "write" in each.file_parameters.values() for each in plan.stages
    )


def _records(folder: Path) -> Path:
    """The run directory in an unpacked archive; any other folder itself."""
    return folder / RECORDS if not is_run(str(folder)) and (folder / RECORDS).is_dir() else folder


def _without_open_files(given: Path, found: LookedAt, scratch: Path) -> LookedAt:
    """Files that a run writes are left out; those that a dead writer has left open are taken as far as they go."""
    files, notes = dict(found.files), list(found.notes)
    written = []
    for name, path in found.files.items():
        if not is_open(path):
            if path.is_file() and _is_written(path):
                notes.append(f"{name}: its run goes on: shown as it was when it was read")
            continue
        if _is_written(path):
            written.append(name)
            notes.append(f"{name} is left out: {_NOT_CLOSED}")
            del files[name]
        else:
            files[name] = as_far_as_it_goes(path, scratch)
            notes.append(f"{name}: {_NOT_CLOSED}: shown as far as it goes")
    if not files:
        raise RunError(f"{', '.join(written)}: {_NOT_CLOSED}", _look_again(given))
    return replace(found, files=files, notes=notes)


def _is_written(path: Path) -> bool:
    """Whether the run that a file belongs to still goes on."""
    run = next((folder for folder in path.resolve().parents if is_run(str(folder))), None)
    return run is not None and examine_leases([run], DEAD_S)[0].alive


def _look_again(given: Path) -> str:
    return f"if it is still being written, look again when it has ended{': wf status' if is_run(str(given)) else ''}"


def _unpack(archive: Path, scratch: Path) -> dict[str, Path]:
    """The files of data of an archive, unpacked.

    Raises:
        WfError: it is no archive. RunError: it is damaged or encrypted, there is no room for it, or it has no data.
    """
    if not zipfile.is_zipfile(archive):
        raise WfError(f"{archive}: neither a run, an archive of one, nor a BP or HDF5 file", HINT)
    try:
        with zipfile.ZipFile(archive) as opened:
            names = {entry: PurePosixPath(entry.filename) for entry in opened.infolist() if not entry.is_dir()}
            folders = {name.parent for name in names.values() if name.name == "md.idx"}
            chosen = [
                entry
                for entry, name in names.items()
                if name.suffix.lower() in HDF5_SUFFIXES or name.parent in folders or name == _PLAN
            ]
            for entry in chosen:
                opened.extract(entry, scratch)
    except OSError as error:
        hint = "unpack it where there is room, and look at the folder: wf look FOLDER"
        raise RunError(f"{archive}: cannot be unpacked into {scratch}: {error.strerror or error}", hint) from error
    # RuntimeError: encrypted, or compressed by a method that Python does not have.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        hint = "copy it again; or unpack it, and look at the folder: wf look FOLDER"
        raise RunError(f"{archive}: cannot be unpacked: {error}", hint) from error
    if not any(names[entry] != _PLAN for entry in chosen):
        raise RunError(f"{archive} holds no data of its run", "archive it with its data: wf archive RUN --data")
    return find_data(_records(scratch))


_MOST_SETTINGS = 3
_PARAMS = "params."


class RunTitles(NamedTuple):
    """The title of the page, and what each run is called."""

    title: str
    runs: list[str]


def run_titles(names: Sequence[str], plans: Sequence[Plan | None]) -> RunTitles:
    """`gray-scott: F=0.03 and F=0.04`; of one run its pipeline. Runs without a plan have `names`, which differ."""
    known = [plan for plan in plans if plan is not None]
    if len(known) < len(plans):
        return RunTitles(" and ".join(names), list(names))
    pipelines = [plan.pipeline for plan in known]
    if len(known) == 1:
        return RunTitles(pipelines[0], list(names))
    if len(set(pipelines)) > 1:
        return RunTitles(" and ".join(pipelines), pipelines)
    runs = _differences([_settings(plan) for plan in known])
    if len(set(runs)) < len(runs):
        runs = list(names)
    return RunTitles(f"{pipelines[0]}: {' and '.join(runs)}", runs)


def file_titles(plan: Plan | None) -> dict[str, str]:
    """Path in the run directory → `stream field of simulation`, `pattern.bp of keep`."""
    if plan is None:
        return {}
    titles = {_inside(stream.path): f"stream {stream.name} of {stream.writer}" for stream in plan.streams}
    for stage in plan.stages:
        for name, side in stage.file_parameters.items():
            path = stage.parameters.get(name)
            if side == "write" and isinstance(path, str) and path.startswith(f"{RUN_DIR}/"):
                titles[_inside(path)] = f"{_inside(path)} of {stage.name}"
    return titles


def spools(plan: Plan | None) -> set[str]:
    """Paths in the run directory of the files in which a run keeps steps for itself."""
    streams = [] if plan is None else plan.streams
    return {_inside(each.path) for each in streams if plan and plan.stage(each.writer).added == "spool"}


def _inside(path: str) -> str:
    return path.removeprefix(f"{RUN_DIR}/")


def _settings(plan: Plan) -> dict[str, str]:
    """What users set: parameters of the pipeline, parameters and ranks of stages, engines and transports of streams."""
    found = {f"{_PARAMS}{name}": _text(each.value) for name, each in plan.params.items()}
    for stage in plan.stages:
        given = {name: value for name, value in stage.parameters.items() if name not in stage.file_parameters}
        found |= {f"{stage.name}.{name}": _text(value) for name, value in given.items()}
        found[f"{stage.name}.ranks"] = str(stage.ranks)
    for stream in plan.streams:
        found[f"{stream.name}.via"] = stream.via
        found[f"{stream.name}.transport"] = stream.transport_word or "none"
    return found


def _differences(settings: Sequence[dict[str, str]]) -> list[str]:
    """For each run the settings that are not the same in all of them; empty texts where none differs."""
    keys = list(dict.fromkeys(key for each in settings for key in each))
    keys = [key for key in keys if len({each.get(key) for each in settings}) > 1]
    # What a parameter of the pipeline has set in a stage is said by the parameter.
    params = [[each.get(key) for each in settings] for key in keys if key.startswith(_PARAMS)]
    keys = [key for key in keys if key.startswith(_PARAMS) or [each.get(key) for each in settings] not in params]
    # Another engine has another transport.
    keys = [key for key in keys if not (key.endswith(".transport") and f"{key.rpartition('.')[0]}.via" in keys)]
    lasts = [key.rpartition(".")[2] for key in keys]
    texts = [list(dict.fromkeys(_setting(key, each, lasts) for key in keys)) for each in settings]
    more = max(map(len, texts)) - _MOST_SETTINGS
    return [", ".join(each[:_MOST_SETTINGS] + ([f"{more} more"] if more > 0 else [])) for each in texts]


def _setting(key: str, settings: dict[str, str], lasts: Sequence[str]) -> str:
    """`F=0.03`; of an engine and a transport the value says enough: `sst`."""
    _, _, last = key.rpartition(".")
    value = settings.get(key, "none")
    if last in ("via", "transport"):
        return value
    return f"{last if lasts.count(last) == 1 else key}={value}"


def _text(value: object) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 30)
