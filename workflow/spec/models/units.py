"""Durations and sizes with units, `10 min`, `2 GiB`, and shares, `5 %`. Plain numbers are bytes and shares; a duration
in a file has a unit, because schedulers count plain numbers in minutes or seconds.

Also the names of stages and streams, and what all models have in common."""

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationInfo, WithJsonSchema

SECONDS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {
    "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_QUANTITY = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]+)\s*$")


def to_seconds(value: Any) -> Any:
    """`'10 min'` → 600.0; numbers pass unchanged. Raises ValueError naming the known units."""
    return _in_base_unit(value, SECONDS, "a duration such as `10 min` or `30 s`", _meant_durations)


# The context in which models read what a user has written: there a duration has a unit. Records have plain seconds.
WRITTEN = "written"


def to_duration(value: Any, info: ValidationInfo) -> Any:
    """As `to_seconds`; a number that a user has written without a unit is refused, unless it is 0."""
    if info.context == WRITTEN and isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return to_seconds(f"{value:g}")
    return to_seconds(value)


_PLAIN = re.compile(r"[0-9]*\.?[0-9]+")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?")
# Of one duration: `1h30m`, `2 hours`, `1 day 12 hrs`.
_WORDS = re.compile(r"([0-9]*\.?[0-9]+)\s*([A-Za-z]+)[\s,]*")
_UNIT_OF_WORD = {
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), "ms"),
}


def _meant_durations(text: str) -> list[str]:
    """What a text may mean that is none of our durations, in our form; [] where that is not known."""
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return [f"{text} {unit}" for unit in ("s", "min", "h")] if float(text) else []
    if match := _CLOCK.fullmatch(text):
        days, first, second, third = match.groups()
        if third is None and days is None:  # hours and minutes for some schedulers, minutes and seconds for others
            seconds = 60 * int(first) + int(second)
            return [in_one_unit(60 * seconds), in_one_unit(seconds)]
        seconds = 86400 * int(days or 0) + 3600 * int(first) + 60 * int(second) + int(third or 0)
        return [in_one_unit(seconds)]
    parts = [(number, word.lower()) for number, word in _WORDS.findall(text)]
    if not parts or _WORDS.sub("", text) or any(word not in _UNIT_OF_WORD for _, word in parts):
        return []
    return [in_one_unit(sum(float(number) * SECONDS[_UNIT_OF_WORD[word]] for number, word in parts))]


def in_one_unit(seconds: float) -> str:
    """`90 min`: the largest unit of which it is a whole number."""
    unit = next((each for each in ("d", "h", "min", "s") if seconds and not seconds % SECONDS[each]), "ms")
    return f"{seconds / SECONDS[unit]:g} {unit}"


def to_bytes(value: Any) -> Any:
    """`'2 GiB'` → 2147483648; numbers pass unchanged. Raises ValueError naming the known units."""
    number = _in_base_unit(value, BYTES, "a size such as `2 GiB` or `16 MB`")
    return int(number) if isinstance(number, float) and not isinstance(value, float) else number


def to_share(value: Any) -> Any:
    """`'5 %'` → 0.05; numbers pass unchanged, also as text. Raises ValueError with an example."""
    if not isinstance(value, str):
        return value
    number = value.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not math.isfinite(share):
        raise ValueError(f"expected a share such as `5%` or `0.05`, got `{value}`")
    return share


def _in_base_unit(
    value: Any, units: dict[str, Any], expected: str, meant_by: Callable[[str], list[str]] = lambda _: []
) -> Any:
    if not isinstance(value, str):
        return value
    match = _QUANTITY.match(value)
    if match is None or match[2] not in units:
        near = next((unit for unit in units if match is not None and unit.lower() == match[2].lower()), None)
        found = [f"{match[1]} {near}"] if match is not None and near is not None else meant_by(value)
        texts = [f"`{each}`" for each in dict.fromkeys(found)]
        meant = f"did you mean {' or '.join([', '.join(texts[:-1]), texts[-1]][len(texts) < 2 :])}? " if texts else ""
        raise ValueError(f'expected {expected}, got "{value}"; {meant}units: {", ".join(units)}')
    number = float(match[1]) * units[match[2]]
    if not math.isfinite(number):
        raise ValueError(f"expected {expected}, which {value[:40]} is not: it is too large")
    return number


# The largest counts and sizes in all files. What is larger is refused before anything is made of it: planning takes
# time and memory for each member, rank, node, trial and run.
MOST_MEMBERS = 10**4
MOST_TRIALS = 10**5
MOST_REPETITIONS = 10**4
MOST_RUNS = 10**6  # of a campaign: the repetitions of all trials
MOST_JOBS = 10**4
MOST_NODES = 10**5
MOST_CORES = 10**5  # of a node; threads of a rank
MOST_RANKS = 10**7
MOST_STEPS = 10**12
MOST_INTEGER = 2**63 - 1  # also of bytes

MemberCount = Annotated[int, Field(ge=1, le=MOST_MEMBERS)]
Nodes = Annotated[int, Field(ge=1, le=MOST_NODES)]
RankCount = Annotated[int, Field(ge=1, le=MOST_RANKS)]
Scalar = bool | int | float | str  # what YAML has for one value
# Stage and stream names become directory names, placeholder parts and `--set` keys.
NAME = r"^[A-Za-z][A-Za-z0-9_-]{0,62}$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
Duration = Annotated[
    float,
    BeforeValidator(to_duration),
    Field(gt=0, allow_inf_nan=False),
    WithJsonSchema({"type": "string", "examples": ["30 s"]}),
]
Size = Annotated[
    int,
    BeforeValidator(to_bytes),
    Field(ge=0, le=MOST_INTEGER),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "examples": ["16 MB", "2 GiB"]}),
]
Share = Annotated[
    float,
    BeforeValidator(to_share),
    Field(gt=0, lt=1, allow_inf_nan=False),
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, {"type": "string"}],
            "examples": ["5 %", 0.05],
        }
    ),
]


# What all models of files share: unknown keys are refused, and nothing is changed after it was read.


class Spec(BaseModel):
    """Settings that every part of the file shares."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)
