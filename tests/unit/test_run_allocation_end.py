"""The lifecycle without processes: a run is stopped in order before its allocation ends, by its own clock."""

from __future__ import annotations

import signal

import pytest

from tests.support.chains import chain
from tests.support.imagined_run import Run, end_all
from workflow.errors import EXIT_STOPPED
from workflow.launch.allocation import Allocation, Host
from workflow.plan.plan_model import AllocationPlan, Plan
from workflow.run.lifecycle import wake_at
from workflow.run.records.job_record import JobRecord
from workflow.run.run_allocation import with_planned_end
from workflow.run.state.events import Interrupted, StageCut, StageExited, StopPlanned
from workflow.run.stop_sequence import default_grace_s, plan_stop


def with_stop_signal(plan: Plan, name: str) -> Plan:
    stages = [
        stage.model_copy(update={"stop_signal": "USR1"}) if stage.name == name else stage for stage in plan.stages
    ]
    return plan.model_copy(update={"stages": stages})


def planned(at: float = 880, end: float = 1000, plan: Plan | None = None) -> Run:
    run = (
        Run(plan or chain("sst", run=5000, step=5000, start=5000))
        .open_all()
        .steps(atoms_md=7, atoms_saxs=7, pattern_saxs=7, pattern_keep=7)
    )
    return run.feed(StopPlanned(1, at, end))


def test_stages_are_told_first_and_signalled_when_they_go_on() -> None:
    run = planned()
    for t in range(870, 999):
        run.tick(t)
    everyone = ("md", "saxs", "keep")
    assert run.told == [(880, everyone)]
    assert run.signals == [
        (940, everyone, signal.SIGINT), (960, everyone, signal.SIGTERM), (988, everyone, signal.SIGKILL),
    ]  # fmt: skip
    assert run.verdict.t == 989, "before the end, whatever hangs"


@pytest.mark.parametrize(("grace", "times"), [(10, [5, 10 / 3, 2]), (4, [2, 4 / 3, 1])])
def test_short_grace_leaves_time_for_the_verdict(grace: float, times: list[float]) -> None:
    run = planned(at=1000 - grace)
    for tenths in range(9900, 10010):
        run.tick(tenths / 10)
    assert [1000 - t for t, _, _ in run.signals] == pytest.approx(times, abs=0.1)


def test_wakes_up_for_it() -> None:
    run = planned()
    assert wake_at(run.state) == 880
    assert wake_at(run.tick(880).state) == 940


def test_programs_that_end_when_they_are_told_have_stopped() -> None:
    run = planned().tick(880).feed(StageCut(880.5, "md"))
    for stage in ("md", "saxs", "keep"):
        run.feed(*run.done(stage, 8, 881))
    assert run.signals == []
    assert (run.verdict.state, run.verdict.exit_code, run.verdict.stage) == ("stopped", EXIT_STOPPED, "")
    assert run.verdict.reason.startswith("stopped 2 min 00 s before the end of the allocation (")
    assert run.verdict.cause == "end_of_allocation"
    assert {run.status(name) for name in ("md", "saxs", "keep")} == {"stopped"}, "what they read ended early"


def test_run_whose_work_is_done_in_the_last_minutes_has_succeeded() -> None:
    run = planned().tick(880)
    for stage in ("md", "saxs", "keep"):
        run.feed(*run.done(stage, 8, 881))
    assert (run.verdict.state, run.verdict.exit_code) == ("succeeded", 0)


def test_program_with_a_stop_signal_ends_because_of_it() -> None:
    run = planned(plan=with_stop_signal(chain("sst", run=5000, step=5000, start=5000), "md")).tick(880)
    for stage in ("md", "saxs", "keep"):
        run.feed(*run.done(stage, 8, 881))
    assert run.verdict.state == "stopped"


def test_ctrl_c_is_still_an_interrupt() -> None:
    run = planned().feed(Interrupted(100, "SIGINT"))
    assert run.signals == [(100, ("md", "saxs", "keep"), signal.SIGINT)]
    assert end_all(run, 101).verdict.state == "interrupted"


def test_second_stop_kills() -> None:
    run = planned().tick(880).feed(Interrupted(881, "SIGTERM"))
    assert {number for _, _, number in run.signals} == {signal.SIGKILL}
    assert end_all(run, 881.1).verdict.exit_code == EXIT_STOPPED


def test_failure_comes_before_the_end() -> None:
    run = planned().feed(StageExited(879.9, "md", None, 9)).tick(880)
    assert end_all(run, 880.2).verdict.state == "failed"


def test_stage_that_waits_for_its_turn_does_not_begin() -> None:
    run = Run(chain("after", run=5000, step=5000, start=5000)).feed(StopPlanned(1, 880, 1000)).tick(880)
    run.feed(StageCut(880.2, "md"), *run.done("md", 8, 881))
    assert run.started == ["md"]
    assert run.verdict.state == "stopped"


def allocation(end: float | None) -> Allocation:
    return Allocation("slurm", "12", (Host("n1"),), end)


def asking(grace_s: float | None) -> Plan:
    """A plan for a job that is stopped so long before its end."""
    job = None if grace_s is None else AllocationPlan(scheduler="slurm", nodes=1, walltime_s=3600, grace_s=grace_s)
    return chain("sst").model_copy(update={"allocation": job})


def test_the_end_of_a_job_that_wf_has_submitted_is_known_without_its_scheduler() -> None:
    plan, job = asking(300), JobRecord("slurm", "small-ab12", "12")
    assert with_planned_end(allocation(None), plan, job, 100).end_time == 3700
    (note,) = with_planned_end(allocation(None), plan, job, 100).notes
    assert note == "the end of the job is estimated: the requested walltime of 1 h 00 min, from now on"
    known = allocation(700)
    assert with_planned_end(known, plan, job, 100) is known
    for other in (None, JobRecord("pbs", "small-ab12", "12")):
        assert with_planned_end(allocation(None), plan, other, 100).end_time is None, "its walltime may be another one"
    assert with_planned_end(allocation(None), asking(None), job, 100).end_time is None


def test_when_to_stop() -> None:
    assert plan_stop(asking(None), allocation(None), 100) == []
    assert plan_stop(asking(300), allocation(99), 100) == [], "the scheduler lets it go on"
    assert plan_stop(asking(None), allocation(7300), 100) == [StopPlanned(100, 7180, 7300)]
    assert plan_stop(asking(None), allocation(700), 100) == [StopPlanned(100, 640, 700)]
    assert plan_stop(asking(300), allocation(700), 100) == [StopPlanned(100, 400, 700)]
    assert plan_stop(asking(300), allocation(160), 100) == [StopPlanned(100, 154, 160)], "for a longer job"
    assert [default_grace_s(walltime) for walltime in (60, 1200, 86400)] == [6, 120, 120]


def test_sigterm_that_a_script_passes_on_is_the_same_one() -> None:
    run = planned().feed(Interrupted(100, "SIGTERM")).feed(Interrupted(100.5, "SIGTERM"))
    assert signal.SIGKILL not in {number for _, _, number in run.signals}
    run.feed(Interrupted(103, "SIGTERM"))
    assert signal.SIGKILL in {number for _, _, number in run.signals}
