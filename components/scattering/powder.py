"""The powder pattern: the intensity averaged over all directions of q.

B. E. Warren, X-ray Diffraction (Dover 1990), describes what a powder diffractometer measures beyond this average.
"""

from __future__ import annotations

import numpy as np

from components.scattering.qgrid import Floats


def shell_sums(moduli: Floats, intensities: Floats, q_max: float, shells: int) -> tuple[Floats, Floats]:
    """Weighted sum of intensity, and sum of weights, of `shells` equal shells of |q| in [0, q_max): [shells] each.

    A point is shared between the two nearest shells by its distance from their centres: with sharp shells the
    pattern has artefacts where planes of the q grid cross the borders of shells. The sums of parts of a grid add up,
    so every rank computes its own; the average is one sum divided by the other (`shell_average`).
    """
    place = moduli.ravel() * (shells / q_max) - 0.5
    inside = place < shells - 0.5
    place, values = place[inside], intensities.ravel()[inside]
    lower = np.floor(place).astype(np.int64) + 1  # one more shell at either end for points that lie half outside
    upper_share = place - (lower - 1)
    sums, weights = np.zeros(shells + 2), np.zeros(shells + 2)
    for index, share in ((lower, 1.0 - upper_share), (lower + 1, upper_share)):
        sums += np.bincount(index, weights=share * values, minlength=shells + 2)
        weights += np.bincount(index, weights=share, minlength=shells + 2)
    return sums[1:-1], weights[1:-1]


def shell_average(sums: Floats, weights: Floats) -> Floats:
    """Mean intensity per shell, [shells]; NaN in shells without a grid point.

    This is the orientational average of one crystallite (no multiplicity, Lorentz or polarisation factor added: the
    number of grid points already contains the multiplicity), smeared over about one shell to either side. It is
    valid when the grid samples every peak (`qgrid.Box.spacing`) and shells are at least two grid spacings wide. In
    a periodic box intensity exists only at the points 2π n / L, each of which represents its cell of the grid:
    features narrower than 2π / L are not resolved. It is one orientation-averaged grain, not a textured sample.
    """
    means: Floats = np.divide(sums, weights, out=np.full(len(sums), np.nan), where=weights > 0.0)
    return means


def shell_centres(q_max: float, shells: int) -> Floats:
    """Middle of each shell in 1/Å, [shells]."""
    return (np.arange(shells, dtype=np.float64) + 0.5) * (q_max / shells)


def debye(positions: Floats, factors: Floats, q: Floats) -> Floats:
    """Exact orientational average of a finite cluster, per atom: the formula of P. Debye, Ann. Phys. 351 (1915) 809.

    I(q) = 1/N Σ_i Σ_j f_i f_j sin(q r_ij) / (q r_ij); `positions` [n, 3] in Å, `factors` f0 of each atom at each q
    [n, m], `q` [m] in 1/Å; returns [m]. O(n² m): for clusters of hundreds of atoms, and to check the shells.
    """
    distances = np.linalg.norm(positions[:, None, :] - positions[None, :, :], axis=-1)
    return np.array(
        [f @ np.sinc(distances * (value / np.pi)) @ f / len(positions) for f, value in zip(factors.T, q, strict=True)]
    )
