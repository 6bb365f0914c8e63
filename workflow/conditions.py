"""A condition on a number, `> 0.9`: of `expect:`, and of the steps that a stage selects.

As users write it, with units, and what is wrong with it: `workflow.spec.written_conditions`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, cast

Comparator = Literal["<", "<=", "==", ">=", ">"]
COMPARATORS: Mapping[Comparator, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip


class Condition(NamedTuple):
    """What is expected of a figure; `value` in the figure's unit, `text` in the user's."""

    comparator: Comparator
    value: float
    text: str

    def holds(self, value: float) -> bool:
        """Whether a value meets it. What is not a number does not."""
        return COMPARATORS[self.comparator](value, self.value)


def read_condition(text: str) -> Condition:
    """From the `text` of a condition without a unit."""
    comparator, _, value = text.partition(" ")
    return Condition(cast("Comparator", comparator), float(value), text)
