"""What a variable is called for people, and its unit: from the attributes of its stream. Pure.

Attributes `<variable>/long_name` and `<variable>/unit` say it; data of openPMD programs have unitSI and unitDimension
(https://github.com/openPMD/openPMD-standard, version 1.1.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workflow.physical_units import TIME, unit_text


def label_of(variable: str, attributes: Mapping[str, Any]) -> str:
    """Its `long_name`; of openPMD data `momentum x of electrons` and `E x`; else its name."""
    given = attributes.get(f"{variable}/long_name")
    if given is not None:
        return _text(given)
    group, *record = _openpmd_parts(variable, attributes) or [variable]
    given = attributes.get("/particlesPath", attributes.get("particlesPath", "particles/"))
    particles = _text(given).strip("/")
    return f"{' '.join(record[1:])} of {record[0]}" if group == particles and record[1:] else " ".join(record) or group


def unit_of(variable: str, attributes: Mapping[str, Any]) -> str:
    """Its unit as text, `Å`, `5.47e-24 kg*m/s`; "" where none is known. `/data/time` is openPMD's time of the step."""
    given = attributes.get(f"{variable}/unit")
    if given is not None:
        return _text(given)
    if f"{variable}UnitSI" in attributes:  # only a time has its unit beside it
        return unit_text(_number(attributes[f"{variable}UnitSI"]), TIME)
    if f"{variable}/unitSI" not in attributes:
        return ""
    for owner in (variable, variable.rpartition("/")[0]):  # a scalar record is its own component
        if (powers := attributes.get(f"{owner}/unitDimension")) is not None:
            return unit_text(_number(attributes[f"{variable}/unitSI"]), [float(each) for each in np.ravel(powers)])
    return ""


def _openpmd_parts(variable: str, attributes: Mapping[str, Any]) -> list[str]:
    """`/data/100/particles/e/momentum/x` → particles, e, momentum, x; nothing for a variable of other programs.

    ADIOS2 reads the names of HDF5 files without the first slash.
    """
    data, *parts = variable.strip("/").split("/")
    if data != "data" or not ("/openPMD" in attributes or "openPMD" in attributes):
        return []
    return parts[1:] if parts and parts[0].isdigit() else parts


def _text(value: Any) -> str:
    return str(value.item() if isinstance(value, np.ndarray) and not value.ndim else value)


def _number(value: Any) -> float:
    return float(np.ravel(value)[0])
