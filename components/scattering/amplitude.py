"""Scattering amplitudes of atoms on a q grid: the sum Σ_j exp(-i q·r_j), by a fast transform and by definition.

The fast method is a non-uniform fast Fourier transform of type 1, O(N + M log M) for N atoms and M points instead of
O(N·M): A. H. Barnett, J. Magland, L. af Klinteberg, SIAM J. Sci. Comput. 41 (2019) C479, doi:10.1137/18M120885X.

Form factors f0(q) are those of the isolated neutral atom or ion as a sum of Gaussians, in the form of D. T. Cromer
and J. B. Mann, Acta Cryst. A24 (1968) 321, doi:10.1107/S0567739468000550, with the five-Gaussian coefficients of
D. Waasmaier and A. Kirfel, Acta Cryst. A51 (1995) 416, doi:10.1107/S0108767394013292, kept by `periodictable`.
Anomalous dispersion (f', f'') is neglected, so the results hold far from absorption edges.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from components.scattering.qgrid import Floats, QGrid

Complexes = npt.NDArray[np.complex128]

# The tables of Waasmaier and Kirfel end at sin θ/λ = 6 1/Å; q = 4π sin θ/λ.
Q_LIMIT = 24.0 * np.pi
# Phases that the direct sum holds in memory: 32 MB.
DIRECT_BLOCK = 1 << 22


class AtomsError(ValueError):
    """The pattern cannot be computed: an unknown symbol, an atom type without a symbol, a q beyond the tables."""


def form_factor(symbol: str, q: Floats) -> Floats:
    """f0 of an atom or ion (`Cu`, `O2-`) at |q| in 1/Å, in electrons, same shape as `q`; f0(0) ≈ electrons.

    Raises AtomsError for an unknown symbol or a q beyond the tables (75.4 1/Å).
    """
    from periodictable import cromermann

    if q.size and float(q.max()) > Q_LIMIT:
        raise AtomsError(f"form factors are tabulated up to q = {Q_LIMIT:.1f} 1/Å, not {float(q.max()):.1f}")
    # The tables write charges with a number: Na1+.
    name = f"{symbol[:-1]}1{symbol[-1]}" if symbol[-1:] in "+-" and not symbol[-2:-1].isdigit() else symbol
    try:
        formula = cromermann.getCMformula(name)
    except KeyError:
        raise AtomsError(f"no form factor is tabulated for {symbol!r}; expected a symbol such as Cu or Na+") from None
    # Not atstol(q / 4π) of periodictable: it makes five arrays of q's size, and a grid has millions of points.
    squares = (q / (4.0 * np.pi)) ** 2
    total: Floats = np.full_like(squares, formula.c)
    for height, width in zip(formula.a, formula.b, strict=True):
        total += height * np.exp(-width * squares)
    return total


def phase_sum(
    positions: Floats, grid: QGrid, method: str = "finufft", eps: float = 1e-6, threads: int = 1
) -> Complexes:
    """Σ_j exp(-i q·r_j) over `positions` [n, 3] in Å, for all points of the grid: complex, `grid.shape`.

    `method` is `finufft` (relative accuracy about `eps`, 1e-14 to 1e-1) or `direct` (the definition).
    """
    if method == "direct":
        return direct_sum(positions, grid.points().reshape(-1, 3)).reshape(grid.shape)
    if method != "finufft":
        raise ValueError(f"method is finufft or direct, not {method!r}")
    if len(positions) == 0:
        return np.zeros(grid.shape, dtype=np.complex128)
    import finufft

    # finufft counts modes from -(n // 2); the phase of that shifted origin goes into the strengths.
    middle = np.asarray(grid.first) + (np.asarray(grid.shape) // 2) @ np.asarray(grid.steps)
    strengths = np.exp(-1j * (positions @ middle))
    turns = [np.ascontiguousarray(positions @ np.asarray(step)) for step in grid.steps]
    transform = (finufft.nufft1d1, finufft.nufft2d1, finufft.nufft3d1)[len(turns) - 1]
    modes = grid.shape if len(turns) > 1 else grid.shape[0]
    result: Complexes = transform(*turns, strengths, modes, eps=eps, isign=-1, nthreads=threads)
    return result


def direct_sum(positions: Floats, q: Floats) -> Complexes:
    """Σ_j exp(-i q·r_j) at any q vectors [m, 3] (1/Å) for positions [n, 3] (Å): complex [m]. O(n·m), the reference."""
    amplitudes = np.zeros(len(q), dtype=np.complex128)
    atoms = min(max(len(positions), 1), 4096)
    width = max(DIRECT_BLOCK // atoms, 1)
    for begin in range(0, len(q), width):
        some = q[begin : begin + width]
        for atom in range(0, len(positions), atoms):
            phases = some @ positions[atom : atom + atoms].T
            amplitudes[begin : begin + width] += np.cos(phases).sum(axis=1) - 1j * np.sin(phases).sum(axis=1)
    return amplitudes


def form_factors(species: list[str], grid: QGrid) -> dict[str, Floats]:
    """f0 of every symbol in `species` at all points of the grid, `grid.shape` each: computed once for all steps."""
    moduli = grid.moduli()
    return {symbol: form_factor(symbol, moduli) for symbol in dict.fromkeys(species)}


def amplitude(
    positions: Floats,
    types: npt.NDArray[np.integer],
    species: list[str],
    grid: QGrid,
    factors: dict[str, Floats],
    method: str = "finufft",
    eps: float = 1e-6,
    threads: int = 1,
) -> Complexes:
    """A(q) = Σ_j f_j(|q|) exp(-i q·r_j) in electrons: complex, `grid.shape`.

    `positions` [n, 3] in Å; `types` [n] counts from 1 and `species[type - 1]` is the atom's symbol; `factors` as
    from `form_factors`. One phase sum per species, each multiplied by its form factor. Linear in the atoms: the
    shares of several ranks add up. Raises AtomsError for a type without a symbol.
    """
    if len(types) and not 1 <= int(types.min()) <= int(types.max()) <= len(species):
        known = ", ".join(species) or "none"
        raise AtomsError(f"atom types {int(types.min())} to {int(types.max())} but {len(species)} species: {known}")
    total = np.zeros(grid.shape, dtype=np.complex128)
    for symbol, factor in factors.items():
        kinds = [index + 1 for index, name in enumerate(species) if name == symbol]
        chosen = positions if len(kinds) == len(species) else positions[np.isin(types, kinds)]
        if len(chosen):
            total += factor * phase_sum(chosen, grid, method, eps, threads)
    return total


def intensity(amplitudes: Complexes, atoms: int) -> Floats:
    """I(q) = |A(q)|² / N in electron units per atom; N = `atoms`. A lone atom gives f0², a perfect crystal N f0²."""
    return np.asarray((amplitudes.real**2 + amplitudes.imag**2) / atoms, dtype=np.float64)
