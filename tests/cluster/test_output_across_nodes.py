"""Aggregation and asynchronous writing on two and four nodes, proved from what lies on disk.

Here ADIOS2 itself finds out on which nodes its ranks are: which of them can share memory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support.cluster_runs import SITE, run_in_job, wf_run
from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
POINTS, STEPS = 20_000, 3
# A timer of BP5 that only asynchronous writing has.
ASYNC_TIMER = "BS_WaitOnAsync"


class Output(NamedTuple):
    """How a stage writes, and what must be found: data file → the ranks that wrote it."""

    policies: str
    written_by: dict[str, list[int]]
    asynchronous: bool


def data_files(*ranks: int) -> dict[str, list[int]]:
    """Each of these ranks wrote a file of its own."""
    return {f"data.{index}": [rank] for index, rank in enumerate(ranks)}


# Two ranks on each node.
ON_TWO_NODES = [
    Output("{aggregation: {per_node: 1}}", data_files(0, 2), False),
    Output("{aggregation: {per_node: 2}, async: naive}", data_files(0, 1, 2, 3), True),
    Output("{aggregation: {count: 4, subfiles: 2}, async: guided}", {"data.0": [0, 1], "data.1": [2, 3]}, True),
    Output(
        "{aggregation: {count: 3, strategy: EveryoneWrites}}", {"data.0": [0, 1], "data.1": [2], "data.2": [3]}, False
    ),
]
ON_FOUR_NODES = [Output("{aggregation: {per_node: 1}, async: naive}", data_files(0, 2, 4, 6), True)]


@pytest.mark.parametrize(("nodes", "outputs"), [(2, ON_TWO_NODES[:2]), (2, ON_TWO_NODES[2:]), (4, ON_FOUR_NODES)])
def test_files_and_threads_are_as_planned(
    nodes: int, outputs: list[Output], cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The writers run beside each other, each on nodes of its own; their readers come afterwards."""
    lines = ["wf: 1", "name: output", "stages:"]
    for index, output in enumerate(outputs):
        lines += [
            f"  w{index}:",
            f"    {{component: synthetic, with: {{grid_points: {POINTS}, particles: 0, steps: {STEPS}}}, "
            f"ranks: {2 * nodes}, place: {{nodes: {nodes}}}, output: {output.policies}}}",
            f'  r{index}: {{component: "null"}}',
        ]
    lines += ["streams:", *(f"  s{index}: {{from: w{index}, to: r{index}, via: bp5}}" for index in range(len(outputs)))]
    run_dir = run_pipeline(cluster, tmp_path, "\n".join(lines), nodes * len(outputs))
    streams = {each["name"]: each for each in json.loads((run_dir / "plan.json").read_text())["streams"]}
    for index, output in enumerate(outputs):
        file = run_dir / f"streams/s{index}.bp"
        found = sorted(path.name for path in file.glob("data.*"))
        assert found == sorted(output.written_by), output
        assert len(found) == streams[f"s{index}"]["subfiles"]
        profile = json.loads((file / "profiling.json").read_text())
        assert written_by(profile) == output.written_by, output
        assert [ASYNC_TIMER in rank for rank in profile] == [output.asynchronous] * 2 * nodes, output
        assert_whole(file, ranks=2 * nodes)


def test_a_pipe_between_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    """`async: pipe`: a stage of one rank takes the steps of two nodes by SST and writes the file."""
    text = f"""
wf: 1
name: pipe
stages:
  w: {{component: synthetic, ranks: 2, place: {{nodes: 2}}, output: {{async: pipe}},
      with: {{grid_points: {POINTS}, particles: 0, steps: {STEPS}}}}}
  r: {{component: "null"}}
streams:
  s: {{from: w, to: r, via: bp5}}
"""
    run_dir = run_pipeline(cluster, tmp_path, text, 2)
    pipe = json.loads((run_dir / "report.json").read_text())["streams"][0]
    assert (pipe["name"], pipe["transport"], pipe["steps"]) == ("s-pipe", "tcp", STEPS)
    assert_whole(run_dir / "streams/s.bp", ranks=2)


def run_pipeline(cluster: SlurmCluster, folder: Path, text: str, nodes: int) -> Path:
    """Run a pipeline file inside an allocation; its run directory."""
    pipeline, run_dir = folder / "pipeline.yaml", folder / "run"
    pipeline.write_text(text)
    run_in_job(cluster, wf_run(pipeline, run_dir, {}, "--site", SITE), run_dir, nodes)
    return run_dir


def written_by(profile: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Data file → the ranks that wrote it, as ADIOS2 has recorded it."""
    found: dict[str, list[int]] = {}
    for rank in profile:
        for key, transport in rank.items():
            if key.startswith("transport_") and transport["name"].startswith("data.") and transport["wbytes"]:
                found.setdefault(transport["name"], []).append(rank["rank"])
    return found


def assert_whole(file: Path, ranks: int) -> None:
    """All values are those of the component's formula."""
    from adios2 import Stream

    with Stream(str(file), "r") as stream:
        steps = [step.read("grid") for step in stream.steps()]
    expected = np.arange(POINTS * ranks, dtype=np.uint64)
    assert [np.array_equal(grid, expected + number) for number, grid in enumerate(steps)] == [True] * STEPS
