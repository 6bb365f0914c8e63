"""Units as text: read, compared, inverted, and shown to people."""

from __future__ import annotations

import pytest

from workflow.physical_units import Unit, inverse, printed, readable, same_unit, to_unit, unit_text


@pytest.mark.parametrize(
    ("text", "si", "powers"),
    [
        ("angstrom", 1e-10, (1, 0, 0, 0, 0, 0, 0)),
        ("Å", 1e-10, (1, 0, 0, 0, 0, 0, 0)),
        ("angstrom/ps", 1e2, (1, 0, -1, 0, 0, 0, 0)),
        ("1/Å", 1e10, (-1, 0, 0, 0, 0, 0, 0)),
        ("kg*m/s^2", 1.0, (1, 1, -2, 0, 0, 0, 0)),
        ("kg m s^-1", 1.0, (1, 1, -1, 0, 0, 0, 0)),
        ("V/m", 1.0, (1, 1, -3, -1, 0, 0, 0)),
        ("eV", 1.602176634e-19, (2, 1, -2, 0, 0, 0, 0)),
        ("5.47e-24 kg*m/s", 5.47e-24, (1, 1, -1, 0, 0, 0, 0)),
        ("1.77e-10 s", 1.77e-10, (0, 0, 1, 0, 0, 0, 0)),
        ("0.5", 0.5, (0, 0, 0, 0, 0, 0, 0)),
        ("1", 1.0, (0, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_units(text: str, si: float, powers: tuple[int, ...]) -> None:
    unit = to_unit(text)
    assert unit is not None
    assert unit.si == pytest.approx(si)
    assert unit.powers == powers


@pytest.mark.parametrize("text", ["", "e.u./atom", "furlong", "m//s", "m^", "sigma", "5 furlongs"])
def test_unknown_units_are_not_guessed(text: str) -> None:
    assert to_unit(text) is None


@pytest.mark.parametrize(
    ("si", "powers", "text"),
    [
        (1.0, (1, 0, 0, 0, 0, 0, 0), "m"),
        (1e-10, (1, 0, 0, 0, 0, 0, 0), "angstrom"),
        (1.0, (0, 0, -1, 0, 0, 0, 0), "1/s"),
        (1.0, (1, 1, -3, -1, 0, 0, 0), "V/m"),
        (5.5e-24, (1, 1, -1, 0, 0, 0, 0), "5.5e-24 kg*m/s"),
        (1.0, (-3, 0, 0, 0, 0, 0, 0), "1/m^3"),
        (1.0, (0, 0, 0, 0, 0, 0, 0), ""),
        (1.0, (0.5, 0, 0, 0, 0, 0, 0), ""),
        (1.0, (0, 0, 0), ""),
    ],
)
def test_openpmd_units_as_text_and_back(si: float, powers: tuple[float, ...], text: str) -> None:
    assert unit_text(si, powers) == text
    if text:
        assert to_unit(text) == Unit(si, tuple(map(int, powers)))


@pytest.mark.parametrize(
    ("text", "shown", "inverted"),
    [
        ("angstrom", "Å", "1/angstrom"),
        ("1/angstrom", "Å⁻¹", "angstrom"),
        ("angstrom/ps", "Å/ps", "ps/angstrom"),
        ("kg*m/s^2", "kg·m/s²", "s^2/kg/m"),
        ("s/kg/m", "s/(kg·m)", "kg*m/s"),
        ("e.u./atom", "e.u./atom", "atom/e.u."),
        ("2e-24 kg*m/s", "2×10⁻²⁴ kg·m/s", "5e+23 s/kg/m"),
        ("1/m^3", "1/m³", "m^3"),
        ("1", "", "1"),
    ],
)
def test_units_for_people(text: str, shown: str, inverted: str) -> None:
    assert printed(text) == shown
    assert inverse(text) == inverted


@pytest.mark.parametrize(
    ("text", "largest", "factor", "shown"),
    [
        ("ps", 4e6, 1.0, "ps"),
        ("1.77e-10 s", 50.0, 0.177, "ns"),
        ("5.47e-24 kg*m/s", 3.0, 5.47, "10⁻²⁴ kg·m/s"),
        ("0.5 m", 10.0, 0.5, "m"),
        ("2e23 s/kg/m", 5.0, 2.0e-1, "10²⁴ s/(kg·m)"),
        ("1e-3 s", 0.0, 1e-3, "s"),
        ("0.25", 8.0, 0.25, ""),
    ],
)
def test_values_get_a_unit_that_people_can_read(text: str, largest: float, factor: float, shown: str) -> None:
    found, unit = readable(text, largest)
    assert found == pytest.approx(factor)
    assert unit == shown


def test_the_same_unit_in_other_words() -> None:
    assert same_unit("Å", "angstrom") and same_unit("N", "kg*m/s^2") and same_unit("e.u./atom", "e.u./atom")
    assert not same_unit("nm", "Å") and not same_unit("m", "s") and not same_unit("e.u./atom", "Å")


def test_numbers_that_are_no_units() -> None:
    assert to_unit("angstrom^-40") is None and inverse("0.0 m") == "1/0.0/m"
    assert unit_text(0.0, (1, 0, 0, 0, 0, 0, 0)) == unit_text(float("inf"), (1, 0, 0, 0, 0, 0, 0)) == ""
