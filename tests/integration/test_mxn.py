"""M writing ranks, N reading ranks: with every strategy, over every path, each element is read once, bit for bit.

One pair of process groups goes through all paths of one (writers, readers), because starting them is what costs time;
the table below has a test for each. The reader tries all strategies on each step: see tests/support/mxn_program.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support.stage_programs import BUILDS, PYTHONS, SST, SUFFIX
from tests.support.ucx_here import UCX_WORKS
from workflow import stage
from workflow.distribution import Ranks
from workflow.plan.streams.distribution_strategy import blocks_of_rows, read_cost

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
WRITERS, READERS = (1, 2, 3, 4), (1, 2, 3)


class Way(NamedTuple):
    """One path from writer to reader. `after`: the reader opens when the writer has closed."""

    engine: str
    parameters: dict[str, str]
    after: bool = False


FOLLOW = {"BeginStepPollingFrequencySecs": "0.02"}
WAYS = {
    "mpi": {
        "sst-tcp": Way("SST", {**SST, "DataTransport": "WAN"}),
        "sst-ucx": Way("SST", {**SST, "DataTransport": "UCX"}),
        "sst-rdma": Way("SST", {**SST, "DataTransport": "RDMA", "DataInterface": "shm"}),
        "bp5-live": Way("BP5", FOLLOW),
        "bp5-after": Way("BP5", {}, after=True),
    },
    "here": {
        "sst": Way("SST", SST),
        "bp5-live": Way("BP5", FOLLOW),
        "bp5-after": Way("BP5", {}, after=True),
        "hdf5": Way("HDF5", {}, after=True),
    },
}
if not UCX_WORKS:
    del WAYS["mpi"]["sst-ucx"]
PLANES = ["evpath", "rdma"] + ["ucx"] * UCX_WORKS
CASES = [(build, writers, readers) for build in BUILDS for writers in WRITERS for readers in READERS]
TABLE = [(*case, way) for case in CASES for way in WAYS[case[0]]]


class Result(NamedTuple):
    """The result of one pair of process groups."""

    codes: list[int]
    said: str
    done: list[str]


def settings(folder: Path, side: str, ranks: int, sides: dict[str, Any], ways: dict[str, Way]) -> None:
    """The stage.json that a run would have written for this stage."""
    ends = [
        {
            "stream": name, "port": name, "side": side, "engine": way.engine, "parameters": way.parameters,
            "path": str(folder / name) + SUFFIX.get(way.engine, ""), "open_timeout_s": 60, "step_timeout_s": 60,
            "share": {"strategy": "hostname", **sides} if side == "read" else None,
        }
        for name, way in ways.items()
    ]  # fmt: skip
    told = {
        "stage_file_version": 2, "stage": side, "ranks": ranks, "parameters": {},
        "metrics": str(folder / f"{side}.jsonl"), "ends": ends,
    }  # fmt: skip
    (folder / f"{side}.json").write_text(json.dumps(told))


@cache
def run_pair(folder: Path, build: str, writers: int, readers: int) -> Result:
    """Run both groups at the same time, through all paths of this build."""
    ways = WAYS[build]
    # two writers per node; one reader per node, from the second node on
    sides = {
        "writers": {"number": writers, "first_node": 0, "per_node": 2},
        "readers": {"number": readers, "first_node": 1, "per_node": 1},
    }
    told = [{"name": name, "after": way.after, "writers": writers} for name, way in ways.items()]
    (folder / "paths.json").write_text(json.dumps(told))
    groups = []
    try:
        for side, ranks in (("write", writers), ("read", readers)):
            settings(folder, side, ranks, sides, ways)
            python = PYTHONS[build]
            launch = [str(Path(python).with_name("mpiexec")), "-n", str(ranks)] if ranks > 1 else []
            env = {**os.environ, "WF_STAGE": str(folder / f"{side}.json"), "PYTHONPATH": str(ROOT), "SstVerbose": "2"}
            argv = [*launch, python, str(ROOT / "tests/support/mxn_program.py"), side, str(folder)]
            with (folder / f"{side}.log").open("w") as log:
                groups.append(
                    subprocess.Popen(argv, env=env, cwd=folder, stdout=log, stderr=log, start_new_session=True)
                )
        codes = [group.wait(timeout=TIMEOUT_S) for group in groups]
    except subprocess.TimeoutExpired:
        codes = [124]
    finally:
        for group in groups:
            if group.poll() is None:
                os.killpg(group.pid, signal.SIGKILL)
                group.wait()
    said = "".join((folder / f"{side}.log").read_text() for side in ("write", "read"))
    done = folder / "read.txt"
    return Result(codes, said, done.read_text().split() if done.exists() else [])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int, int], Path]:
    return {case: tmp_path_factory.mktemp("{}-{}x{}".format(*case)) for case in CASES}


@pytest.mark.parametrize(("build", "writers", "readers", "way"), TABLE)
def test_every_strategy_gives_every_element_once(
    folders: dict[tuple[str, int, int], Path], build: str, writers: int, readers: int, way: str
) -> None:
    result = run_pair(folders[build, writers, readers], build, writers, readers)
    assert way in result.done, result.said[-4000:]


@pytest.mark.parametrize(("build", "writers", "readers"), CASES)
def test_both_sides_end_well_on_their_transport(
    folders: dict[tuple[str, int, int], Path], build: str, writers: int, readers: int
) -> None:
    result = run_pair(folders[build, writers, readers], build, writers, readers)
    assert result.codes == [0, 0], result.said[-4000:]
    if build == "mpi":
        for plane in PLANES:
            assert f'Selecting DataPlane "{plane}" (preferred) for use' in result.said


PIPELINE = """
wf: 1
name: sharing
oversubscribe: true
stages:
  make: {component: synthetic, ranks: 3, with: {grid_points: 1000, particles: 500, steps: 2}}
  drop: {component: "null", ranks: 2}
  count: {component: histogram, ranks: 2, with: {variable: grid, bins: 10}}
  keep: {component: archive, ranks: 2}
  shape: {component: archive, with: {path: histogram.bp}}
streams:
  data: {from: make, to: [drop, count, keep], via: bp5, strategy: hostname}
  histogram: {from: count, to: shape, via: sst}
"""


@pytest.mark.parametrize("strategy", ["hostname", "round-robin"])
def test_a_run_uses_the_strategy_of_the_pipeline(tmp_path: Path, strategy: str) -> None:
    """From the pipeline's `strategy` to the data in the archive and the sum over all ranks."""
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    argv = [sys.executable, "-m", "workflow.cli", "run", "pipeline.yaml", "--run-dir", "run", "-q"]
    argv += ["--set", f"streams.data.strategy={strategy}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "run/report.json").read_text())
    data = next(stream for stream in report["streams"] if stream["name"] == "data")
    # each stage read every byte once, the histogram only the grid; both of its ranks read the number of the step
    grid, number = 3000 * 8 * 2, 8 * 2
    everything = data["bytes"] + number
    assert [reader["bytes"] for reader in data["readers"]] == [everything, grid + 2 * number, everything]
    with stage.open_reader(path=tmp_path / "run/archive.bp") as archive:
        for step in archive:
            assert np.array_equal(step.read("grid"), np.arange(3000) + step.index)
            assert step.shape("particles") == (1500, 3)
    with stage.open_reader(path=tmp_path / "run/histogram.bp") as histogram:
        assert [list(step.read("counts")) for step in histogram] == [[300] * 10] * 2


COUNTED = """
wf: 1
name: counted
oversubscribe: true
stages:
  make: {component: synthetic, ranks: 3, with: {grid_points: 1000, particles: 0, steps: 2}}
  drop: {component: "null", ranks: 2}
streams:
  data: {from: make, to: drop, via: sst, transport: tcp, strategy: %s}
"""


@pytest.mark.parametrize("strategy", ["hyperslab", "blocks", "all"])
def test_adios2_counts_what_the_plan_computed(tmp_path: Path, strategy: str) -> None:
    """Partners and bytes of `wf plan --strategies`, compared with the summary in SST's log."""
    if not PYTHONS["mpi"]:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    (tmp_path / "pipeline.yaml").write_text(COUNTED % strategy)
    argv = [PYTHONS["mpi"], "-m", "workflow.cli", "run", "pipeline.yaml", "--run-dir", "run", "-q"]
    env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    told = read_cost(strategy, blocks_of_rows([1000] * 3, (), 3), Ranks(3), Ranks(2))
    log = "".join(path.read_text() for path in sorted((tmp_path / "run/stages/drop").glob("*.log")))
    counted = re.findall(r"(AverageReadRankFanIn|DataBytesReceived) = ([\d.]+)", log)
    found = {name: float(value) for name, value in counted}
    assert found == {"AverageReadRankFanIn": told.partners_mean, "DataBytesReceived": told.moved * 8 * 2}
