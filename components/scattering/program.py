"""Kinematic X-ray diffraction of every step of an atoms stream: reads `atoms`, writes `pattern`.

Each rank takes a share of the atoms; the amplitudes are summed over the ranks, and each rank then computes and writes
the intensities of its part of the q points. Outputs and units: `component.yaml`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

# This file is started by path: make the modules beside it importable by their full names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from components.scattering.amplitude import AtomsError, Complexes, amplitude, form_factors, intensity
from components.scattering.powder import shell_average, shell_centres, shell_sums
from components.scattering.qgrid import Box, Floats, QGrid, line, plane, too_coarse, volume
from components.scattering.resolution import pixel_positions, smeared
from workflow import stage
from workflow.component_program import arguments

AXES = {"line": ["q"], "slice": ["vertical", "horizontal"], "powder": ["q"], "grid": ["qx", "qy", "qz"]}
MOST_POINTS = 50_000_000  # of the 3-D grid: finufft then needs about 8 GB on every rank
Result = tuple[str, Any, dict[str, Any]]  # variable, its values, and shape and start of this rank's block of an array


@dataclass(frozen=True)
class View:
    """One set of q points to compute, prepared once: `start:start+count` of its first dimension is this rank's.

    `factors` are form factors at all points, `moduli` |q| at this rank's points.
    """

    name: str
    grid: QGrid
    factors: dict[str, Floats]
    start: int
    count: int
    moduli: Floats


def check(args: SimpleNamespace) -> None:
    """Checks of the parameters that component.yaml cannot express. Raises SystemExit."""
    if list(args.line_from) == list(args.line_to):
        raise SystemExit(f"scattering: line_from and line_to are the same point, {args.line_from}")


def make_grids(args: SimpleNamespace, box: Box) -> dict[str, QGrid]:
    """The q points that the outputs need: `line`, `slice`, `volume` (for powder and grid)."""
    grids = {}
    if "line" in args.outputs:
        grids["line"] = line(box, np.array(args.line_from), np.array(args.line_to), args.line_points)
    if "slice" in args.outputs:
        horizontal, vertical = ("xyz".index(axis) for axis in args.slice_plane)
        # With a resolution these are pixels, which do not decide where intensities are computed.
        counts = (0, 0) if args.slice_resolution else (args.slice_points[1], args.slice_points[0])
        grids["slice"] = plane(box, args.slice_q_max or args.q_max, counts, (vertical, horizontal), args.slice_at)
    if {"powder", "grid"} & set(args.outputs):
        grids["volume"] = volume(box, args.q_max, tuple(args.grid))
        if (points := math.prod(grids["volume"].shape)) > MOST_POINTS:
            sizes = " x ".join(map(str, grids["volume"].shape))
            raise AtomsError(
                f"powder and grid would need {sizes} = {points / 1e6:.0f} million q points, more than "
                f"{MOST_POINTS / 1e6:.0f} million: lower `q_max`, or set `grid` to fewer points"
            )
    return grids


def prepare(args: SimpleNamespace, step: Any) -> tuple[list[str], list[View]]:
    """Symbols of the atom types, and the views to compute at every step, from the first step's box and attributes."""
    attributes = step.attributes()
    species = [str(symbol) for symbol in args.species or np.atleast_1d(attributes.get("species", []))]
    if not species:
        raise AtomsError(
            "the stream has no attribute `species`; give the symbols in the parameter `species`, e.g. [Cu]"
        )
    corners = step.read("box")
    periodic = [bool(flag) for flag in np.atleast_1d(attributes.get("periodic", [0, 0, 0]))]
    # Of the first step, also where this program was started again at another one.
    lengths = stage.once("lengths", lambda: [float(length) for length in corners[1] - corners[0]])
    box = Box((lengths[0], lengths[1], lengths[2]), (periodic[0], periodic[1], periodic[2]))
    views = []
    for name, grid in make_grids(args, box).items():
        start, count = stage.block(grid.shape[0])
        views.append(View(name, grid, form_factors(species, grid), start, count, grid.moduli(start, start + count)))
        if stage.rank() == 0:
            print(f"{name}: {' x '.join(map(str, grid.shape))} points", flush=True)
            for sentence in too_coarse(grid, box):
                print(f"warning: {name}: {sentence}", file=sys.stderr, flush=True)
    return species, views


def read_atoms(step: Any) -> tuple[Floats, Any, int]:
    """This rank's share of the atoms: positions [n, 3] in Å, types [n]; and the number of all atoms."""
    names = [name for name in ("position", "type") if name in step]
    pieces = step.shares(names, like="position")
    found = {name: np.concatenate([piece.values for piece in pieces[name]]) for name in names}
    positions = np.asarray(found["position"], dtype=np.float64)
    types = found["type"] if "type" in found else np.ones(len(positions), dtype=np.int32)
    return positions, types, int(step.shape("position")[0])


def total(values: Any) -> Any:
    """The sum of an array over all ranks, on all ranks."""
    comm = stage.communicator()
    if comm is None or stage.size() == 1:
        return values
    summed = np.empty_like(values)
    comm.Allreduce(values, summed)
    return summed


def make_results(args: SimpleNamespace, view: View, amplitudes: Complexes, atoms: int) -> Iterator[Result]:
    """The variables computed from one view. Collective."""
    if view.name == "slice" and args.slice_resolution:
        yield from recorded_slice(args, view, intensity(amplitudes, atoms))
        return
    mine = intensity(amplitudes[view.start : view.start + view.count], atoms)
    output = "grid" if view.name == "volume" else view.name
    if output in args.outputs:
        for dimension, axis in enumerate(AXES[output]):
            yield f"{output}_{axis}", view.grid.coordinates(dimension), {}
        yield f"{output}_intensity", mine, {"shape": view.grid.shape, "start": (view.start, *[0] * (mine.ndim - 1))}
    if view.name == "volume" and "powder" in args.outputs:
        sums, weights = (total(part) for part in shell_sums(view.moduli, mine, args.q_max, args.powder_shells))
        yield "powder_q", shell_centres(args.q_max, args.powder_shells), {}
        yield "powder_intensity", shell_average(sums, weights), {}
        yield "powder_weight", weights, {}


def recorded_slice(args: SimpleNamespace, view: View, whole: Floats) -> Iterator[Result]:
    """The plane as an instrument of finite resolution records it; `whole`: the intensities on the plane's grid."""
    q_max, sigma = args.slice_q_max or args.q_max, args.slice_resolution
    columns, rows = (pixel_positions(q_max, pixels, sigma) for pixels in args.slice_points)
    start, count = stage.block(rows.size)
    mine = smeared(whole, view.grid, sigma, rows[start : start + count], columns)
    yield "slice_vertical", rows, {}
    yield "slice_horizontal", columns, {}
    yield "slice_intensity", mine, {"shape": (rows.size, columns.size), "start": (start, 0)}


def describe(out: Any, args: SimpleNamespace, species: list[str], time_unit: str) -> None:
    """Set the attributes of the pattern: species, method, normalisation, units and labels."""
    out.attribute("species", species)
    out.attribute("method", args.method)
    if args.method == "finufft":
        out.attribute("eps", args.eps)
    out.attribute("normalisation", "|sum_j f_j(q) exp(-i q.r_j)|^2 / atoms, electron units per atom")
    if time_unit:
        out.attribute("unit", time_unit, variable="time")
    for output in args.outputs:
        out.attribute("unit", "e.u./atom", variable=f"{output}_intensity")
        out.attribute("long_name", "I", variable=f"{output}_intensity")
        for axis, name in zip(AXES[output], axis_names(args, output), strict=True):
            out.attribute("unit", "1/angstrom", variable=f"{output}_{axis}")
            out.attribute("long_name", name, variable=f"{output}_{axis}")


def axis_names(args: SimpleNamespace, output: str) -> list[str]:
    """The usual names of the q axes of an output: qz for a line along z."""
    if output == "slice":
        return [f"q{args.slice_plane[1]}", f"q{args.slice_plane[0]}"]
    if output == "line":
        along = [axis for axis, begin, end in zip("xyz", args.line_from, args.line_to, strict=True) if begin != end]
        return [f"q{along[0]}" if len(along) == 1 else "q"]
    return AXES[output]


def main() -> None:
    """Read atoms, write patterns, until the stream ends."""
    args = arguments(__file__)
    check(args)
    try:
        compute_patterns(args)
    except AtomsError as error:
        raise SystemExit(f"scattering: {error}") from None


def compute_patterns(args: SimpleNamespace) -> None:
    """The loop over steps. Raises AtomsError when the atoms do not fit the parameters."""
    species: list[str] = []
    views: list[View] = []
    with stage.open_reader("atoms") as reader, stage.open_writer("pattern") as out:
        for step in reader:
            if not views:
                species, views = prepare(args, step)
                describe(out, args, species, step.unit("time"))
            positions, types, atoms = read_atoms(step)
            marks = {name: step.read(name) for name in ("timestep", "time") if name in step.names()}
            results: list[Result] = []
            how = (args.method, args.eps, args.threads)
            for view in views:
                share = amplitude(positions, types, species, view.grid, view.factors, *how)
                results += make_results(args, view, total(share), atoms)
            with out.step():
                out.write("atoms", np.int64(atoms))
                for mark, value in marks.items():
                    out.write(mark, value)
                for name, values, place in results:
                    out.write(name, values, **place)


if __name__ == "__main__":
    main()
