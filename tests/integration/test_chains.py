"""Chains of jobs: a job that has to stop before its time limit submits the next part of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_resume import ANALYSIS, PIPELINE
from tests.integration.test_submission import DOWN, WITHIN_S, Login
from tests.support.pipelines import run
from tests.support.waiting import wait_until
from workflow.api import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.errors import EXIT_STOPPED
from workflow.run.chain import NextPart, read_next_part
from workflow.run.part_record import read_part
from workflow.run.processes.process_reaper import end_members

SLOW = ANALYSIS.replace("        with means.step", "        import time; time.sleep({0})\n        with means.step")
STEPS = 61


class ChainLogin(Login):
    """A login node whose scheduler starts each job at once: job 12, then 13, …"""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fake.answer("scontrol", DOWN)
        jobs = range(12, 24)
        self.fake.answer("sbatch", *({"stdout": f"Submitted batch job {job}\n", "run": str(job)} for job in jobs))
        self.fake.answer("squeue", "".join(f"{job}|RUNNING|None\n" for job in jobs))

    def write(self, parts: int, step_s: float, run_s: int = 12) -> None:
        """sim → mean → keep: each part has `run_s` seconds, and the analysis takes `step_s` for a step."""
        (self.folder / "mean.py").write_text(SLOW.format(step_s))
        stages = PIPELINE.format(folder=self.folder, field="via: bp5", means="via: bp5")
        asked = f"allocation: {{parts: {parts}, walltime: {2 * run_s} s, grace: {run_s} s}}\n"
        head = f"wf: 1\nname: small\noversubscribe: true\n{asked}"
        (self.folder / "p.yaml").write_text(head + stages.replace("steps: 200", f"steps: {10 * (STEPS - 1)}"))

    @property
    def runs(self) -> list[Path]:
        """The parts so far, in order."""
        found = (path for path in (self.folder / "runs").glob("small-*") if (path / "plan.json").exists())
        return sorted(found, key=lambda path: 1 if (part := read_part(path)) is None else part.number)

    def next_part(self, path: Path) -> NextPart:
        wait_until(lambda: (part := read_next_part(path)) is not None and part.is_settled, "the next part", WITHIN_S)
        found = read_next_part(path)
        assert found is not None
        return found


@pytest.fixture
def login(tmp_path: Path) -> Iterator[ChainLogin]:
    yield ChainLogin(tmp_path)
    for path in (tmp_path / "runs").glob("small-*"):
        end_members(str(path))


@pytest.mark.slow
def test_a_run_that_is_longer_than_its_job_goes_on_in_parts_until_it_is_done(login: ChainLogin, tmp_path: Path) -> None:
    login.write(parts=9, step_s=0.4)
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", "--tag", "long")
    runs = login.runs
    assert len(runs) >= 3, said
    codes = [read_report(path).run.exit_code for path in runs]
    assert codes == [EXIT_STOPPED] * (len(runs) - 1) + [0]
    for before, after in zip(runs, runs[1:], strict=False):
        assert login.next_part(before) == NextPart("submitted", str(after))
        assert f"note: {after.name} goes on with {before.name}" in said
        submitted = json.loads((after / "job.json").read_text())["submitted"]
        assert read_report(before).run.ended < submitted, "never two at once"
    assert not (runs[-1] / "next_part.json").exists(), "the chain has ended by itself"
    assert len(login.fake.calls("sbatch")) == len(runs)
    assert (tmp_path / "runs/latest").resolve() == runs[-1]
    other = tmp_path / "other"
    other.mkdir()
    (other / "mean.py").write_text(ANALYSIS)
    stages = PIPELINE.format(folder=other, field="via: bp5", means="via: bp5")
    undisturbed = run(other, stages.replace("steps: 200", f"steps: {10 * (STEPS - 1)}"))
    assert undisturbed.code == 0, undisturbed.said
    assert compare_runs(runs[-1], undisturbed.folder).identical
