"""What schedulers say of jobs: their words, and their silence. The commands are fakes on PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fake_schedulers import FakeScheduler
from workflow.schedulers.flux import read_flux_jobs
from workflow.schedulers.job_questions import ask_for_job, cancel_job, find_job, nodes_up
from workflow.schedulers.lsf import read_lsf_jobs
from workflow.schedulers.pbs import read_pbs_jobs
from workflow.schedulers.scheduler import Phase, QueryError
from workflow.schedulers.slurm import read_slurm_jobs

GONE = {"stderr": "slurm_load_jobs error: Invalid job id specified\n", "code": 1}
DOWN = {"stderr": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", "code": 1}
TIMED_OUT = {"stderr": "slurm_load_jobs error: Socket timed out on send/recv operation\n", "code": 1}
NO_ACCOUNTING = {"stderr": "sacct: error: slurm_persist_conn_open: Connection refused\n", "code": 1}

QSTAT = """Job Id: 12.pbs01
    Job_Name = shock-ab12
    job_state = {state}
    comment = Job held, too many failed
\t attempts to run
    Exit_status = {code}

"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    scheduler = FakeScheduler(tmp_path / "bin")
    monkeypatch.setenv("PATH", scheduler.path)
    return scheduler


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("PENDING", "pending"), ("CONFIGURING", "pending"), ("REQUEUED", "pending"), ("SPECIAL_EXIT", "pending"),
        ("RUNNING", "running"), ("COMPLETING", "running"), ("RUNNING,COMPLETING", "running"), ("STOPPED", "running"),
        ("SIGNALING", "running"), ("STAGE_OUT", "running"), ("FAILED,COMPLETING", "running"),
        ("COMPLETED", "ended"), ("CANCELLED by 1000", "ended"), ("CANCELLED+", "ended"), ("OUT_OF_MEMORY", "ended"),
        ("PREEMPTED", "ended"), ("NODE_FAIL", "ended"), ("REVOKED", "ended"), ("TIMEOUT", "ended"),
        ("XX", "unknown"), ("", "unknown"),
    ],
)  # fmt: skip
def test_states_of_slurm(state: str, phase: Phase) -> None:
    (word,) = read_slurm_jobs(f"12|{state}|None\n")
    assert (word.phase, word.state, word.reason) == (phase, state, "")


def test_a_reason_may_have_blanks_and_bars() -> None:
    (word,) = read_slurm_jobs("12|PENDING|Nodes required for job are DOWN, DRAINED | or reserved\n")
    assert word.reason == "Nodes required for job are DOWN, DRAINED | or reserved"
    assert word.text == "PENDING (Nodes required for job are DOWN, DRAINED | or reserved)"


def test_sacct_has_exit_codes_and_other_lines_are_left_out() -> None:
    text = "12|OUT_OF_MEMORY|0:125\n12.batch|FAILED|2:0\nsomething else\n|||\n"
    assert [(word.job, word.exit_code) for word in read_slurm_jobs(text)] == [("12", 0), ("12.batch", 2)]


def test_one_job_is_found_among_those_with_parts(fake: FakeScheduler) -> None:
    fake.answer("squeue", "11|XX|weird state\n12_3|RUNNING|None\n120|FAILED|NonZeroExitCode\n")
    word = ask_for_job("slurm", "12").word
    assert word is not None
    assert (word.job, word.phase) == ("12_3", "running")


@pytest.mark.parametrize("trouble", [DOWN, TIMED_OUT, {"stdout": "", "code": 127}])
def test_a_scheduler_in_trouble_gives_no_answer(trouble: dict[str, object], fake: FakeScheduler) -> None:
    fake.answer("squeue", trouble)
    answer = ask_for_job("slurm", "12")
    assert (answer.word, answer.is_absent) == (None, False)
    assert answer.error.startswith("squeue failed with exit code ")
    assert fake.calls("sacct") == [], "the accounting is no substitute for an answer"


def test_what_the_queue_has_forgotten_the_accounting_may_know(fake: FakeScheduler) -> None:
    fake.answer("squeue", GONE)
    fake.answer("sacct", "", "12|CANCELLED by 1000|0:15\n")
    assert ask_for_job("slurm", "12").is_absent, "its row is not there yet"
    word = ask_for_job("slurm", "12").word
    assert word is not None
    assert (word.phase, word.state, word.exit_code) == ("ended", "CANCELLED by 1000", 0)
    assert word.t > 1e9


@pytest.mark.parametrize("trouble", [NO_ACCOUNTING, {"stderr": "Slurm accounting storage is disabled\n", "code": 1}])
def test_without_accounting_a_job_that_the_queue_has_forgotten_is_absent(
    trouble: dict[str, object], fake: FakeScheduler
) -> None:
    fake.answer("squeue", GONE)
    fake.answer("sacct", trouble)
    assert ask_for_job("slurm", "12").is_absent


def test_a_job_is_found_by_its_name(fake: FakeScheduler) -> None:
    fake.answer("squeue", "", "13|PENDING|Priority\n")
    assert find_job("slurm", "shock-ab12").is_absent
    word = find_job("slurm", "shock-ab12").word
    assert word is not None
    assert word.job == "13"
    assert "--name=shock-ab12" in fake.calls("squeue")[-1]


def test_cancelling_a_job_that_has_gone_is_no_error(fake: FakeScheduler) -> None:
    fake.answer("scancel", {"stderr": "scancel: error: Invalid job id specified\n", "code": 1}, DOWN)
    cancel_job("slurm", "12")
    with pytest.raises(QueryError, match="Unable to contact"):
        cancel_job("slurm", "12")


@pytest.mark.parametrize(
    ("state", "phase"),
    [("Q", "pending"), ("H", "pending"), ("R", "running"), ("E", "running"), ("F", "ended"), ("Y", "unknown")],
)  # fmt: skip
def test_states_of_pbs(state: str, phase: Phase) -> None:
    (word,) = read_pbs_jobs(QSTAT.format(state=state, code=271))
    assert (word.job, word.phase, word.exit_code) == ("12.pbs01", phase, 271)
    assert word.reason == "Job held, too many failed attempts to run"


@pytest.mark.parametrize("code", [35, 153])
def test_pbs_does_not_know_a_job(code: int, fake: FakeScheduler) -> None:
    fake.answer("qstat", {"stderr": "qstat: Unknown Job Id 12.pbs01\n", "code": code})
    assert ask_for_job("pbs", "12.pbs01").is_absent


def test_pbs_is_asked_with_its_history(fake: FakeScheduler) -> None:
    fake.answer("qstat", QSTAT.format(state="F", code=0))
    word = ask_for_job("pbs", "12.pbs01").word
    assert word is not None
    assert word.phase == "ended"
    assert fake.calls("qstat") == [["-x", "-f", "12.pbs01"]]


def test_pbs_finds_a_job_by_its_name(fake: FakeScheduler) -> None:
    fake.answer("qselect", "", "14.pbs01\n")
    assert find_job("pbs", "shock-ab12").is_absent
    word = find_job("pbs", "shock-ab12").word
    assert word is not None
    assert (word.job, word.phase) == ("14.pbs01", "unknown")


def test_states_of_lsf(fake: FakeScheduler) -> None:
    text = "12|PEND|-|-\n13|RUN|-|-\n14|DONE|-|-\n15|EXIT|130|TERM_OWNER: job killed by owner\n16|ZOMBI|-|-\nJOBID\n"
    found = [(word.job, word.phase, word.exit_code) for word in read_lsf_jobs(text)]
    assert found == [
        ("12", "pending", None), ("13", "running", None), ("14", "ended", 0), ("15", "ended", 130),
        ("16", "unknown", None),
    ]  # fmt: skip
    fake.answer("bjobs", {"stderr": "Job <12> is not found\n", "code": 255})
    assert ask_for_job("lsf", "12").is_absent


def test_states_of_flux(fake: FakeScheduler) -> None:
    found = [(word.job, word.phase, word.reason) for word in read_flux_jobs("ƒA1|SCHED||\nƒB2|CANCELED||by user\n\n")]
    assert found == [("ƒA1", "pending", ""), ("ƒB2", "ended", "by user")]
    for said in ("flux-jobs: ERROR: unknown job id\n", "JobID ƒA1 unknown\n"):
        fake.answer("flux", {"stderr": said, "code": 1})
        assert ask_for_job("flux", "ƒA1").is_absent
    fake.answer("flux", {"stderr": "flux-jobs: ERROR: unknown option\n", "code": 1})
    assert ask_for_job("flux", "ƒA1").error


@pytest.mark.parametrize(
    ("scheduler", "command", "said"),
    [
        ("slurm", "scancel", "scancel: error: Kill job error on job id 12: Job/step already completing or completed"),
        ("pbs", "qdel", "qdel: Job has finished 12.pbs01"),
        ("lsf", "bkill", "Job <12>: Job has already finished"),
        ("flux", "flux", "flux-cancel: ERROR: ƒA: job is inactive"),
    ],
)
def test_cancelling_a_job_that_has_ended_is_no_error(
    scheduler: str, command: str, said: str, fake: FakeScheduler
) -> None:
    fake.answer(command, {"stderr": f"{said}\n", "code": 1})
    cancel_job(scheduler, "12")


SINFO = """debug|9|idle
batch*|2|allocated
batch*|1|idle~
batch*|1|mixed$
batch*|1|down*
batch*|2|idle*
batch*|3|drained
long|5|draining
long|1|planned
"""


@pytest.mark.parametrize(
    ("partition", "up"), [(None, 4), ("batch", 4), ("debug", 9), ("long", 1), ("long,debug", 9), ("other", None)]
)
def test_nodes_that_are_up_in_a_partition_of_slurm(partition: str | None, up: int | None, fake: FakeScheduler) -> None:
    fake.answer("sinfo", SINFO)
    assert nodes_up("slurm", partition) == up


def test_nodes_that_are_up_in_flux(fake: FakeScheduler) -> None:
    fake.answer("flux resource", "6\n")
    assert nodes_up("flux", None) == 6
    assert fake.calls("flux resource") == [["list", "--states=up", "--no-header", "--format={nnodes}"]]


@pytest.mark.parametrize("answer", [DOWN, "", "something else\n", "batch*|many|idle\n"])
def test_how_many_nodes_are_up_may_not_be_known(answer: str | dict[str, object], fake: FakeScheduler) -> None:
    fake.answer("sinfo", answer)
    assert nodes_up("slurm", None) is None
    assert nodes_up("lsf", None) is None
