"""Plain YAML scalars by the core schema of YAML 1.2: `on`, `off`, `yes` and `no` are text.

PyYAML follows YAML 1.1, where `async: off` is false, `1e-3` is text and `12:30` is a number of seconds.
Source: YAML 1.2.2, section 10.3.2 (https://yaml.org/spec/1.2.2/#1032-tag-resolution).
"""

from __future__ import annotations

import re

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NAN = {".nan", ".NaN", ".NAN"}
# Python refuses to read longer ones; no setting of ours has even a fifth of it.
_MAX_DIGITS = 100

CORE_TAGS = {"null": type(None), "bool": bool, "int": int, "float": float, "str": str}


def plain_scalar(text: str) -> bool | int | float | str | None:
    """The value of a scalar written without quotes. Raises ValueError for an integer of more than 100 digits."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if len(text) > _MAX_DIGITS and _INT.fullmatch(text):
        raise ValueError(f"a whole number of {len(text)} digits is too long")
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if infinite := _INFINITE.fullmatch(text):
        return float(f"{infinite[1]}inf")
    return float("nan") if text in _NAN else text


def tagged_scalar(text: str, tag: str) -> bool | int | float | str | None:
    """The value of `!!tag text`. Raises ValueError when the text is no such value."""
    if tag == "str":
        return text
    value = plain_scalar(text)
    if tag == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not CORE_TAGS[tag]:
        raise ValueError(f"{text!r} is no !!{tag}")
    return value
