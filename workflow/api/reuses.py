"""A run in which stages that have not changed are not run again: their files are links to those of an earlier run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow.api.runs import PlannedRun
from workflow.errors import RunError

if TYPE_CHECKING:
    from workflow.plan.plan_model import PartPlan, PiecePlan, Plan
    from workflow.provenance.provenance_model import FileRecord, Provenance
    from workflow.run.state.run_state import RunState


@dataclass(frozen=True)
class PlannedReuse:
    """A run that re-uses what an earlier one has written. `run`: that one; None: there is none, and all stages run.

    `reasons`: stage → why it runs; empty: it is re-used.
    """

    planned: PlannedRun
    run: Path | None
    reasons: Mapping[str, str]


def plan_reuse(planned: PlannedRun, run: str | os.PathLike[str] | None = None) -> PlannedReuse:
    """Decide which stages of a planned run are re-used from an earlier run. Starts nothing, and writes nothing.

    Args:
        run: the earlier run; by default the newest one of the pipeline below `runs/` that has succeeded.

    Raises:
        RunError: there is no such run, it has not succeeded, is of another pipeline, or cannot be read.
    """
    from workflow.plan.read_plan import read_plan
    from workflow.provenance.plan_files import with_same_pythons
    from workflow.provenance.provenance_model import read_provenance
    from workflow.run.records.events_file import read_events
    from workflow.run.records.run_directory import PLAN_FILE, kept_plan
    from workflow.run.reuse import why_they_run
    from workflow.run.state.reducer import fold
    from workflow.run.state.run_state import initial_state

    plan = planned.plan
    directory = _newest(plan.pipeline) if run is None else _named(run)
    if directory is None:
        return PlannedReuse(planned, None, {})
    # With the placeholder for the run directory, as the plan of this run.
    before = with_same_pythons(read_plan((directory / PLAN_FILE).read_bytes(), str(directory / PLAN_FILE)), plan)
    if before.pipeline != plan.pipeline:
        raise RunError(f"{directory.name} is a run of {before.pipeline}, not of {plan.pipeline}", "name another run")
    provenance = read_provenance(directory)
    if provenance is None:
        text = f"{directory.name} has no provenance.json that can be read: nobody knows what it was made from"
        raise RunError(text, "name another run, or run without --reuse")
    state = fold(initial_state(before), read_events(directory))
    kept = kept_plan(plan)
    outputs = {stage.name: _Outputs(directory, before, plan, stage.name, state) for stage in plan.stages}
    known = {
        name: why or _changed_text(directory, plan, kept, name) or outputs[name].why_not()
        for name, why in _what_changed(planned, before, provenance).items()
    }
    reasons = why_they_run(kept, before, known)
    said = {f"stages.{name}.reuse": why or f"re-used from {directory.name}" for name, why in reasons.items()}
    update: dict[str, Any] = {"reasons": {**plan.reasons, **said}}
    if reused := [outputs[name] for name, why in reasons.items() if not why]:
        update["part"] = _to_part(directory, reused)
    return PlannedReuse(planned._replace(plan=plan.model_copy(update=update)), directory, reasons)


def _named(run: str | os.PathLike[str]) -> Path:
    """The run that was named. Raises RunError for one that has not succeeded."""
    from workflow.report.read.run_states import list_runs
    from workflow.run.records.find_runs import find_run

    directory = find_run(run)
    (line,) = list_runs([directory])
    if line.state != "succeeded":
        hint = f"go on with it: wf resume {directory.name}; or name no run: the newest one that has succeeded is taken"
        raise RunError(f"{directory.name} has not succeeded ({line.state}): nothing of it is re-used", hint)
    return directory


def _newest(pipeline: str) -> Path | None:
    """The newest run of a pipeline below `runs/` that has succeeded."""
    from workflow.formats.read_json import read_json
    from workflow.run.records.events_file import read_start_and_verdict
    from workflow.run.records.find_runs import known_runs
    from workflow.run.records.run_directory import PLAN_FILE, RUNS

    for name in reversed(known_runs()):
        directory = Path(RUNS, name).resolve()
        try:
            plan, ended = read_json((directory / PLAN_FILE).read_bytes()), read_start_and_verdict(directory).finished
        except (OSError, ValueError, RunError):
            continue
        if plan.get("pipeline") == pipeline and ended is not None and ended.state == "succeeded":
            return directory
    return None


def _what_changed(planned: PlannedRun, before: Plan, provenance: Provenance) -> dict[str, str]:
    """Stage → what is another than at the earlier run: versions, and the contents of files."""
    from workflow.provenance.installed_versions import versions, versions_of_stages
    from workflow.provenance.plan_files import examine_plan, file_change, files_of_stages
    from workflow.run.reuse import first_reason, version_change
    from workflow.site.interpreters import program_identity

    plan, loaded = planned.plan, planned.loaded
    paths = (each.path for each in provenance.files if _of_stages(each))
    gone = next((f"{path} is gone" for path in paths if not Path(path).exists()), "")
    recorded = {program_identity(Path(each.path)): each for each in provenance.files}
    site = "" if plan.site == before.site else f"site: {before.site} → {plan.site}"
    common = [site, version_change(provenance.versions, versions()), gone]
    examined = examine_plan(plan, loaded)
    files = files_of_stages(examined, loaded)
    now = _by_stage(versions_of_stages(examined.programs))
    then = _by_stage(provenance.stage_pythons)
    found = {}
    for stage, data in zip(plan.stages, examined.data["stages"], strict=True):
        name = stage.name
        python = version_change(then.get(name, {}), now.get(name, {}))
        changes = (
            file_change(
                path,
                recorded.get(program_identity(path)),
                f"{stage.component}/{path.name}" if role == "component" else path.name,
            )
            for path, role in files[name].items()
        )
        found[name] = first_reason(chain(common, (python,), changes, (_read_folder(data),)))
    return found


def _read_folder(stage: Mapping[str, Any]) -> str:
    """The folder that a command or a parameter of a stage names: what is in it is not compared."""
    from workflow.provenance.plan_files import is_data, paths_in

    named = [Path(text) for text in paths_in([stage["program"], stage["parameters"]])]
    folders = [path for path in named if path.is_dir() and not is_data(path)]
    return f"names the folder {folders[0]}, whose files are not compared" if folders else ""


def _changed_text(directory: Path, plan: Plan, kept: Plan, name: str) -> str:
    """Which of the user's `files:` of a stage has another text than in the directory of the earlier run.

    The plan of a run does not keep these texts, and what is filled into them may be any value of the pipeline.
    """
    from workflow.plan.placeholders import fill_all
    from workflow.run.part_files import in_run

    for place, text in plan.stage(name).files.items():
        if place in kept.stage(name).files:
            continue
        try:
            found = (directory / in_run(place)).read_bytes()
        except OSError:
            found = None
        if found != fill_all(text, str(directory)).encode():
            return f"{Path(place).name} has different content"
    return ""


def _of_stages(record: FileRecord) -> bool:
    return record.role not in ("pipeline", "site", "preset")


def _by_stage(pythons: Any) -> dict[str, dict[str, str]]:
    return {name: each.versions for each in pythons for name in each.stages}


class _Outputs:
    """What the earlier run has of what a stage writes."""

    def __init__(self, run_dir: Path, before: Plan, now: Plan, stage: str, state: RunState) -> None:
        self.run_dir, self.before, self.now, self.state = run_dir, before, now, state
        self.stage = now.stage(stage)

    def why_not(self) -> str:
        """Why the stage cannot be re-used; empty: all is there."""
        from workflow.plan.plan_model import RUN_DIR
        from workflow.run.part_files import in_run

        name = self.stage.name
        if name not in self.state.stages:
            return ""
        if self.state.stages[name].status != "succeeded":
            return "had not succeeded"
        if self.state.skipped.get(name):
            return "had skipped steps"
        if self.state.steered.get(name):
            return "was steered"
        read = [self.now.stream(end.stream) for end in self.stage.ends if end.side == "read"]
        if self.stage.added == "spool" and not any(stream.has_whole_spool for stream in read):
            return ""  # its file was removed after the run, and nobody misses it
        streams = [self.now.stream(end.stream) for end in self.stage.ends if end.side == "write"]
        files = [stream for stream in streams if not stream.traits.in_memory]
        paths = [*(stream.path for stream in files), *self._written()]
        if outside := [path for path in paths if not path.startswith(RUN_DIR)]:
            return f"writes {outside[0]}, outside of the run directory"
        pieces = self.pieces()
        for stream in files:
            held = sum(piece.steps for piece in pieces.get(in_run(stream.path), []))
            end = self.state.ends.get((stream.name, name, "write"))
            if stream.is_kept and (end is None or held < end.steps):
                return f"{stream.name} was not kept"
        missing = [path for path in map(in_run, paths) if path not in pieces and not (self.run_dir / path).exists()]
        return f"{missing[0]} of {self.run_dir.name} is gone" if missing else ""

    def finished(self) -> dict[str, int]:
        """Stream → the steps that the stage has written or read."""
        return {end.stream: end.steps for end in self.state.ends_of(self.stage.name)}

    def pieces(self) -> dict[str, list[PiecePlan]]:
        """BP5 file → what the earlier run, and those with which it goes on, hold of it."""
        from workflow.run.part_files import pieces_of
        from workflow.run.reached import kept_files

        found = {name: pieces_of(self.run_dir, self.before, name) for name in kept_files(self.now, self.stage.name)}
        return {name: pieces for name, pieces in found.items() if pieces}

    def linked(self) -> dict[str, str]:
        """Each other file, relative to the run directory, → where it is."""
        from workflow.run.part_files import in_run

        pieces = self.pieces()
        streams = [self.now.stream(end.stream) for end in self.stage.ends if end.side == "write"]
        places = [in_run(self.stage.cwd), *map(in_run, self._written())]
        places += [in_run(path) for stream in streams if not stream.traits.in_memory for path in stream.on_disk]
        written = {in_run(path) for path in (*self.stage.files, *self.stage.copies)}
        found = {}
        for path in (file for place in places for file in _files(self.run_dir / place)):
            name = path.relative_to(self.run_dir).as_posix()
            inside = any(name == piece or name.startswith(f"{piece}/") for piece in pieces)
            if not inside and name not in written:
                # A link to a link to a link … would end where the system follows no more of them.
                found[name] = os.path.normpath(path.parent / path.readlink()) if path.is_symlink() else str(path)
        return found

    def _written(self) -> Iterator[str]:
        """The files and folders that its parameters name, in which it writes."""
        for name, side in self.stage.file_parameters.items():
            value = self.stage.parameters.get(name)
            if side == "write" and isinstance(value, str) and value:
                yield value


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    elif place.is_dir():
        yield from sorted(path for path in place.rglob("*") if path.is_file())


def _to_part(directory: Path, reused: list[_Outputs]) -> PartPlan:
    from workflow.plan.plan_model import PartPlan

    return PartPlan(
        number=1,
        run=str(directory),
        finished={each.stage.name: each.finished() for each in reused},
        pieces={name: pieces for each in reused for name, pieces in each.pieces().items()},
        linked={name: path for each in reused for name, path in each.linked().items()},
    )
