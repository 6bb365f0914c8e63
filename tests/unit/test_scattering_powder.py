"""The powder pattern from shells of the grid, against Debye's formula."""

from __future__ import annotations

import numpy as np
import pytest

from components.scattering.amplitude import amplitude, form_factor, form_factors, intensity
from components.scattering.powder import debye, shell_average, shell_centres, shell_sums
from components.scattering.qgrid import Box, Floats, volume

A = 3.615  # lattice constant of copper, Å


def test_shells_average_what_lies_in_them() -> None:
    moduli, values = np.array([[0.5, 1.5, 1.75], [2.5, 0.25, 5.0]]), np.array([[1.0, 3.0, 5.0], [7.0, 9.0, 11.0]])
    sums, weights = shell_sums(moduli, values, 3.0, 3)
    np.testing.assert_allclose(weights, [1.75, 1.75, 1.25])  # 0.25 lies half below the first centre; 5.0 is beyond
    np.testing.assert_allclose(
        shell_average(sums, weights), [(1 + 0.75 * 9) / 1.75, (3 + 0.75 * 5) / 1.75, 8.25 / 1.25]
    )
    np.testing.assert_allclose(shell_centres(3.0, 3), [0.5, 1.5, 2.5])


def test_parts_add_up() -> None:
    moduli, values = np.linspace(0.0, 3.0, 50), np.linspace(1.0, 2.0, 50)
    parts = [shell_sums(moduli[part], values[part], 2.5, 7) for part in (slice(0, 20), slice(20, 50))]
    np.testing.assert_allclose(np.sum(parts, axis=0), shell_sums(moduli, values, 2.5, 7))


def test_an_empty_shell_is_not_a_number() -> None:
    average = shell_average(*shell_sums(np.array([0.5]), np.array([2.0]), 2.0, 2))
    assert average[0] == 2.0 and np.isnan(average[1])


def test_debye_of_two_atoms_is_known() -> None:
    q = np.array([0.5, 1.0, 4.0])
    positions = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.5]])
    expected = 1.0 + np.sin(2.5 * q) / (2.5 * q)  # per atom, f = 1
    np.testing.assert_allclose(debye(positions, np.ones((2, 3)), q), expected, rtol=1e-12)


def powder(moduli: Floats, values: Floats) -> Floats:
    return shell_average(*shell_sums(moduli, values, 6.5, 43))


def test_the_shells_agree_with_debye_for_a_small_cluster() -> None:
    # Copper, 3³ cells: peaks 2π/11 = 0.6 1/Å wide, sampled here at 0.07 1/Å and averaged over 0.15 1/Å.
    basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    cells = np.stack(np.meshgrid(*[np.arange(3)] * 3, indexing="ij"), axis=-1).reshape(-1, 1, 3)
    positions = A * (cells + basis).reshape(-1, 3)
    box = Box((3 * A, 3 * A, 3 * A), (False, False, False))
    grid = volume(box, 6.5, (180, 180, 180))
    amplitudes = amplitude(positions, np.ones(len(positions), dtype=np.int32), ["Cu"], grid, form_factors(["Cu"], grid))
    shells, q = powder(grid.moduli(), intensity(amplitudes, len(positions))), shell_centres(6.5, 43)
    # Debye's formula averaged over the shells as the grid's points are: with q² as weight.
    fine = shell_centres(6.5, 860)
    curve = debye(positions, np.tile(form_factor("Cu", fine), (len(positions), 1)), fine)
    exact = powder(fine, curve * fine**2) / powder(fine, fine**2)
    beyond = slice(7, -1)  # q > 1: below, few points lie in one shell of the steep forward peak
    assert np.abs(shells - exact)[beyond].max() <= 0.02 * exact[beyond].max()
    assert q[beyond][np.argmax(shells[beyond])] == pytest.approx(2 * np.pi * np.sqrt(3) / A, abs=0.15)  # (111)
