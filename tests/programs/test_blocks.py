"""Programs whose ranks write local arrays, parts of arrays and values of their own, as ADIOS2's examples do: what is
kept of them is what they wrote, by every way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.data_kinds import read_adios
from tests.support.pipelines import run
from tests.support.stage_programs import PYTHONS

PROGRAM = """
import sys
import adios2
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()
io = adios2.Adios("adios2.xml", comm).declare_io("out")
with adios2.Stream(io, sys.argv[1], "w", comm) as stream:
    for step in stream.steps(3):
        number = step.current_step()
        length = 2 + rank + number
        stream.write("ids", np.full(length, 10.0 * number + rank), [], [], [length])
        stream.write("same", np.full(3, 10.0 * number + rank), [], [], [3])
        stream.write("sparse", np.full(2, 1.0 + rank), [12], [5 * rank], [2])
        if number != 1:
            stream.write("late", np.full(1, 1.0 + rank), [2], [rank], [1])
"""
PIPELINE = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py", "${{ streams.s.path }}"]
    ranks: 2
    writes: {s: {io: out, config: adios2.xml}}
  keep: {component: archive, ranks: RANKS, with: {path: s.bp}}
  late: {component: histogram, with: {variable: late, bins: 2}}
  bins: {component: archive, with: {path: bins.bp}}
streams:
  s: {from: sim, to: [keep, late], via: VIA}
  histogram: {from: late, to: bins}
"""
REFUSED = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py", "${{ streams.s.path }}"]
    ranks: 2
    writes: {s: {io: out, config: adios2.xml}}
  keep: {component: archive, with: {path: s.h5}}
streams: {s: {from: sim, to: keep, via: bp5}}
"""


@pytest.fixture
def python() -> str:
    if not PYTHONS["mpi"]:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    return PYTHONS["mpi"]


@pytest.mark.parametrize(("via", "ranks"), [("sst", 1), ("sst", 2), ("bp5", 1), ("bp5", 2)])
def test_local_and_sparse_arrays_of_two_ranks_are_kept(via: str, ranks: int, tmp_path: Path, python: str) -> None:
    (tmp_path / "sim.py").write_text(PROGRAM)
    done = run(tmp_path, PIPELINE.replace("RANKS", str(ranks)).replace("VIA", via), python=python)
    assert done.code == 0, done.said
    for number, step in enumerate(read_adios(str(done.folder / "s.bp"))):
        for name, length in (("ids", 2 + number), ("same", 3)):
            first, second = step[name]
            extra = 1 if name == "ids" else 0
            np.testing.assert_array_equal(first, np.full(length, 10.0 * number))
            np.testing.assert_array_equal(second, np.full(length + extra, 10.0 * number + 1))
        np.testing.assert_array_equal(step["sparse"], [1, 1, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0])
        assert ("late" in step) == (number != 1)
    counts = [step["counts"].tolist() for step in read_adios(str(done.folder / "bins.bp"))]
    assert counts == [[1, 1], [0, 0], [1, 1]]


def test_hdf5_refuses_local_arrays_by_name_and_step(tmp_path: Path, python: str) -> None:
    (tmp_path / "sim.py").write_text(PROGRAM)
    done = run(tmp_path, REFUSED, python=python)
    assert done.code == 1
    assert "step 0: ids is an array in local blocks, without a global shape, which HDF5 does not have" in done.said
    assert "Traceback" not in done.said
