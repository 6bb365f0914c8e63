"""`steer:` of a stage → what can be changed of it while it runs, and the changes that are known before the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from workflow.plan.placeholders import work_dir
from workflow.plan.plan_model import FROM_FILE, ChangePlan, SteerPlan
from workflow.plan.plan_notes import Problems
from workflow.plan.programs.placeholder_expansion import Filler
from workflow.plan.steerable_values import control_text, converted, last_value, type_name, value_mistake
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.spec.placeholder_syntax import literal
from workflow.spec.suggest import did_you_mean, listing

if TYPE_CHECKING:
    from workflow.formats.steering_files import ValueChange

# Stands for the value in the text of a file while its placeholders are filled.
_VALUE = "\0"


class PlannedSteering(NamedTuple):
    """What can be changed, what is known to change, the files of programs that read some (path → text), and the ids of
    requests that were answered, of which there is nothing to repeat."""

    steer: dict[str, SteerPlan]
    changes: list[ChangePlan]
    files: dict[str, str]
    answered: list[str]


def plan_steering(
    stage: DeclaredStage,
    parameters: Mapping[str, Any],
    before: Sequence[ValueChange],
    filler: Filler,
    problems: Problems,
) -> PlannedSteering:
    """The steering of a stage. Notes what is wrong with it.

    `before`: what was changed of it in an earlier run, which this one goes on with or replays; without values what
    was only answered.
    """
    _check_names(stage, problems)
    steer = _of_component(stage, parameters) if stage.component is not None else _of_command(stage, filler)
    changes = [*_from_file(stage, steer, problems), *_from_before(stage, steer, before, problems)]
    changes.sort(key=lambda each: -1 if each.step is None else each.step)
    files = {
        each.file: control_text(each, last_value(steer, changes, name)) for name, each in steer.items() if each.file
    }
    answered = [each.id for each in before if not each.values]
    return PlannedSteering(steer, changes, files, answered)


def _check_names(stage: DeclaredStage, problems: Problems) -> None:
    if stage.component is None:
        return
    for name in stage.spec.steer:
        if name not in stage.component.steer:
            known = stage.component.steer
            has = f"steerable: {listing(known)}" if known else "none of its parameters can be steered"
            text = f"component {stage.component.component} has no steerable parameter `{name}`"
            problems.add(f"stages.{stage.name}.steer.{name}", text, did_you_mean(name, known) or has)


def _of_component(stage: DeclaredStage, parameters: Mapping[str, Any]) -> dict[str, SteerPlan]:
    assert stage.component is not None
    found = {}
    for name in stage.component.steer:
        declared, value = stage.component.parameters[name], parameters.get(name)
        if value is not None:
            found[name] = SteerPlan(
                type=type_name(value), value=value, minimum=declared.min, maximum=declared.max,
                choices=declared.choices or [], unit=declared.unit,
            )  # fmt: skip
    return found


def _of_command(stage: DeclaredStage, filler: Filler) -> dict[str, SteerPlan]:
    found = {}
    for name, each in stage.spec.steer.items():
        if each.value is None:
            continue
        is_float = type(each.value) is int and any(isinstance(bound, float) for bound in (each.minimum, each.maximum))
        value = float(each.value) if is_float else each.value
        text = filler.with_values({"steer.value": _VALUE}).fill(f"stages.{stage.name}.steer.{name}.text", each.text)
        found[name] = SteerPlan(
            type=type_name(value),
            value=literal(value) if isinstance(value, str) else value,
            minimum=each.minimum,
            maximum=each.maximum,
            unit=each.unit,
            file=f"{work_dir(stage.name)}/{literal(each.file.removeprefix('./'))}" if each.file else "",
            around=text.split(_VALUE) if each.file else [],
            signal=each.signal or "",
        )
    return found


def _from_file(stage: DeclaredStage, steer: Mapping[str, SteerPlan], problems: Problems) -> list[ChangePlan]:
    """The changes that the pipeline file has."""
    found = []
    for name, declared in stage.spec.steer.items():
        if name not in steer:
            continue
        if mistake := value_mistake(steer[name], name, steer[name].value):
            problems.add(f"stages.{stage.name}.steer.{name}.value", *mistake)
        for number, each in enumerate(declared.at):
            if mistake := value_mistake(steer[name], name, each.value):
                problems.add(f"stages.{stage.name}.steer.{name}.at[{number}].value", *mistake)
                continue
            values = converted(steer, {name: each.value})
            found.append(ChangePlan(id=f"{name}-at-{each.step}", values=values, step=each.step, by=FROM_FILE))
    return found


def _from_before(
    stage: DeclaredStage, steer: Mapping[str, SteerPlan], before: Sequence[ValueChange], problems: Problems
) -> list[ChangePlan]:
    found = []
    for change in before:
        if not change.values:
            continue  # only its id is of use
        if unknown := [name for name in change.values if name not in steer]:
            text = f"`{unknown[0]}` was changed at step {change.step} by {change.by}, and cannot be steered any more"
            problems.add(f"stages.{stage.name}", text, "declare it as it was: `steer:` of the stage")
            continue
        found.append(ChangePlan(id=change.id, values=dict(change.values), step=change.step, by=change.by))
    return found
