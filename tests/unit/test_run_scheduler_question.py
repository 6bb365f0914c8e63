"""What schedulers answer about a job, and a run directory that a requeued job starts again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from workflow.errors import EXIT_RUN_FAILED, RunError
from workflow.launch.allocation import Allocation, Host, Source
from workflow.run.events import EVENTS_FILE, RunFinished, RunStarted, SchedulerSaid, read_events, to_line
from workflow.run.processes.scheduler_question import Answer, SchedulerQuestion, command_of, to_answer
from workflow.run.requeued import refuse_restart
from workflow.run.run_directory import ALLOCATION_FILE
from workflow.run.verdict.scheduler_words import cause_said, job_text
from workflow.site.allocation.scheduler_query import QueryError

SLURM = "JobId=12 JobName=wf UserId=root(0) JobState={} Reason={} Dependency=(null) Requeue=0 NodeList=n[1-4]"


@pytest.mark.parametrize(
    ("source", "text", "state", "raw"),
    [
        ("slurm", SLURM.format("CANCELLED", "None"), "CANCELLED", "JobState=CANCELLED Reason=None"),
        (
            "slurm", SLURM.format("COMPLETING", "TimeLimit"), "COMPLETING, TimeLimit",
            "JobState=COMPLETING Reason=TimeLimit",
        ),
        ("slurm", "slurm_load_jobs error: Invalid job id", *["slurm_load_jobs error: Invalid job id"] * 2),
        ("slurm", "", "unknown", ""),
        (
            "pbs", "Job Id: 12\n    job_state = F\n    comment = job killed: walltime 65\n    Exit_status = -29\n",
            "TIMEOUT", "job_state = F, comment = job killed: walltime 65, Exit_status = -29",
        ),
        ("pbs", "    job_state = R\n", "R", "job_state = R"),
        ("lsf", "EXIT TERM_RUNLIMIT\n", "EXIT TERM_RUNLIMIT", "EXIT TERM_RUNLIMIT"),
    ],
)  # fmt: skip
def test_answers_are_the_schedulers_own_words(source: Source, text: str, state: str, raw: str) -> None:
    assert to_answer(source, text) == Answer(state, raw)


@pytest.mark.parametrize(
    ("state", "cause", "text"),
    [
        ("CANCELLED by 1000", "cancelled", "job 12 was cancelled"),
        ("COMPLETING, TimeLimit", "time_limit", "job 12 reached its time limit"),
        ("NODE_FAIL", "node_lost", "job 12 lost a node"),
        ("COMPLETING, NodeDown", "node_lost", "job 12 lost a node"),
        ("PREEMPTED", "preempted", "job 12 was preempted"),
        ("DEADLINE", "time_limit", "job 12 reached its time limit"),
        ("OUT_OF_MEMORY", "out_of_memory", "job 12 ran out of memory"),
        ("REVOKED", None, ""),
        ("RUNNING", None, ""),
    ],
)
def test_words_mean_what_they_say_and_unknown_ones_nothing(state: str, cause: str | None, text: str) -> None:
    said = SchedulerSaid(1, "12", state)
    found = cause_said(said)
    assert (found, "" if found is None else job_text("12", found)) == (cause, text)


def test_question_is_answered_in_a_thread() -> None:
    asked: list[Sequence[str]] = []

    def query(command: Sequence[str]) -> str:
        asked.append(command)
        return SLURM.format("PREEMPTED", "None")

    assert _answer(SchedulerQuestion("slurm", "12", query)) == Answer("PREEMPTED", "JobState=PREEMPTED Reason=None")
    assert asked == [["scontrol", "--oneliner", "show", "job", "12"]]


def test_scheduler_that_is_down_is_an_answer_too() -> None:
    def query(_: Sequence[str]) -> str:
        raise QueryError("scontrol gave no answer within 3 s")

    assert _answer(SchedulerQuestion("slurm", "12", query)) == Answer("unknown", "scontrol gave no answer within 3 s")


def test_nobody_is_asked_where_there_are_no_jobs() -> None:
    assert command_of("local", "") is None
    assert command_of("hostfile", "") is None


def _answer(question: SchedulerQuestion) -> Answer | None:
    question.ask()
    return question._answers.get(timeout=10)


def started(run_dir: Path, job: str, *more: RunFinished) -> Allocation:
    """A run directory of a run that was started in this job."""
    received = Allocation("slurm", job, (Host("n1"),))
    (run_dir / ALLOCATION_FILE).write_text(received.to_json())
    events = [RunStarted(1, "run", 2, 1, "n1", events_version=3), *more]
    (run_dir / EVENTS_FILE).write_text("".join(map(to_line, events)))
    return received


def test_requeued_job_says_so_and_leaves_a_verdict(tmp_path: Path) -> None:
    received = started(tmp_path, "12")
    error = refuse_restart(tmp_path, received, {"SLURM_RESTART_COUNT": "1"})
    text = "this run has been started before (job 12, restart 1): the scheduler requeued it"
    assert isinstance(error, RunError)
    assert error.message == f"{tmp_path}: {text}"
    verdict = list(read_events(tmp_path))[-1]
    assert isinstance(verdict, RunFinished)
    assert (verdict.state, verdict.reason, verdict.cause) == ("failed", text, "requeued")


def test_same_job_again_is_a_requeued_one_without_a_count(tmp_path: Path) -> None:
    error = refuse_restart(tmp_path, started(tmp_path, "12.pbs"), {})
    assert "(job 12.pbs): the scheduler requeued it" in error.message


def test_verdict_of_a_run_that_has_one_is_kept(tmp_path: Path) -> None:
    verdict = RunFinished(2, "failed", EXIT_RUN_FAILED, "node n2 was lost", "md", "node_lost")
    refuse_restart(tmp_path, started(tmp_path, "12", verdict), {"SLURM_RESTART_COUNT": "1"})
    assert list(read_events(tmp_path))[-1] == verdict


@pytest.mark.parametrize("job", ["", "13"])
def test_another_start_of_the_same_run_is_a_mistake(tmp_path: Path, job: str) -> None:
    started(tmp_path, "12")
    before = (tmp_path / EVENTS_FILE).read_text()
    error = refuse_restart(tmp_path, Allocation("slurm" if job else "local", job, ()), {})
    assert error.message == f"{tmp_path}: this run has been started before"
    assert (tmp_path / EVENTS_FILE).read_text() == before
    assert json.loads((tmp_path / ALLOCATION_FILE).read_text())["job"] == "12"
