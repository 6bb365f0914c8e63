"""Iterations of group-based openPMD files as steps."""

from __future__ import annotations

from pathlib import Path

import adios2.bindings as adios2
import numpy as np
import pytest

from workflow import stage


@pytest.mark.parametrize("with_variable", [(), (3,), (1,), (0, 2)])
def test_iterations_of_constant_components_are_steps(with_variable: tuple[int, ...], tmp_path: Path) -> None:
    """Such an iteration has attributes and no variable, and is a step of ADIOS2."""
    adios = adios2.ADIOS()
    out = adios.DeclareIO("out")
    file = out.Open(str(tmp_path / "a.bp"), adios2.Mode.Write)
    out.DefineAttribute("/openPMD", "1.1.0")
    for number in range(4):
        file.BeginStep()
        out.DefineAttribute(f"/data/{number}/time", np.array([0.5 * number]))
        if number in with_variable:
            name, values = f"/data/{number}/meshes/E", np.full(3, float(number))
            file.Put(out.DefineVariable(name, values, [3], [0], [3]), values, adios2.Mode.Sync)
        file.EndStep()
    file.Close()
    with stage.open_reader(path=tmp_path / "a.bp", iterations=True) as data:
        found = [(step.attributes()["/data/snapshot"], step.attributes()["/data/time"], step.names()) for step in data]
    assert [int(number) for number, _, _ in found] == [0, 1, 2, 3]
    assert [float(np.ravel(time)[0]) for _, time, _ in found] == [0.0, 0.5, 1.0, 1.5]
    assert [number for number, _, names in found if names] == [*with_variable]
