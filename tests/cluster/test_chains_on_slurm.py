"""A run that is longer than its jobs, on a real Slurm: each job submits the next from its node."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.cluster.test_submission_on_slurm import Submitted
from tests.support.pipelines import run as run_here
from tests.support.resumed_runs import ANALYSIS, TIMED
from tests.support.slurm_cluster import SlurmCluster
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.errors import EXIT_STOPPED
from workflow.run.chain import NextPart, read_next_part
from workflow.run.part_record import read_part
from workflow.run.records.run_directory import read_allocation

pytestmark = pytest.mark.turns(3)

# The shortest job of Slurm is one minute, of which a part has a little more than a half; the analysis takes 80 s.
ALLOCATION = "allocation: {nodes: 1, parts: 5, walltime: 1 min, grace: 28 s}"
STEPS, STEP_S = 101, 0.8
SLOW = ANALYSIS.replace(
    "        with means.step", f"        import time; time.sleep({STEP_S})\n        with means.step"
)
STAGES = """
stages:
  sim: {{component: gray_scott, with: {{size: [16], steps: {last}, write_every: 1}}}}
  mean: {{command: ["${{{{ wf.python }}}}", "{folder}/mean.py", "{folder}/fails"], reads: {{field: {{}}}}, writes: {{means: {{}}}}}}
  keep: {{component: archive, with: {{path: means.bp}}}}
streams:
  field: {{from: sim, to: mean, via: bp5}}
  means: {{from: mean, to: keep, via: bp5}}
"""  # noqa: E501
# A simulation of two ranks and its analysis run together, on a node each. All steps take 100 s.
COUPLED_ALLOCATION = "allocation: {nodes: 3, parts: 8, walltime: 1 min, grace: 28 s}"
COUPLED_STEPS, COUPLED_STEP_S = 40, 2.5
COUPLED = """
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", none, "{steps}", "{step_s}"]
    ranks: 2
    checkpoint: {{every: 10 s}}
    writes: {{field: {{}}}}
    {places[sim]}
  mean:
    command: ["${{{{ wf.python }}}}", "{folder}/mean.py", none]
    reads: {{field: {{}}}}
    writes: {{means: {{}}}}
    {places[mean]}
  keep: {{component: archive, with: {{path: means.bp}}, {places[keep]}}}
streams:
  field: {{from: sim, to: mean, {field}}}
  means: {{from: mean, to: keep, via: sst}}
"""
ON_THREE_NODES = dict.fromkeys(("sim", "mean", "keep"), "place: {nodes: 1}")


def run_chain(submitted: Submitted, allocation: str, stages: str, *options: str) -> list[Path]:
    """The parts of a run, in order: all but the last were stopped before their time limits; nothing is left of them."""
    (submitted.folder / "p.yaml").write_text(f"wf: 1\nname: job\n{allocation}\n{stages}")
    process = submitted.start("run", "p.yaml", "--site", "test-slurm", *options)
    said, _ = process.communicate(timeout=500)
    assert process.returncode == 0, said
    found = (path for path in (submitted.folder / "runs").glob("job-*") if (path / "plan.json").exists())
    runs = sorted(found, key=lambda path: 1 if (part := read_part(path)) is None else part.number)
    assert [read_report(run).run.exit_code for run in runs] == [EXIT_STOPPED] * (len(runs) - 1) + [0]
    assert not (runs[-1] / "next_part.json").exists()
    submitted.assert_nothing_left()
    return runs


def hosts_of(run: Path) -> dict[str, set[str]]:
    """Stage → the nodes where its ranks were."""
    ranks = json.loads((run / "proof.json").read_text())["stages"]
    return {stage: {rank["host"] for rank in ranks[stage]} for stage in ON_THREE_NODES}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_that_is_cut_by_the_time_limit_more_than_once_holds_the_data_of_an_uninterrupted_one(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    submitted = Submitted(cluster, tmp_path)
    (tmp_path / "mean.py").write_text(SLOW)
    runs = run_chain(submitted, ALLOCATION, STAGES.format(folder=tmp_path, last=STEPS - 1))
    assert len(runs) >= 3
    jobs = [int(json.loads((run / "job.json").read_text())["job"]) for run in runs]
    for (before, after), (job, next_job) in zip(itertools.pairwise(runs), itertools.pairwise(jobs), strict=True):
        assert read_next_part(before) == NextPart("submitted", str(after))
        assert next_job > job
        received = read_allocation(after)
        assert received is not None and received.job == str(next_job), "nothing of the job before is inherited"
        assert " ExitCode=75:0 " in cluster.client("scontrol", "--oneliner", "show", "job", str(job))

    other = tmp_path / "undisturbed"
    other.mkdir()
    (other / "mean.py").write_text(ANALYSIS)
    undisturbed = run_here(other, STAGES.format(folder=other, last=STEPS - 1))
    assert undisturbed.code == 0, undisturbed.said
    assert compare_runs(runs[-1], undisturbed.folder).identical


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("field", ["via: sst", pytest.param("via: bp5, coupling: live", marks=pytest.mark.reliability)])
def test_a_simulation_that_is_cut_three_times_goes_on_from_its_saved_states_together_with_its_analysis(
    field: str, cluster: SlurmCluster, tmp_path: Path
) -> None:
    def stages(folder: Path, step_s: float, places: dict[str, str]) -> str:
        (folder / "mean.py").write_text(ANALYSIS)
        (folder / "sim.py").write_text(TIMED)
        return COUPLED.format(folder=folder, steps=COUPLED_STEPS, step_s=step_s, field=field, places=places)

    text = stages(tmp_path, COUPLED_STEP_S, ON_THREE_NODES)
    runs = run_chain(Submitted(cluster, tmp_path), COUPLED_ALLOCATION, text)
    assert len(runs) >= 4, "three cuts"
    for run in runs:
        hosts = hosts_of(run)
        assert [len(each) for each in (*hosts.values(), set.union(*hosts.values()))] == [1, 1, 1, 3], hosts
    # What was written before the newest state was saved is not written again: of a cut there is a step at most.
    steps = sum(read_report(run).stream("field").steps or 0 for run in runs)
    assert COUPLED_STEPS <= steps <= COUPLED_STEPS + len(runs)

    other = tmp_path / "undisturbed"
    other.mkdir()
    undisturbed = run_here(other, stages(other, 0.0, dict.fromkeys(ON_THREE_NODES, "")))
    assert undisturbed.code == 0, undisturbed.said
    assert compare_runs(runs[-1], undisturbed.folder).identical
