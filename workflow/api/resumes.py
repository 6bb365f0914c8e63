"""A run that goes on where an earlier one has ended, in a directory of its own: a part."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.api.replays import load_as_run
from workflow.api.runs import PlannedRun, plan_run
from workflow.errors import RunError
from workflow.formatting import plural
from workflow.spec.suggest import listing

if TYPE_CHECKING:
    from workflow.plan.plan_model import PartPlan, PiecePlan, Plan
    from workflow.run.cut import Cut
    from workflow.run.reached import Held
    from workflow.run.state.events import Event

# In this time the guard of a run has ended what a dead supervisor left.
GUARD_S = 15.0
PAUSE_S = 0.05
MOST_LISTED = 5


@dataclass(frozen=True)
class PlannedPart:
    """The next part of a run, planned for the place where this process runs. `run` is the directory of the part before,
    `reached` how far its stages had come."""

    run: Path
    planned: PlannedRun
    cut: Cut
    reached: Mapping[str, int]

    @property
    def plan(self) -> PartPlan:
        """What there is of the run already."""
        assert self.planned.plan.part is not None
        return self.planned.plan.part


def plan_part(run: str | os.PathLike[str] | None = None, *, sets: Sequence[str] = ()) -> PlannedPart:
    """Plan the next part of a run that has ended, however it has ended. Starts nothing.

    The file of the pipeline is read as it is now, with the options of the run. Earlier parts are only read.

    Args:
        run: the run, or any part of it: the newest one counts.
        sets: `KEY=VALUE`, as for `load_pipeline`.

    Raises:
        RunError: the run goes on, has succeeded, cannot be read, or nothing of it can be used.
        SpecError: mistakes in the pipeline file.
    """
    from workflow.plan.changed_values import changed_settings
    from workflow.plan.part_plan import to_part
    from workflow.plan.plan_model import PartPlan
    from workflow.provenance.plan_files import with_same_pythons
    from workflow.run.cut import find_cut
    from workflow.run.passed_values import changes_of
    from workflow.run.reached import held_files, how_far, kept_streams, unused_states
    from workflow.run.records.events_file import read_events
    from workflow.run.records.find_runs import START_S, find_run, newest_part
    from workflow.run.records.job_record import read_job
    from workflow.run.records.run_directory import has_started, read_filled_plan, read_plan_file
    from workflow.run.state.reducer import fold
    from workflow.run.state.run_state import initial_state

    directory = newest_part(find_run(run))
    before = read_filled_plan(directory)
    if not has_started(directory):
        text = f"{directory.name} has not been started"
        if before.part is None or before.part.is_reuse:
            raise RunError(text, f"start it: `wf run {before.pipeline_file}`")
        waits = f"wait for its job: wf watch {directory.name}, or end it: wf cancel {directory.name}"
        soon = f"it is being started, or its start has failed: try again in {START_S:.0f} s"
        raise RunError(
            f"{text}, and goes on with {Path(before.part.run).name}", soon if read_job(directory) is None else waits
        )
    _refuse(directory)
    events = tuple(read_events(directory))
    state = fold(initial_state(before), events)
    loaded = load_as_run(directory, before, sets=sets)
    planned = plan_run(replace(loaded, changes=changes_of(directory, before, events)))
    plan = planned.plan
    _check_same(before, plan, directory)
    held = held_files(directory, before, plan)
    _check_pieces(held)
    unused = unused_states(before, state)
    reached = how_far(directory, before, plan, state, held, unused)
    cut = find_cut(plan, state, reached, kept_streams(plan, state, held))
    if cut.is_empty:
        why = "; ".join(sorted({f"{name} {each.why}" for name, each in reached.items() if each.why}))
        text = f"nothing of {directory.name} can be used: all stages would begin with the first step"
        raise RunError(text + (f": {why}" if why else ""), f"run it again: `wf run {before.pipeline_file}`")
    part = PartPlan(
        number=before.part_number + 1,
        run=str(directory),
        states=dict(cut.states),
        unused=unused,
        finished={name: {end.stream: end.steps for end in state.ends_of(name)} for name in cut.finished},
        pieces=_pieces(plan, cut, held),
        changed=[
            *changed_settings(with_same_pythons(read_plan_file(directory), plan), plan),
            *_changed_files(directory, events, planned),
        ],
        skipped={name: list(steps) for name, steps in state.skipped.items()},
    )
    positions = cut.positions
    done = {name: max((end.steps for end in state.ends_of(name)), default=0) for name in state.stages}
    return PlannedPart(
        directory, planned._replace(plan=to_part(plan, part, positions.begins, positions.ends)), cut, done
    )  # fmt: skip


def _changed_files(directory: Path, events: Sequence[Event], planned: PlannedRun) -> list[str]:
    from workflow.provenance.plan_files import changed_files, examine_plan, files_of_stages
    from workflow.provenance.provenance_model import read_provenance

    provenance = read_provenance(directory)
    if provenance is None or not events:
        return []
    used = files_of_stages(examine_plan(planned.plan, planned.loaded), planned.loaded)
    return changed_files(provenance.files, events[-1].t, used)


def _pieces(plan: Plan, cut: Cut, held: Held) -> dict[str, list[PiecePlan]]:
    """File → what there is of it up to where its stage goes on."""
    from workflow.run.part_files import first_pieces
    from workflow.run.reached import kept_files, written_streams

    found = {}
    for stage in plan.stages:
        streams = written_streams(plan, stage)
        for name, every in kept_files(plan, stage.name).items():
            pieces = list(held[name])
            if stage.name not in cut.finished:
                ends = cut.positions.ends[stage.name]
                begins = cut.positions.begins[stage.name]
                steps = ends[streams[name]] if name in streams else -(-begins.get(name, 0) // every)
                pieces = first_pieces(pieces, steps)
            if pieces:
                found[name] = pieces
    return found


def _check_pieces(held: Held) -> None:
    """Refuse to go on without what earlier parts have written. Raises RunError."""
    for name, pieces in held.items():
        for piece in pieces:
            if not Path(piece.path).exists():
                raise RunError(
                    f"{piece.path} is gone: it has {plural(piece.steps, 'step')} of {name}, which the run needs",
                    "put it back where it was, or run the pipeline again: `wf run PIPELINE`",
                )


def _refuse(directory: Path) -> None:
    """Refuse a run that goes on, or has nothing left to do. After it nobody writes its records and files any more."""
    from workflow.formats.lease_file import DEAD_S
    from workflow.run.control.lease import examine_leases
    from workflow.run.records.events_file import read_start_and_verdict

    name, verdict = directory.name, read_start_and_verdict(directory).finished
    if verdict is not None and verdict.state == "succeeded":
        raise RunError(f"{name} has succeeded: nothing is left to do", f"`wf report {name}` shows it")
    (lives,) = examine_leases([directory], DEAD_S)
    if verdict is None and lives.alive and lives.silence_text:
        hint = f"wait until it is heard, or is dead after {DEAD_S / 60:.0f} min; `wf cancel {name}` ends the run"
        raise RunError(f"{name} has not ended: {lives.silence_text}", hint)
    if verdict is None and lives.alive:
        hint = f"`wf watch {name}` follows it; `wf cancel {name}` ends it"
        raise RunError(f"{name} has not ended: its supervisor is alive", hint)
    if verdict is None and lives.lease is not None:
        _await_end(name, lives.lease.run_dir)


def _await_end(name: str, named_as: str) -> None:
    """Wait until no process of a run whose supervisor has died is left on this host: its guard ends them."""
    from workflow.run.processes.process_reaper import find_members

    deadline = time.monotonic() + GUARD_S
    while left := find_members(named_as):
        if time.monotonic() > deadline:
            pids = listing([str(pid) for pid in sorted(left)[:MOST_LISTED]])
            text = f"the supervisor of {name} has died; left on this host: {plural(len(left), 'process')} ({pids})"
            raise RunError(text, f"`wf cancel {name}` ends them")
        time.sleep(PAUSE_S)


def _ends(plan: Plan) -> list[str]:
    return [f"{stage.name} {end.side}s {end.stream}" for stage in plan.stages for end in stage.ends]


def _check_same(before: Plan, now: Plan, directory: Path) -> None:
    """Refuse a pipeline that has other stages or streams by now."""
    for what, then, here in (
        ("stages", [stage.name for stage in before.stages], [stage.name for stage in now.stages]),
        ("streams", [stream.name for stream in before.streams], [stream.name for stream in now.streams]),
        ("readers or writers", _ends(before), _ends(now)),
    ):
        if sorted(then) != sorted(here):
            different = ", ".join(sorted({*then} ^ {*here}))
            raise RunError(
                f"{now.pipeline_file} has other {what} than {directory.name}: {different}",
                f"its pipeline as it was: {directory / 'pipeline.yaml'}",
            )
