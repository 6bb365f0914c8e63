"""A node that is lost under a stage, on a real Slurm: the stage goes on at a spare node of the same job."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.packed_runs import MPI_PYTHON
from tests.support.pipelines import ROOT
from tests.support.pipelines import run as run_here
from tests.support.reliability import note
from tests.support.resumed_runs import ANALYSIS, TIMED, stream_steps
from tests.support.slurm_cluster import ClusterSettings, SlurmCluster
from tests.support.waiting import wait_until
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.run.records.events_file import read_events
from workflow.run.state.lifecycle_events import NodeReplaced

pytestmark = pytest.mark.turns(3)

STEPS, STEP_S = 60, 0.3
LIVE = "via: bp5, coupling: live"
SPOOL = "via: sst, keep: true"
# The supervisor is on n1, the stage that is to be lost on n2 as the second one; n4 is spare.
STAGES = {
    "sim": """
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", none, "{steps}", "{step_s}"]
    ranks: {ranks}
    checkpoint: {{every: 1 s}}
    writes: {{field: {{}}}}
    on_failure: restart
    {place}""",
    "mean": """
  mean:
    command: ["${{{{ wf.python }}}}", "{folder}/mean.py", none]
    reads: {{field: {{}}}}
    writes: {{means: {{}}}}
    on_failure: restart
    {place}""",
    "keep": """
  keep: {{component: archive, with: {{path: means.bp}}, on_failure: restart, {place}}}""",
}


class Cell(NamedTuple):
    """Which stage is lost with its node, and how the streams go."""

    role: str
    field: str
    means: str

    def __str__(self) -> str:
        ways = {LIVE: "live", SPOOL: "spool", "via: sst": "sst"}
        return f"{self.role}, {ways[self.field]} then {ways[self.means]}"


CELLS = [
    Cell("sim", LIVE, LIVE),
    Cell("mean", LIVE, "via: sst"),
    pytest.param(Cell("mean", LIVE, LIVE), marks=pytest.mark.reliability),
    pytest.param(Cell("keep", LIVE, LIVE), marks=pytest.mark.reliability),
    pytest.param(Cell("mean", SPOOL, "via: sst"), marks=pytest.mark.reliability),
    pytest.param(Cell("keep", LIVE, SPOOL), marks=pytest.mark.reliability),
]


def stages_of(folder: Path, cell: Cell, place: str, step_s: float) -> str:
    """The pipeline below its head: three stages, the one that is to be lost is the second."""
    (folder / "mean.py").write_text(ANALYSIS)
    (folder / "sim.py").write_text(TIMED)
    order = [name for name in ("keep", "sim", "mean") if name != cell.role]
    order.insert(1, cell.role)
    stages = "".join(
        STAGES[name].format(folder=folder, steps=STEPS, step_s=step_s, ranks=2, place=place) for name in order
    )
    streams = f"field: {{from: sim, to: mean, {cell.field}}}\n  means: {{from: mean, to: keep, {cell.means}}}"
    return f"stages:{stages}\nstreams:\n  {streams}\n"


@pytest.fixture(scope="module")
def own_cluster(start_cluster: Callable[[ClusterSettings], SlurmCluster]) -> SlurmCluster:
    return start_cluster(ClusterSettings(kill_wait_s=15))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_stage_goes_on_at_a_spare_node_of_the_job(cell: Cell, own_cluster: SlurmCluster, tmp_path: Path) -> None:
    pipeline, run_dir, output = tmp_path / "p.yaml", tmp_path / "run", tmp_path / "job.out"
    text = stages_of(tmp_path, cell, "place: {nodes: 1}", STEP_S)
    pipeline.write_text(f"wf: 1\nname: spare\nsite: test-slurm\ndeadlines: {{stop: 5 s, node: 10 s}}\n{text}")
    argv = [MPI_PYTHON, "-m", "workflow.cli", "run", str(pipeline), "--run-dir", str(run_dir)]
    job = own_cluster.start_job(argv, output, "--nodes=4", "--exclusive", "--no-kill", PYTHONPATH=str(ROOT))
    try:
        wait_until(lambda: stream_steps(run_dir) > 10, "ten steps in the archive", 90, 0.1)
        own_cluster.unplug_node("n2")
        # The job itself ends when Slurm gives up its node, minutes later.
        wait_until(lambda: '"run_finished"' in (run_dir / "events.jsonl").read_text(), "the end of the run", 150, 0.5)
    except TimeoutError as error:
        events = "\n".join(map(str, list(read_events(run_dir))[-15:]))
        logs = "\n".join(f"{path}\n{path.read_text()[-800:]}" for path in run_dir.glob("stages/*/**/stderr.log"))
        raise TimeoutError(f"{error}\n{output.read_text()}\n{events}\n{logs}") from None
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended
            own_cluster.client("scancel", "--signal=KILL", "--full", str(job))
    report = read_report(run_dir)
    assert report.run.state == "succeeded", output.read_text()
    (moved,) = [event for event in read_events(run_dir) if isinstance(event, NodeReplaced)]
    assert (moved.host, moved.by_host) == ("n2", "n4")
    assert {each.stage for each in report.restarts} == {cell.role}
    other = tmp_path / "undisturbed"
    other.mkdir()
    undisturbed = run_here(other, stages_of(other, cell, "", 0.0))
    assert undisturbed.code == 0, undisturbed.said
    found = compare_runs(run_dir, undisturbed.folder)
    note("spare nodes", role=cell.role, way=str(cell).partition(", ")[2], equal=found.identical)
    assert found.identical, found
