"""Example 04's programs alone, without wf: the instability grows as theory says, and nothing is lost on the way."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import openpmd_api as io
import pytest

from workflow import stage
from workflow.physical_units import to_unit

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/04-openpmd"
OPTIONS = '{"iteration_encoding": "variable_based", "adios2": {"engine": {"type": "bp5"}}}'


def run(*argv: object, cwd: Path) -> str:
    answer = subprocess.run(
        list(map(str, (sys.executable, *argv))), cwd=cwd, capture_output=True, text=True, timeout=100
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def plasma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plasma")
    run(EXAMPLE / "two_stream.py", "plasma.bp", OPTIONS, "--steps", 300, cwd=folder)
    return folder


def test_growth_rate(plasma: Path) -> None:
    said = run(EXAMPLE / "phase_space.py", "plasma.bp", "picture.png", cwd=plasma)
    found = re.search(r"grows by (\S+) 1/s, (\S+) 1/s expected", said)
    assert found is not None, said
    # ω = √(n e² / ε0 m) = 5.641e9 1/s; γ = ω / √8
    assert float(found[2]) == pytest.approx(5.641e9 / np.sqrt(8), rel=1e-3)
    assert float(found[1]) == pytest.approx(float(found[2]), rel=0.05)
    assert min(matplotlib.image.imread(plasma / "picture.png").shape[:2]) > 300


def test_a_component_knows_the_units_of_openpmd(plasma: Path) -> None:
    momentum = "/data/particles/electrons/momentum/x"
    histogram = ROOT / "components/histogram/program.py"
    run(histogram, "--read", "plasma.bp", "--write", "found.bp", "--variable", momentum, "--bins", 20, cwd=plasma)
    with stage.open_reader(path=plasma / "found.bp") as reader:
        step = next(iter(reader))
        assert (step.label("edges"), step.label("mean")) == (
            "momentum x of electrons",
            "mean of momentum x of electrons",
        )
        units = [to_unit(step.unit(name)) for name in ("edges", "pdf", "time")]
    # electron mass × 6,000 km/s, and 1/ω
    expected = (9.1093837015e-31 * 6e6, (1, 1, -1, 0, 0, 0, 0)), (1 / 5.641e9, (0, 0, 1, 0, 0, 0, 0))
    for unit, (si, powers) in zip((units[0], units[2]), expected, strict=True):
        assert unit is not None and unit.si == pytest.approx(si, rel=1e-3) and unit.powers == powers
    assert units[1] is not None and units[0] is not None and units[1].si * units[0].si == pytest.approx(1.0)


def test_energy_and_momentum_are_kept(plasma: Path) -> None:
    series = io.Series(str(plasma / "plasma.bp"), io.Access.read_linear, OPTIONS)
    energies, momenta = [], []
    for iteration in series.read_iterations():
        field, speed = iteration.meshes["E"]["x"], iteration.particles["electrons"]["momentum"]["x"]
        e, v = field.load_chunk(), speed.load_chunk()
        series.flush()
        # in units of the simulation, per electron: v²/2 and, of the field, E²/2 at density 1
        energies.append(np.mean(v**2) / 2 + np.mean(e**2) / 2)
        momenta.append(np.mean(v))
        iteration.close()
    assert energies == pytest.approx([energies[0]] * len(energies), rel=0.01)
    assert momenta == pytest.approx([momenta[0]] * len(momenta), abs=1e-3)


def test_histogram_passes_the_time_on(plasma: Path, tmp_path: Path) -> None:
    histogram = ROOT / "components/histogram/program.py"
    variable = "/data/particles/electrons/momentum/x"
    run(histogram, "--read", plasma / "plasma.bp", "--write", "h.bp", "--variable", variable, cwd=tmp_path)
    with stage.open_reader(path=tmp_path / "h.bp") as stream:
        found = [(float(step.read("time")), int(step.read("counts").sum())) for step in stream]
    assert [time for time, _ in found] == pytest.approx(range(31))
    assert {count for _, count in found} == {30000}
