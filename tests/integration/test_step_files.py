"""`files: each_step` in real runs: one BP output per step, with the data that one output for all has."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.pipelines import ROOT, run
from tests.support.stage_programs import STEPS
from workflow.compare.compare_runs import compare_runs
from workflow.errors import RunError
from workflow.formats.bp_index import read_index
from workflow.formats.step_files import CLOSED_FILE, newest_step_file, read_closed
from workflow.run.records.run_directory import read_filled_plan

MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")
START = f'["${{{{ wf.python }}}}", {ROOT}/tests/support/stage_programs.py, '
EVERYTHING = f"""
stages:
  sim:
    command: {START}write_everything]
    ranks: %d
    writes: {{data: {{}}}}
    output: {{%s}}
  check: {{command: {START}read_everything], ranks: %d, reads: {{data: {{}}}}}}
streams:
  data: {{from: sim, to: check, via: %s}}
"""
FIELD = """
stages:
  sim:
    component: gray_scott
    ranks: 2
    with: {size: [12], steps: 6, write_every: 2}
    output: {%s}
  drop: {component: "null", ranks: 2}
streams: {field: {from: sim, to: drop, via: bp5}}
"""


@pytest.mark.parametrize(
    "output", ["files: each_step", "files: each_step, async: pipe", "files: each_step, async: naive"]
)
def test_every_type_and_attribute_arrives(output: str, tmp_path: Path) -> None:
    done = run(tmp_path, EVERYTHING % (1, output, 1, "bp5"))
    assert done.code == 0, done.said
    files = sorted(path.name for path in (done.folder / "streams/data").iterdir())
    assert files == [*(f"{step:06d}.bp" for step in range(STEPS)), CLOSED_FILE]
    data = done.report.stream("data")
    assert (data.engine, data.steps, data.readers[0].steps) == ("BP5", STEPS, STEPS)


@pytest.mark.parametrize("via", ["bp5", "bp4"])
def test_ranks_that_write_and_read_in_parallel(via: str, tmp_path: Path) -> None:
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    done = run(tmp_path, EVERYTHING % (3, "files: each_step, aggregation: {count: 2}", 2, via), python=MPI_PYTHON)
    assert done.code == 0, done.said
    plan = read_filled_plan(done.folder).stream("data")
    assert plan.subfiles == 2 and plan.path.endswith("streams/data/%06T.bp")
    for step in range(STEPS):
        assert len(list((done.folder / f"streams/data/{step:06d}.bp").glob("data.*"))) == 2


def test_the_data_are_those_of_one_output(tmp_path: Path) -> None:
    one = run(tmp_path, FIELD % "", name="one")
    many = run(tmp_path, FIELD % "files: each_step", name="many")
    assert one.code == many.code == 0, one.said + many.said
    found = compare_runs(one.folder, many.folder)
    assert [(file.path, file.steps, file.variables) for file in found.files] == [("streams/field.bp", 4, 3)]
    assert found.identical and found.files[0].bytes > 4 * 2 * 12**3 * 8
    assert compare_runs(one.folder / "streams/field.bp", many.folder / "streams/field").identical
    # Another step in the place of one is seen.
    shutil.rmtree(many.folder / "streams/field/000002.bp")
    shutil.copytree(many.folder / "streams/field/000001.bp", many.folder / "streams/field/000002.bp")
    (file,) = compare_runs(one.folder, many.folder).files
    assert {difference.step for difference in file.differences} == {2}


def test_files_without_an_end_are_a_broken_stream(tmp_path: Path) -> None:
    done = run(tmp_path, FIELD % "files: each_step")
    folder = done.folder / "streams/field"
    assert read_closed(str(folder / "%06T.bp")) == 4
    (folder / CLOSED_FILE).unlink()
    with pytest.raises(RunError, match="its writer died, or exited without closing the stream, after 4 steps"):
        compare_runs(folder, folder)
    newest = newest_step_file(folder)
    assert newest is not None and newest.name == "000003.bp"
    # A file in the middle is missing: the stream breaks off before it.
    (folder / CLOSED_FILE).write_text(json.dumps({"step_files_version": 1, "steps": 4}))
    shutil.rmtree(folder / "000001.bp")
    with pytest.raises(RunError, match="after 1 steps"):
        compare_runs(folder, folder)


def test_a_stream_that_is_not_kept_leaves_no_file(tmp_path: Path) -> None:
    done = run(tmp_path, (FIELD % "files: each_step").replace("via: bp5", "via: bp5, keep: false"))
    assert done.code == 0, done.said
    assert done.report.stream("field").steps == 4
    assert not (done.folder / "streams/field").exists()


@pytest.mark.parametrize(
    ("what", "last", "said"),
    [
        ("kill", "000001.bp", "its writer died.* after 2 steps"),
        ("raise inside", "000002.bp", "000002.bp: md.idx is truncated"),
    ],
)
def test_a_writer_that_fails_leaves_no_open_file(what: str, last: str, said: str, tmp_path: Path) -> None:
    text = f"""
stages:
  sim: {{command: {START}write_some, {what}], writes: {{data: {{}}}}, output: {{files: each_step}}}}
  drop: {{component: "null"}}
streams: {{data: {{from: sim, to: drop, via: bp5}}}}
"""
    done = run(tmp_path, text)
    assert done.code != 0 and "sim" in done.said
    folder = done.folder / "streams/data"
    newest = newest_step_file(folder)
    assert newest is not None and newest.name == last and not (folder / CLOSED_FILE).exists()
    index = read_index(newest / "md.idx")
    assert index is None or not index.active
    with pytest.raises(RunError, match=said):
        compare_runs(folder, folder)
