"""A run that goes on where an earlier one has ended, in a directory of its own: a part."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.api.replays import load_as_run
from workflow.api.runs import PlannedRun, plan_run
from workflow.errors import RunError

if TYPE_CHECKING:
    from workflow.plan.plan_model import PiecePlan, Plan
    from workflow.run.cut import Cut, Position
    from workflow.run.state.run_state import RunState


@dataclass(frozen=True)
class PlannedPart:
    """The next part of a run, planned for the place where this process runs. `run` is the directory of the part before,
    `reached` how far its stages had come."""

    run: Path
    planned: PlannedRun
    cut: Cut
    reached: Mapping[str, int]

    @property
    def number(self) -> int:
        """Of the part, counted from 1, the run with which all began."""
        part = self.planned.plan.part
        return 1 if part is None else part.number


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
    from workflow.plan.part_plan import to_part
    from workflow.run.cut import find_cut
    from workflow.run.part_files import first_pieces, pieces_of
    from workflow.run.part_record import newest_part
    from workflow.run.records.events_file import read_events
    from workflow.run.records.find_runs import find_run
    from workflow.run.records.run_directory import has_started, read_filled_plan
    from workflow.run.state.reducer import fold
    from workflow.run.state.run_state import initial_state

    directory = newest_part(find_run(run))
    before = read_filled_plan(directory)
    if not has_started(directory):
        raise RunError(f"{directory.name} has not been started", "start it: `wf run`")
    state = fold(initial_state(before), read_events(directory))
    _refuse(directory, state)
    planned = plan_run(load_as_run(directory, before, sets=sets))
    plan = planned.plan
    _check_same(before, plan, directory)
    positions = find_positions(directory, before, plan, state)
    cut = find_cut(plan, state, positions, kept_streams(directory, before, state))
    if cut.is_empty:
        why = "; ".join(sorted({f"{name} {each.why}" for name, each in positions.items() if each.why}))
        text = f"nothing of {directory.name} can be used: all stages would begin with the first step"
        raise RunError(text + (f": {why}" if why else ""), f"run it again: `wf run {before.pipeline_file}`")
    pieces: dict[str, list[PiecePlan]] = {}
    for stage in plan.stages:
        for name, every in kept_files(plan, stage.name).items():
            found = pieces_of(directory, before, name)
            if stage.name not in cut.finished:
                found = first_pieces(found, -(-cut.first_steps[stage.name] // every))
            if found:
                pieces[name] = found
    finished = {name: {end.stream: end.steps for end in state.ends_of(name)} for name in cut.finished}
    number = 2 if before.part is None else before.part.number + 1
    part = to_part(plan, number, str(directory), finished, cut.first_steps, pieces)
    reached = {
        name: max((end.steps for end in state.ends_of(name)), default=0) for name in state.stages
    }  # fmt: skip
    return PlannedPart(directory, replace(planned, plan=part), cut, reached)


def _refuse(directory: Path, state: RunState) -> None:
    """Refuse a run that goes on, or has nothing left to do."""
    from workflow.run.control.lease import examine_leases

    if state.finished is not None and state.finished.state == "succeeded":
        raise RunError(f"{directory.name} has succeeded: nothing is left to do", "`wf report` shows it")
    (lives,) = examine_leases([directory])
    if state.finished is None and lives.alive:
        raise RunError(f"{directory.name} has not ended: its supervisor is alive", "`wf watch`, or `wf cancel` first")


def _check_same(before: Plan, now: Plan, directory: Path) -> None:
    """Refuse a pipeline that has other stages or streams by now."""
    for what, then, here in (
        ("stages", [stage.name for stage in before.stages], [stage.name for stage in now.stages]),
        ("streams", [stream.name for stream in before.streams], [stream.name for stream in now.streams]),
    ):
        if sorted(then) != sorted(here):
            different = ", ".join(sorted({*then} ^ {*here}))
            raise RunError(
                f"{now.pipeline_file} has other {what} than {directory.name}: {different}",
                f"its pipeline as it was: {directory / 'pipeline.yaml'}",
            )


def kept_files(plan: Plan, stage: str) -> dict[str, int]:
    """File, relative to the run directory, that a stage writes and a later part can go on with → of how many steps it
    holds one. Pure."""
    from workflow.plan.plan_model import RUN_DIR
    from workflow.run.part_files import in_run

    found = {path: every for path, every in plan.stage(stage).kept_files.items() if path.startswith(RUN_DIR)}
    found |= {each.path: 1 for each in plan.streams if each.writer == stage and each.is_kept}
    return {in_run(path): every for path, every in found.items()}


def kept_streams(directory: Path, plan: Plan, state: RunState) -> set[str]:
    """The streams all of whose steps can be read again: from their own file, or from that of their spool."""
    from workflow.run.part_files import pieces_of

    found = set()
    for stream in plan.streams:
        holder = plan.stream(stream.spool) if stream.spool else stream
        if holder.is_kept:
            steps = sum(piece.steps for piece in pieces_of(directory, plan, os.path.relpath(holder.path, directory)))
            if steps >= state.writer(stream.name).steps:
                found.add(stream.name)
    return found


def find_positions(directory: Path, before: Plan, now: Plan, state: RunState) -> dict[str, Position]:
    """Stage → how far it has come in a run and the parts before it, and where it can begin."""
    from workflow.plan.plan_model import RUN_DIR
    from workflow.run.cut import Position
    from workflow.run.part_files import in_run, pieces_of
    from workflow.run.saved_states import saved_steps

    found = {}
    for stage in now.stages:
        reads = [end.steps for end in state.ends_of(stage.name) if end.side == "read"]
        written = {in_run(stream.path) for stream in now.streams if stream.writer == stage.name}
        whole = {
            name: every * sum(piece.steps for piece in pieces_of(directory, before, name))
            for name, every in kept_files(now, stage.name).items()
        }
        # A step that is whole in a stream need not be computed again, whether its end was noted or not.
        streams = [steps for name, steps in whole.items() if name in written]
        done = min([*(streams or reads), *whole.values()], default=None)
        outside = [path for path in stage.kept_files if not path.startswith(RUN_DIR)]
        if why := stage.from_start or (f"writes {outside[0]}, outside of the run directory" if outside else ""):
            found[stage.name] = Position(None, (0,), why)
        elif not reads:
            steps = saved_steps(directory, before, stage.name)
            why = f"had saved its state at step {steps[-1]}" if steps else "has saved no state"
            found[stage.name] = Position(done, (0, *steps), why)
        else:
            found[stage.name] = Position(done)
    return found
