"""What submit commands say of a job that they have taken: the id is in a line of its own form."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.support.fake_schedulers import FakeScheduler
from tests.support.waiting import wait_until
from tests.unit.test_submit_job_order import order
from workflow.cli.main import interrupt_text
from workflow.errors import RunError
from workflow.run.records.job_record import JobRecord, read_job, write_job
from workflow.schedulers.job_questions import ask_for_job, cancel_job, find_job
from workflow.schedulers.scheduler import QueryError, ask, execute
from workflow.schedulers.schedulers import scheduler_named
from workflow.submit import job_cancellation, job_scripts, submission
from workflow.submit.job_cancellation import look_for_job
from workflow.submit.job_status import FORGOTTEN_S, JobTracker, read_exit_code
from workflow.submit.submission import JobRefusedError, SubmissionInterruptedError, submit_job

NOTE = "NOTE: 120 node-hours are left in project abc.\n"
COMMANDS = {"slurm": "sbatch", "pbs": "qsub", "lsf": "bsub", "flux": "flux batch"}
ASKED = {"slurm": "squeue", "pbs": "qselect", "lsf": "bjobs", "flux": "flux jobs"}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    scheduler = FakeScheduler(tmp_path / "bin")
    monkeypatch.setenv("PATH", scheduler.path)
    monkeypatch.setattr(submission, "_LOOKS_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(job_cancellation, "_PAUSE_S", 0.0)
    (tmp_path / "run").mkdir()
    return scheduler


def submit(scheduler: str, folder: Path) -> JobRecord:
    run = folder / "run"
    return submit_job(replace(order(scheduler), run_dir=run, output=run / "supervisor.log"))


@pytest.mark.parametrize(
    ("scheduler", "printed", "job"),
    [
        ("slurm", "Submitted batch job 4711\n", "4711"),
        ("slurm", "4711\n", "4711"),
        ("slurm", "4711;nautilus\n", "4711;nautilus"),
        ("slurm", "Submitted batch job 4711 on cluster nautilus\n", "4711;nautilus"),
        ("slurm", "sbatch: Submitted batch job 4711\r\n", "4711"),
        ("slurm", f"Submitted batch job 4711\n{NOTE}", "4711"),
        ("slurm", f"{NOTE}Submitted batch job 4711\n4711\n", "4711"),
        ("slurm", "Submitted batch job 4711\nSubmitted batch job 4712\n", ""),
        ("slurm", f"{NOTE}sbatch: lua: job 99 of phy\n", ""),
        ("slurm", "", ""),
        ("pbs", "4711.pbs-01.example.org\n", "4711.pbs-01.example.org"),
        ("pbs", f"{NOTE}4711.pbs01\n{NOTE}", "4711.pbs01"),
        ("pbs", "4711\n", "4711"),
        ("pbs", "qsub: your project has 0.5 node-hours\n0.5\n", ""),
        ("lsf", f"{NOTE}Job <4711> is submitted to default queue <normal>.\n{NOTE}", "4711"),
        ("lsf", "", ""),
        ("flux", f"{NOTE}ƒ2oLkTLb\n", "ƒ2oLkTLb"),
        ("flux", NOTE, ""),
    ],
)  # fmt: skip
def test_the_id_is_found_by_its_form(scheduler: str, printed: str, job: str) -> None:
    command = scheduler_named(scheduler).submit
    assert command.job_in(printed, "") == job
    assert command.job_in("", printed) == job, "on standard error"


@pytest.mark.parametrize("scheduler", COMMANDS)
def test_a_job_without_an_id_is_looked_for_by_its_name_and_submitted_once(
    scheduler: str, fake: FakeScheduler, tmp_path: Path
) -> None:
    found = {"slurm": "12|PENDING|None\n", "pbs": "12.pbs\n", "lsf": "12|PEND|-|-\n", "flux": "ƒA|SCHED||\n"}[scheduler]
    fake.answer(COMMANDS[scheduler], NOTE)
    fake.answer(ASKED[scheduler], "", found)
    record = submit(scheduler, tmp_path)
    assert record.job == found.partition("|")[0].strip()
    assert read_job(tmp_path / "run") == record
    assert len(fake.calls(COMMANDS[scheduler])) == 1


def test_an_accepted_job_that_is_not_found_is_unknown_and_never_over(fake: FakeScheduler, tmp_path: Path) -> None:
    fake.answer("sbatch", NOTE)
    fake.answer("squeue", "")
    record = submit("slurm", tmp_path)
    assert (record.job, record.accepted) == ("", f"sbatch printed: {NOTE.strip()}")
    tracker = JobTracker(record).take(find_job("slurm", record.name), 0.0)
    assert tracker.end(FORGOTTEN_S + 1) is None, "a job that was accepted does not end by silence"
    assert "120 node-hours" in tracker.text
    named = look_for_job(tmp_path / "run", record)
    assert not named.is_known
    assert "though it was accepted (sbatch printed: NOTE" in named.text
    assert len(fake.calls("sbatch")) == 1


def test_a_command_that_gives_no_answer_is_ended_with_what_it_has_started(
    fake: FakeScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_scripts, "SUBMIT_S", 1.0)
    child = tmp_path / "child"
    (fake.folder / "sbatch").write_text(f"#!/bin/sh\nsleep 600 & echo $! > {child}\nwait\n")
    fake.answer("squeue", "")
    with pytest.raises(JobRefusedError, match="sbatch gave no answer within 1 s"):
        submit("slurm", tmp_path)
    assert len(fake.calls("squeue")) == 3, "it is looked for as long as after a failure without an answer"
    wait_until(lambda: _is_gone(int(child.read_text())), "the end of the command's child")
    squeue = fake.folder / "squeue"
    squeue.write_text(f"#!/bin/sh\nsleep 600 & echo $! > {child}\nwait\n")
    with pytest.raises(QueryError, match="squeue gave no answer within 1 s"):
        ask(["squeue"], 1.0)
    wait_until(lambda: _is_gone(int(child.read_text())), "the end of the question's child")


def test_a_process_that_keeps_the_output_open_does_not_hide_the_id(
    fake: FakeScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_scripts, "SUBMIT_S", 1.0)
    (fake.folder / "sbatch").write_text("#!/bin/sh\nsleep 600 &\necho Submitted batch job 12\n")
    assert submit("slurm", tmp_path).job == "12"


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_cluster_of_a_job_is_kept_for_all_questions(fake: FakeScheduler, tmp_path: Path) -> None:
    fake.answer("sbatch", "12;nautilus\n")
    record = submit("slurm", tmp_path)
    assert record.text == "slurm job 12 on cluster nautilus"
    Path(record.exit_code_file.replace("{job}", "12")).write_text("3\n")
    assert read_exit_code(record) == 3, "the script knows its number only"
    fake.answer("squeue", {"stderr": "slurm_load_jobs error: Invalid job id specified\n", "code": 1})
    fake.answer("sacct", "12|CANCELLED by 1000|0:15\n")
    fake.answer("scancel", "")
    word = ask_for_job("slurm", record.job).word
    assert word is not None and word.phase == "ended"
    cancel_job("slurm", record.job)
    for command in ("squeue", "sacct", "scancel"):
        assert "--clusters=nautilus" in fake.calls(command)[-1], command
    assert "--jobs=12" in fake.calls("squeue")[-1] and fake.calls("scancel")[-1][-1] == "12"
    fake.answer("squeue", "CLUSTER: nautilus\n12|RUNNING|None\n")
    word = find_job("slurm", record.name).word
    assert word is not None and word.job == "12;nautilus"


def _interrupt_when_asked(fake: FakeScheduler, times: int, err: pytest.CaptureFixture[str]) -> threading.Thread:
    """Ctrl-C once the submit command is there; again when it was heard."""

    def press() -> None:
        wait_until(lambda: (fake.folder / "here").exists(), "the submit command")
        os.kill(os.getpid(), signal.SIGINT)
        if times > 1:
            wait_until(lambda: "Ctrl-C again" in err.readouterr().err, "the word about the first Ctrl-C")
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_waits_for_the_answer_and_the_second_one_names_the_job(
    times: int, fake: FakeScheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = "sleep 600" if times == 2 else "sleep 0.5"
    (fake.folder / "sbatch").write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid; touch {fake.folder}/here\n{end}\necho 12\n"
    )
    thread = _interrupt_when_asked(fake, times, capsys)
    with pytest.raises(SubmissionInterruptedError) as caught:
        submit("slurm", tmp_path)
    thread.join()
    if times == 1:
        assert str(caught.value) == "slurm job 12 was accepted; `wf cancel run` ends it"
        assert caught.value.record == read_job(tmp_path / "run")
    else:
        assert str(caught.value) == "slurm job shock-ab12cd may have been accepted; `wf cancel run` ends it"
        os.killpg(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_whatever_verb_submits_an_interrupted_job_is_named(tmp_path: Path) -> None:
    @click.command()
    def verb() -> None:
        raise SubmissionInterruptedError(tmp_path / "run", JobRecord("slurm", "shock", "12"))

    with pytest.raises(click.Abort) as caught:
        verb.main([], standalone_mode=False)
    said = "slurm job 12 was accepted; `wf cancel run` ends it"
    assert interrupt_text(caught.value) == f"interrupted: {said}"
    assert interrupt_text(KeyboardInterrupt()) == interrupt_text(click.Abort()) == "interrupted"


def test_a_command_that_not_even_a_kill_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that hangs in a file system."""

    class Hanging(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            assert timeout is not None, "it waits for ever"
            raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(subprocess, "Popen", Hanging)
    assert execute(["sleep", "60"], 0.1).code is None


def test_a_record_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    write_job(tmp_path, JobRecord("slurm", "a", "12"))
    text = (tmp_path / "job.json").read_text().replace(',\n  "accepted": ""', "")
    (tmp_path / "job.json").write_text(text)
    assert read_job(tmp_path) == JobRecord("slurm", "a", "12")


def test_no_answer_at_all_is_no_refusal(fake: FakeScheduler, tmp_path: Path) -> None:
    fake.answer("sbatch", {"stderr": "sbatch: error: Socket timed out\n", "code": 1})
    fake.answer("squeue", {"stderr": "slurm_load_jobs error: Unable to contact slurm controller\n", "code": 1})
    with pytest.raises(RunError, match="the job may have been accepted") as caught:
        submit("slurm", tmp_path)
    assert not isinstance(caught.value, JobRefusedError)
