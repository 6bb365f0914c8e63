"""The stages of a run again, on the streams that it has recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow.engines import ENGINES
from workflow.errors import RunError
from workflow.formats.metrics_lines import METRICS_FILE
from workflow.plan.topology.replayed_pipeline import (
    REPLAY,
    Recording,
    ReplayOptions,
    default_stages,
    replayed,
)
from workflow.spec.load import Loaded, load_pipeline
from workflow.spec.models.stage_policies import OPENPMD

if TYPE_CHECKING:
    from workflow.plan.plan_model import Plan


def load_replay(
    run: str | os.PathLike[str],
    stages: Sequence[str] = (),
    *,
    pipeline: str | os.PathLike[str] | None = None,
    sets: Sequence[str] = (),
    options: ReplayOptions | None = None,
) -> Loaded:
    """The pipeline of a run in which its recorded streams stand in for the stages that are not replayed.

    It is run like any other: `wf replay`, or `run_pipeline`. The file of the pipeline is read as it is now, so that
    what an analysis does can be changed.

    Args:
        run: the directory of the run.
        stages: those that run again; by default all that read a stream.
        pipeline: another pipeline file with these stages and streams.
        sets: `KEY=VALUE`, as for `load_pipeline`.

    Raises:
        RunError: the run, or the file of its pipeline, cannot be read, or it has kept no steps of a stream.
        SpecError: mistakes in the pipeline file.
    """
    from workflow.run.passed_values import changes_of
    from workflow.run.records.events_file import read_events
    from workflow.run.records.find_runs import find_run
    from workflow.run.records.run_directory import has_started, read_filled_plan
    from workflow.spec.component_files import component_dir, load_component_file

    directory = find_run(run)
    plan = read_filled_plan(directory)
    options = options or ReplayOptions()
    events = tuple(read_events(directory)) if has_started(directory) else ()
    changes = changes_of(directory, plan, events, replay_from=options.first)
    loaded = replace(load_as_run(directory, plan, pipeline=pipeline, sets=sets), changes=changes)
    folder = component_dir(REPLAY, loaded.path.parent)
    player = load_component_file(folder / "component.yaml"), folder
    wanted = list(stages) or default_stages(loaded.spec)
    return replayed(loaded, wanted, find_recordings(directory, plan), player, options)


def load_as_run(
    run_dir: Path,
    plan: Plan,
    *,
    pipeline: str | os.PathLike[str] | None = None,
    sets: Sequence[str] = (),
) -> Loaded:
    """The pipeline file of a run as it is now, with the options of the run and then `sets`; another file without them.

    Raises:
        RunError: the file is not there.
        SpecError: mistakes in it.
    """
    path = Path(plan.pipeline_file if pipeline is None else pipeline)
    if not path.exists():
        kept = f"the run has kept it as it was: cp {run_dir / 'pipeline.yaml'} {path}"
        raise RunError(f"{path}, the pipeline file of the run, is not there", kept)
    options = _options(run_dir if pipeline is None else None, sets)
    return load_pipeline(path, **options)


def _options(run_dir: Path | None, sets: Sequence[str]) -> dict[str, Any]:
    """The options with which the run was started, and then those given now."""
    from workflow.provenance.provenance_model import read_provenance

    provenance = None if run_dir is None else read_provenance(run_dir)
    words = [] if provenance is None else provenance.options
    found: dict[str, Any] = {"profiles": [], "sets": []}
    for option, value in zip(words[::2], words[1::2], strict=False):
        name = option.removeprefix("--")
        if name in ("profile", "set"):
            found[f"{name}s"].append(value)
        else:
            found[name] = value
    found["sets"] += sets
    return found


def find_recordings(run_dir: Path, plan: Plan) -> dict[str, Recording]:
    """Stream → what a run has kept of it: its file, its spool, or what the component `archive` has written of all."""
    from workflow.run.records.run_directory import stage_dir

    found = {}
    is_part = plan.part is not None and not plan.part.is_reuse  # its spools have only what was sent in it
    for stream in plan.streams:
        places = [stream.path] if stream.traits.has_steps and not stream.traits.in_memory else []
        places += [plan.stream(stream.spool).path] if stream.has_whole_spool and not is_part else []
        archives = [each.parameters for each in map(plan.stage, stream.readers) if each.component == "archive"]
        is_openpmd = plan.stage(stream.writer).end(stream.name, "write").dialect in OPENPMD
        places += [str(each["path"]) for each in archives if _has_all(each, is_openpmd)]
        if path := next((Path(place) for place in places if Path(place).exists()), None):
            found[stream.name] = Recording(path, stage_dir(run_dir, stream.writer) / METRICS_FILE)
    return found


def _has_all(archive: Mapping[str, Any], is_openpmd: bool) -> bool:
    """Whether what the component `archive` has written can stand in for its stream: all steps, all variables, and the
    names that they had. The layouts of others have names of their own; in openPMD a series keeps its names."""
    is_plain = any(Path(archive["path"]).suffix in each.suffixes for each in ENGINES.values())
    unchanged = is_plain and archive["format"] in ("auto", *map(str.lower, ENGINES))
    kept = unchanged or (archive["format"] == "openpmd" and is_openpmd)
    return kept and archive["every"] == 1 and not archive["variables"]
