"""Units as text → openPMD's unitSI and unitDimension.

Values: SI brochure, 9th edition; elementary charge and electron volt exact since 2019, the dalton by CODATA 2018.
"""

from __future__ import annotations

import re
from typing import NamedTuple

Powers = tuple[int, int, int, int, int, int, int]  # of length, mass, time, current, temperature, amount, luminosity

_NONE: Powers = (0, 0, 0, 0, 0, 0, 0)
_LENGTH: Powers = (1, 0, 0, 0, 0, 0, 0)
_MASS: Powers = (0, 1, 0, 0, 0, 0, 0)
_TIME: Powers = (0, 0, 1, 0, 0, 0, 0)
_ENERGY: Powers = (2, 1, -2, 0, 0, 0, 0)
_UNITS: dict[str, tuple[float, Powers]] = {
    "1": (1.0, _NONE),
    "m": (1.0, _LENGTH), "cm": (1e-2, _LENGTH), "mm": (1e-3, _LENGTH), "um": (1e-6, _LENGTH), "µm": (1e-6, _LENGTH),
    "nm": (1e-9, _LENGTH), "angstrom": (1e-10, _LENGTH), "Å": (1e-10, _LENGTH), "pm": (1e-12, _LENGTH),
    "s": (1.0, _TIME), "ms": (1e-3, _TIME), "us": (1e-6, _TIME), "ns": (1e-9, _TIME), "ps": (1e-12, _TIME),
    "fs": (1e-15, _TIME), "as": (1e-18, _TIME), "Hz": (1.0, (0, 0, -1, 0, 0, 0, 0)),
    "kg": (1.0, _MASS), "g": (1e-3, _MASS), "Da": (1.66053906660e-27, _MASS), "u": (1.66053906660e-27, _MASS),
    "J": (1.0, _ENERGY), "eV": (1.602176634e-19, _ENERGY), "keV": (1.602176634e-16, _ENERGY),
    "MeV": (1.602176634e-13, _ENERGY), "K": (1.0, (0, 0, 0, 0, 1, 0, 0)), "mol": (1.0, (0, 0, 0, 0, 0, 1, 0)),
    "A": (1.0, (0, 0, 0, 1, 0, 0, 0)), "C": (1.0, (0, 0, 1, 1, 0, 0, 0)), "e": (1.602176634e-19, (0, 0, 1, 1, 0, 0, 0)),
    "V": (1.0, (2, 1, -3, -1, 0, 0, 0)), "T": (1.0, (0, 1, -2, -1, 0, 0, 0)), "N": (1.0, (1, 1, -2, 0, 0, 0, 0)),
    "Pa": (1.0, (-1, 1, -2, 0, 0, 0, 0)), "bar": (1e5, (-1, 1, -2, 0, 0, 0, 0)), "W": (1.0, (2, 1, -3, 0, 0, 0, 0)),
}  # fmt: skip
_FACTOR = re.compile(r"([A-Za-zµÅ]+|1)(?:\^?(-?\d+))?")


class Unit(NamedTuple):
    """The value of a unit in SI, and the powers of the seven base quantities in openPMD's order."""

    si: float = 1.0
    powers: tuple[int, ...] = _NONE


def to_unit(text: str) -> Unit | None:
    """`angstrom/ps`, `1/Å`, `kg*m/s^2` as a Unit; None for an unknown unit.

    Factors are separated by `*`, `·` or blanks; all factors after a `/` divide.
    """
    si, powers = 1.0, list(_NONE)
    for index, group in enumerate(text.strip().split("/")):
        for factor in re.split(r"[*·\s]+", group.strip()):
            match = _FACTOR.fullmatch(factor)
            if match is None or match[1] not in _UNITS:
                return None
            power = int(match[2] or 1) * (1 if index == 0 else -1)
            base, base_powers = _UNITS[match[1]]
            si *= base**power
            powers = [mine + power * other for mine, other in zip(powers, base_powers, strict=True)]
    return Unit(si, tuple(powers))
