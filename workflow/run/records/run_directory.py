"""The directory of one run: created from a plan, found, and read.

pipeline.yaml provenance.json plan.json allocation.json events.jsonl streams/
stages/<stage>/{stage.json,stdout.log,stderr.log,…,work/}
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from workflow.errors import RunError
from workflow.formats.metrics_lines import METRICS_FILE
from workflow.formats.stage_file import STAGE_FILE, StageSettings, StreamEnd, to_end, to_json
from workflow.launch.allocation import Allocation
from workflow.plan.placeholders import fill_all
from workflow.plan.plan_model import Plan, StagePlan
from workflow.plan.programs.config_files import FILES
from workflow.plan.read_plan import read_plan
from workflow.provenance.provenance_model import PROVENANCE_FILE, Provenance
from workflow.replace_file import replace_file
from workflow.run.chain import NEXT_PART_FILE
from workflow.run.part_files import PIECES, in_run, join_earlier, join_files, link_reused, link_states
from workflow.run.part_record import PART_FILE, PartRecord, read_part, write_part
from workflow.run.records.events_file import EVENTS_FILE
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named
from workflow.spec.suggest import shortened
from workflow.spec.user_paths import check_utf8, exists

RUNS = "runs"
LATEST = "latest"
PLAN_FILE = "plan.json"
ALLOCATION_FILE = "allocation.json"
PROOF_FILE = "proof.json"
# What a program measured itself, in the working directory of its stage.
OWN_FIGURES_FILE = "figures.json"
STREAMS = "streams"
ATTACHED = "attached"  # runs that have joined this one: `attached_runs`
_MODES = {"none": 0o700, "group": 0o750}  # by `share` of the plan


class PipelineText(Protocol):
    """What the run directory keeps of the pipeline file: its bytes."""

    @property
    def text(self) -> bytes:
        """The file as given."""
        ...


def create_run_dir(
    plan: Plan,
    source: PipelineText,
    run_dir: Path | None = None,
    *,
    provenance: Provenance | None = None,
    latest: bool = True,
    beside: Path | None = None,
) -> Path:
    """Write everything that a run needs; by default into a new directory below `runs/`. Returns its absolute path.

    `runs/latest` then points to it, wherever it is, unless `latest` is false. `beside`: a run, in whose
    folder the new directory is made; a link `latest` there then points to it, too, and if `latest` is false only where
    it has pointed to that run. One that only re-uses files of that run is a new run like any other. `provenance` is
    kept in provenance.json.

    Raises RunError when the directory is not empty or cannot be written; nothing is left behind then.
    """
    existed = run_dir is not None and exists(run_dir)
    mode = _MODES[plan.share]
    where = Path(RUNS) if run_dir is None and beside is None else run_dir or beside
    check_utf8((where or Path()).absolute(), "rename that folder, or name another one: `--run-dir PATH`")
    if run_dir is None:
        directory = _make_new(
            Path(RUNS).absolute() if beside is None else beside.absolute().parent, plan.pipeline, mode
        )
    else:
        directory = _claim(run_dir.absolute(), mode)
    try:
        _fill(directory, plan, source, provenance)
        if run_dir is None and (beside is None or _leads_on(beside, latest)):
            with contextlib.suppress(OSError):  # a file system without symbolic links
                point_latest(directory.parent, directory)
    except (OSError, ValueError, RunError) as error:
        _remove(directory, itself=not existed)
        if isinstance(error, RunError):
            raise
        if isinstance(error, ValueError):
            raise RunError(f"the parts of the run do not fit together: {error}") from error
        raise _cannot_write(directory, error) from error
    is_reuse = plan.part is not None and plan.part.is_reuse
    goes_on = beside is not None and (Path(RUNS) / LATEST).is_symlink()
    if latest and (run_dir is not None or is_reuse or goes_on):
        # `wf status` without an argument means this run too. It is a convenience: not worth failing for.
        with contextlib.suppress(OSError, RunError):
            Path(RUNS).mkdir(exist_ok=True)
            point_latest(Path(RUNS).absolute(), directory)
    return directory


def _leads_on(before: Path, latest: bool) -> bool:
    """Whether `latest` beside a run is to point to the run that goes on with it."""
    link = before.absolute().parent / LATEST
    # A job that submits the next part by itself must not take the link from a run that was started meanwhile.
    return link.is_symlink() and (latest or link.resolve() == before.resolve())


def _make_new(runs: Path, pipeline: str, mode: int) -> Path:
    """A new directory for a run. `mkdir` is atomic: of several runs that draw the same name one gets it."""
    try:
        runs.mkdir(parents=True, exist_ok=True)
        while True:
            directory = runs / _new_name(pipeline)
            with contextlib.suppress(FileExistsError):
                directory.mkdir(mode)
                return _claim(directory, mode)
    except OSError as error:
        raise _cannot_write(runs, error) from error


def _claim(directory: Path, mode: int) -> Path:
    """Take an empty or a missing directory for this run, by making `streams` in it: of several runs one succeeds.

    Contact files of streams and logs are in it: only those get in to whom `mode` gives it. One that another user made
    keeps its mode.

    Raises RunError for the others, which must leave the directory as it is.
    """
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise FileExistsError(directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / STREAMS).mkdir()
        with contextlib.suppress(PermissionError):
            directory.chmod(mode)  # whatever the umask
    except FileExistsError as error:
        if restarts := _restarts_of_job(directory):
            text = f"{directory} has the run that this job made before the scheduler requeued it (restart {restarts})"
            raise RunError(text, f"a run directory is used once; go on with that run: wf resume {directory}") from error
        text = f"{directory} exists and is not an empty directory"
        raise RunError(text, "give another --run-dir, or leave it out") from error
    except OSError as error:
        raise _cannot_write(directory, error) from error
    return directory


def _restarts_of_job(directory: Path) -> str:
    """How often the scheduler has started the job of this process again, where a run in it has used this directory; ""
    where that is not so."""
    before = read_allocation(directory)
    if before is None or not before.job or before.source not in SCHEDULERS:
        return ""
    restarts = os.environ.get(scheduler_named(before.source).restart_variable, "0")
    return "" if restarts == "0" else restarts


def _remove(directory: Path, itself: bool) -> None:
    """Remove what this run has written; the directory `itself` too, unless the user made it."""
    for path in list(directory.iterdir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if itself:
        with contextlib.suppress(OSError):
            directory.rmdir()


def _cannot_write(directory: Path, error: OSError) -> RunError:
    place = shortened(str(error.filename or directory), 200)
    return RunError(f"cannot write the run directory: {place}: {error.strerror}", "name another one: `--run-dir PATH`")


def read_plan_file(run_dir: Path) -> Plan:
    """The plan of a run, with the placeholder of its directory. Raises RunError when it cannot be read."""
    path = run_dir / PLAN_FILE
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RunError(f"{run_dir} is not a run directory: {path.name}: {error.strerror}") from error
    return read_plan(text, str(path))


def read_filled_plan(run_dir: Path) -> Plan:
    """The plan of a run with the run directory put in. Raises RunError when it cannot be read."""
    plan = read_plan_file(run_dir)
    try:
        return fill_plan(plan, run_dir)
    except ValueError as error:
        raise RunError(f"{run_dir / PLAN_FILE} cannot be read: {error}", "is it a plan that wf has written?") from error


def fill_plan(plan: Plan, run_dir: Path) -> Plan:
    """The plan with the run directory put in for its placeholder."""
    data = plan.model_dump(mode="python")
    # Reasons and advice are texts, in which placeholders stay.
    filled = fill_all({part: data[part] for part in ("stages", "streams")}, str(run_dir))
    return Plan.model_validate({**data, **filled})


def reused_files(run_dir: Path) -> set[Path]:
    """The files of a run that are links to those of a run that it re-uses."""
    if (record := read_part(run_dir)) is None or record.number > 1:
        return set()
    part = read_plan((run_dir / PLAN_FILE).read_bytes(), PLAN_FILE).part
    return set() if part is None else {run_dir / name for name in part.linked}


def has_started(run_dir: Path) -> bool:
    """Whether a supervisor has worked on this run."""
    return (run_dir / EVENTS_FILE).exists()


def read_allocation(run_dir: Path) -> Allocation | None:
    """The allocation in which the run was started; None where that was not written down, or cannot be read."""
    try:
        return Allocation.from_json((run_dir / ALLOCATION_FILE).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def stage_dir(run_dir: Path, stage: str) -> Path:
    """Where the files of a stage are."""
    return run_dir / "stages" / stage


def attempt_dir(run_dir: Path, stage: str, attempt: int) -> Path:
    """Where an attempt of a stage has its settings, metrics and logs; the first one, in the folder of the stage."""
    folder = stage_dir(run_dir, stage)
    return folder if attempt == 1 else folder / f"attempt-{attempt}"


def attempts(run_dir: Path, stage: str) -> list[Path]:
    """The folders of all attempts of a stage that have begun, in order."""
    later = stage_dir(run_dir, stage).glob("attempt-*")
    return [stage_dir(run_dir, stage), *sorted(later, key=lambda folder: int(folder.name.removeprefix("attempt-")))]


def _new_name(pipeline: str) -> str:
    return f"{pipeline}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def _fill(directory: Path, plan: Plan, source: PipelineText, provenance: Provenance | None) -> None:
    filled = fill_plan(plan, directory)
    for end in (end for stage in filled.stages for end in stage.ends):
        # A stream may lie deeper, and its reader may look there before the writer has come so far.
        if Path(end.path).is_relative_to(directory):
            Path(end.path).parent.mkdir(parents=True, exist_ok=True)
    live_readers = {name for stream in filled.streams if stream.coupling == "live" for name in stream.readers}
    for stage in filled.stages:
        _write_stage(directory, stage, filled, stops_itself=stage.name not in live_readers)
    _write(directory / "pipeline.yaml", source.text)
    if provenance is not None:
        _write(directory / PROVENANCE_FILE, provenance.to_json().encode())
    if plan.part is not None:
        link_states(directory, plan, plan.part)
        join_earlier(directory, plan, plan.part)
        join_files(directory, plan.part.pieces, _finished_files(plan))
        link_reused(directory, plan.part)
        write_part(directory, PartRecord(plan.part.number, plan.part.run))
    # Last: a directory with a plan is whole.
    _write(directory / PLAN_FILE, kept_plan(plan).to_json().encode())


def _finished_files(plan: Plan) -> list[str]:
    """The files of a part to which no stage adds anything."""
    assert plan.part is not None
    going = [stage for stage in plan.stages if stage.name not in plan.part.finished]
    written = {in_run(end.path) for stage in going for end in stage.ends if end.side == "write"}
    written |= {in_run(path) for stage in going for path in stage.kept_files}
    return [name for name in plan.part.pieces if name not in written]


def kept_plan(plan: Plan) -> Plan:
    """The plan without the user's own files, which have been written: they are not examined for secrets, and who may
    read the plan need not be one who may read them."""
    stages = []
    for stage in plan.stages:
        own = {end.config for end in stage.ends if end.dialect in FILES} - stage.edited.keys()
        kept = {path: text for path, text in stage.files.items() if path in own}
        stages.append(stage.model_copy(update={"files": kept}))
    return plan.model_copy(update={"stages": stages})


def _write_stage(directory: Path, stage: StagePlan, plan: Plan, *, stops_itself: bool) -> None:
    folder = stage_dir(directory, stage.name)
    every_s = _save_every_s(stage, plan)
    readers, written = ({}, {}) if every_s is None else _behind(stage, plan)
    (folder / "work").mkdir(parents=True, exist_ok=True)  # a stream may be in it
    Path(stage.cwd).mkdir(parents=True, exist_ok=True)
    settings = StageSettings(
        stage=stage.name,
        component=stage.component,
        ranks=stage.ranks,
        run_dir=str(directory),
        parameters=stage.parameters,
        metrics=str(folder / METRICS_FILE),
        ends=stage_ends(stage),
        stops_itself=stops_itself,
        restarts=plan.may_restart(stage.name),
        save_every_s=every_s,
        readers=readers,
        written=written,
        steer={name: each.value for name, each in stage.steer.items() if not each.file},
        changes=[change.model_dump(mode="json") for change in stage.changes],
    )
    _write(folder / STAGE_FILE, to_json(settings).encode())
    link_inputs(stage)
    for place, text in stage.files.items():
        _make_private(Path(place), executable=False).write_bytes(text.encode())
    for place, original in stage.copies.items():
        shutil.copyfile(original, _make_private(Path(place), executable=os.access(original, os.X_OK)))


def link_inputs(stage: StagePlan) -> None:
    """Let the streams be found under the names by which programs open them that know no other. Raises RunError."""
    for end in stage.ends:
        suffix = end.traits.contact_suffix
        place, target = Path(end.opened + suffix), Path(end.path + suffix)
        if not end.opened or place == target:
            continue
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_symlink():
                place.unlink()  # an attempt that goes on from a spool reads another file
            place.symlink_to(os.path.relpath(target, place.parent))  # the folder of the run may be moved
        except OSError as error:
            text = f"{stage.name}.{end.port}: its program opens {place}, and that cannot be a link: {error.strerror}"
            hint = "give the program the name of the stream, and leave out `path:` of the port; or `--run-dir PATH`"
            raise RunError(text, hint) from error


def _save_every_s(stage: StagePlan, plan: Plan) -> float | None:
    """How often a stage saves its state: as declared; else each time that it asks, where it may be started again."""
    if stage.checkpoint is not None:
        return stage.checkpoint.every_s
    return 0.0 if plan.may_restart(stage.name) else None


def _behind(stage: StagePlan, plan: Plan) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The streams of which nothing is kept that lead on from a stage: each with its readers, and each stage behind it
    with those that it writes."""
    readers: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    todo = [stage]
    while todo:
        writer = todo.pop()
        streams = [plan.stream(end.stream) for end in writer.ends if end.side == "write"]
        for stream in streams:
            if not stream.is_kept and stream.name not in readers:
                readers[stream.name] = list(stream.readers)
                todo += [plan.stage(name) for name in stream.readers]
                if writer is not stage:
                    written.setdefault(writer.name, []).append(stream.name)
    return readers, written


def stage_ends(stage: StagePlan) -> tuple[StreamEnd, ...]:
    """The ends of a stage as its program reads them from `stage.json`."""
    return tuple(to_end(end.model_dump(mode="json")) for end in stage.ends)


def _make_private(path: Path, *, executable: bool) -> Path:
    """An empty file for the user alone, before anything is in it: what `files:` names is not examined for secrets."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o700 if executable else 0o600)
    return path


def _write(path: Path, data: bytes) -> None:
    """Write under a temporary name and rename: a reader never gets half of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data)


def point_latest(runs: Path, directory: Path) -> None:
    """Let `latest` of a folder of runs point to a run. Raises OSError, and RunError where a directory has that name."""
    # A process may create several runs at the same time, in threads.
    link, temporary = runs / LATEST, runs / f".{LATEST}.{os.getpid()}.{secrets.token_hex(8)}"
    if link.is_dir() and not link.is_symlink():
        raise RunError(f"{link} is a directory; wf keeps a link of that name to the newest run", f"mv {link} elsewhere")
    temporary.symlink_to(os.path.relpath(directory, runs))
    temporary.replace(link)


# What is no data of the stages.
_RECORDS = {
    "plan.json", "pipeline.yaml", "provenance.json", "allocation.json", "events.jsonl", "proof.json", "lease.json",
    "job.json", "job_end.json", "job.sh", "psij", "control.jsonl", "stop", "supervisor.log", "guards.log", "proof",
    "expectations.json", "notes.jsonl", PART_FILE, NEXT_PART_FILE, PIECES,
    "report.json", "report.html", "stages", STREAMS, ATTACHED,
}  # fmt: skip


def leads_inside(path: Path, directory: Path) -> bool:
    """Whether this is a link to something of this directory, which is found there, too."""
    return path.is_symlink() and path.resolve().is_relative_to(directory.resolve())


def written_data(run_dir: Path) -> Iterator[Path]:
    """What the stages of a run wrote: files and directories apart from the records of wf and the logs. A link to data
    of the run is none: they are where it leads."""
    for folder in (run_dir / STREAMS, *run_dir.glob("stages/*/work")):
        if folder.is_dir():
            found = (path for path in folder.iterdir() if path.name != OWN_FIGURES_FILE)
            yield from (path for path in found if not leads_inside(path, run_dir))
    yield from (path for path in run_dir.iterdir() if path.name not in _RECORDS)
