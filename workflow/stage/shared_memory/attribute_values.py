"""Attributes as JSON, with their types."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow.stage.variables import Array


def to_json(value: Array | list[str]) -> Any:
    """A list of strings as it is, an array as [[type], values]."""
    if isinstance(value, list):
        return value
    return [["str" if value.dtype.kind == "U" else value.dtype.name], value.tolist()]


def from_json(found: Any) -> Array | list[str]:
    """What was sent."""
    if found and isinstance(found[0], list):
        (kind,), values = found
        return np.array(values, dtype=kind)
    return list(found)
