"""Attributes as JSON, with their types."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow.stage.variables import Array, complex_to_pairs, pairs_to_complex


def to_json(value: Array | list[str]) -> Any:
    """A list of strings as it is, an array as [[type], values], complex numbers as pairs."""
    if isinstance(value, list):
        return value
    if value.dtype.kind == "c":
        return complex_to_pairs(value)
    return [["str" if value.dtype.kind == "U" else value.dtype.name], value.tolist()]


def from_json(found: Any) -> Array | list[str]:
    """What was sent."""
    if isinstance(found, dict):
        return pairs_to_complex(found)
    if found and isinstance(found[0], list):
        (kind,), values = found
        return np.array(values, dtype=kind)
    return list(found)
