"""How new values reach the program of a stage, and which of them a later run repeats."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from workflow.formats.steering_files import (
    ASKED_FILE,
    TAKEN_FILE,
    ValueChange,
    append_change,
    in_order,
    known_changes,
    read_changes,
    shifted,
)
from workflow.plan.plan_model import FROM_FILE, Plan, StagePlan
from workflow.plan.steerable_values import control_text
from workflow.replace_file import replace_files
from workflow.run.records.run_directory import stage_dir
from workflow.run.state.events import Event, StageSteered, SteeringRefused
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import initial_state

# The change that stands for all that was changed of a program that reads files.
_FILES = "files"


def hand_over(stage: StagePlan, folder: Path, change: ValueChange) -> list[str]:
    """Write new values where the program finds them: in its file of requests, or in files of its own. Returns the
    signals that it gets then. `folder`: of the stage. Raises OSError; then the program finds none of them."""
    declared = {name: stage.steer[name] for name in change.values}
    if not any(each.file for each in declared.values()):
        append_change(folder / ASKED_FILE, change)
        return []
    replace_files(
        {Path(each.file): control_text(each, change.values[name]).encode() for name, each in declared.items()}
    )
    return list(dict.fromkeys(each.signal for each in declared.values() if each.signal))


def changes_of(
    run_dir: Path, plan: Plan, events: Sequence[Event], *, replay_from: int | None = None
) -> dict[str, list[ValueChange]]:
    """Stage → what was changed of it in a run and in those that it goes on with, for a run that repeats that.

    Of a program that reads files the values that it had last. `replay_from`: the step that a replay begins with; there
    such a program begins with the values that are declared, since nobody knows at which step it took others. What was
    answered, and is not repeated, is there without values: a next part does not take it again.
    """
    state = fold(initial_state(plan), events)
    found: dict[str, list[ValueChange]] = {}
    for stage in plan.stages:
        before = [ValueChange(**each.model_dump()) for each in stage.changes if each.by != FROM_FILE]
        before = [each for each in before if replay_from is None or each.id != _FILES]
        known, folder = {each.id for each in before}, stage_dir(run_dir, stage.name)
        in_plan = {each.id for each in stage.changes}
        taken = [each for each in known_changes(folder) if each.id not in known | in_plan]
        values = {name: value for name, value in state.steered.get(stage.name, {}).items() if stage.steer[name].file}
        if values and replay_from is None:
            taken.append(ValueChange(_FILES, values, None, run_dir.name))
        if changes := in_order([*before, *taken]):
            found[stage.name] = shifted(changes, replay_from) if replay_from else changes
        if replay_from is None and (answered := _answered(stage, folder, events, known | {each.id for each in taken})):
            found[stage.name] = [*found.get(stage.name, []), *(ValueChange(id_, {}, None, "") for id_ in answered)]
    return found


def _answered(stage: StagePlan, folder: Path, events: Iterable[Event], repeated: Collection[str]) -> list[str]:
    """The ids of requests for a stage that were taken or refused, in this part or earlier ones, beside those that the
    next part repeats."""
    kinds = StageSteered | SteeringRefused
    ids = [each.id for each in read_changes(folder / TAKEN_FILE)]
    ids += [each.id for each in events if isinstance(each, kinds) and each.stage == stage.name]
    in_file = {each.id for each in stage.changes if each.by == FROM_FILE}
    return [each for each in dict.fromkeys([*stage.answered, *ids]) if each not in in_file and each not in repeated]
