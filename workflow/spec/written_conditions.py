"""Conditions on numbers as users write them, with units: `> 1 GB/s`, `41`; and what is wrong with them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from workflow.conditions import COMPARATORS, Comparator, Condition
from workflow.report_figures import Figure
from workflow.spec.models.units import BYTES, SECONDS
from workflow.spec.suggest import shortened
from workflow.spec.validation_messages import shown

_MEANT = {"=": "==", "=>": ">=", "=<": "<=", "≥": ">=", "≤": "<=", "===": "==", ">>": ">", "<<": "<"}
_CONDITION = re.compile(r"\s*([^\w\s.+-]*)\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([^\s\d].*?)?\s*")


class _Kind(NamedTuple):
    """What figures of one unit are; `units`: as a condition may write it → its value in that unit."""

    what: str
    example: str
    units: Mapping[str, float]
    exact: bool
    """Whether a value can be expected exactly: counts can, what a clock measures cannot."""

    @property
    def hint(self) -> str:
        """What to type."""
        return f"for example `{self.example}`" if self.example.isdigit() else f'for example `"{self.example}"`'


_KINDS: Mapping[str, _Kind] = {
    "s": _Kind("a time", "< 10 min", SECONDS, exact=False),
    "B": _Kind("a size", "< 2 GiB", BYTES, exact=True),
    "B/s": _Kind("a rate", "> 1 GB/s", {f"{unit}/s": size for unit, size in BYTES.items()}, exact=False),
    "steps": _Kind("a number of steps", "41", {"": 1, "step": 1, "steps": 1}, exact=True),
    "steps/s": _Kind("a rate of steps", "> 5 steps/s", {"steps/s": 1}, exact=False),
    "1": _Kind("a share", "> 60 %", {"%": 0.01}, exact=False),
    # Of the slowest rank to the median one.
    "ratio": _Kind("a ratio", "< 1.5", {"": 1}, exact=False),
    "": _Kind("a number", "< 1e-6", {"": 1}, exact=True),
}


def to_condition(given: Any, unit: str) -> Condition:
    """`> 1 GB/s`, `41`, or a number → the condition on a figure of that unit.

    Raises:
        ValueError: it is none; what follows `; ` in its text is what to type.
    """
    kind = _KINDS[unit]
    found = None if isinstance(given, bool) else _CONDITION.fullmatch(str(given))
    if found is None or not isinstance(given, str | int | float):
        hint = f"{kind.hint}; operators: {', '.join(COMPARATORS)}"
        raise ValueError(f"expected an operator and {kind.what}, got {shown(given)}; {hint}")
    sign, number, written = found[1], found[2], found[3] or ""
    quantity = f"{number} {written}".rstrip()
    if sign and sign not in COMPARATORS:
        hint = f'did you mean `"{_MEANT[sign]} {quantity}"`?' if sign in _MEANT else f"one of {', '.join(COMPARATORS)}"
        raise ValueError(f"there is no operator `{shortened(sign)}`; {hint}")
    if written not in kind.units:
        raise ValueError("; ".join(_wrong_unit(sign, number, written, kind)))
    value = float(number) * kind.units[written]
    if not math.isfinite(value) or (unit and value < 0):
        raise ValueError(f"{kind.what} cannot be {quantity}; {kind.hint}")
    if unit == "1" and value > 1:
        raise ValueError(f"a share is at most 100 %, got {quantity}; {kind.hint}")
    if unit == "ratio" and value < 1:
        raise ValueError(f"the slowest rank ÷ the median one is at least 1, got {quantity}; {kind.hint}")
    if unit == "steps" and not value.is_integer():
        least = math.floor(value)
        raise ValueError(f"steps are whole, got {quantity}; {_whole_hint(sign, least)}")
    if not kind.exact and sign in ("", "=="):
        noun = kind.what.removeprefix("a ")
        raise ValueError(f"a measured {noun} is never exactly {quantity}; put <, <=, >= or > before it: {kind.hint}")
    return Condition(cast("Comparator", sign or "=="), value, f"{sign or '=='} {quantity}")


def _whole_hint(sign: str, least: int) -> str:
    """The condition on whole steps that says the same; between two of them it is not known which was meant."""
    match sign:
        case ">" | ">=":
            return f'did you mean `"> {least}"`?'
        case "<" | "<=":
            return f'did you mean `"<= {least}"`?'
    return f"did you mean `{least}` or `{least + 1}`?"


def _wrong_unit(sign: str, number: str, written: str, kind: _Kind) -> tuple[str, str]:
    """Message and hint."""
    if not written and "%" in kind.units and 0 <= (share := float(number)) <= 100:
        percent, sign = f"{share * 100 if share <= 1 else share:g}", ">=" if sign in ("", "==") else sign
        return f"a share is written in percent, got {number}", f'did you mean `"{sign} {percent} %"`?'
    if not written:
        return f"expected {kind.what} with its unit, got {number}", f"{kind.hint}; units: {', '.join(kind.units)}"
    other = next((each.what for each in _KINDS.values() if written in each.units), "")
    message = f"expected {kind.what}, got {other}: {number} {written}"
    if near := next((unit for unit in kind.units if unit.lower() == written.lower()), ""):
        return f"there is no unit `{shortened(written)}`", f"did you mean `{near}`?"
    units = [unit for unit in kind.units if unit]
    message = message if other else f"there is no unit `{shortened(written)}` of {kind.what}"
    return message, kind.hint + (f"; units: {', '.join(units)}" if units else "")


def condition_example(figure: Figure) -> str:
    """A condition on this figure, for people and editors; of counts the number alone."""
    example = _KINDS[figure.unit].example
    return example.replace(">", "<") if figure.better == "less" else example
