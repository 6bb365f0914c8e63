"""An openPMD writer and reader as anybody would write them: nothing of wf, everything told on the command line.

    openpmd_programs.py write SERIES [OPTIONS]      openpmd_programs.py read SERIES OUTPUT.npz [OPTIONS]
OPTIONS as openPMD-api takes them: JSON or TOML, or `@FILE`. And three that find out where to write like

    openpmd_programs.py warpx DECK      … picongpu --openPMD.file NAME …      … lammps NAME
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

STEPS, CELLS, PARTICLES = 3, (4, 6), 5
NUMBERS = [10 * step for step in range(STEPS)]


def expected(step: int) -> dict[str, Any]:
    """Every array of one iteration, by its openPMD path."""
    random = np.random.default_rng(step)
    meshes = {f"meshes/E/{axis}": random.random(CELLS) for axis in "xy"} | {"meshes/rho": random.random(CELLS)}
    axes = {f"particles/e/position/{axis}": random.random(PARTICLES) for axis in "xy"}
    return meshes | axes | {"particles/e/id": np.arange(PARTICLES, dtype=np.uint64)}


def write(series: str, options: str = "{}") -> None:
    """A field, a scalar field and a species in every iteration."""
    import openpmd_api as io

    out = io.Series(series, io.Access.create_linear, options)
    for step, number in enumerate(NUMBERS):
        iteration = out.snapshots()[number]
        iteration.time, iteration.dt, iteration.time_unit_SI = 0.5 * step, 0.5, 1e-12
        data = expected(step)
        field, density, species = iteration.meshes["E"], iteration.meshes["rho"], iteration.particles["e"]
        for mesh in (field, density):
            mesh.axis_labels, mesh.grid_spacing, mesh.grid_global_offset = ["y", "x"], [2.0, 3.0], [0.0, 0.0]
        field.unit_dimension = {io.Unit_Dimension.L: 1, io.Unit_Dimension.M: 1, io.Unit_Dimension.T: -3,
                                io.Unit_Dimension.I: -1}  # fmt: skip
        for axis in "xy":
            field[axis].position, field[axis].unit_SI = [0.5, 0.0], 2.0
            store(io, field[axis], data[f"meshes/E/{axis}"])
            store(io, species["position"][axis], data[f"particles/e/position/{axis}"])
            offset = species["positionOffset"][axis]
            offset.reset_dataset(io.Dataset(np.dtype("float64"), [PARTICLES]))
            offset.make_constant(0.0)
        density.position = [0.5, 0.5]
        store(io, density, data["meshes/rho"])
        store(io, species["id"], data["particles/e/id"])
        iteration.close()
    out.close()


def store(io: Any, component: Any, values: Any) -> None:
    """A component with one chunk."""
    component.reset_dataset(io.Dataset(values.dtype, values.shape))
    component.store_chunk(values)


def read(series: str, output: str, options: str = "{}") -> None:
    """Everything of every iteration into one file, as `10/meshes/rho`."""
    import openpmd_api as io

    found: dict[str, Any] = {}
    source = io.Series(series, io.Access.read_linear, options)
    for iteration in source.read_iterations():
        parts = {}
        for group, records in (("meshes", iteration.meshes), ("particles/e", iteration.particles["e"])):
            for name in records:
                for axis in records[name]:
                    scalar = axis == io.Mesh_Record_Component.SCALAR
                    parts[f"{group}/{name}{'' if scalar else '/' + axis}"] = records[name][axis].load_chunk()
        source.flush()
        found |= {f"{iteration.iteration_index}/{path}": np.array(values) for path, values in parts.items()}
        iteration.close()
    source.close()
    np.savez(output, **found)


def warpx(deck: str) -> None:
    """As WarpX reads its deck (the last of several values counts) and names its series (WarpXOpenPMD.cpp)."""
    lines = (line.partition("#")[0].partition("=") for line in Path(deck).read_text().splitlines())
    said = {name.strip(): value.strip().strip('"') for name, _, value in lines}
    diagnostic = said["diagnostics.diags_names"].split()[0]
    mine = {name.removeprefix(f"{diagnostic}."): value for name, value in said.items()}
    assert (mine["format"], mine["openpmd_encoding"]) == ("openpmd", "v")
    prefix = "adios2_engine.parameters."
    parameters = {name.removeprefix(prefix): value for name, value in mine.items() if name.startswith(prefix)}
    options = {
        "iteration_encoding": "variable_based",
        "adios2": {"engine": {"type": mine["adios2_engine.type"], "parameters": parameters}},
    }
    write(f"{mine['file_prefix']}/openpmd.{mine['openpmd_backend']}", json.dumps(options))


def picongpu(*words: str) -> None:
    """As PIConGPU puts the name of its series together (plugins/openPMD.rst)."""
    said = dict(zip(words[::2], words[1::2], strict=True))
    assert said["--openPMD.infix"] == "NULL"
    write(f"{said['--openPMD.file']}.{said['--openPMD.ext']}", said["--openPMD.json"])


def lammps(name: str) -> None:
    """As `dump atom/adios` looks for its engine: io `atom` in a file of a fixed name in the working directory."""
    import adios2

    io = adios2.Adios("adios2_config.xml").declare_io("atom")
    with adios2.Stream(io, name, "w") as out:
        for _ in range(STEPS):
            out.begin_step()
            out.write("atoms", np.ones((PARTICLES, 5)), [PARTICLES, 5], [0, 0], [PARTICLES, 5])
            out.end_step()


if __name__ == "__main__":
    roles: dict[str, Any] = {role.__name__: role for role in (write, read, warpx, picongpu, lammps)}
    roles[sys.argv[1]](*sys.argv[2:])
