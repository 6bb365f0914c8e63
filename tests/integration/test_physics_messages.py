"""What the science programs say when they cannot work: one sentence, no traceback, exit code 1; and their warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from workflow import stage

COMPONENTS = Path(__file__).parents[2] / "components"
SCRIPTS = {
    "bad": "units metal\npair_style nonsense\n",
    "empty": "units metal\n",
    "tilted": "units metal\nregion all prism 0 5 0 5 0 5 1 0 0\ncreate_box 1 all\nmass 1 63.546\n",
    "strange": "units metal\nregion all block 0 5 0 5 0 5\ncreate_box 1 all\nmass 1 777\n",
}


def start(component: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(COMPONENTS / component / "program.py"), *arguments]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--script", "bad"], "lammps: ERROR: Unrecognized pair style 'nonsense'"),
        (["--script", "empty"], "creates no simulation box"),
        (["--script", "tilted"], "lammps: the box is triclinic; only orthogonal boxes can be written"),
        (["--script", "strange"], "lammps: no element has the mass of atom type 1, 777; list the symbols in `species`"),
        (["--script", "strange", "--species", "Cu", "Ni"], "1 atom types, but `species` lists 2"),
        (["--script", "empty", "--variables", "piston"], "write each of `variables` as name=value; got 'piston'"),
    ],
)
def test_lammps_says_what_is_wrong(tmp_path: Path, arguments: list[str], message: str) -> None:
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text)
    answer = start("lammps", *arguments, "--write", "atoms=atoms.bp", cwd=tmp_path)
    assert answer.returncode == 1
    assert message in answer.stderr and "Traceback" not in answer.stderr


def test_lammps_runs_all_steps_and_writes_every_so_many(tmp_path: Path) -> None:
    (tmp_path / "atom").write_text(
        "units metal\nregion all block 0 9 0 9 0 9\ncreate_box 1 all\nmass 1 63.546\ncreate_atoms 1 single 4 4 4\n"
        "pair_style zero 3.0\npair_coeff * *\nfix move all nve\n"
    )
    how = ["--script", "atom", "--run-steps", "12", "--dump-every", "5"]
    answer = start("lammps", *how, "--write", "atoms=atoms.bp", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    with stage.open_reader(path=tmp_path / "atoms.bp") as reader:
        assert [int(step.read("timestep")) for step in reader] == [0, 5, 10]
    commands = [line for line in (tmp_path / "log.lammps").read_text().splitlines() if line.startswith("run ")]
    assert [int(command.split()[1]) for command in commands] == [5, 5, 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two atoms of type 1 and 2, without attributes."""
    path = tmp_path_factory.mktemp("messages")
    with stage.open_writer(path=path / "atoms.bp") as out, out.step():
        out.write("position", np.array([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]))
        out.write("type", np.array([1, 2], dtype=np.int32))
        out.write("box", np.array([[0.0, 0.0, 0.0], [40.0, 20.0, 10.0]]))
    return path


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "scattering: the stream has no attribute `species`"),
        (["--species", "Cu"], "scattering: atom types 1 to 2 but 1 species: Cu"),
        (["--species", "Cu", "Xx"], "scattering: no form factor is tabulated for 'Xx'"),
        (["--species", "Cu", "Ni", "--q_max", "60"], "million q points, more than 50 million: lower `q_max`"),
        (["--species", "Cu", "Ni", "--line_to", "0", "0", "1"], "line_from and line_to are the same point"),
    ],
)
def test_scattering_says_what_is_wrong(folder: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    streams = ["--read", f"atoms={folder}/atoms.bp", "--write", "pattern=pattern.bp"]
    answer = start("scattering", *arguments, *streams, cwd=tmp_path)
    assert answer.returncode == 1
    assert message in answer.stderr and "Traceback" not in answer.stderr


def test_scattering_warns_of_missed_peaks(folder: Path, tmp_path: Path) -> None:
    streams = ["--read", f"atoms={folder}/atoms.bp", "--write", "pattern=pattern.bp"]
    how = ["--species", "Cu", "Ni", "--outputs", "grid", "line", "--grid", "64", "0", "0"]
    answer = start("scattering", *how, *streams, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    warnings = [line for line in answer.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1, "one, for the axis whose spacing was set by hand"
    assert "volume: q spacing 0.25 1/Å is wider than π/L = 0.07854 1/Å" in warnings[0]
    with stage.open_reader(path=tmp_path / "pattern.bp") as reader:
        names = next(iter(reader)).names()
    assert {"grid_intensity", "line_intensity"} <= set(names)
    assert not {"powder_intensity", "slice_intensity", "time"} & set(names), "what was not asked for, or not there"
