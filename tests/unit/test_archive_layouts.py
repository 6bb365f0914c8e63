"""Where archive puts variables in openPMD and H5Part files: decided from names, shapes and attributes alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.archive.h5part import H5Part
from components.archive.openpmd import OpenPMD
from components.archive.program import hdf5_file
from components.archive.tree import DatasetSource, Described, Tree, write_tree
from components.archive.vtkhdf import VtkHdf
from workflow.particle_species import find_species
from workflow.stage import Info

ATOMS = {"position": (5, 3), "velocity": (5, 3), "id": (5,), "box": (2, 3)}


def step(arrays: dict[str, tuple[int, ...]], index: int = 0, **more: Any) -> Described:
    infos = {name: Info("float64", shape) for name, shape in arrays.items()}
    return Described(index, index, infos, more.get("scalars", {}), more.get("attributes", {}))


def test_what_lies_beside_a_position_is_of_the_same_species() -> None:
    arrays = {**ATOMS, "ions/position": (7, 2), "ions/charge": (7,), "ions/patch": (3,), "ions/spin": (7, 3)}
    found = find_species(arrays)
    assert list(found) == ["", "ions/"]
    number, components = found["ions/"]
    assert number == 7
    names = [(part.record, part.axis, part.column) for part in components]
    assert names == [
        ("position", "x", 0), ("position", "y", 1), ("charge", "", None),
        ("spin", "x", 0), ("spin", "y", 1), ("spin", "z", 2),
    ]  # fmt: skip


def test_an_array_that_is_as_long_as_there_are_particles_by_chance_stays_a_field() -> None:
    layout = OpenPMD()
    layout.tree(step({"position": (5, 3), "edges": (7,)}))
    tree = layout.tree(step({"position": (7, 3), "edges": (7,)}, 1))
    assert "/data/1/meshes/edges" in tree.datasets


def test_openpmd_has_species_meshes_and_times() -> None:
    layout = OpenPMD()
    attributes = {"position/unit": "angstrom", "rho/gridSpacing": np.array([2.0, 3.0]), "time/unit": "fs", "title": "t"}
    arrays = {**ATOMS, "rho": (4, 6), "E field": (2, 4, 6, 3)}
    first = layout.tree(step(arrays, scalars={"time": 1.5, "step": np.int32(10)}, attributes=attributes))
    particles = "/data/10/particles/particles"
    assert first.datasets[f"{particles}/position/z"] == DatasetSource("position", 2)
    assert first.datasets[f"{particles}/id"] == DatasetSource("id")
    assert first.attributes[f"{particles}/position/z"]["unitSI"] == 1e-10
    assert first.attributes[f"{particles}/positionOffset/x"]["shape"] == [5]
    assert set(first.datasets) >= {"/data/10/meshes/box", "/data/10/meshes/rho", "/data/10/meshes/E_field/y"}
    assert list(first.attributes["/data/10/meshes/rho"]["gridSpacing"]) == [2.0, 3.0]
    assert first.attributes["/"]["title"] == "t"
    base = first.attributes["/data/10/"]
    assert (base["time"], base["dt"], base["timeUnitSI"], base["step"]) == (1.5, 0.0, 1e-15, 10)
    second = layout.tree(step(arrays, 1, scalars={"time": 2.5, "step": np.int32(20)}, attributes=attributes))
    assert second.attributes["/data/20/"]["dt"] == 1.0


def test_iterations_always_grow() -> None:
    layout = OpenPMD()
    marks = [3, 3, -1, 9]
    trees = [layout.tree(step({"a": (2,)}, index, scalars={"timestep": mark})) for index, mark in enumerate(marks)]
    assert [next(iter(tree.datasets)) for tree in trees] == [f"/data/{n}/meshes/a" for n in (3, 4, 5, 9)]


OF_OPENPMD = {
    "/openPMD": "1.1.0",
    "/basePath": "/data/%T/",
    "/iterationEncoding": "variableBased",
    "/data/snapshot": 30,
}


def test_openpmd_lists_of_one_element_and_lost_labels_become_lists_again() -> None:
    """openpmd-pipe makes a list of one element a single value; SST loses lists of strings."""
    given = {
        **OF_OPENPMD,
        "/data/meshes/E/gridSpacing": np.float64(2.0), "/data/meshes/E/gridGlobalOffset": np.float64(1.0),
        "/data/meshes/E/axisLabels": [""], "/data/meshes/E/x/position": np.float64(0.5),
        "/data/meshes/B/axisLabels": [""], "/data/meshes/B/z/shape": np.array([4, 6]), "/data/meshes/B/z/value": 1.5,
    }  # fmt: skip
    tree = OpenPMD().tree(step({"/data/meshes/E/x": (7,)}, attributes=given))
    mesh = tree.attributes["/data/30/meshes/E"]
    assert [mesh[name].tolist() for name in ("gridSpacing", "gridGlobalOffset")] == [[2.0], [1.0]]
    assert mesh["axisLabels"] == ["x"] and tree.attributes["/data/30/meshes/E/x"]["position"].tolist() == [0.5]
    assert tree.attributes["/data/30/meshes/B"]["axisLabels"] == ["y", "x"]


def test_openpmd_takes_the_attributes_of_the_iteration_that_a_step_is() -> None:
    """BP4 shows those of all iterations in each step, and the last value of each."""
    given = {**OF_OPENPMD, "/iterationEncoding": "groupBased", "__openPMD_groups/": 2, "__openPMD_groups/data/10": 1}
    for number in (10, 20):
        given |= {f"/data/{number}/time": float(number), f"/data/{number}/meshes/rho/unitSI": float(number)}
    tree = OpenPMD().tree(step({"/data/10/meshes/rho": (7,)}, attributes=given))
    assert tree.attributes["/data/10"]["time"] == 10.0
    assert tree.attributes["/data/10/meshes/rho"]["unitSI"] == 10.0
    assert not [path for path in tree.attributes if path.startswith("/data/20")]


def test_two_steps_of_one_iteration_are_refused() -> None:
    layout = OpenPMD()
    layout.tree(step({"/data/meshes/rho": (7,)}, 0, attributes=OF_OPENPMD))
    with pytest.raises(SystemExit, match="steps 0 and 1 are both iteration 30"):
        layout.tree(step({"/data/meshes/rho": (7,)}, 1, attributes=OF_OPENPMD))


def test_names_that_become_the_same_are_refused() -> None:
    with pytest.raises(SystemExit, match=r"a/b and a_b would both be written to /data/0/meshes/a_b; leave one out"):
        OpenPMD().tree(step({"a/b": (2,), "a_b": (2,)}))


def test_h5part_has_the_usual_names() -> None:
    arrays = {**ATOMS, "momentum": (5, 3), "spin": (5, 2)}
    layout, known = H5Part(), step(arrays, 2, scalars={"time": 1.0})
    tree = layout.tree(known)
    names = [path.removeprefix("/Step#2/") for path in tree.datasets]
    assert names == ["x", "y", "z", "vx", "vy", "vz", "id", "px", "py", "pz", "spin_x", "spin_y"]
    assert tree.attributes["/Step#2"] == {"time": 1.0}
    assert layout.left_out(known) == {"box": "not one value per particle"}


def test_h5part_of_plain_columns() -> None:
    tree = H5Part().tree(step({"x": (4,), "y": (4,), "p": (4, 3), "grid": (2, 2, 2)}))
    assert list(tree.datasets) == ["/Step#0/x", "/Step#0/y", "/Step#0/p_x", "/Step#0/p_y", "/Step#0/p_z"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": (4,), "b": (5,)}, r"no array is called `position`, .* a \[4\], b \[5\]; list arrays of one length"),
        ({"grid": (2, 2)}, "unclear which ones hold particles"),
        (
            {"i/position": (4, 3), "e/position": (4, 3)},
            "holds one species, but the stream has i, e; choose with `variables`",
        ),
    ],
)
def test_h5part_does_not_guess(arrays: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        H5Part().tree(step(arrays))


def test_h5block_has_fields_of_three_dimensions() -> None:
    arrays = {
        **ATOMS,
        "rho": (4, 6, 8),
        "E": (4, 6, 8, 3),
        "plane": (6, 8),
        "/data/meshes/B/y": (4, 6, 8),
        "line": (3,),
    }
    attributes = {"/data/meshes/B/gridSpacing": np.array([3.0, 2.0, 1.0])}
    layout, known = H5Part(fields=True), step(arrays, attributes=attributes)
    tree = layout.tree(known)
    block = {path.removeprefix("/Step#0/Block/"): part for path, part in tree.datasets.items() if "Block" in path}
    assert block == {
        "box/0": DatasetSource("box", None, (1, 2, 3)),
        "rho/0": DatasetSource("rho"),
        "E/0": DatasetSource("E", 0),
        "E/1": DatasetSource("E", 1),
        "E/2": DatasetSource("E", 2),
        "plane/0": DatasetSource("plane", None, (1, 6, 8)),
        "B/1": DatasetSource("/data/meshes/B/y"),
    }
    assert list(tree.attributes["/Step#0/Block/B"]["__Spacing__"]) == [1.0, 2.0, 3.0]
    assert list(tree.attributes["/Step#0/Block/rho"]["__Origin__"]) == [0.0, 0.0, 0.0]
    assert "/Step#0/x" in tree.datasets
    assert list(layout.left_out(known)) == ["line"]


@pytest.mark.parametrize(("layout", "groups"), [(OpenPMD(), "/data/{}/"), (H5Part(), "/Step#{}")])
def test_an_attribute_that_changes_keeps_its_value_in_each_step(layout: Any, groups: str) -> None:
    trees = [
        layout.tree(step(ATOMS, k, attributes={"title": "t", "laser": value}))
        for k, value in enumerate((1.0, 1.0, 2.0))
    ]
    assert [tree.attributes["/"]["laser"] for tree in trees] == [1.0] * 3
    assert [tree.attributes[groups.format(k)].get("laser") for k, tree in enumerate(trees)] == [None, None, 2.0]
    assert not any("title" in tree.attributes[groups.format(k)] for k, tree in enumerate(trees))


def test_an_attribute_of_any_size_and_a_dataset_below_a_dataset(tmp_path: Path) -> None:
    tree = Tree()
    tree.describe("/", {"deck": "x" * 100_000, "numbers": np.arange(10_000.0)})
    tree.add("/E", DatasetSource("E"))
    with hdf5_file(tmp_path / "a.h5") as file:
        write_tree(file, tree, lambda _: np.ones(2))
        assert len(file.attrs["deck"]) == 100_000 and file.attrs["numbers"][-1] == 9_999.0
        below = Tree()
        below.add("/E/x", DatasetSource("E/x"))
        with pytest.raises(SystemExit, match="E/x cannot be written to /E/x: "):
            write_tree(file, below, lambda _: np.ones(2))


def test_two_fields_of_one_name_are_refused_by_vtkhdf() -> None:
    with pytest.raises(SystemExit, match="a/T and a_T would both be the field a_T"):
        VtkHdf(None, cells=False).begin(step({"a/T": (3, 4), "a_T": (3, 4)}))
