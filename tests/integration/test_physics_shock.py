"""The compression read off the shifted Bragg peak is the one that the piston makes.

Real LAMMPS drives a piston of velocity up into a copper crystal; a shock wave of velocity us runs ahead of it.
Conservation of mass (Rankine–Hugoniot) says what the lattice behind it must be:  ρ0 / ρ1 = 1 − up / us.
Here up is a parameter, us is measured on the atoms' velocities, and ρ0 / ρ1 on the (002) and (004) reflections: the
wave is elastic at this strength, so the lattice is compressed along z only, and q(00l) grows as the density does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from workflow import stage

COMPONENTS = Path(__file__).parents[2] / "components"
PISTON = 5.0  # Å/ps
TOLERANCE = 0.005  # of ρ0 / ρ1, where the compression itself is 0.1
Floats = npt.NDArray[np.float64]


def start(component: str, *arguments: str, cwd: Path) -> None:
    argv = [sys.executable, str(COMPONENTS / component / "program.py"), *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=200)
    assert answer.returncode == 0, f"{component}\n{answer.stdout[-2000:]}\n{answer.stderr[-2000:]}"


def read_all(path: Path) -> list[dict[str, Any]]:
    with stage.open_reader(path=path) as reader:
        return [{name: step.read(name) for name in step.names()} for step in reader]


@pytest.fixture(scope="module")
def shock(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Atoms and patterns of 1.8 ps, written every 0.3 ps: the front then is at two thirds of the crystal."""
    path = tmp_path_factory.mktemp("shock")
    script = ["--cells", "5", "5", "40", "--variables", f"piston={PISTON}", "--run_steps", "900", "--dump_every", "150"]
    start("lammps", *script, "--write", "atoms=atoms.bp", cwd=path)
    line = ["--outputs", "line", "--line_from", "0", "0", "3", "--line_to", "0", "0", "8.2", "--line_points", "2000"]
    start("scattering", *line, "--read", "atoms=atoms.bp", "--write", "pattern=pattern.bp", cwd=path)
    return read_all(path / "atoms.bp"), read_all(path / "pattern.bp")


def front(atoms: dict[str, Any]) -> float:
    """z (Å) where the mean velocity along z of layers of 2 Å falls through half the piston's, going outwards."""
    z, velocity = atoms["position"][:, 2], atoms["velocity"][:, 2]
    edges = np.arange(z.min(), z.max() + 2.0, 2.0)
    counts, _ = np.histogram(z, edges)
    sums, _ = np.histogram(z, edges, weights=velocity)
    means = sums / np.maximum(counts, 1)
    last = int(np.flatnonzero(means > PISTON / 2)[-1])
    share = (means[last] - PISTON / 2) / (means[last] - means[last + 1])
    return float((edges[last] + edges[last + 1]) / 2 + 2.0 * share)


def peak(pattern: dict[str, Any], low: float, high: float) -> float:
    """q (1/Å) of the strongest point in [low, high], refined by a parabola through its neighbours."""
    q, values = pattern["line_q"], pattern["line_intensity"]
    inside = np.flatnonzero((q >= low) & (q <= high))
    top = int(inside[np.argmax(values[inside])])
    left, middle, right = np.log(values[top - 1 : top + 2])
    return float(q[top] + (q[1] - q[0]) * 0.5 * (left - right) / (left - 2.0 * middle + right))


@pytest.mark.slow
def test_compression_of_the_lattice_is_that_of_the_piston(shock: Any) -> None:
    atoms, patterns = shock
    times = np.array([float(step["time"]) for step in atoms])
    fronts = np.array([front(step) for step in atoms[2:]])
    velocity = float(np.polyfit(times[2:], fronts, 1)[0])
    assert 45.0 < velocity < 56.0, "Å/ps: sound along <100> is 43, and shocks are faster"
    expected = 1.0 - PISTON / velocity
    for low, high, unshocked in ((3.6, 4.1, 3.460), (7.3, 8.1, 6.920)):
        at_rest = peak(patterns[0], unshocked - 0.1, unshocked + 0.1)
        assert at_rest == pytest.approx(unshocked, abs=0.02)
        measured = at_rest / peak(patterns[-1], low, high)
        assert measured == pytest.approx(expected, abs=TOLERANCE), (velocity, measured, expected)


@pytest.mark.slow
def test_the_compressed_peak_grows_as_the_wave_passes(shock: Any) -> None:
    _, patterns = shock

    def strongest(pattern: dict[str, Any], low: float, high: float) -> float:
        inside = (pattern["line_q"] >= low) & (pattern["line_q"] <= high)
        return float(pattern["line_intensity"][inside].max())

    unshocked = [strongest(pattern, 3.36, 3.56) for pattern in patterns]
    compressed = [strongest(pattern, 3.7, 4.0) for pattern in patterns]
    assert compressed[0] < 0.02 * unshocked[0]
    assert all(later > earlier for earlier, later in pairwise(compressed[1:]))
    assert all(later < earlier for earlier, later in pairwise(unshocked))


@pytest.mark.slow
def test_matter_behind_the_front_moves_with_the_piston(shock: Any) -> None:
    atoms = shock[0][-1]
    z, velocity = atoms["position"][:, 2], atoms["velocity"][:, 2]
    where = front(atoms)
    assert velocity[z < where - 15.0].mean() == pytest.approx(PISTON, rel=0.02)
    assert abs(velocity[z > where + 15.0].mean()) < 0.05 * PISTON
