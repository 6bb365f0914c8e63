"""The next attempt of stages that have failed: where it goes on, and the files that it gets.

Each attempt after the first has a folder of its own in that of the stage, for its settings, metrics and logs. What the
stage writes stays where it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from workflow.formats.bp_index import read_index
from workflow.formats.metrics_lines import METRICS_FILE
from workflow.formats.stage_file import APPEND_AFTER, STAGE_FILE, read_stage_file, to_json
from workflow.plan.plan_model import EndPlan, StagePlan, StreamPlan
from workflow.plan.programs.config_files import config_files
from workflow.plan.streams.end_plans import POLL_S
from workflow.replace_file import replace_file
from workflow.run.records.run_directory import attempt_dir, stage_dir, stage_ends
from workflow.run.state.run_state import RunState


def find_first_step(state: RunState, stages: Sequence[str]) -> int:
    """The index of the first step that some of these stages have not finished.

    What is written to a file counts: a step that is whole there need not be computed again. Of a stage that writes
    none, the steps that it has read count; of one that only passes steps on to others of these stages, nothing.
    """
    found = []
    if any(rule.from_start for name in stages if (rule := state.plan.stage(name).restart) is not None):
        return 0
    for name in stages:
        plan = state.plan.stage(name)
        written = [end for end in plan.ends if end.side == "write"]
        kept = [end for end in written if state.plan.stream(end.stream).is_kept]
        found += [_whole_steps(end) for end in kept]
        if not written:
            found += [end.steps for end in state.ends_of(name)]
    return min(found, default=0)


def _whole_steps(end: EndPlan) -> int:
    index = read_index(Path(end.path) / "md.idx")
    return 0 if index is None else index.steps


def to_attempt(stage: StagePlan, state: RunState) -> StagePlan:
    """The plan of a stage whose next attempt has begun in this state. Pure."""
    plan, ends = state.plan, []
    for planned in stage.ends:
        stream, now = plan.stream(planned.stream), state.ends[planned.stream, stage.name, planned.side]
        end = _of_spool(planned, plan.stream(stream.spool)) if now.from_spool else planned
        appends = end.side == "write" and plan.stream(end.stream).is_kept
        parameters = {**end.parameters, APPEND_AFTER: str(now.steps)} if appends else end.parameters
        ends.append(end.model_copy(update={"first_step": now.steps, "parameters": parameters}))
    return stage.model_copy(update={"ends": ends})


def _of_spool(end: EndPlan, spool: StreamPlan) -> EndPlan:
    """The end as it reads the spool of its stream."""
    parameters = {"OpenTimeoutSecs": f"{end.open_timeout_s:g}", "BeginStepPollingFrequencySecs": f"{POLL_S:g}"}
    kept = {"engine": spool.engine, "path": spool.path, "parameters": parameters, "transport": None}
    return end.model_copy(update=kept)


def prepare_attempt(run_dir: Path, stage: StagePlan, attempt: int) -> Path:
    """Make the folder of an attempt of a stage, and write its settings. Returns the folder. Raises OSError."""
    folder = attempt_dir(run_dir, stage.name, attempt)
    folder.mkdir(exist_ok=True)
    settings = read_stage_file(stage_dir(run_dir, stage.name) / STAGE_FILE)
    settings = replace(settings, metrics=str(folder / METRICS_FILE), ends=stage_ends(stage))
    replace_file(folder / STAGE_FILE, to_json(settings).encode())
    for path, text in config_files(stage.ends).items():
        replace_file(Path(path), text.encode())
    # A killed writer leaves its contact file, by which readers would try to reach it.
    for end in stage.ends:
        if end.side == "write" and (suffix := end.traits.contact_suffix):
            with contextlib.suppress(FileNotFoundError):
                Path(end.path + suffix).unlink()
    return folder
