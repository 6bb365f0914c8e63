"""Units of physical quantities as text: `Å`, `kg*m/s^2`, `1/ps`, or with a number, `5.47e-24 kg*m/s`. Pure.

Factors are separated by `*`, `·` or blanks; all factors after a `/` divide. A text that cannot be read so, such as
`e.u./atom`, is a unit too, of which nothing but its text is known.

Values: SI brochure, 9th edition; elementary charge and electron volt exact since 2019, the dalton by CODATA 2018.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

Powers = tuple[int, int, int, int, int, int, int]  # of length, mass, time, current, temperature, amount, luminosity

_NONE: Powers = (0, 0, 0, 0, 0, 0, 0)
_LENGTH: Powers = (1, 0, 0, 0, 0, 0, 0)
_MASS: Powers = (0, 1, 0, 0, 0, 0, 0)
TIME: Powers = (0, 0, 1, 0, 0, 0, 0)
_ENERGY: Powers = (2, 1, -2, 0, 0, 0, 0)
_UNITS: dict[str, tuple[float, Powers]] = {
    "1": (1.0, _NONE),
    "m": (1.0, _LENGTH), "cm": (1e-2, _LENGTH), "mm": (1e-3, _LENGTH), "um": (1e-6, _LENGTH), "µm": (1e-6, _LENGTH),
    "nm": (1e-9, _LENGTH), "angstrom": (1e-10, _LENGTH), "Å": (1e-10, _LENGTH), "pm": (1e-12, _LENGTH),
    "s": (1.0, TIME), "ms": (1e-3, TIME), "us": (1e-6, TIME), "µs": (1e-6, TIME), "ns": (1e-9, TIME),
    "ps": (1e-12, TIME), "fs": (1e-15, TIME), "as": (1e-18, TIME), "Hz": (1.0, (0, 0, -1, 0, 0, 0, 0)),
    "kg": (1.0, _MASS), "g": (1e-3, _MASS), "Da": (1.66053906660e-27, _MASS), "u": (1.66053906660e-27, _MASS),
    "J": (1.0, _ENERGY), "eV": (1.602176634e-19, _ENERGY), "keV": (1.602176634e-16, _ENERGY),
    "MeV": (1.602176634e-13, _ENERGY), "K": (1.0, (0, 0, 0, 0, 1, 0, 0)), "mol": (1.0, (0, 0, 0, 0, 0, 1, 0)),
    "A": (1.0, (0, 0, 0, 1, 0, 0, 0)), "C": (1.0, (0, 0, 1, 1, 0, 0, 0)), "e": (1.602176634e-19, (0, 0, 1, 1, 0, 0, 0)),
    "V": (1.0, (2, 1, -3, -1, 0, 0, 0)), "T": (1.0, (0, 1, -2, -1, 0, 0, 0)), "N": (1.0, (1, 1, -2, 0, 0, 0, 0)),
    "Pa": (1.0, (-1, 1, -2, 0, 0, 0, 0)), "bar": (1e5, (-1, 1, -2, 0, 0, 0, 0)), "W": (1.0, (2, 1, -3, 0, 0, 0, 0)),
}  # fmt: skip
# The order in which factors are written, and where each stands in `Powers`.
_BASES = (("kg", 1), ("m", 0), ("s", 2), ("A", 3), ("K", 4), ("mol", 5), ("cd", 6))
# Quantities that nobody writes in base units.
_COMPOUNDS: dict[tuple[int, ...], str] = {
    (1, 1, -3, -1, 0, 0, 0): "V/m", (-3, 0, 1, 1, 0, 0, 0): "C/m^3", (0, 1, -3, 0, 0, 0, 0): "W/m^2",
}  # fmt: skip
_FACTOR = re.compile(r"([A-Za-zµÅ]+|1)(?:\^?(-?\d+))?")
_NUMBERED = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?:[\s*·]+(\S.*))?")
_PREFIXES = dict(zip(range(-24, 25, 3), ("y", "z", "a", "f", "p", "n", "µ", "m", "", *"kMGTPEZY"), strict=True))
_TAKE_PREFIX = ("m", "s", "A", "K", "J", "eV", "V", "T", "N", "Pa", "W", "C", "Hz")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SPELLINGS = {"angstrom": "Å", "um": "µm", "us": "µs"}


class Unit(NamedTuple):
    """The value of a unit in SI, and the powers of the seven base quantities in openPMD's order."""

    si: float = 1.0
    powers: tuple[int, ...] = _NONE


def to_unit(text: str) -> Unit | None:
    """`angstrom/ps`, `1/Å`, `5.47e-24 kg*m/s` as a Unit; None for an unknown unit."""
    number, name = split_number(text)
    si, powers = number, list(_NONE)
    for index, group in enumerate(name.split("/")):
        for factor in _factors(group):
            match = _FACTOR.fullmatch(factor)
            if match is None or match[1] not in _UNITS:
                return None
            power = int(match[2] or 1) * (1 if index == 0 else -1)
            base, base_powers = _UNITS[match[1]]
            try:
                si *= base**power
            except OverflowError:
                return None
            powers = [mine + power * other for mine, other in zip(powers, base_powers, strict=True)]
    return Unit(si, tuple(powers))


def same_unit(one: str, other: str) -> bool:
    """Whether two texts mean the same unit: `Å` and `angstrom` do. Of unknown units only the texts are compared."""
    first, second = to_unit(one), to_unit(other)
    if first is None or second is None:
        return one.strip() == other.strip()
    return first.powers == second.powers and math.isclose(first.si, second.si, rel_tol=1e-9)


def unit_text(si: float, powers: Sequence[float]) -> str:
    """openPMD's unitSI and unitDimension as text: `nm`, `V/m`, `5.47e-24 kg*m/s`; "" for the number 1.

    Powers that are no whole numbers have no text here, and a number that is 0 or infinite is none: "".
    """
    if not si or not math.isfinite(si):
        return ""
    whole = tuple(round(power) for power in powers)
    if len(whole) != len(_NONE) or any(abs(power - each) > 1e-9 for power, each in zip(powers, whole, strict=True)):
        return ""
    for name, unit in _UNITS.items():
        if unit[1] == whole and name not in ("1", "Hz") and math.isclose(unit[0], si, rel_tol=1e-9):
            return name
    coherent = (name for name, unit in _UNITS.items() if unit == (1.0, whole) and name not in ("1", "Hz"))
    name = next(coherent, None) or _COMPOUNDS.get(whole) or _product(whole)
    return name if si == 1.0 else f"{si!r} {name}".rstrip()


def split_number(text: str) -> tuple[float, str]:
    """(the number in front of a unit, the unit itself): (1.0, `Å`), (5.47e-24, `kg*m/s`), (0.5, `1`)."""
    match = _NUMBERED.fullmatch(text.strip())
    return (float(match[1]), match[2] or "1") if match and float(match[1]) else (1.0, text.strip())


def inverse(text: str) -> str:
    """The unit of one divided by the quantity: `s/kg/m` for `kg*m/s`."""
    number, name = split_number(text)
    above, *below = (_factors(group) for group in name.split("/"))
    divisors = [factor for factor in above if factor != "1"]
    turned = "/".join(["*".join(factor for group in below for factor in group) or "1", *divisors])
    return turned if number == 1.0 else f"{1 / number:.15g} {turned}"


def printed(text: str) -> str:
    """A unit for people: `Å⁻¹` for `1/angstrom`, `kg·m/s²` for `kg*m/s^2`, `s/(kg·m)` for `s/kg/m`."""
    number, name = split_number(text)
    above, *below = ([_printed_factor(factor) for factor in _factors(group)] for group in name.split("/"))
    divisors = [factor for group in below for factor in group]
    if above == ["1"] and len(divisors) == 1 and divisors[0].isalpha():
        shown = f"{divisors[0]}⁻¹"
    else:
        under = f"({'·'.join(divisors)})" if len(divisors) > 1 else "".join(divisors)
        shown = "/".join(part for part in ("·".join(above), under) if part)
    if number == 1.0:
        return "" if shown == "1" else shown
    digits, _, power = f"{number:.3g}".partition("e")
    times = f"{digits}×10{str(int(power)).translate(_RAISED)}" if power else digits
    return times if shown == "1" else f"{times} {shown}"


def readable(text: str, largest: float) -> tuple[float, str]:
    """By what to multiply values so that people can read them, and the unit that they then have.

    Only a unit with a number asks for it: values up to 50 in `1.77e-10 s` are shown in ns, times 0.177; those in
    `5.47e-24 kg*m/s` up to 3 in 10⁻²⁴ kg·m/s. `largest`: the largest modulus of the values.
    """
    number, name = split_number(text)
    if number == 1.0:
        return 1.0, printed(text)
    size = largest * number
    power = 3 * math.floor(math.log10(size) / 3) if math.isfinite(size) and size > 0 else 0
    if name in _TAKE_PREFIX and power in _PREFIXES:
        return number / 10.0**power, _PREFIXES[power] + name
    return number / 10.0**power, f"10{str(power).translate(_RAISED)} {printed(name)}".rstrip() if power else printed(
        name
    )


def _factors(group: str) -> list[str]:
    return re.split(r"[*·\s]+", group.strip())


def _printed_factor(factor: str) -> str:
    match = _FACTOR.fullmatch(factor)
    if match is None:
        return factor
    return _SPELLINGS.get(match[1], match[1]) + (match[2] or "").translate(_RAISED)


def _product(powers: Sequence[int]) -> str:
    above = "*".join(_power(name, powers[place]) for name, place in _BASES if powers[place] > 0)
    below = "".join(f"/{_power(name, -powers[place])}" for name, place in _BASES if powers[place] < 0)
    return f"{above or '1'}{below}" if above or below else ""


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"
