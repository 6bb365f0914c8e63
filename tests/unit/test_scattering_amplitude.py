"""Amplitudes: the fast sum against the definition, form factors, species, invariances."""

from __future__ import annotations

import numpy as np
import pytest

from components.scattering.amplitude import (
    Complexes,
    amplitude,
    direct_sum,
    form_factor,
    form_factors,
    intensity,
    phase_sum,
)  # fmt: skip
from components.scattering.qgrid import Box, Floats, QGrid, line, plane, volume

BOX = Box((31.0, 22.0, 57.0), (True, True, False))
ALONG = line(BOX, np.array([0.3, 0.1, 1.0]), np.array([-0.2, 2.0, 8.0]), 301)
GRIDS = {
    "line": ALONG,
    "plane": plane(BOX, 8.0, (60, 41), (2, 0), 0.4),
    "volume": volume(BOX, 5.0, (0, 16, 33)),
}
TOLERANCE = 1e-4  # of the largest value, amplitude and intensity alike


def some_atoms(count: int = 700, seed: int = 5) -> Floats:
    # Negative and far away on purpose: finufft folds coordinates.
    return np.random.default_rng(seed).uniform(-300.0, 300.0, size=(count, 3))


def pattern(positions: Floats, grid: QGrid, method: str = "finufft", eps: float = 1e-6) -> Complexes:
    types = np.ones(len(positions), dtype=np.int32)
    return amplitude(positions, types, ["Cu"], grid, form_factors(["Cu"], grid), method, eps)


@pytest.mark.parametrize("name", GRIDS)
def test_finufft_agrees_with_the_direct_sum(name: str) -> None:
    positions, grid = some_atoms(), GRIDS[name]
    fast, exact = pattern(positions, grid), pattern(positions, grid, "direct")
    assert np.abs(fast - exact).max() <= TOLERANCE * np.abs(exact).max()
    intensities = intensity(fast, 700), intensity(exact, 700)
    assert np.abs(intensities[0] - intensities[1]).max() <= TOLERANCE * intensities[1].max()


def test_eps_is_the_accuracy() -> None:
    positions, grid = some_atoms(), GRIDS["volume"]
    exact = phase_sum(positions, grid, "direct")
    fast = [phase_sum(positions, grid, eps=eps) for eps in (1e-3, 1e-6, 1e-9)]
    errors = [np.abs(values - exact).max() / np.abs(exact).max() for values in fast]
    assert errors[0] < 1e-2 and errors[1] < 1e-5 and errors[2] < 1e-8
    assert errors[0] > errors[1] > errors[2]


def test_the_direct_sum_is_the_definition() -> None:
    positions, q = some_atoms(5000), ALONG.points()[:3]
    plain = [sum(np.exp(-1j * float(np.dot(one, r))) for r in positions) for one in q]
    np.testing.assert_allclose(direct_sum(positions, q), plain, rtol=1e-10)


@pytest.mark.parametrize("method", ["finufft", "direct"])
def test_a_lone_atom_scatters_its_form_factor_squared(method: str) -> None:
    positions = np.array([[12.3, -4.5, 6.7]])
    for grid in GRIDS.values():
        expected = form_factor("Cu", grid.moduli()) ** 2
        np.testing.assert_allclose(intensity(pattern(positions, grid, method, 1e-12), 1), expected, rtol=1e-9)


def test_moving_all_atoms_changes_no_intensity() -> None:
    positions = some_atoms()
    for grid in GRIDS.values():
        moved = positions + np.array([3.1, -7.7, 41.0])
        here, there = (intensity(pattern(r, grid, eps=1e-10), 700) for r in (positions, moved))
        assert np.abs(here - there).max() <= 1e-8 * here.max()


def test_opposite_q_have_equal_intensity() -> None:
    values = intensity(pattern(some_atoms(), volume(BOX, 2.0, (0, 0, 0)), eps=1e-10), 700)
    assert np.abs(values - values[::-1, ::-1, ::-1]).max() <= 1e-8 * values.max()


def test_forward_scattering_counts_electrons() -> None:
    grid = QGrid((0.0, 0.0, 0.0), ((1.0, 0.0, 0.0),), (1,))
    assert intensity(pattern(some_atoms(), grid), 700)[0] == pytest.approx(700 * 29.0**2, rel=1e-3)


def test_species_add_with_their_own_form_factors() -> None:
    positions = some_atoms(6)
    types = np.array([1, 2, 3, 3, 2, 1], dtype=np.int32)
    species = ["Na+", "Cl-", "Na+"]  # two types of one element, as scripts have
    factors = form_factors(species, ALONG)
    q = ALONG.points()
    single = [form_factor(species[kind - 1], ALONG.moduli()) for kind in types]
    expected = sum(f * np.exp(-1j * (q @ r)) for f, r in zip(single, positions, strict=True))
    found = amplitude(positions, types, species, ALONG, factors, eps=1e-10)
    assert np.abs(found - expected).max() <= 1e-7 * np.abs(expected).max()


def test_shares_of_the_atoms_add_up() -> None:
    positions, grid = some_atoms(), GRIDS["volume"]
    parts = [pattern(positions[:100], grid), pattern(positions[100:], grid), pattern(positions[:0], grid)]
    whole = pattern(positions, grid)
    assert np.abs(np.sum(parts, axis=0) - whole).max() <= 1e-5 * np.abs(whole).max()


def test_form_factors_are_in_electrons_at_q_in_inverse_angstrom() -> None:
    # Another fit than the kept one: the four Gaussians of Cromer and Mann (1968) for Cu, in s = sin θ/λ = q / 4π.
    a, b, c = [13.338, 7.1676, 5.6158, 1.6735], [3.5828, 0.247, 11.3966, 64.8126], 1.191
    s = np.linspace(0.0, 1.5, 31)
    expected = sum(height * np.exp(-width * s**2) for height, width in zip(a, b, strict=True)) + c
    np.testing.assert_allclose(form_factor("Cu", 4.0 * np.pi * s), expected, rtol=0.01)


@pytest.mark.parametrize("symbol", ["Cu", "O2-", "Na+", "Cl-"])
def test_form_factors_are_those_of_periodictable(symbol: str) -> None:
    from periodictable import cromermann

    q = np.linspace(0.0, 70.0, 99).reshape(9, 11)
    np.testing.assert_allclose(form_factor(symbol, q), cromermann.fxrayatq(symbol, q), rtol=1e-12)


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda: form_factor("Xx", np.zeros(1)), "no form factor is tabulated for 'Xx'"),
        (lambda: form_factor("Cu", np.array([80.0])), r"tabulated up to q = 75\.4"),
        (lambda: phase_sum(np.zeros((1, 3)), ALONG, "magic"), "finufft or direct"),
        (
            lambda: amplitude(np.zeros((1, 3)), np.array([2]), ["Cu"], ALONG, form_factors(["Cu"], ALONG)),
            "atom types 2 to 2 but 1 species: Cu",
        ),
    ],
)
def test_mistakes_are_named(act: object, message: str) -> None:
    assert callable(act)
    with pytest.raises(ValueError, match=message):
        act()
