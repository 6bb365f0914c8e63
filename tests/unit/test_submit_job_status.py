"""Has a job ended? By answers that come late, wrong, or not at all. No processes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from workflow.plan.plan_model import Plan
from workflow.run.records.job_record import JobRecord
from workflow.schedulers.flux import read_flux_jobs
from workflow.schedulers.job_questions import JobAnswer
from workflow.schedulers.lsf import read_lsf_jobs
from workflow.schedulers.pbs import read_pbs_jobs
from workflow.schedulers.scheduler import JobWord
from workflow.schedulers.slurm import read_slurm_jobs
from workflow.submit import job_status
from workflow.submit.job_status import FORGOTTEN_S, VISIBLE_S, JobTracker, pauses_s

JOB = JobRecord("slurm", "shock-ab12", "12")
HOUR = 3600.0


def says(line: str) -> JobAnswer:
    (word,) = read_slurm_jobs(line)
    return JobAnswer(word)


def after(*answers: tuple[float, JobAnswer], job: JobRecord = JOB) -> JobTracker:
    tracker = JobTracker(job)
    for now, answer in answers:
        tracker = tracker.take(answer, now)
    return tracker


def test_a_job_that_ended_by_the_schedulers_word_has_ended_once_late_events_are_visible() -> None:
    tracker = after((0, says("12|RUNNING|None")), (10, says("12|FAILED|127:0")))
    assert tracker.end(10 + VISIBLE_S - 0.1) is None
    assert tracker.end(10 + VISIBLE_S) == "slurm job 12 ended: FAILED, exit code 127"


def test_a_scheduler_that_is_down_for_an_hour_ends_nothing() -> None:
    down = [(60.0 * minute, JobAnswer(error="squeue failed")) for minute in range(1, 61)]
    tracker = after((0, says("12|RUNNING|None")), *down)
    assert tracker.end(HOUR) is None
    assert tracker.text == "slurm job 12: no answer from the scheduler: squeue failed"
    assert tracker.take(says("12|RUNNING|None"), HOUR).text == "slurm job 12: RUNNING"


def test_absence_is_no_end_until_it_has_lasted() -> None:
    tracker = after((0, says("12|PENDING|Priority")), (10, JobAnswer()))
    assert tracker.end(10 + FORGOTTEN_S - 1) is None
    assert "no longer knows slurm job 12" in str(tracker.end(10 + FORGOTTEN_S))


def test_a_job_without_an_id_that_is_not_there_was_not_accepted() -> None:
    nowhere = (0.0, JobAnswer())
    for scheduler in ("slurm", "lsf"):
        named = after(nowhere, job=JobRecord(scheduler, "shock-ab12"))
        assert named.end(FORGOTTEN_S) == f"{scheduler} has no job named shock-ab12"


def test_a_job_that_is_there_again_was_never_gone() -> None:
    tracker = after((0, JobAnswer()), (50, says("12|RUNNING|None")), (55, JobAnswer()))
    assert tracker.end(55 + FORGOTTEN_S - 1) is None


def test_no_answer_between_two_silences_starts_no_new_count() -> None:
    tracker = after((0, JobAnswer()), (30, JobAnswer(error="down")), (59, JobAnswer()))
    assert tracker.end(FORGOTTEN_S) is not None


def test_an_absence_is_forgotten_once_the_supervisor_has_started() -> None:
    tracker = after((0, says("12|PENDING|Priority")), (10, JobAnswer())).without_absence()
    assert tracker.end(HOUR) is None
    assert tracker.text == "slurm job 12: PENDING (Priority)"


def test_words_that_are_not_known_mean_nothing() -> None:
    tracker = after((0, says("12|RUNNING|None")), (10, says("12|XX|a new state")))
    assert tracker.end(HOUR) is None
    assert tracker.text == "slurm job 12: XX (a new state)"


def test_an_end_that_is_taken_back_is_none() -> None:
    tracker = after((0, says("12|NODE_FAIL|None")), (3, says("12|PENDING|BeginTime")))
    assert tracker.end(HOUR) is None


def test_the_exit_code_of_the_script_is_an_end_without_any_scheduler() -> None:
    tracker = after((0, JobAnswer(error="down"))).take_exit_code(137, 5).take_exit_code(137, 9)
    assert tracker.end(5 + VISIBLE_S) == "slurm job 12 ended: exit code 137"
    assert JobTracker(JOB).take_exit_code(None, 5).end(HOUR) is None


def test_the_id_of_a_job_is_learned_from_the_first_answer() -> None:
    tracker = after((0, says("99|PENDING|Priority")), job=JobRecord("slurm", "shock-ab12"))
    assert tracker.job.job == "99"


def test_questions_become_rare() -> None:
    assert list(islice(pauses_s(), 8)) == [2, 4, 8, 16, 32, 60, 60, 60]


def test_a_job_that_was_cancelled_says_so_as_the_cause_of_its_run() -> None:
    assert after((0, says("12|CANCELLED|None"))).cause == "cancelled"
    assert after((0, says("12|NODE_FAIL|None"))).cause == "node_lost"
    assert after((0, says("12|FAILED|2:0"))).cause is None
    assert after((0, says("12|RUNNING|None"))).cause is None


@pytest.mark.parametrize(
    ("reasons", "way"),
    [
        (("Priority", "Resources", "Dependency", "BeginTime", "Licenses", "QOSMaxJobsPerUserLimit"), ""),
        (("AssocGrpCPURunMinutesLimit", "AssocGrpNodeLimit", "QOSGrpCpuLimit", "JobArrayTaskLimit"), ""),
        (("PartitionNodeLimit", "ReqNodeNotAvail, UnavailableNodes:n1", "QOSMaxNodePerJobLimit"), ". See `sinfo`"),
        (("AssocMaxCpuPerJobLimit", "QOSMaxCpuMinutesPerJobLimit", "QOSMaxWallDurationPerJobLimit"), ". See `sinfo`"),
        (("QOSMinCpuNotSatisfied", "QOSMinGRES", "BadConstraints", "DeadLine", "PartitionConfig"), ". See `sinfo`"),
        (("JobHoldMaxRequeue",), ": `scontrol release 12`"),
        (("JobHeldUser", "launch failed requeued held", "job requeued in held state"), ": `scontrol release 12`"),
        (("JobHeldAdmin",), ": an administrator holds it: ask them"),
        (("DependencyNeverSatisfied",), ": what it depends on has ended otherwise: `scancel 12`"),
        (("AssocGrpCPUMinutesLimit", "QOSGrpBillingMinutes"), ": the project has no time left"),
        (("InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed"), ": see `sacctmgr show"),
    ],
)  # fmt: skip
def test_a_job_that_waits_for_what_does_not_pass_may_never_start(reasons: tuple[str, ...], way: str) -> None:
    for reason in reasons:
        tracker = JobTracker(JOB).take(says(f"12|PENDING|{reason}"), 0)
        assert f"{reason}): it may never start{way}" in tracker.text if way else tracker.text.endswith(f"({reason})")
        assert tracker.asks_too_much is (way == ". See `sinfo`")
        assert not tracker.take(JobAnswer(error="down"), 1).asks_too_much
        assert "never" not in tracker.take(says("12|RUNNING|None"), 2).text


@pytest.mark.parametrize(
    ("scheduler", "word", "way"),
    [
        ("slurm", read_slurm_jobs("12|REQUEUE_HOLD|None\n"), "`scontrol release 12`"),
        ("slurm", read_slurm_jobs("12|SPECIAL_EXIT|None\n"), "`scontrol release 12`"),
        ("pbs", read_pbs_jobs("Job Id: 12.pbs\n    job_state = H\n"), "`qrls 12.pbs`"),
        ("pbs", read_pbs_jobs("Job Id: 12.pbs\n    job_state = Q\n    comment = Can Never Run: no\n"), "pbsnodes"),
        ("lsf", read_lsf_jobs("12|PSUSP|-|-\n"), "`bresume 12`"),
        ("flux", read_flux_jobs("ƒA|SCHED|||0\n"), "`flux job urgency ƒA default`"),
    ],
)  # fmt: skip
def test_a_job_that_is_held_says_how_it_is_released(scheduler: str, word: list[JobWord], way: str) -> None:
    tracker = JobTracker(JobRecord(scheduler, "a", word[0].job)).take(JobAnswer(word[0]), 0)
    assert "it may never start" in tracker.text
    assert way in tracker.text


def test_a_run_whose_job_may_never_start_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = JobTracker(JOB).take(says("12|PENDING|PartitionNodeLimit"), 0)
    state = SimpleNamespace(finished=None, started=None)
    monkeypatch.setattr(job_status, "follow", lambda *_: (each for each in [state, state]))
    monkeypatch.setattr(job_status.JobWatch, "look", lambda *_, **__: waits)
    monkeypatch.setattr(job_status, "settle_job", lambda *_: "")
    said = list[str]()
    list(job_status.follow_job(tmp_path / "shock-1", cast(Plan, None), JOB, said.append))
    (text,) = said
    assert text.startswith("slurm job 12: PENDING (PartitionNodeLimit): it may never start. See `sinfo`; to request")
    assert "`wf cancel shock-1`" in text
