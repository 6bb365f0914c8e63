"""A scheduler is added by one file and one line: `tests/support/cobalt.py`, and what the fixture here does.

Its commands are fakes on PATH; all else is what runs do: the plan, the submission, the answers, the cancellation, the
allocation inside of the job, and the verdict. A whole run: `tests/integration/test_submission.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import cobalt
from tests.support.chains import chain
from tests.support.fake_schedulers import FakeScheduler
from tests.support.imagined_run import Run, end_all
from tests.support.planner import Planner
from workflow.api.runs import create_run
from workflow.errors import SpecError
from workflow.launch.allocation import Host
from workflow.plan.allocation_check import allocation_problems
from workflow.run.records.events_file import read_start_and_verdict
from workflow.run.records.job_record import JobRecord, read_job
from workflow.run.state.events import Interrupted, SchedulerSaid
from workflow.schedulers.job_questions import OwnJobQuestion
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named
from workflow.site.discover import discover_allocation
from workflow.site.load_site import generic_site, load_site
from workflow.site.site_model import Site
from workflow.site.site_probe import scheduler_of
from workflow.submit import job_cancellation, job_status
from workflow.submit.job_cancellation import end_job
from workflow.submit.job_status import ask_about, settle_job
from workflow.submit.submission import check_submission, job_script, submit_run

SITE = "site: mira\nsummary: s\nnodes: 2\ncores_per_node: 4\nmemory_per_node: 2 GiB\nscheduler: cobalt\n"
HEADER = "JobID State Message\n===================\n"


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "workflow.schedulers.cobalt", cobalt)  # the file
    monkeypatch.setitem(SCHEDULERS, "cobalt", ("COBALT_JOBID",))  # the line
    monkeypatch.setattr(job_status, "VISIBLE_S", 0.0)
    monkeypatch.setattr(job_cancellation, "_PAUSE_S", 0.01)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "mira.yaml").write_text(SITE)
    return load_site("./mira.yaml", tmp_path)


@pytest.fixture
def run_dir(plan_of: Planner, site: Site, tmp_path: Path) -> Path:
    return create_run(plan_of.load(), plan_of(site=site), tmp_path / "run")


@pytest.fixture(autouse=True)
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    scheduler = FakeScheduler(tmp_path / "bin")
    monkeypatch.setenv("PATH", scheduler.path)
    scheduler.answer("qsub", "12\n")
    return scheduler


@pytest.fixture
def job(plan_of: Planner, site: Site, run_dir: Path) -> JobRecord:
    """A job that was submitted."""
    return submit_run(plan_of(site=site), site, run_dir)


def says(fake: FakeScheduler, *lines: str) -> None:
    fake.answer("qstat", *(f"{HEADER}{line}\n" for line in lines))


def test_a_site_names_it_and_the_script_is_its_own(plan_of: Planner, site: Site) -> None:
    plan = plan_of(site=site)
    check_submission(plan, site, Path("/runs/a"))
    assert job_script(plan, site).splitlines()[:2] == [
        "#!/bin/bash", "#COBALT -n 2 -t 30 --jobname test-RUN -o /RUN_DIR/supervisor.log",
    ]  # fmt: skip


def test_a_scheduler_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SITE.replace("cobalt", "cobolt"))
    with pytest.raises(SpecError, match="expected `slurm`, `pbs`, `lsf`, `flux` or `cobalt`") as caught:
        load_site("./s.yaml", tmp_path)
    assert "did you mean `cobalt`?" in str(caught.value)


def test_a_job_is_submitted_waits_and_runs(job: JobRecord, run_dir: Path, fake: FakeScheduler) -> None:
    assert (job.text, read_job(run_dir)) == ("cobalt job 12", job)
    assert fake.calls("qsub") == [[str(run_dir / "job.sh")]]
    says(fake, "12 queued held by its user", "12 running")
    waits, runs = ask_about(job).word, ask_about(job).word
    assert waits is not None and (waits.phase, waits.text) == ("pending", "queued (held by its user)")
    assert runs is not None and runs.phase == "running"


def test_a_submission_that_says_nothing_is_found_by_its_name(
    plan_of: Planner, site: Site, run_dir: Path, fake: FakeScheduler
) -> None:
    fake.answer("qsub", "")
    says(fake, "13 queued")
    assert submit_run(plan_of(site=site), site, run_dir).job == "13"
    assert fake.calls("qstat")[0][2] == "--jobname"


def test_a_job_is_cancelled(job: JobRecord, run_dir: Path, fake: FakeScheduler) -> None:
    fake.answer("qdel", "")
    says(fake, "12 running", "12 killing", "12 done qdel")
    assert end_job(run_dir, job)
    assert fake.calls("qdel") == [["12"]]


@pytest.mark.parametrize(
    ("words", "state", "cause", "text"),
    [
        ("walltime exceeded", "failed", "time_limit", "job 12 reached its time limit"),
        ("nodedown n7", "failed", "node_lost", "job 12 lost a node"),
        ("qdel by root", "interrupted", "cancelled", "job 12 was cancelled"),
        ("no idea", "failed", "", "cobalt job 12 ended: done (no idea)"),
    ],
)
def test_its_words_are_the_verdict_of_a_run_whose_job_has_ended(
    words: str, state: str, cause: str, text: str, job: JobRecord, run_dir: Path, fake: FakeScheduler
) -> None:
    says(fake, f"12 done {words}")
    settle_job(run_dir, job)
    verdict = read_start_and_verdict(run_dir).finished
    assert verdict is not None
    assert (verdict.state, verdict.cause) == (state, cause)
    assert verdict.reason.startswith(text)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("12 killing walltime", "job 12 reached its time limit: the scheduler says `12 killing walltime`"),
        ("12 killing nodedown n7", "job 12 lost a node: the scheduler says `12 killing nodedown n7`"),
        ("12 running", "interrupted by SIGTERM"),
    ],
)
def test_its_words_are_the_verdict_of_a_run_inside_of_the_job(line: str, text: str, fake: FakeScheduler) -> None:
    says(fake, line)
    question = OwnJobQuestion("cobalt", "12")
    question.ask()
    answer = question._answers.get(timeout=20)
    run = Run(chain("sst", stop=20), job="12", source="cobalt").open_all().feed(Interrupted(5, "SIGTERM"))
    end_all(run, 5.2).feed(SchedulerSaid(5.4, "12", answer.state, answer.raw))
    assert run.verdict.reason == text


def test_the_hosts_of_its_job_are_found(plan_of: Planner, site: Site, tmp_path: Path, fake: FakeScheduler) -> None:
    (tmp_path / "nodes").write_text("n1\n")
    says(fake, "12 running")
    found = discover_allocation({"COBALT_JOBID": "12", "COBALT_NODEFILE": str(tmp_path / "nodes")})
    assert (found.source, found.job, found.hosts) == ("cobalt", "12", (Host("n1"),))
    assert generic_site("cobalt") == "hosts", "it has no file of its own"
    assert scheduler_of("local", {"cqwait": "/usr/bin/cqwait"}.get) == "cobalt"
    (problem,) = allocation_problems(plan_of(site=site), found, 0.0)
    assert problem.message == "the plan needs 2 nodes, and Cobalt job 12 has 1: n1"
    assert "ask for 2: `qsub -n 2`" in problem.hint


def test_no_two_ask_in_the_same_way() -> None:
    for name in ("title", "command", "mark", "submit"):
        values = [getattr(scheduler_named(each), name) for each in SCHEDULERS]
        assert len(set(values)) == len(values), name
