"""JSON that may be damaged, of another version, or that nobody of wf has written: where its text becomes values.

Beyond what `json.loads` refuses, these are no JSON: NaN and infinity, also as `1e999`; integers of more digits than any
number of 64 bits; half of a pair of surrogates, which no terminal and no file takes; a NUL; and what is nested deeper
than any record. All are a ValueError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

# Of 2^64 - 1.
_MOST_DIGITS = 20
# Deeper than any file of wf by far, and far below what Python can still print or compare.
_MOST_NESTED = 100
# Whether a text may hold what only the slow way finds: long integers, large exponents, escapes that are no character.
_SUSPICIOUS = re.compile(r"[0-9]{21}|[eE]\+?[0-9]{3}|\\u(?:[dD][89a-fA-F]|0000)")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > _MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits.lstrip('-'))} digits")
    return int(digits)


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:_MOST_DIGITS]} is no number")
    return value


_STRICT = json.JSONDecoder(parse_constant=_refuse)
_SLOW = json.JSONDecoder(parse_constant=_refuse, parse_int=_integer, parse_float=_number)
_LENIENT = json.JSONDecoder()
_SLOW_LENIENT = json.JSONDecoder(parse_int=_integer)


def read_json(text: str | bytes, *, infinity: bool = False) -> Any:
    """The value of a JSON text. `infinity`: take NaN and infinity, as JavaScript and Python write them.

    Raises:
        ValueError: it is no JSON, or holds what no record may.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        decode = (_LENIENT if infinity else _STRICT).decode
        if _SUSPICIOUS.search(text) is not None:
            decode = (_SLOW_LENIENT if infinity else _SLOW).decode
        elif text.count("[") + text.count("{") <= _MOST_NESTED:
            return decode(text)
        value = decode(text)
        _check(value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _check(value: object, depth: int = 0) -> None:
    """Raises ValueError for texts that cannot be written, and for what is nested too deeply."""
    if depth > _MOST_NESTED:
        raise ValueError("it is nested too deeply")
    if isinstance(value, str):
        value.encode()
        if "\0" in value:
            raise ValueError("a text with a NUL")
    elif isinstance(value, dict):
        for key, each in value.items():
            _check(key)
            _check(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check(each, depth + 1)


class OtherVersionError(ValueError):
    """A file was written by another version of wf than the one that reads it."""


def check_version(record: Mapping[str, Any], key: str, known: int, file: object) -> None:
    """Refuse a record that does not state the version `known` under `key`.

    Raises:
        OtherVersionError: it states another one, or none.
    """
    version = record.get(key)
    if version != known:
        stated = f"{key} is {version}" if key in record else f"it has no {key}"
        raise OtherVersionError(f"{file}: {stated}, and this wf reads version {known}; use the wf that wrote it")
