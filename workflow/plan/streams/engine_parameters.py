"""Checks engine parameters against the engine's list, and converts them to the text that ADIOS2 takes.

ADIOS2 ignores names that it does not know (SST even when only the case differs) and throws at Open, in
the middle of an allocation, for values that it cannot read. So everything is refused here first.
"""

from __future__ import annotations

import math

from workflow.errors import did_you_mean, listing
from workflow.spec.models.engine import Engine, EngineParameter
from workflow.spec.models.pipeline import Scalar
from workflow.spec.models.units import to_bytes

EngineSettings = dict[str, tuple[str, str]]  # engine parameter → (value, reason)
# choices that YAML 1.1 readers turn into booleans
_TRUE_WORDS, _FALSE_WORDS = ("on", "true", "yes"), ("off", "false", "no")


class ParameterError(ValueError):
    """One engine parameter that cannot be used; `hint` is what to do instead."""

    def __init__(self, message: str, hint: str = "", unknown: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.unknown = unknown


def known_name(engine: Engine, name: str) -> str:
    """The engine's own spelling of `name`. Raises ParameterError when there is none.

    Engines that lower-case names before they look take any case; others compare exactly.
    """
    if name in engine.parameters:
        return name
    if engine.traits.any_case:
        for known in engine.parameters:
            if known.lower() == name.lower():
                return known
    if not engine.parameters:
        raise ParameterError(f"engine {engine.engine} takes no parameters", "remove it", unknown=True)
    useful = [known for known, info in engine.parameters.items() if not (info.managed or info.useless)]
    hint = did_you_mean(name, engine.parameters) or f"{engine.engine} takes: {listing(useful, 40)}"
    raise ParameterError(
        f"engine {engine.engine} has no parameter `{name}` (it would ignore it silently)", hint, unknown=True
    )


def user_parameter(engine: Engine, name: str, value: Scalar) -> tuple[str, str]:
    """(name, value) as ADIOS2 takes them. Raises ParameterError for anything but a useful setting."""
    name = known_name(engine, name)
    known = engine.parameters[name]
    if known.managed:
        raise ParameterError(f"{name} is set by wf", known.managed)
    if known.useless:
        raise ParameterError(f"{name} has no effect here", known.useless)
    return name, to_text(name, known, value)


def to_text(name: str, known: EngineParameter, value: Scalar) -> str:
    """`value` as text that ADIOS2 reads. Raises ParameterError for a wrong type, choice or range."""
    if known.type == "bool":
        return _bool(name, known, value)
    if known.type == "choice":
        return _choice(name, known, value)
    if known.type == "string":
        return _word(value)
    return _number(name, known, value)


def _word(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bool(name: str, known: EngineParameter, value: Scalar) -> str:
    word = _word(value).lower()
    if word in _TRUE_WORDS or word in _FALSE_WORDS:
        return "true" if word in _TRUE_WORDS else "false"
    raise ParameterError(f"expected true or false, got {value!r}", f"{name}: {known.help}")


def _choice(name: str, known: EngineParameter, value: Scalar) -> str:
    wanted, choices = [_word(value).lower()], known.choices or []
    if isinstance(value, bool):
        wanted += _TRUE_WORDS if value else _FALSE_WORDS
    for choice in choices:
        if choice.lower() in wanted:
            return choice
    hint = did_you_mean(str(value), choices) or f"{name}: {known.help}"
    raise ParameterError(f"expected one of {', '.join(choices)}, got {value!r}", hint)


def _number(name: str, known: EngineParameter, value: Scalar) -> str:
    expected = {"int": "a whole number", "size": "a size such as 16 MB", "float": "a number"}[known.type]
    if known.min is not None:
        expected += f" of at least {known.min:g}"
    if known.max is not None:
        expected += f"{' and' if known.min is not None else ' of'} at most {known.max:.12g}"
    wrong = ParameterError(f"expected {expected}, got {value!r}", f"{name}: {known.help}")
    number: Scalar = value
    if known.type == "size":
        try:
            number = to_bytes(value)
        except ValueError:
            raise wrong from None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise wrong
    if known.type != "float" and number != int(number):
        raise wrong
    if (known.min is not None and number < known.min) or (known.max is not None and number > known.max):
        raise wrong
    return f"{number:.12g}" if known.type == "float" else str(int(number))
