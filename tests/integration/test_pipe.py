"""`async: pipe` in real runs: the file is the one that the stage would have written, and another stage wrote it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.pipelines import ROOT, run
from tests.support.stage_programs import STEPS
from workflow.run.records.run_directory import read_filled_plan

MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")
START = f'["${{{{ wf.python }}}}", {ROOT}/tests/support/stage_programs.py, '
# The reader compares every value of every type, every shape and every attribute with what was to be written.
EVERYTHING = f"""
stages:
  sim:
    command: {START}write_everything]
    ranks: %d
    writes: {{data: {{}}}}
    output: {{async: %s}}
  check: {{command: {START}read_everything], reads: {{data: {{}}}}}}
streams:
  data: {{from: sim, to: check, via: %s}}
"""


@pytest.mark.parametrize("via", ["bp5", "bp5, coupling: live", "hdf5"])
def test_every_type_and_attribute_arrives(via: str, tmp_path: Path) -> None:
    done = run(tmp_path, EVERYTHING % (1, "pipe", via))
    assert done.code == 0, done.said
    pipe, data = done.report.stream("data-pipe"), done.report.stream("data")
    assert (pipe.writer, pipe.engine, pipe.steps, pipe.readers[0].steps) == ("sim", "SHM", STEPS, STEPS)
    (check,) = data.readers
    assert (data.writer, data.steps, check.stage, check.steps) == ("data-pipe", STEPS, "check", STEPS)
    assert data.engine == ("HDF5" if via == "hdf5" else "BP5")


def test_the_pipe_compresses_and_what_arrives_is_checked(tmp_path: Path) -> None:
    """All policies at once, with a tap on the file: two ranks pack what three have made into two files."""
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    packed = 'compression: {grid: {blosc: {}}, "*": {zfp: {accuracy: 1e-3}}}'
    done = run(
        tmp_path,
        f"""
stages:
  sim:
    component: synthetic
    ranks: 3
    with: {{grid_points: 50000, particles: 1000, steps: 4}}
    output: {{async: pipe, pipe: {{ranks: 2}}, aggregation: {{count: 2}}, {packed}}}
  count: {{component: "null", ranks: 2}}
streams:
  data: {{from: sim, to: count, via: bp5, tap: {{look: {{component: "null"}}}}}}
""",
        python=MPI_PYTHON,
    )
    assert done.code == 0, done.said
    files = list((tmp_path / "run/streams/data.bp").glob("data.*"))
    assert len(files) == read_filled_plan(tmp_path / "run").stream("data").subfiles == 2
    written = done.report.stream("data").bytes
    assert written is not None
    assert sum(file.stat().st_size for file in files) < 0.5 * written
    assert done.report.stream("data-pipe").readers[0].accuracy == []  # plain until the pipe has it
    for reader in done.report.stream("data").readers:
        found = {each.variable: (each.operator, each.steps) for each in reader.accuracy}
        assert found == {"grid": ("blosc", 4), "particles": ("zfp", 4)}
        assert all(each.largest is not None and each.largest <= each.bound for each in reader.accuracy)


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_type_with_an_mpi_adios2(ranks: int, tmp_path: Path) -> None:
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    policy = f"pipe, pipe: {{ranks: {ranks}}}, aggregation: {{count: {ranks}}}"
    done = run(tmp_path, EVERYTHING % (2, policy, "bp5"), python=MPI_PYTHON)
    assert done.code == 0, done.said
    # The policies of the files went where the files are written.
    assert len(list((tmp_path / "run/streams/data.bp").glob("data.*"))) == ranks


SYNTHETIC = """
stages:
  sim:
    component: synthetic
    with: {grid_points: 20000, particles: 500, steps: 6}
    output: {async: %s}
  count: {component: "null"}
streams:
  data: {from: sim, to: count, via: bp5}
"""


def test_the_file_is_the_same_as_without_a_pipe(tmp_path: Path) -> None:
    from workflow.compare.compare_runs import compare_runs

    for name, how in (("without", "off"), ("with", "pipe")):
        done = run(tmp_path, SYNTHETIC % how, name=name)
        assert done.code == 0, done.said
    one, other = (tmp_path / name / "streams/data.bp" for name in ("without", "with"))
    comparison = compare_runs(one, other)
    assert comparison.identical, comparison.to_text()
    assert not comparison.only_a
    assert not comparison.only_b


PROGRAM = """
import sys
import numpy as np
import adios2

adios = adios2.Adios(sys.argv[2])
stream = adios2.Stream(adios.declare_io("Output"), sys.argv[1], "w")
stream.write_attribute("unit", "K")
for step in stream.steps(4):
    stream.write("T", np.arange(30.0) + step.current_step(), [30], [0], [30])
stream.close()
"""
OWN = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/own.py", "${{ streams.heat.path }}", adios2.xml]
    writes: {heat: {io: Output, config: adios2.xml}}
    output: {async: pipe}
  keep: {component: archive, with: {path: kept.bp}}
streams:
  heat: {from: sim, to: keep, via: bp5, coupling: live}
"""


def test_a_program_of_ones_own_is_piped_unchanged(tmp_path: Path) -> None:
    """Its placeholders and its config mean the stream that it writes now."""
    import adios2
    import numpy as np

    (tmp_path / "own.py").write_text(PROGRAM)
    done = run(tmp_path, OWN)
    assert done.code == 0, done.said
    for path in ("streams/heat.bp", "kept.bp"):
        with adios2.Stream(str(tmp_path / "run" / path), "r") as stream:
            for step in stream.steps():
                np.testing.assert_array_equal(stream.read("T"), np.arange(30.0) + step.current_step(), strict=True)
                assert stream.read_attribute("unit") == "K"
            assert stream.current_step() == 3
    assert done.report.stream("heat-pipe").steps == 4
