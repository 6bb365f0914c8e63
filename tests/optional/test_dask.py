"""Steps as arrays of Dask. `make demo-train` runs it: no other target installs Dask."""

from __future__ import annotations

from pathlib import Path

import dask.array
import numpy as np

from workflow import stage


def test_steps_become_an_array_of_dask(tmp_path: Path) -> None:
    path = tmp_path / "field.bp"
    with stage.open_writer(path=path) as out:
        for step in range(6):
            with out.step():
                out.write("V", np.full((2, 3), float(step)), shape=(2, 3))
    with stage.open_reader(path=path) as reader:
        lazy = reader.to_xarray("V").chunk(step=1)["V"]
    assert isinstance(lazy.data, dask.array.Array)
    assert lazy.chunks is not None and lazy.chunks[0] == (1,) * 6
    assert float(lazy.mean().compute()) == 2.5
