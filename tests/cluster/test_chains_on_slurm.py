"""A run that is longer than its jobs, on a real Slurm: each job submits the next from its node."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.cluster.test_submission_on_slurm import Submitted
from tests.support.pipelines import run as run_here
from tests.support.resumed_runs import ANALYSIS
from tests.support.slurm_cluster import SlurmCluster
from workflow.api import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.errors import EXIT_STOPPED
from workflow.run.chain import NextPart, read_next_part
from workflow.run.part_record import read_part
from workflow.run.records.run_directory import read_allocation

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


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_that_is_cut_by_the_time_limit_more_than_once_holds_the_data_of_an_uninterrupted_one(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    submitted = Submitted(cluster, tmp_path)
    (tmp_path / "mean.py").write_text(SLOW)
    stages = STAGES.format(folder=tmp_path, last=STEPS - 1)
    (tmp_path / "p.yaml").write_text(f"wf: 1\nname: job\n{ALLOCATION}\n{stages}")
    process = submitted.start("run", "p.yaml", "--site", "test-slurm")
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 0, said
    found = (path for path in (tmp_path / "runs").glob("job-*") if (path / "plan.json").exists())
    runs = sorted(found, key=lambda path: 1 if (part := read_part(path)) is None else part.number)
    assert len(runs) >= 3, said
    assert [read_report(run).run.exit_code for run in runs] == [EXIT_STOPPED] * (len(runs) - 1) + [0]
    jobs = [int(json.loads((run / "job.json").read_text())["job"]) for run in runs]
    for (before, after), (job, next_job) in zip(itertools.pairwise(runs), itertools.pairwise(jobs), strict=True):
        assert read_next_part(before) == NextPart("submitted", str(after))
        assert next_job > job
        received = read_allocation(after)
        assert received is not None and received.job == str(next_job), "nothing of the job before is inherited"
        assert " ExitCode=75:0 " in cluster.client("scontrol", "--oneliner", "show", "job", str(job))
    assert not (runs[-1] / "next_part.json").exists()
    submitted.assert_nothing_left()

    other = tmp_path / "undisturbed"
    other.mkdir()
    (other / "mean.py").write_text(ANALYSIS)
    undisturbed = run_here(other, STAGES.format(folder=other, last=STEPS - 1))
    assert undisturbed.code == 0, undisturbed.said
    assert compare_runs(runs[-1], undisturbed.folder).identical
