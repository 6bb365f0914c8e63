"""Runs submitted to schedulers whose commands are fakes: jobs are processes of this machine, and answers are as bad as
they get in production.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import ROOT
from tests.support.fake_schedulers import FakeScheduler
from tests.support.waiting import wait_until
from workflow.cli.following import cancel_run
from workflow.errors import EXIT_OK, EXIT_RUN_FAILED, EXIT_STOPPED
from workflow.run.processes.process_reaper import end_members, find_members
from workflow.run.records.job_record import JobRecord, read_job
from workflow.run.records.run_directory import read_allocation, read_filled_plan
from workflow.run.state.lifecycle_events import RunFinished
from workflow.submit import job_cancellation, job_status
from workflow.submit.job_status import follow_job

pytestmark = pytest.mark.turns(2)

PIPELINE = """
wf: 1
name: small
oversubscribe: true
deadlines: {start: 60 s, stop: 3 s}
stages:
  sim: {component: gray_scott, with: {steps: 200, write_every: 20, size: [16]}}
  sink: {component: "null"}
streams:
  field: {from: sim, to: sink}
"""
SITE = "site: {0}\nsummary: a scheduler of fakes\ncores_per_node: 4\nmemory_per_node: 2 GiB\nscheduler: {0}\n"
WITHIN_S = 120.0
DOWN = {"stderr": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", "code": 1}
TIMED_OUT = {"stderr": "slurm_load_jobs error: Socket timed out on send/recv operation\n", "code": 1}
GONE = {"stderr": "slurm_load_jobs error: Invalid job id specified\n", "code": 1}
ACCEPTED = "Submitted batch job 12\n"


class Login:
    """A login node: a folder with a pipeline, site files and the commands of all schedulers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fake = FakeScheduler(folder / "bin")
        (folder / "p.yaml").write_text(PIPELINE)
        for scheduler in ("slurm", "pbs", "lsf", "flux"):
            (folder / f"{scheduler}.yaml").write_text(SITE.format(scheduler))
        self.fake.answer("scontrol", os.uname().nodename + "\n")
        # On a busy machine the job outlives its run by more than `wf cancel` waits.
        self.fake.answer("scancel", "")
        self.fake.answer("sacct", {"stderr": "Slurm accounting storage is disabled\n", "code": 1})

    def start(self, *argv: str, **variables: str) -> subprocess.Popen[str]:
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "PBS_"))}
        env = {
            **outside,
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "PYTHONPATH": str(ROOT),
            "PATH": self.fake.path,
            **variables,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "workflow.cli", *argv], cwd=self.folder, env=env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def wf(self, *argv: str, code: int = 0, **variables: str) -> str:
        process = self.start(*argv, **variables)
        said, _ = process.communicate(timeout=150)
        assert process.returncode == code, f"{argv}: {process.returncode}\n{said}"
        assert "Traceback" not in said, said
        return said

    @property
    def run(self) -> Path:
        return (self.folder / "runs/latest").resolve()

    def state(self) -> tuple[str, str]:
        run = json.loads(self.wf("status", "--json"))["run"]
        return run["state"], run["reason"]

    def start_job(self, script: Path, **variables: str) -> subprocess.Popen[bytes]:
        """Execute a job's script as a scheduler does once there is room."""
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": self.fake.path, **variables}
        return subprocess.Popen(["/bin/bash", str(script)], env=env, start_new_session=True)

    def script(self, scheduler: str = "slurm") -> Path:
        (found,) = (self.run / "psij" / scheduler).glob("*.job")
        return found


@pytest.fixture
def login(tmp_path: Path) -> Iterator[Login]:
    yield Login(tmp_path)
    for run in (tmp_path / "runs").glob("small-*"):
        end_members(str(run))


def has_opened(run: Path) -> bool:
    events = run / "events.jsonl"
    return events.exists() and "stage_open" in events.read_text()


def job_of(run: Path) -> dict[str, Any]:
    job = json.loads((run / "job.json").read_text())
    assert isinstance(job, dict)
    return job


@pytest.mark.parametrize(
    ("scheduler", "submit", "accepted", "job"),
    [("slurm", "sbatch", ACCEPTED, "12"), ("pbs", "qsub", "12.pbs\n", "12.pbs")],
)
def test_a_run_is_submitted_and_followed_to_its_end(
    scheduler: str, submit: str, accepted: str, job: str, login: Login
) -> None:
    login.fake.answer(submit, {"stdout": accepted, "run": job})
    login.fake.answer("squeue", "12|RUNNING|None\n")
    login.fake.answer("qstat", "Job Id: 12.pbs\n    job_state = R\n")
    said = login.wf("run", "p.yaml", "--site", f"{scheduler}.yaml")
    assert f"{scheduler} job {job} was submitted" in said
    assert "small: succeeded" in said
    assert len(login.fake.calls(submit)) == 1
    exit_code = login.run / "psij" / scheduler / f"{job}.ec"
    # `wf run` ends at the run's end event: the script that writes this file may still be there.
    wait_until(lambda: exit_code.exists() and exit_code.read_text() == "0\n", "the exit code of the job's script")
    line = json.loads(login.wf("runs", "--json"))["runs"][0]
    assert (line["state"], line["job"], line["site"]) == ("succeeded", f"{scheduler} job {job}", scheduler)


def test_the_script_that_the_plan_shows_is_the_one_that_is_submitted(login: Login) -> None:
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", "12|PENDING|Priority\n")
    (login.folder / "slurm.yaml").write_text(
        SITE.format("slurm") + 'modules: ["module() { :; }", "module load adios2"]\n'
    )
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach", "--set", "allocation.walltime=10 min")
    submitted = login.script().read_text()
    assert job_of(login.run)["name"] == login.run.name, "squeue and `wf runs` show the same name"
    submitted = submitted.replace(str(login.run), "/RUN_DIR").replace(login.script().stem, "JOB_ID")
    submitted = submitted.replace(login.run.name, "small-RUN")
    shown = login.wf("plan", "p.yaml", "--site", "slurm.yaml", "--job-script", "--set", "allocation.walltime=10 min")
    assert shown == submitted
    assert "module load adios2\n" in shown
    assert "#SBATCH --time=0:10:0\n" in shown


def test_a_submission_that_fails_after_it_was_accepted_is_not_repeated(login: Login) -> None:
    login.fake.answer("sbatch", {"stderr": "sbatch: error: Socket timed out on send/recv\n", "code": 1, "run": "12"})
    login.fake.answer("squeue", TIMED_OUT, "12|RUNNING|None\n")
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml")
    assert "small: succeeded" in said
    assert "but the job was accepted: 12" in said
    assert len(login.fake.calls("sbatch")) == 1
    assert job_of(login.run)["job"] == "12"


def test_a_refused_submission_says_what_the_scheduler_said(login: Login) -> None:
    login.fake.answer("sbatch", {"stderr": "sbatch: error: QOSMaxSubmitJobPerUserLimit\n", "code": 1})
    login.fake.answer("squeue", "")
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", code=2)
    assert "error: slurm did not accept the job: sbatch: error: QOSMax" in said
    assert login.state()[0] == "failed"
    assert len(login.fake.calls("sbatch")) == 1


def test_it_may_not_be_known_whether_a_job_was_accepted(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    from workflow.errors import RunError
    from workflow.submit import submission

    monkeypatch.setenv("PATH", login.fake.path)
    monkeypatch.setattr(submission, "_LOOKS_S", (0.0, 0.1, 0.2))
    login.fake.answer("squeue", DOWN)
    with pytest.raises(RunError, match="the scheduler gives no answer: the job may have been accepted"):
        submission._find_accepted(login.folder, JobRecord("slurm", "small-ab12"), "Socket timed out")
    assert not (login.folder / "events.jsonl").exists(), "a run whose job may start has no verdict"


def test_a_submission_of_which_nothing_is_known_is_cancelled_and_cleaned(
    login: Login, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an answer, and with one that finds the job after all: no run stays for ever."""
    monkeypatch.setenv("PATH", login.fake.path)
    login.fake.answer("sbatch", {"stderr": "sbatch: error: Socket timed out\n", "code": 1})
    login.fake.answer("squeue", DOWN)
    follower = login.start("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    wait_until(lambda: bool(login.fake.calls("squeue")), "the job is looked for")
    follower.kill()  # half a minute is too long to wait for its last words
    follower.communicate(timeout=WITHIN_S)
    run, name = login.run, login.run.name
    said = login.wf("clean", name, "--yes", code=2)
    assert f"its job has not started; `wf cancel {name}` cancels it" in said
    said = login.wf("cancel", name, code=1)
    assert f"it is not known whether slurm has a job named {name}: squeue failed" in said
    assert f"wf cancel {name} looks again" in said
    assert "slurm_load_jobs error" in login.state()[1], "the reason of the verdict has it, too"
    login.fake.answer("squeue", "12|RUNNING|None\n")
    login.fake.answer("scancel", DOWN, "")
    monkeypatch.setattr(job_cancellation, "FOLLOWS_S", 0.0)  # the time in which a job may end with its run
    assert cancel_run(run) == EXIT_RUN_FAILED, "the job was found and goes on"
    printed = capsys.readouterr()
    assert "its job was accepted: slurm job 12" in printed.out
    assert "slurm job 12 cannot be cancelled: scancel failed" in printed.err
    assert job_of(run)["job"] == "12"
    assert cancel_run(run) == EXIT_OK, "a job whose id is known is cancelled when the scheduler answers again"
    assert login.fake.calls("scancel") == [["12"], ["12"]]
    said = login.wf("cancel", name[:-1], code=2)
    assert f"type the whole name: {name}" in said
    said = login.wf("clean", name[:-1], "--yes", code=2)
    assert f"type the whole name: {name}" in said
    login.wf("clean", name, "--yes")
    assert not run.exists()

    login.fake.answer("squeue", "")
    monkeypatch.setattr(job_cancellation, "_PAUSE_S", 0.0)
    nowhere, before = JobRecord("slurm", "small-ab12"), len(login.fake.calls("squeue"))
    found = job_cancellation.look_for_job(login.folder, nowhere)
    assert found == (nowhere, "slurm has no job named small-ab12", True)
    assert len(login.fake.calls("squeue")) == before + 2, "a queue may list a new job only at the second look"


def test_what_proves_that_nothing_was_submitted_fails_the_run(login: Login) -> None:
    """sbatch cannot be executed, and a machine without it is refused before anything is written."""
    (login.fake.folder / "sbatch").write_text("#!/no/such/interpreter\n")
    only_fakes = str(login.fake.folder)
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", code=2, PATH=only_fakes)
    assert "error: the job was not submitted to slurm: [Errno 2] No such file or directory" in said
    assert login.state()[0] == "failed"
    assert json.loads(login.wf("runs", "--json"))["runs"][0]["job"] == "not submitted"
    login.wf("clean", login.run.name, "--yes")
    (login.fake.folder / "sbatch").unlink()
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", code=2, PATH=only_fakes)
    assert "error: sbatch is not on PATH: no job can be submitted to slurm from this machine" in said
    assert not list((login.folder / "runs").glob("small-*")), "nothing is left of it"
    assert login.fake.calls("squeue") == [], "a scheduler that got no job is not asked"


def test_a_job_that_fails_before_its_supervisor_starts_fails_the_run(login: Login) -> None:
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", "12|FAILED|NonZeroExitCode\n")
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", code=1)
    assert "slurm job 12 ended: FAILED (NonZeroExitCode); before its supervisor started" in said
    assert login.state()[0] == "failed"


def test_the_exit_code_of_the_script_needs_no_scheduler(login: Login) -> None:
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", DOWN)
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    (login.run / "psij/slurm/12.ec").write_text("127\n")
    (login.run / "supervisor.log").write_text("python: command not found\n")
    said = login.wf("watch", code=1)
    assert "slurm job 12 ended: exit code 127; before its supervisor started: python: command not found" in said


def test_a_queue_in_trouble_changes_nothing(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time-out, an odd state of another job and of ours with a reason of several words, a queue that has forgotten
    the job, a controller that is down: then the job starts all the same, and runs for longer than any absence counts.
    """
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", TIMED_OUT, "11|XX|odd\n12|ZZ|a reason with blanks\n", GONE, DOWN)
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    monkeypatch.setenv("PATH", login.fake.path)
    record = read_job(login.run)
    assert record is not None
    said: list[str] = []
    job: subprocess.Popen[bytes] | None = None
    finished: RunFinished | None = None
    with contextlib.closing(follow_job(login.run, read_filled_plan(login.run), record, said.append)) as states:
        for state in states:
            if job is None and len(login.fake.calls("squeue")) >= 4:
                job = login.start_job(login.script(), SLURM_JOB_ID="12", SLURM_JOB_NODELIST=os.uname().nodename)
            if state.started is not None:
                # From here on each moment is later than the end of an absence.
                monkeypatch.setattr(job_status, "FORGOTTEN_S", 0.0)
            finished = state.finished
    assert finished is not None
    assert (finished.state, finished.reason) == ("succeeded", "")
    texts = "\n".join(said)
    assert "no answer from the scheduler: squeue failed with exit code 1: slurm_load_jobs error: Socket timed" in texts
    assert "slurm job 12: ZZ (a reason with blanks)" in texts
    assert job is not None
    assert job.wait(WITHIN_S) == 0
    assert "does not know" not in (login.run / "events.jsonl").read_text()
    assert len(login.fake.calls("sbatch")) == 1


def test_while_events_come_the_scheduler_is_left_alone(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    (login.folder / "p.yaml").write_text(PIPELINE.replace("steps: 200", "steps: 120000"))
    login.fake.answer("sbatch", {"stdout": ACCEPTED, "run": "12"})
    login.fake.answer("squeue", "12|RUNNING|None\n")
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    monkeypatch.setenv("PATH", login.fake.path)
    record, before = read_job(login.run), None
    assert record is not None
    with contextlib.closing(follow_job(login.run, read_filled_plan(login.run), record, lambda _: None)) as states:
        for state in states:
            if before is None and state.started is not None:
                before = len(login.fake.calls("squeue"))
    events = [json.loads(line) for line in (login.run / "events.jsonl").read_text().splitlines()]
    assert events[-1]["t"] - events[0]["t"] > 5, "too short to show it"
    # One question may have been under way.
    assert before is not None and len(login.fake.calls("squeue")) <= before + 1


def test_the_death_of_its_follower_does_not_touch_a_submitted_run(login: Login) -> None:
    (login.folder / "p.yaml").write_text(PIPELINE.replace("steps: 200", "steps: 10000000"))
    login.fake.answer("sbatch", {"stdout": ACCEPTED, "run": "12"})
    login.fake.answer("squeue", "12|RUNNING|None\n")
    for number in (signal.SIGKILL, signal.SIGHUP):
        follower = login.start("run", "p.yaml", "--site", "slurm.yaml")
        assert follower.stdout is not None
        assert any("sim: started" in line for line in follower.stdout)
        follower.send_signal(number)
        follower.communicate(timeout=WITHIN_S)
        assert login.state()[0] == "running"
        assert "interrupted by `wf cancel`" in login.wf("cancel")
        wait_until(lambda: find_members(str(login.run)) == set(), "the end of the run's processes")


def test_a_job_that_waits_is_cancelled_by_the_scheduler(login: Login) -> None:
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", "12|PENDING|Priority\n", "12|PENDING|Priority\n", "12|CANCELLED by 0|None\n")
    login.fake.answer("scancel", "")
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    assert login.state() == ("submitted", "slurm job 12: PENDING (Priority)")
    said = login.wf("cancel")
    assert "slurm job 12 was cancelled" in said
    assert "cancelled before it was started" in said
    assert login.fake.calls("scancel") == [["12"]]
    assert login.state()[0] == "interrupted"
    job = login.start_job(login.script(), SLURM_JOB_ID="12", SLURM_JOB_NODELIST=os.uname().nodename)
    assert job.wait(WITHIN_S) != 0, "a job that starts all the same finds that its run has ended"
    assert find_members(str(login.run)) == set()


def test_a_job_that_outlives_its_cancelled_run_is_cancelled(login: Login) -> None:
    (login.folder / "p.yaml").write_text(PIPELINE.replace("steps: 200", "steps: 10000000"))
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", "12|RUNNING|None\n")
    login.fake.answer("scancel", "")
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    # By itself, without the job's script: nothing tells that the job has ended.
    argv = [sys.executable, "-m", "workflow.run.supervisor", str(login.run)]
    supervisor = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True)
    wait_until(lambda: has_opened(login.run), "the stages run")
    said = login.wf("cancel")
    assert supervisor.wait(WITHIN_S) == 130
    assert "interrupted by `wf cancel`" in said
    assert "slurm job 12 was cancelled: it did not end with the run" in said
    assert login.fake.calls("scancel") == [["12"]]


def test_a_cancellation_without_a_scheduler_is_an_error(login: Login) -> None:
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", DOWN)
    login.fake.answer("scancel", DOWN)
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    said = login.wf("cancel", code=2)
    assert "error: slurm job 12 cannot be cancelled: scancel failed" in said
    assert login.state()[0] == "submitted"


def test_a_job_that_the_scheduler_does_not_know_for_a_moment_is_cancelled_all_the_same(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", login.fake.path)
    monkeypatch.setattr(job_cancellation, "_PAUSE_S", 0.0)
    login.fake.answer("squeue", GONE, GONE, "12|RUNNING|None\n", "12|CANCELLED by 0|None\n")
    login.fake.answer("scancel", GONE, "")
    assert job_cancellation.end_job(login.folder, JobRecord("slurm", "small-ab12", "12"))
    assert login.fake.calls("scancel") == [["12"], ["12"]], "once more when the scheduler knows it again"
    assert len(login.fake.calls("squeue")) == 4, "an absence is no end"


def test_a_job_that_the_scheduler_never_knows_again_has_ended(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", login.fake.path)
    monkeypatch.setattr(job_status, "FORGOTTEN_S", 0.0)
    login.fake.answer("squeue", GONE)
    login.fake.answer("scancel", "")
    assert job_cancellation.end_job(login.folder, JobRecord("slurm", "small-ab12", "12"))
    assert login.fake.calls("scancel") == [["12"]]


FLUX_RESOURCES = {
    "version": 1,
    "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-3"}}], "nodelist": [os.uname().nodename]},
}
BSUB = "Job <12> is submitted to default queue <normal>.\n"


def start_lsf_and_flux(login: Login) -> None:
    """Both accept a job, and execute it."""
    login.fake.answer("bsub", {"stdout": BSUB, "run": "12"})
    login.fake.answer("bjobs", "12|RUN|-|-\n")
    login.fake.answer("flux batch", {"stdout": "ƒ2oLkTLb\n", "run": "ƒ2oLkTLb"})
    login.fake.answer("flux jobs", "ƒ2oLkTLb|RUN||\n")
    login.fake.answer("flux resource", json.dumps(FLUX_RESOURCES))
    login.fake.answer("flux job", "600\n")


@pytest.mark.parametrize(("scheduler", "submit", "job"), [("lsf", "bsub", "12"), ("flux", "flux batch", "ƒ2oLkTLb")])
def test_scripts_of_lsf_and_flux_are_submitted_and_followed(
    scheduler: str, submit: str, job: str, login: Login
) -> None:
    start_lsf_and_flux(login)
    said = login.wf("run", "p.yaml", "--site", f"{scheduler}.yaml")
    assert f"{scheduler} job {job} was submitted" in said
    assert "small: succeeded" in said
    assert login.fake.calls(submit) == [[] if scheduler == "lsf" else [str(login.run / "job.sh")]]
    assert (job_of(login.run)["scheduler"], job_of(login.run)["job"]) == (scheduler, job)
    received = read_allocation(login.run)
    assert received is not None
    assert received.source == scheduler


@pytest.mark.parametrize(
    ("scheduler", "submit", "queue", "found"),
    [("lsf", "bsub", "bjobs", "12|PEND|-|-\n"), ("flux", "flux batch", "flux jobs", "12|SCHED||\n")],
)
def test_a_refused_script_fails_the_run_and_an_accepted_one_is_found(
    scheduler: str, submit: str, queue: str, found: str, login: Login
) -> None:
    login.fake.answer(submit, {"stderr": "no project is named\n", "code": 1})
    login.fake.answer(queue, "")
    said = login.wf("run", "p.yaml", "--site", f"{scheduler}.yaml", code=2)
    assert f"error: {scheduler} did not accept the job: {submit} failed with exit code 1: no project is named" in said
    assert login.state()[0] == "failed"
    login.fake.answer(submit, "")  # it says nothing of a job
    login.fake.answer(queue, found)
    said = login.wf("run", "p.yaml", "--site", f"{scheduler}.yaml", "--detach")
    assert "but the job was accepted: 12" in said
    assert job_of(login.run)["job"] == "12"


ADDED = """
import sys
from tests.support import cobalt
from workflow.schedulers.schedulers import SCHEDULERS
sys.modules["workflow.schedulers.cobalt"] = cobalt
SCHEDULERS["cobalt"] = ("COBALT_JOBID",)
"""


def test_a_scheduler_that_was_added_by_one_line_runs_a_pipeline(login: Login) -> None:
    (login.folder / "sitecustomize.py").write_text(ADDED)
    (login.folder / "cobalt.yaml").write_text(SITE.format("cobalt"))
    (login.folder / "nodes").write_text(os.uname().nodename + "\n")
    inside = {"COBALT_JOBID": "12", "COBALT_NODEFILE": str(login.folder / "nodes")}
    login.fake.answer("qsub", {"stdout": "12\n", "run": "12", "env": inside})
    login.fake.answer("qstat", "12 queued\n", "12 running\n")
    said = login.wf("run", "p.yaml", "--site", "cobalt.yaml", PYTHONPATH=f"{login.folder}:{ROOT}")
    assert "cobalt job 12 was submitted" in said
    assert "small: succeeded" in said
    received = read_allocation(login.run)
    assert received is not None
    assert (received.source, received.job) == ("cobalt", "12")


def test_without_the_submit_command_nothing_is_written(login: Login) -> None:
    (login.fake.folder / "bsub").unlink()
    said = login.wf("run", "p.yaml", "--site", "lsf.yaml", code=2, PATH=str(login.fake.folder))
    assert "error: bsub is not on PATH: no job can be submitted to lsf from this machine" in said
    assert not list((login.folder / "runs").glob("small-*"))


def test_a_job_whose_scheduler_does_not_say_when_it_ends_is_stopped_before_its_walltime(login: Login) -> None:
    (login.folder / "p.yaml").write_text(PIPELINE.replace("steps: 200", "steps: 10000000"))
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", "12|RUNNING|None\n")
    asked = ["allocation.walltime=20 s", "allocation.grace=9 s"]
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach", *(word for each in asked for word in ("--set", each)))
    login.fake.answer("scontrol", DOWN)
    job = login.start_job(login.script(), SLURM_JOB_ID="12", SLURM_JOB_NODELIST=os.uname().nodename)
    assert job.wait(WITHIN_S) == EXIT_STOPPED
    assert login.state()[0] == "stopped"
    received = read_allocation(login.run)
    assert received is not None
    assert received.end_time is not None
    assert "the end of the job is not known: scontrol failed" in "\n".join(received.notes)


def test_sigterm_of_a_job_reaches_the_supervisor_which_closes_the_run(login: Login) -> None:
    """A scheduler signals all processes of a job: PSI/J's shells must outlive that."""
    (login.folder / "p.yaml").write_text(PIPELINE.replace("steps: 200", "steps: 10000000"))
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", "12|RUNNING|None\n")
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    job = login.start_job(login.script(), SLURM_JOB_ID="12", SLURM_JOB_NODELIST=os.uname().nodename)
    events = login.run / "events.jsonl"
    wait_until(lambda: events.exists() and "stream_progress" in events.read_text(), "steps arrive")
    os.killpg(job.pid, signal.SIGTERM)
    assert job.wait(WITHIN_S) == 130, "a shell of PSI/J's did not wait for the supervisor"
    assert login.state() == ("interrupted", "interrupted by SIGTERM")
    assert find_members(str(login.run)) == set()


def test_a_job_that_is_started_again_ends_with_that_message(login: Login) -> None:
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", "12|RUNNING|None\n")
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    lease = {"host": "n1", "pid": 1, "beat": 3, "run_dir": "", "system": "another", "born": 1}
    (login.run / "lease.json").write_text(json.dumps(lease))
    os.utime(login.run / "lease.json", (time.time() - 3600, time.time() - 3600))
    job = login.start_job(login.script(), SLURM_JOB_ID="12", SLURM_JOB_NODELIST=os.uname().nodename)
    job.wait(WITHIN_S)
    state, reason = login.state()
    assert state == "failed"
    assert reason.endswith(
        "its supervisor on n1 has died, and the scheduler has requeued job 12: a run is not started again"
    )


def test_run_directories_with_blanks_are_refused_before_anything_is_written(login: Login) -> None:
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", "--run-dir", "my run", code=2)
    assert "job scripts allow no blanks or special characters in paths" in said
    assert not (login.folder / "my run").exists()
    assert login.fake.calls("sbatch") == []


def test_without_psij_the_command_that_installs_it_is_shown(login: Login, tmp_path: Path) -> None:
    stub = tmp_path / "stub"
    stub.mkdir()
    (stub / "psij.py").write_text("raise ImportError('no psij')\n")
    for argv in (["plan", "p.yaml", "--job-script"], ["run", "p.yaml"]):
        said = login.wf(*argv, "--site", "slurm.yaml", code=2, PYTHONPATH=f"{stub}:{ROOT}")
        assert "error: jobs are submitted by PSI/J, which is not installed in this Python" in said
        assert re.search(r"-m pip install .*\[submit\]", said)
    assert not list((login.folder / "runs").glob("small-*")), "nothing is left of a run that cannot be submitted"


def test_a_site_without_a_scheduler_has_no_job_script(login: Login) -> None:
    said = login.wf("plan", "p.yaml", "--job-script", code=2)
    assert "error: the file of site local has no `scheduler:`" in said
    assert "write `scheduler: slurm` (or pbs, lsf, flux) in a site file of your own" in said


def test_a_launcher_that_the_login_node_lacks_is_an_error_unless_modules_of_the_job_bring_it(login: Login) -> None:
    (login.folder / "p.yaml").write_text('wf: 1\nname: small\nstages:\n  a: {command: ["true"], ranks: 2}\n')
    site = SITE.format("slurm") + "launcher: jsrun\n"
    login.fake.answer("sbatch", ACCEPTED)
    (login.folder / "slurm.yaml").write_text(site)
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach", code=2)
    assert re.search(r"^error: .*jsrun", said, re.MULTILINE)
    assert login.fake.calls("sbatch") == []
    (login.folder / "slurm.yaml").write_text(site + 'modules: ["module() { :; }"]\n')
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    assert re.search(r"^warning: .*jsrun", said, re.MULTILINE)
    assert len(login.fake.calls("sbatch")) == 1


def test_logs_are_followed_from_before_the_start(login: Login) -> None:
    login.fake.answer("sbatch", ACCEPTED)
    login.fake.answer("squeue", "12|PENDING|Priority\n")
    login.wf("run", "p.yaml", "--site", "slurm.yaml", "--detach")
    logs = login.start("logs", "--follow")
    job = login.start_job(login.script(), SLURM_JOB_ID="12", SLURM_JOB_NODELIST=os.uname().nodename)
    said, _ = logs.communicate(timeout=WITHIN_S)
    assert logs.returncode == 0
    # Under a heading, where it was printed before the first look.
    assert re.search(r"^(sink: )?null: 11 steps", said, re.MULTILINE), said
    assert job.wait(WITHIN_S) == 0


def test_scripts_and_notebooks_submit_too(login: Login) -> None:
    login.fake.answer("sbatch", {"stdout": ACCEPTED, "run": "12"})
    login.fake.answer("squeue", "12|RUNNING|None\n")
    code = "import workflow; print(workflow.run_pipeline('p.yaml', site='slurm.yaml', progress=True).run.state)"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": login.fake.path}
    answer = subprocess.run([sys.executable, "-c", code], cwd=login.folder, env=env, capture_output=True, text=True)
    assert answer.stdout == "succeeded\n", answer.stderr
    assert "slurm job 12 was submitted" in answer.stderr
    assert len(login.fake.calls("sbatch")) == 1


def test_scripts_submit_nothing_that_the_verb_refuses(login: Login) -> None:
    (login.folder / "p.yaml").write_text('wf: 1\nname: small\nstages:\n  a: {command: ["true"], ranks: 2}\n')
    (login.folder / "slurm.yaml").write_text(SITE.format("slurm") + "launcher: jsrun\n")
    login.fake.answer("sbatch", ACCEPTED)
    code = "import workflow; workflow.run_pipeline('p.yaml', site='slurm.yaml')"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": login.fake.path}
    answer = subprocess.run([sys.executable, "-c", code], cwd=login.folder, env=env, capture_output=True, text=True)
    assert re.search("SpecError: .*jsrun", answer.stderr), answer.stderr
    assert login.fake.calls("sbatch") == [] and not list(login.folder.glob("runs/small-*"))


def test_ctrl_c_while_a_job_is_being_submitted_ends_the_job(login: Login) -> None:
    here, go = login.folder / "here", login.folder / "go"
    (login.fake.folder / "sbatch").write_text(
        f"#!/bin/sh\necho here > {here}\nwhile [ ! -e {go} ]; do sleep 0.1; done\necho 12\n"
    )
    login.fake.answer("squeue", "12|PENDING|Priority\n", "12|CANCELLED|None\n")
    process = login.start("run", "p.yaml", "--site", "slurm.yaml")
    wait_until(here.exists, "the submit command")
    process.send_signal(signal.SIGINT)
    go.touch()
    said, _ = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130, said
    name = login.run.name
    assert f"{name}: submitting its job to slurm…" in said
    assert "interrupted: waiting for the answer of sbatch; Ctrl-C again does not wait" in said
    assert f"interrupted: slurm job 12 was accepted; `wf cancel {name}` ends it" in said
    assert f"{name}: slurm job 12 was cancelled" in said
    assert login.fake.calls("scancel") == [["12"]]
    assert login.state()[0] == "interrupted"


def test_variables_of_a_job_that_is_over_start_nothing(login: Login) -> None:
    login.fake.answer("scontrol", GONE)
    login.fake.answer("squeue", GONE)
    stale = {"SLURM_JOB_ID": "99", "SLURM_JOB_NODELIST": "n001", "SLURM_JOB_CPUS_PER_NODE": "4"}
    said = login.wf("run", "p.yaml", "--site", "slurm.yaml", code=2, **stale)
    assert "error: SLURM_JOB_ID=99 is set, but Slurm does not know this job" in said
    assert "start a new shell, or `unset SLURM_JOB_ID`" in said
    assert not list((login.folder / "runs").glob("small-*"))


CAMPAIGN = """
wf: 1
campaign: each
pipeline: p.yaml
site: slurm.yaml
repetitions: 2
warmup: 0
jobs: {mode: each, time: 20 min}
metrics: {time: run.wall_s}
"""


@pytest.mark.parametrize("printed", ["Submitted batch job 12 on cluster nautilus\n", "NOTE: 7 node-hours are left\n"])
def test_a_campaign_counts_a_job_of_another_cluster_once(printed: str, login: Login) -> None:
    """It waits for longer than a job may be forgotten by the scheduler that is asked: nothing is submitted again."""
    (login.folder / "c.yaml").write_text(CAMPAIGN)
    login.fake.answer("sbatch", printed)
    squeue = login.fake.folder / "squeue"
    log = login.fake.folder / "asked"
    # Only that cluster knows the job; this one has none of that name.
    squeue.write_text(
        f'#!/bin/sh\necho "$*" >> {log}\ncase "$*" in *clusters=nautilus*jobs=12*) echo "12|PENDING|Priority";; '
        '*--name=*) ;; *) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;; esac\n'
    )
    said = login.folder / "said"
    program = (
        "import sys; from workflow.submit import job_status; job_status.FORGOTTEN_S = 3.0; "
        "job_status._FIRST_S = job_status._LONGEST_S = 0.5; from workflow.cli.main import main; main()"
    )
    with said.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "campaign", "run", "c.yaml"], cwd=login.folder, stdin=subprocess.DEVNULL,
            stdout=out, stderr=out, env={**os.environ, "PATH": login.fake.path, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    try:
        wait_until(lambda: log.exists() and len(log.read_text().splitlines()) > 24, "a dozen questions about each job")
        assert process.poll() is None, said.read_text()
        assert len(login.fake.calls("sbatch")) == 2, said.read_text()
        assert "failed" not in said.read_text()
    finally:
        process.kill()
        process.wait()
