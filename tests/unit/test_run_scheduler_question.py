"""What schedulers answer about a job."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from tests.support.waiting import wait_until
from workflow.launch.allocation import Source
from workflow.launch.rank_ends import EndCause, is_of_scheduler
from workflow.run.verdict.end_causes import job_text
from workflow.schedulers.job_questions import NodesQuestion, OwnJobQuestion, OwnJobState, own_job_command, to_own_state
from workflow.schedulers.scheduler import QueryError, ask
from workflow.schedulers.schedulers import scheduler_named

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
            "TIMEOUT (job killed: walltime 65)", "job_state = F, comment = job killed: walltime 65, Exit_status = -29",
        ),
        ("pbs", "Job Id: 12\n    job_state = R\n", "R", "job_state = R"),
        (
            "lsf", "12|EXIT|140|TERM_RUNLIMIT: job killed after reaching LSF run time limit\n",
            "EXIT (TERM_RUNLIMIT: job killed after reaching LSF run time limit)",
            "12|EXIT|140|TERM_RUNLIMIT: job killed after reaching LSF run time limit",
        ),
        ("flux", "12|RUN||\n", "RUN", "12|RUN||"),
    ],
)  # fmt: skip
def test_answers_are_the_schedulers_own_words(source: Source, text: str, state: str, raw: str) -> None:
    assert to_own_state(source, "12", text) == OwnJobState(state, raw)


@pytest.mark.parametrize(
    ("state", "cause", "text"),
    [
        ("CANCELLED by 1000", "cancelled", "job 12 was cancelled"),
        ("COMPLETING, TimeLimit", "time_limit", "job 12 reached its time limit"),
        ("NODE_FAIL", "node_lost", "job 12 lost a node"),
        ("COMPLETING, NodeDown", "node_lost", "job 12 lost a node"),
        ("PREEMPTED", "preempted", "job 12 was preempted"),
        ("COMPLETING, REQUEUED", "requeued", "job 12 was requeued"),
        ("DEADLINE", "time_limit", "job 12 reached its time limit"),
        ("OUT_OF_MEMORY", "out_of_memory", "job 12 ran out of memory"),
        ("REVOKED", None, ""),
        ("RUNNING", None, ""),
    ],
)
def test_words_mean_what_they_say_and_unknown_ones_nothing(state: str, cause: str | None, text: str) -> None:
    found = scheduler_named("slurm").cause_of(state)
    assert (found, "" if found is None else job_text("12", found)) == (cause, text)


@pytest.mark.parametrize("cause", get_args(EndCause))
def test_what_may_end_a_job_has_words(cause: EndCause) -> None:
    if is_of_scheduler(cause):
        assert job_text("12", cause).startswith("job 12 ")
    else:
        assert cause in ("killed", "exited", "not_started")


def test_question_is_answered_in_a_thread() -> None:
    asked: list[Sequence[str]] = []

    def query(command: Sequence[str]) -> str:
        asked.append(command)
        return SLURM.format("PREEMPTED", "None")

    assert _answer(OwnJobQuestion("slurm", "12", query)) == OwnJobState("PREEMPTED", "JobState=PREEMPTED Reason=None")
    assert asked == [["scontrol", "--oneliner", "show", "job", "12"]]


def test_scheduler_that_is_down_is_an_answer_too() -> None:
    def query(_: Sequence[str]) -> str:
        raise QueryError("scontrol gave no answer within 3 s")

    assert _answer(OwnJobQuestion("slurm", "12", query)) == OwnJobState("unknown", "scontrol gave no answer within 3 s")


def test_nobody_is_asked_where_there_are_no_jobs() -> None:
    assert own_job_command("local", "") is None
    assert own_job_command("hostfile", "") is None


def _answer(question: OwnJobQuestion) -> OwnJobState | None:
    question.ask()
    return question._answers.get(timeout=10)


def test_a_question_that_was_ended_is_asked_again() -> None:
    asked: list[Sequence[str]] = []

    def query(command: Sequence[str]) -> str:
        asked.append(command)
        if len(asked) == 1:
            raise QueryError("scontrol failed with exit code -15: no message")
        return SLURM.format("CANCELLED", "None")

    assert _answer(OwnJobQuestion("slurm", "12", query)) == OwnJobState("CANCELLED", "JobState=CANCELLED Reason=None")


def test_a_question_is_asked_outside_of_the_session_that_is_ended() -> None:
    assert int(ask(["sh", "-c", "ps -o sid= -p $$"])) != os.getsid(0)


@pytest.mark.parametrize(("due", "word"), [("", "CANCELLED"), (" DUE TO PREEMPTION", "PREEMPTED")])
def test_while_a_job_is_ended_the_file_of_its_errors_says_why(due: str, word: str, tmp_path: Path) -> None:
    errors = tmp_path / "12.err"
    line = f"*** JOB 12 ON n1 CANCELLED AT 2026-05-01T12:00:00{due} ***"
    errors.write_text(f"a program's line\nslurmstepd-n1: error: {line}\n")
    answer = to_own_state("slurm", "12", f"{SLURM.format('COMPLETING', 'None')} StdErr={errors} StdIn=/dev/null")
    assert answer == OwnJobState(f"COMPLETING, {word}", f"JobState=COMPLETING Reason=None, {line}")
    assert scheduler_named("slurm").cause_of(answer.state) == ("preempted" if due else "cancelled")


def test_what_is_known_of_nodes_is_no_older_than_the_newest_question() -> None:
    answers = ["n2|down*\nn3|down\n", "n2|down\nn3|idle\n"]

    def query(command: Sequence[str]) -> str:
        assert command[0] == "sinfo"
        if not answers:
            raise QueryError("no controller")
        return answers.pop(0)

    question = NodesQuestion("slurm", query)

    def asked() -> dict[str, str]:
        before = threading.active_count()
        question.ask(["n2", "n3"])
        wait_until(lambda: threading.active_count() <= before, "an answer has come")
        return dict(question.down)

    assert asked() == {"n2": "down*", "n3": "down"}
    question.keep(["n3"])
    assert question.down == {"n3": "down"}, "n2 has been heard"
    assert asked() == {"n2": "down"}
    assert asked() == {}, "no answer says nothing of any node"
