"""What those who follow or cancel a run learn of its next part, also where the process that submits it has died."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.chains import Source, make_end, make_plan, make_stage, make_stream, write_run
from workflow.formatting import part_text
from workflow.plan.plan_model import AllocationPlan, PartPlan, Plan
from workflow.run.chain import NextPart, next_part_text, write_next_part
from workflow.run.processes.process_reaper import write_verdict
from workflow.run.records.find_runs import START_S, is_abandoned, newest_part
from workflow.run.records.job_record import JobRecord, write_job
from workflow.run.records.run_directory import create_run_dir
from workflow.submit import next_part
from workflow.submit.job_scripts import leave_job
from workflow.submit.next_part import await_next_part, awaits_next_part

PLANNED = NextPart("planned")


def asked(parts: int = 5) -> Plan:
    ends = [make_end("field", "write", "after")], [make_end("field", "read", "after")]
    stages = [make_stage("sim", ["x"], ends[0]), make_stage("mean", ["x"], ends[1])]
    plan = make_plan(stages, [make_stream("field", "sim", ["mean"], "after")])
    allocation = AllocationPlan(scheduler="slurm", nodes=1, walltime_s=3600, grace_s=120, parts=parts)
    return plan.model_copy(update={"allocation": allocation})


def stopped(folder: Path, parts: int = 5, code: int = 75, ago_s: float = 0.0) -> Path:
    """A run that its job had to stop."""
    run = write_run(asked(parts), folder)
    write_job(run, JobRecord("slurm", "run", "12", exit_code_file=str(run / "{job}.ec")))
    write_verdict(str(run), "stopped", code, "", time.time() - ago_s)
    return run


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_part, "VISIBLE_S", 0.0)
    monkeypatch.setattr(next_part, "_PAUSE_S", 0.0)


def test_nothing_is_awaited_where_no_part_was_to_follow(tmp_path: Path) -> None:
    for number, more in enumerate(({"parts": 1}, {"code": 1}, {"code": 0})):
        run = stopped(tmp_path / str(number), **more)
        assert await_next_part(run) is None
        assert not awaits_next_part(run)
    run = write_run(asked(), tmp_path / "no job")
    write_verdict(str(run), "stopped", 75, "", time.time())
    assert await_next_part(run) is None


def test_what_is_settled_is_told_at_once(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    assert awaits_next_part(run), "before its process has written anything"
    write_next_part(run, PLANNED)
    assert awaits_next_part(run)
    for record in (NextPart("submitted", "/runs/b"), NextPart("none", reason="why")):
        write_next_part(run, record)
        assert await_next_part(run) == record
        assert not awaits_next_part(run)


@pytest.mark.parametrize("record", [None, PLANNED, NextPart("submitting", "/runs/b")])
def test_a_process_that_dies_before_it_has_submitted_the_part_is_not_awaited_for_ever(
    record: NextPart | None, tmp_path: Path
) -> None:
    run = stopped(tmp_path)
    if record is not None:
        write_next_part(run, record)
    (run / "12.ec").write_text("75\n")
    found = await_next_part(run)
    assert found is not None
    assert (found.state, found.reason) == ("none", "its job ended before it had submitted one")
    assert found.hint == f"to go on, on a login node: wf resume {run}"


def test_without_an_exit_code_of_the_job_patience_ends(tmp_path: Path) -> None:
    run = stopped(tmp_path, ago_s=next_part.PATIENCE_S + 1)
    assert not awaits_next_part(run)
    found = await_next_part(run)
    assert found is not None and (found.state, found.reason) == ("none", "its job has not said why")


def test_a_part_that_is_there_counts_as_submitted_whatever_its_record_says(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    write_next_part(run, NextPart("submitting", "/runs/b"))
    (run / "12.ec").write_text("75\n")
    part = PartPlan(number=2, run=str(run), finished={}, pieces={})
    following = create_run_dir(asked().model_copy(update={"part": part}), Source(), beside=run, latest=False)
    assert following.parent == run.parent
    assert await_next_part(run) == NextPart("submitted", str(following))


def part_of(run: Path, folder: Path, ago_s: float = 0.0) -> Path:
    """The directory of a part that was made so long ago, and that nobody has started."""
    part = PartPlan(number=2, run=str(run), finished={}, pieces={})
    made = create_run_dir(asked().model_copy(update={"part": part}), Source(), folder)
    then = time.time() - ago_s
    os.utime(made / "plan.json", (then, then))
    return made


def test_a_part_that_nobody_will_start_does_not_count(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    fresh = part_of(run, tmp_path / "fresh")
    assert newest_part(run) == fresh, "its process may be starting it"
    dead = part_of(run, tmp_path / "dead", ago_s=2 * START_S)
    assert is_abandoned(dead) and newest_part(run) == fresh
    assert newest_part(dead) == fresh, "it goes on with a run whose parts count"
    (fresh / "plan.json").unlink()
    assert newest_part(run) == run, "it was never whole"
    write_job(dead, JobRecord("slurm", "run", "13"))
    assert newest_part(run) == dead, "its job may be waiting"


def test_latest_goes_on_to_the_next_part_where_it_meant_the_part_before(tmp_path: Path) -> None:
    run = write_run(asked(), tmp_path)
    latest = tmp_path / "latest"
    assert create_run_dir(asked(), Source(), beside=run).parent == tmp_path
    assert not latest.exists()
    latest.symlink_to("elsewhere")
    create_run_dir(asked(), Source(), beside=run, latest=False)
    assert latest.readlink() == Path("elsewhere")
    latest.unlink()
    latest.symlink_to(run.name)
    following = create_run_dir(asked(), Source(), beside=run, latest=False)
    assert latest.resolve() == following


def test_latest_is_a_run_that_re_uses_files_of_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a new run, which somebody has started here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for folder in ("runs", "elsewhere"):
        earlier = create_run_dir(asked(), Source(), tmp_path / folder / "earlier", latest=False)
        create_run_dir(asked(), Source())
        part = PartPlan(number=1, run=str(earlier), finished={}, pieces={})
        made = create_run_dir(asked().model_copy(update={"part": part}), Source(), beside=earlier)
        assert made.parent == earlier.parent
        assert (tmp_path / "runs/latest").resolve() == made


def test_the_next_part_in_words() -> None:
    assert next_part_text("a", NextPart("none", reason="why")) == "no part follows a: why"
    assert next_part_text("a", NextPart("submitted", "/runs/b")) == "b goes on with a"
    assert next_part_text("a", NextPart("submitted", "/runs/b", "who knows")) == "b goes on with a; who knows"
    assert (part_text(1, 1), part_text(1, 5), part_text(2, 5)) == ("", "part 1 of at most 5", "part 2 of at most 5")
    assert (part_text(2, 1), part_text(6, 5)) == ("part 2", "part 6"), "resumed by hand"


def test_a_process_that_leaves_its_job_keeps_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_a_job = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS_PER_NODE", "PBS_JOBID", "LSB_JOBID")
    for name in (*of_a_job, "SLURM_CONF", "WF_TEST_KEPT"):
        monkeypatch.setenv(name, "x")
    leave_job(asked(), tmp_path)
    assert not [name for name in of_a_job if name in os.environ]
    assert os.environ["SLURM_CONF"] == os.environ["WF_TEST_KEPT"] == "x", "where Slurm is, is no fact of the job"
