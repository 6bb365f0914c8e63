"""Whether the fields of a record have the types that a dataclass states: damaged records are found where they are read.

Standard library only; as much of `typing` as the records of wf use.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Check = Callable[[Any], bool]


def from_fields(kind: type[T], record: Mapping[str, Any]) -> T:
    """The dataclass with the fields that it has of this record; others are ignored.

    Raises:
        TypeError: a field is missing, or of another type; or it is no record at all.
    """
    if not isinstance(record, Mapping):
        raise TypeError(f"no record: {str(record)[:40]}")
    checks = _checks(kind)  # type: ignore[arg-type]  # mypy takes no class for hashable
    fields = {name: value for name, value in record.items() if name in checks}
    for name, value in fields.items():
        if not checks[name](value):
            raise TypeError(f"{name} is {str(value)[:40]}")
    return kind(**fields)


@functools.cache
def _checks(kind: Hashable) -> dict[str, Check]:
    assert isinstance(kind, type) and dataclasses.is_dataclass(kind)
    hints = get_type_hints(kind)
    return {field.name: _check(hints[field.name]) for field in dataclasses.fields(kind) if field.init}


def _check(hint: Any) -> Check:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: isinstance(value, str | int) and value in args
    if origin in (Union, types.UnionType):
        choices = [_check(each) for each in args]
        return lambda value: any(fits(value) for fits in choices)
    if origin is tuple and args[-1] is not Ellipsis:
        places = [_check(each) for each in args]
        return lambda value: (
            isinstance(value, list | tuple)
            and len(value) == len(places)
            and all(fits(item) for fits, item in zip(places, value, strict=True))
        )
    if origin in (list, tuple, Sequence):
        each = _check(args[0])
        return lambda value: isinstance(value, list | tuple) and all(each(item) for item in value)
    if origin in (dict, Mapping):
        each = _check(args[1])
        return lambda value: isinstance(value, dict) and all(each(item) for item in value.values())
    if dataclasses.is_dataclass(hint):
        return lambda value: type(value) is hint
    return _SIMPLE[hint]


def _is_integer(value: Any) -> bool:
    # Beyond 2^64 it is damage, and may be too large for what is done with it.
    return type(value) is int and abs(value) < 2**64


def _is_number(value: Any) -> bool:
    # What a program measures may be a density of 1e25 per cubic metre.
    return _is_integer(value) or (type(value) is float and math.isfinite(value))


_SIMPLE: dict[Any, Check] = {
    int: _is_integer,
    float: _is_number,
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    type(None): lambda value: value is None,
    Any: lambda _: True,
}
