"""Steps as iterations of an openPMD 1.1.0 file (https://github.com/openPMD/openPMD-standard), group-based, in HDF5.

A stream that an openPMD program wrote keeps its structure. In any other stream arrays with a `position` become a
particle species and all other arrays become meshes; scalars become attributes of their iteration, and `time` its time.
Values are written bit for bit: `unit` attributes become unitSI and unitDimension.

Written with h5py instead of openPMD-api: no further package is needed than for plain HDF5, two runs with the same data
give the same file (openPMD-api adds the date of writing), and types do not change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from components.archive.tree import DatasetSource, Described, FileAttributes, Tree
from workflow import __version__
from workflow.particle_species import AXES, ParticleComponent, find_species, species_name
from workflow.physical_units import Unit, to_unit
from workflow.stage import Shape

MESHES, PARTICLES = "meshes/", "particles/"
MARKS = ("timestep", "step")  # scalars with the number of the step
_TABLE = "__openPMD_groups"
_OWN = ("__openPMD_groups", "__openPMD_internal")
_LISTS = ("gridSpacing", "gridGlobalOffset", "position", "shape", "unitDimension")
_IN_ITERATION = re.compile(r"/data/(\d+)/").match
_HEADER: dict[str, Any] = {
    "openPMD": "1.1.0",
    "openPMDextension": np.uint32(0),
    "basePath": "/data/%T/",
    "iterationEncoding": "groupBased",
    "iterationFormat": "/data/%T/",
    "software": "wf",
    "softwareVersion": __version__,
}


class OpenPMD:
    """The layout openPMD. Keeps the last iteration, its time, and which arrays are no particles."""

    def __init__(self) -> None:
        self._iteration = -1
        self._copied: dict[int, int] = {}  # iteration → the step that it was
        self._time: float | None = None
        self._fields: set[str] = set()
        self._general = FileAttributes()

    def tree(self, step: Described) -> Tree:
        """See `Layout`."""
        if not step.is_openpmd:
            return self._plain(step)
        number = step.base[1]
        if (first := self._copied.setdefault(number, step.index)) != step.index:
            raise SystemExit(
                f"archive: steps {first} and {step.index} are both iteration {number}; BP4 keeps one value of an "
                "attribute for all steps: use `via: bp5`"
            )
        return copied(step)

    def left_out(self, step: Described) -> dict[str, str]:
        """See `Layout`."""
        del step
        return {}

    def _plain(self, step: Described) -> Tree:
        tree = Tree()
        mark = next((int(step.scalars[name]) for name in MARKS if _is_whole(step.scalars.get(name))), step.index)
        self._iteration = mark if mark > self._iteration else self._iteration + 1
        base = f"/data/{self._iteration}/"
        general, own = self._general.split(step.general())
        tree.describe("/", {**general, **_HEADER})
        tree.describe(base, {**own, **step.scalars, **self._times(step)})
        taken: set[str] = set()
        for folder, (number, components) in find_species(step.shapes, self._fields).items():
            species = f"{base}{PARTICLES}{word(species_name(folder))}/"
            _add_species(tree, species, number, components, step)
            taken |= {component.variable for component in components}
        for name, info in step.arrays.items():
            if name not in taken:
                _add_mesh(tree, f"{base}{MESHES}{word(name)}", name, info.shape, step)
        return with_paths(tree, base)

    def _times(self, step: Described) -> dict[str, Any]:
        """The attributes that every iteration must have. `dt`: the time since the step before, 0 for the first."""
        before, self._time = self._time, step.time
        unit = unit_of(step, "time")
        dt = 0.0 if before is None else step.time - before
        return {"time": np.float64(step.time), "dt": np.float64(dt), "timeUnitSI": np.float64(unit.si if unit else 1.0)}


def copied(step: Described) -> Tree:
    """A step of an openPMD stream, in the group of its iteration."""
    tree = Tree()
    base, number = step.base

    def place(path: str) -> str:
        return f"/data/{number}{path[len(base) :]}" if f"{path}/".startswith(f"{base}/") else path

    for name in step.arrays:
        if name.startswith("/data/"):
            tree.add(place(name), DatasetSource(name))
    is_now = _owners(step)
    for name, value in step.attributes.items():
        owner, _, key = name.rpartition("/")
        if name.startswith(_OWN) or name == "/data/snapshot" or not is_now(owner):
            continue
        if key == "axisLabels":  # ADIOS2's SST loses lists of strings
            value = _labels(step, owner, value)
        elif key in _LISTS:  # some writers make a list of one element a single value
            value = np.atleast_1d(value)
        tree.describe(place(owner) or "/", {key: value})
    extension = np.uint32(step.attributes.get("/openPMDextension", 0))
    kept = ("basePath", "iterationEncoding", "iterationFormat")
    tree.describe("/", {**{name: _HEADER[name] for name in kept}, "openPMDextension": extension})
    meshes, particles = (str(step.attributes.get(f"/{name}Path", "")) for name in ("meshes", "particles"))
    return with_paths(tree, f"/data/{number}/", meshes or MESHES, particles or PARTICLES)


def _owners(step: Described) -> Callable[[str], bool]:
    """Which groups and variables belong to this step: the attributes of earlier ones stay in a stream, and BP4 shows
    those of later ones, too."""
    base, _ = step.base
    there = _present(step)
    if base == "/data":
        return lambda owner: there is None or owner in there
    numbers = {base.rpartition("/")[2], *(found[1] for found in map(_IN_ITERATION, step.arrays) if found)}
    return lambda owner: (found := _IN_ITERATION(f"{owner}/")) is None or found[1] in numbers


def _present(step: Described) -> set[str] | None:
    """Groups and variables of this step; None without a table of them. Attributes of earlier steps stay in a stream."""
    now = step.attributes.get(f"{_TABLE}/")
    if now is None:
        return None
    table = {name[len(_TABLE) :]: value for name, value in step.attributes.items() if name.startswith(f"{_TABLE}/")}
    return {"", "/data", *step.arrays, *(path for path, value in table.items() if value == now)}


def _labels(step: Described, mesh: str, given: Any) -> Any:
    labels = [given] if isinstance(given, str) else list(np.ravel(given))
    dimensions = _dimensions(step, mesh)
    if dimensions is None or (len(labels) == dimensions and all(labels)):
        return [str(label) for label in labels]
    return axis_labels(dimensions)


def _dimensions(step: Described, mesh: str) -> int | None:
    """Of a mesh: by its arrays, or the attribute `shape` of a constant component."""
    for name, info in step.arrays.items():
        if f"{name}/".startswith(f"{mesh}/"):
            return len(info.shape)
    shapes = (value for name, value in step.own(mesh).items() if name.rpartition("/")[2] == "shape")
    return next((np.size(value) for value in shapes), None)


def _add_species(tree: Tree, species: str, number: int, components: list[ParticleComponent], step: Described) -> None:
    for record, axis, variable, column in components:
        path = f"{species}{word(record)}{'/' if axis else ''}{axis}"
        unit = unit_of(step, variable)
        tree.add(path, DatasetSource(variable, column))
        tree.describe(f"{species}{word(record)}", {**step.own(variable), **record_attributes(unit)})
        tree.describe(path, {"unitSI": np.float64(unit.si if unit else 1.0)})
        if record == "position":
            offset = f"{species}positionOffset"
            tree.describe(offset, record_attributes(unit or Unit(1.0, (1, 0, 0, 0, 0, 0, 0))))
            shape = np.array([number], dtype=np.uint64)
            si = np.float64(unit.si if unit else 1.0)
            tree.describe(f"{offset}/{axis}", {"value": np.float64(0), "shape": shape, "unitSI": si})


def _add_mesh(tree: Tree, path: str, variable: str, shape: Shape, step: Described) -> None:
    """One dataset; or one per component of a field [z, y, x, 2 or 3]."""
    vector = len(shape) == len(AXES) + 1 and shape[-1] in (2, 3)
    attributes = mesh_attributes(len(shape) - vector, unit_of(step, variable), step.own(variable))
    if not vector:
        tree.add(path, DatasetSource(variable))
        tree.describe(path, attributes)
        return
    of_component = {name: attributes.pop(name) for name in ("unitSI", "position")}
    tree.describe(path, attributes)
    for column in range(shape[-1]):
        tree.add(f"{path}/{AXES[column]}", DatasetSource(variable, column))
        tree.describe(f"{path}/{AXES[column]}", of_component)


def record_attributes(unit: Unit | None) -> dict[str, Any]:
    """The attributes that every record must have."""
    powers = np.array((unit or Unit()).powers, dtype=np.float64)
    return {"unitDimension": powers, "timeOffset": np.float64(0)}


def mesh_attributes(dimensions: int, unit: Unit | None, own: dict[str, Any]) -> dict[str, Any]:
    """The attributes that every mesh must have. Cells have size 1 unless the variable has attributes for it."""
    known: dict[str, Any] = {
        **record_attributes(unit),
        "unitSI": np.float64(unit.si if unit else 1.0),
        "geometry": "cartesian",
        "dataOrder": "C",
        "axisLabels": axis_labels(dimensions),
        "gridSpacing": np.ones(dimensions),
        "gridGlobalOffset": np.zeros(dimensions),
        "gridUnitSI": np.float64(1),
        "position": np.zeros(dimensions),
    }
    for name, value in own.items():
        default = known.get(name)
        if default is None:
            known[name] = value
        elif isinstance(default, np.ndarray | np.float64) and np.shape(value) == np.shape(default):
            known[name] = np.asarray(value, dtype=np.float64)[()]
        elif isinstance(default, list) and len(np.ravel(value)) == len(default):
            known[name] = [str(label) for label in np.ravel(value)]
    return known


def axis_labels(dimensions: int) -> list[str]:
    """Names of the axes, the slowest first."""
    return list(AXES[:dimensions][::-1]) if dimensions <= len(AXES) else [f"axis{i}" for i in range(dimensions)]


def unit_of(step: Described, variable: str) -> Unit | None:
    """The unit in the variable's attribute `unit`, if it is known."""
    text = step.attributes.get(f"{variable}/unit")
    return None if text is None else to_unit(str(text))


def with_paths(tree: Tree, base: str, meshes: str = MESHES, particles: str = PARTICLES) -> Tree:
    """The tree with both groups in its iteration: readers expect the groups that the root attributes name."""
    tree.describe("/", {"meshesPath": meshes, "particlesPath": particles})
    tree.describe(f"{base}{meshes}", {})
    tree.describe(f"{base}{particles}", {})
    return tree


def word(name: str) -> str:
    """The name with letters, digits and `_` only, as openPMD requires."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name.strip("/"))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and int(value) >= 0
