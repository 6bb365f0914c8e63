"""Chains of jobs: a job that has to stop before its time limit submits the next part of the run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_submission import DOWN, WITHIN_S, Login, has_opened
from tests.support.pipelines import ROOT, run
from tests.support.resumed_runs import ANALYSIS, PIPELINE
from tests.support.waiting import wait_until
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.errors import EXIT_INTERRUPTED, EXIT_STOPPED
from workflow.run.chain import NextPart, read_next_part
from workflow.run.part_record import read_part
from workflow.run.processes.process_reaper import end_members
from workflow.run.records.control_requests import requester, send_request
from workflow.run.records.find_runs import newest_part

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

    def write(self, parts: int, step_s: float, run_s: int = 8) -> None:
        """sim → mean → keep: each part has `run_s` seconds, and the analysis takes `step_s` for a step."""
        (self.folder / "mean.py").write_text(SLOW.format(step_s))
        stages = PIPELINE.format(folder=self.folder, field="via: bp5", means="via: bp5")
        asked = f"allocation: {{parts: {parts}, walltime: {2 * run_s + 2} s, grace: {run_s} s}}\n"
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
    for before, after in itertools.pairwise(runs):
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


@pytest.mark.slow
def test_a_part_without_progress_ends_the_chain(login: ChainLogin) -> None:
    login.write(parts=9, step_s=1000.0)
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", code=EXIT_STOPPED)
    first, second = login.runs
    found = login.next_part(second)
    assert found.state == "none"
    assert found.reason == "part 2 made no progress: it began and ended at step 0"
    assert found.hint == f"to go on, on a login node: wf resume {second.name}"
    assert f"note: no part follows {second.name}: {found.reason}" in said
    assert found.hint in said
    lines = {line["name"]: line for line in json.loads(login.wf("runs", "--json"))["runs"]}
    assert [(lines[each.name]["part"], lines[each.name]["parts"]) for each in (first, second)] == [(1, 9), (2, 9)]
    assert "2 of at most 9" in login.wf("runs", "--wide")
    assert f"{second.name}: stopped, part 2 of at most 9 (" in login.wf("status")
    notes = read_report(second).notes
    assert any(note.startswith("part 2 of at most 9 of the run, which goes on with") for note in notes)
    assert f"no part follows {second.name}: {found.reason}" in notes


@pytest.mark.slow
def test_a_submission_that_is_refused_on_the_node_ends_the_chain_and_says_what_to_type(
    login: ChainLogin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login.write(parts=2, step_s=0.4)
    accepted = {"stdout": "Submitted batch job 12\n", "run": "12"}
    login.fake.answer("sbatch", accepted, {"stderr": "sbatch: error: Access denied from this node\n", "code": 1})
    login.fake.answer("squeue", "")
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", code=EXIT_STOPPED)
    first, refused = login.runs
    reason = "slurm did not accept the job: sbatch: error: Access denied from this node"
    assert f"note: no part follows {first.name}: {reason}" in said
    hint = f"wf resume {first.name}"
    assert f"to go on, on a login node: {hint}" in said
    assert read_report(refused).run.state == "failed"

    # As it would be if somebody had cancelled the run meanwhile.
    login.wf("cancel", first.name)
    monkeypatch.chdir(tmp_path)
    from workflow.api.chains import submit_next_part

    before = len(login.fake.calls("sbatch"))
    send_request(first, "stop")
    found = submit_next_part(first, list)
    assert (found.state, found.reason) == ("none", f"ended by `wf cancel` ({requester()})")
    assert len(login.fake.calls("sbatch")) == before

    login.fake.answer("sbatch", {"stdout": "Submitted batch job 13\n", "run": "13"})
    said = login.wf(*hint.split()[1:], "--set", "allocation.walltime=10 min", "--set", "allocation.grace=2 s")
    assert f"part 3, which goes on with {refused.name}:" in said, "by hand there may be more"
    assert newest_part(first) == login.runs[-1]
    assert read_report(login.runs[-1]).run.state == "succeeded"


WAITS = """
import sys, time
from pathlib import Path
if "workflow.api.run_process" in sys.orig_argv:
    from workflow.api import chains
    plan_part = chains.plan_part
    def waiting(*args, **options):
        Path("planning").touch()
        while not Path("go").exists():
            time.sleep(0.05)
        return plan_part(*args, **options)
    chains.plan_part = waiting
"""


@pytest.mark.slow
def test_a_run_that_is_cancelled_while_its_next_part_is_planned_has_none(login: ChainLogin) -> None:
    (login.folder / "sitecustomize.py").write_text(WAITS)
    login.write(parts=9, step_s=0.4)
    follower = login.start("run", "p.yaml", "--site", "slurm.yaml", PYTHONPATH=f"{login.folder}:{ROOT}")
    wait_until((login.folder / "planning").exists, "the next part is planned", WITHIN_S)
    said = login.wf("resume", code=2)
    assert f"error: the job of {login.run.name} is about to submit the next part" in said
    cancel = login.start("cancel")
    control = login.run / "control.jsonl"
    wait_until(lambda: '"stop"' in control.read_text(), "the request")
    (login.folder / "go").touch()
    said, _ = cancel.communicate(timeout=WITHIN_S)
    assert cancel.returncode == 0, said
    assert f"no part follows {login.run.name}: ended by `wf cancel`" in said
    said, _ = follower.communicate(timeout=WITHIN_S)
    assert follower.returncode == EXIT_STOPPED, said
    assert len(login.fake.calls("sbatch")) == 1 == len(login.runs)


@pytest.mark.slow
def test_cancel_means_the_newest_part_and_none_follows_it(login: ChainLogin) -> None:
    login.write(parts=9, step_s=0.4)
    follower = login.start("run", "p.yaml", "--site", "slurm.yaml")
    wait_until(lambda: len(login.runs) == 2 and has_opened(login.runs[1]), "part 2 runs", WITHIN_S)
    first, second = login.runs
    said = login.wf("cancel", first.name)
    assert f"{second.name}: interrupted (interrupted by `wf cancel`" in said
    said, _ = follower.communicate(timeout=WITHIN_S)
    assert follower.returncode == EXIT_INTERRUPTED, said
    assert len(login.fake.calls("sbatch")) == 2
    assert not (second / "next_part.json").exists()
