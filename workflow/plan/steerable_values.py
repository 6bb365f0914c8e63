"""What can be changed of a stage while it runs: whether a value is allowed, and how a program finds it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workflow.plan.plan_model import ChangePlan, SteerPlan
from workflow.spec.models.pipeline import Scalar
from workflow.spec.placeholder_syntax import scalar_text
from workflow.spec.suggest import did_you_mean, listing

_KINDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "string": "text"}


def type_name(value: Scalar) -> str:
    """The type of a value, in the words of `SteerPlan.type`."""
    return {bool: "bool", int: "int", float: "float", str: "string"}[type(value)]


def value_mistake(declared: SteerPlan, name: str, value: Any) -> tuple[str, str] | None:
    """What is wrong with a new value: (message, hint)."""
    unit = f" ({declared.unit})" if declared.unit else ""
    example = f"for example `{name}={scalar_text(declared.value)}`"
    kind = type_name(value) if isinstance(value, bool | int | float | str) else ""
    if (kind, declared.type) == ("float", "int"):
        hint = f"for a value that takes fractions declare the one at the start as `{float(declared.value)}`"
        return f"{name}: expected a whole number, got {value}", hint
    if kind != declared.type and (kind, declared.type) != ("int", "float"):
        return f"{name}: expected {_KINDS[declared.type]}, got {_shown(value)}", example
    if isinstance(value, float) and not math.isfinite(value):
        return f"{name}: expected a finite number, got {value}", example
    if declared.choices and value not in declared.choices:
        return (
            f"{name}: expected one of {listing([str(each) for each in declared.choices])}, got {_shown(value)}",
            example,
        )
    bounds = _bounds_text(declared)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if declared.minimum is not None and value < declared.minimum:
            return f"{name}: expected at least {declared.minimum:g}{unit}, got {value}", bounds
        if declared.maximum is not None and value > declared.maximum:
            return f"{name}: expected at most {declared.maximum:g}{unit}, got {value}", bounds
    return None


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else scalar_text(value) if isinstance(value, bool) else str(value)


def _bounds_text(declared: SteerPlan) -> str:
    low, high = ("" if each is None else f"{each:g}" for each in (declared.minimum, declared.maximum))
    return f"it is declared from {low} to {high}" if low and high else "the pipeline declares this bound"


def values_mistake(steer: Mapping[str, SteerPlan], stage: str, values: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with new values of a stage: (message, hint)."""
    if not steer:
        return f"no value of {stage} can be changed while it runs", "declare some: `steer:` of the stage"
    for name, value in values.items():
        if name not in steer:
            hint = did_you_mean(name, steer) or f"these can be changed: {listing(list(steer))}"
            return f"{stage} declares no value `{name}` to steer", hint
        if mistake := value_mistake(steer[name], name, value):
            return f"{stage}: {mistake[0]}", mistake[1]
    return None


def converted(steer: Mapping[str, SteerPlan], values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Values that are allowed, in the types that are declared."""
    return {name: float(each) if steer[name].type == "float" else each for name, each in values.items()}


def control_text(declared: SteerPlan, value: Scalar) -> str:
    """What is in the file in which a program finds a value."""
    return scalar_text(value).join(declared.around)


def last_value(steer: Mapping[str, SteerPlan], changes: list[ChangePlan], name: str) -> Scalar:
    """The value after all these changes."""
    given = [change.values[name] for change in changes if name in change.values]
    return given[-1] if given else steer[name].value
