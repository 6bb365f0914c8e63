"""Diffraction of a copper crystal at rest, from real LAMMPS through the real scattering program.

The crystal comes from an input script of a user's own: face-centred cubic, periodic, at 300 K. Its structure
factor allows (hkl) all even or all odd, and no others (B. E. Warren, X-ray Diffraction, Dover 1990).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.scattering.amplitude import amplitude, form_factor, form_factors, intensity
from components.scattering.qgrid import Box, volume
from workflow import stage

COMPONENTS = Path(__file__).parents[2] / "components"
CELLS = 5
LATTICE = 3.632  # Å
ALLOWED = [(1, 1, 1), (2, 0, 0), (2, 2, 0), (3, 1, 1)]
FORBIDDEN = [(1, 0, 0), (1, 1, 0), (2, 1, 0), (2, 1, 1)]
SCRIPT = f"""
units metal
lattice fcc {LATTICE}
region all block 0 {CELLS} 0 {CELLS} 0 {CELLS}
create_box 1 all
create_atoms 1 box
mass 1 63.546
pair_style eam/alloy
pair_coeff * * Cu_mishin1.eam.alloy Cu
velocity all create 600 ${{seed}} loop geom
fix move all nve
timestep 0.002
run 150
"""
LAMMPS = ["--script", "in.crystal", "--variables", "seed=4711", "--run_steps", "50", "--dump_every", "50"]
SCATTERING = [
    "--outputs",
    "grid",
    "powder",
    "slice",
    "--q_max",
    "6.2",
    "--powder_shells",
    "60",
    "--slice_resolution",
    "0.1",
]


def start(component: str, *arguments: str, cwd: Path, ranks: int = 1) -> None:
    argv = [sys.executable, str(COMPONENTS / component / "program.py"), *arguments]
    if ranks > 1:
        argv = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(ranks), *argv]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, f"{component}\n{answer.stdout[-2000:]}\n{answer.stderr[-2000:]}"


def read_step(path: Path, number: int) -> dict[str, Any]:
    with stage.open_reader(path=path) as reader:
        steps = [{name: step.read(name) for name in step.names()} for step in reader]
    return steps[number]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fcc")
    (path / "in.crystal").write_text(SCRIPT)
    start("lammps", *LAMMPS, "--write", "atoms=atoms.bp", cwd=path)
    start("scattering", *SCATTERING, "--read", "atoms=atoms.bp", "--write", "pattern=pattern.bp", cwd=path)
    return path


@pytest.fixture(scope="module")
def pattern(folder: Path) -> dict[str, Any]:
    return read_step(folder / "pattern.bp", 1)


def at(pattern: dict[str, Any], hkl: tuple[int, int, int]) -> float:
    """The largest intensity of the reflections equivalent to (hkl): permutations and signs."""
    spacing = 2.0 * np.pi / LATTICE
    found = []
    for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 2, 1), (2, 1, 0)):
        place = []
        for axis, index in zip(("grid_qx", "grid_qy", "grid_qz"), order, strict=True):
            distance = np.abs(pattern[axis] - hkl[index] * spacing)
            assert distance.min() < 1e-9, "the grid does not contain the reflection"
            place.append(int(distance.argmin()))
        found.append(float(pattern["grid_intensity"][tuple(place)]))
    return max(found)


def test_allowed_reflections_stand_out_of_forbidden_ones(pattern: dict[str, Any]) -> None:
    allowed, forbidden = [at(pattern, hkl) for hkl in ALLOWED], [at(pattern, hkl) for hkl in FORBIDDEN]
    # What is left at forbidden places is thermal diffuse scattering, f² (1 - exp(-2M)) for an atom.
    assert min(allowed) > 300.0 * max(forbidden), (allowed, forbidden)


def test_a_crystal_at_rest_shows_no_forbidden_reflection_at_all() -> None:
    basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    cells = np.stack(np.meshgrid(*[np.arange(CELLS)] * 3, indexing="ij"), axis=-1).reshape(-1, 1, 3)
    positions = LATTICE * (cells + basis).reshape(-1, 3)
    edge = CELLS * LATTICE
    grid = volume(Box((edge, edge, edge), (True, True, True)), 6.2, (0, 0, 0))
    amplitudes = amplitude(positions, np.ones(len(positions), dtype=np.int32), ["Cu"], grid, form_factors(["Cu"], grid))
    pattern = {"grid_intensity": intensity(amplitudes, len(positions)), "atoms": np.int64(len(positions))}
    pattern |= {name: grid.coordinates(axis) for axis, name in enumerate(("grid_qx", "grid_qy", "grid_qz"))}
    for hkl in ALLOWED:
        q = 2.0 * np.pi / LATTICE * float(np.linalg.norm(hkl))
        assert at(pattern, hkl) == pytest.approx(len(positions) * float(form_factor("Cu", np.array(q))) ** 2, rel=1e-5)
    assert max(at(pattern, hkl) for hkl in FORBIDDEN) < 1e-8 * min(at(pattern, hkl) for hkl in ALLOWED)


def test_allowed_reflections_are_as_strong_as_the_crystal_is_large(pattern: dict[str, Any]) -> None:
    # N f², weakened by thermal motion: exp(-B q² / 8π²). B of copper at 300 K is 0.55 Å²; a small box has less of it.
    for hkl in ALLOWED:
        q = 2.0 * np.pi / LATTICE * float(np.linalg.norm(hkl))
        ideal = float(pattern["atoms"]) * float(form_factor("Cu", np.array(q))) ** 2
        factor = -np.log(at(pattern, hkl) / ideal) * 8.0 * np.pi**2 / q**2
        assert 0.3 < factor < 0.8, (hkl, factor)


def test_powder_peaks_lie_where_bragg_says(pattern: dict[str, Any]) -> None:
    q, powder = pattern["powder_q"], pattern["powder_intensity"]
    for hkl in ALLOWED:
        expected = 2.0 * np.pi / LATTICE * float(np.linalg.norm(hkl))
        near = np.abs(q - expected) < 0.25
        assert q[near][np.nanargmax(powder[near])] == pytest.approx(expected, abs=0.11), hkl
    between = (q > 3.7) & (q < 4.6)  # nothing between (200) and (220)
    assert np.nanmax(powder[between]) < 0.02 * np.nanmax(powder[q > 2.0])


def test_the_detector_shows_its_reflections_at_its_resolution(pattern: dict[str, Any]) -> None:
    rows, columns, seen = (pattern[f"slice_{name}"] for name in ("vertical", "horizontal", "intensity"))
    q = 2 * 2 * np.pi / LATTICE  # (200), above and right of the origin
    box = (abs(rows[:, None]) < 0.8) & (abs(columns[None, :] - q) < 0.8)
    spot = np.where(box, seen, 0.0)
    assert columns @ spot.sum(axis=0) / spot.sum() == pytest.approx(q, abs=0.02)
    assert rows**2 @ spot.sum(axis=1) / spot.sum() == pytest.approx(0.1**2, rel=0.1)


def test_finufft_agrees_with_the_direct_sum_on_the_atoms_of_lammps(folder: Path, pattern: dict[str, Any]) -> None:
    atoms = read_step(folder / "atoms.bp", 1)
    lengths = atoms["box"][1] - atoms["box"][0]
    box = Box((lengths[0], lengths[1], lengths[2]), (True, True, True))
    grid = volume(box, 6.2, (0, 0, 0))
    exact = amplitude(atoms["position"], atoms["type"], ["Cu"], grid, form_factors(["Cu"], grid), "direct")
    exact_intensity = intensity(exact, len(atoms["position"]))
    assert exact_intensity.shape == pattern["grid_intensity"].shape
    assert np.abs(pattern["grid_intensity"] - exact_intensity).max() <= 1e-4 * exact_intensity.max()
    fast = amplitude(atoms["position"], atoms["type"], ["Cu"], grid, form_factors(["Cu"], grid))
    assert np.abs(fast - exact).max() <= 1e-4 * np.abs(exact).max()


def test_atoms_are_complete_and_inside_the_box(folder: Path) -> None:
    atoms = read_step(folder / "atoms.bp", 1)
    number = 4 * CELLS**3
    np.testing.assert_array_equal(np.sort(atoms["id"]), np.arange(1, number + 1))
    assert np.all(atoms["position"] >= atoms["box"][0]) and np.all(atoms["position"] <= atoms["box"][1])
    assert int(atoms["timestep"]) == 200 and float(atoms["time"]) == pytest.approx(0.4)
    temperature = 63.546 * np.sum(atoms["velocity"] ** 2) / (3 * number) * 1.0364269e-4 / 8.617333e-5
    assert 200.0 < temperature < 400.0  # K, of a small crystal without a thermostat


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_number_of_ranks_changes_the_last_digits_only(folder: Path, pattern: dict[str, Any], ranks: int) -> None:
    atoms, here = f"atoms{ranks}.bp", f"pattern{ranks}.bp"
    start("lammps", *LAMMPS, "--write", f"atoms={atoms}", cwd=folder, ranks=ranks)
    # LAMMPS numbers the atoms that a script creates by rank, so ids are compared as a set only.
    np.testing.assert_array_equal(np.sort(read_step(folder / atoms, 1)["id"]), np.arange(1, 4 * CELLS**3 + 1))
    start("scattering", *SCATTERING, "--read", f"atoms={atoms}", "--write", f"pattern={here}", cwd=folder, ranks=ranks)
    several = read_step(folder / here, 1)
    for name in ("grid_intensity", "powder_intensity", "slice_intensity"):
        assert np.nanmax(np.abs(several[name] - pattern[name])) <= 1e-8 * np.nanmax(pattern[name]), name
