"""What else goes wrong: quiet ends, silence, ranks, launchers, stubborn and hidden processes."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.support.chains import chain, make_plan, make_stage, write_run
from tests.support.watching import NAMED_WITHIN_S, Outcome, describe, held, kill, run_and_hurt, run_whole
from workflow.plan.plan_model import Plan
from workflow.run.processes.process_reaper import find_members, shared_memory
from workflow.run.state.lifecycle_events import DeadlinePassed
from workflow.run.state.run_state import RunState
from workflow.run.supervisor import supervise

STUBBORN = """
import pathlib, signal, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
pathlib.Path("held").touch()
time.sleep(100)
"""


def check_failed(outcome: Outcome, stage: str, *words: str) -> None:
    story = describe(outcome.state, outcome.run_dir)
    assert (outcome.verdict.state, outcome.verdict.exit_code) == ("failed", 1), story
    assert outcome.verdict.stage == stage, story
    for word in words:
        assert word in outcome.verdict.reason, story
    outcome.assert_tidy()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("md", ["exit code 0", "left atoms without closing it", "writing 5 steps"]),
        ("saxs", ["exit code 0", "without closing it"]),
        ("keep", ["exit code 0", "left pattern without closing it, reading"]),
    ],
)
def test_exit_0_with_an_unfinished_stream_fails(stage: str, words: list[str], plain: bool, tmp_path: Path) -> None:
    plan = chain("sst", plain=plain, steps=50, options={stage: ["--exit", "step:5:0"]})
    check_failed(run_whole(plan, tmp_path), stage, *words)


def test_unfinished_file_fails_its_writer(tmp_path: Path) -> None:
    plan = chain("after", plain=True, steps=9, options={"md": ["--exit", "step:5:0"]})
    outcome = run_whole(plan, tmp_path)
    check_failed(outcome, "md", "left atoms without closing it, writing 5 steps")
    assert "streams/atoms.bp" in outcome.state.cleaned, "the file was not marked as ended"
    assert outcome.state.stages["saxs"].started is None


@pytest.mark.parametrize("plain", [False, True])
def test_exit_code_of_the_stage_at_fault(plain: bool, tmp_path: Path) -> None:
    outcome = run_whole(chain("sst", plain=plain, steps=50, options={"saxs": ["--exit", "step:5:3"]}), tmp_path)
    check_failed(outcome, "saxs", "saxs ended with exit code 3")


def test_writer_that_fails_is_at_fault_and_not_its_readers(tmp_path: Path) -> None:
    outcome = run_whole(chain("sst", steps=50, options={"md": ["--exit", "step:5:4"]}), tmp_path)
    check_failed(outcome, "md", "md ended with exit code 4")


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("md", [": md has run for", "has not opened atoms"]),
        ("saxs", [": md waits in open for saxs to open atoms; saxs has run for", "has not opened atoms, pattern"]),
        ("keep", [": keep has run for", "has not opened pattern"]),
    ],
)
def test_start_deadline_names_who_never_opened(stage: str, words: list[str], tmp_path: Path) -> None:
    outcome = run_whole(chain("sst", steps=50, options={stage: ["--hold", "open"]}, start=3), tmp_path)
    check_failed(outcome, stage, "streams not open within 3 s", *words)
    assert any(isinstance(event, DeadlinePassed) and event.deadline == "start" for event in outcome.events())


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("stage", ["md", "saxs", "keep"])
def test_step_deadline_names_who_is_silent(stage: str, plain: bool, tmp_path: Path) -> None:
    plan = chain("sst", plain=plain, steps=50, options={stage: ["--hold", "step:5"]}, step=1.5)
    check_failed(run_whole(plan, tmp_path), stage, "no step for 1.5 s", f"{stage} has been computing for")


def own_program(way: str, step_timeout_s: float = 60, step: float = 60) -> Plan:
    """md → saxs → keep, where saxs is a program of the user's own whose steps SST's log does not show."""
    plan = chain("sst", steps=50, options={"saxs": ["--hold", way]}, start=3, step=step)
    ends = [[end.model_copy(update={"step_timeout_s": step_timeout_s}) for end in stage.ends] for stage in plan.stages]
    stages = [stage.model_copy(update={"ends": own}) for stage, own in zip(plan.stages, ends, strict=True)]
    stages[1] = stages[1].model_copy(update={"observed": "evidence"})
    return plan.model_copy(update={"stages": stages})


def test_own_program_that_never_opens_is_named_and_not_who_waits_for_it(tmp_path: Path) -> None:
    outcome = run_whole(own_program("open"), tmp_path)
    check_failed(outcome, "saxs", "md waits in open for saxs to open atoms", "has not opened atoms")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"step": 1.5}, "no step for 1.5 s"),  # the supervisor's limit passes
        ({"step_timeout_s": 1.5}, "stream pattern: no new step within 1.5 s, after 4 steps"),  # that of its reader
    ],
    ids=["supervisor", "reader"],
)
def test_own_program_that_uses_workflow_stage_is_seen_step_by_step(
    limits: dict[str, float], words: str, tmp_path: Path
) -> None:
    outcome = run_whole(own_program("step:4", **limits), tmp_path)
    check_failed(outcome, "saxs", words, "saxs has been computing for")
    assert outcome.state.steps("pattern") == (4, {"keep": 4})
    assert {name: stage.status for name, stage in outcome.state.stages.items()} == {
        "md": "stopped", "saxs": "failed", "keep": "stopped",
    }  # fmt: skip


@pytest.mark.parametrize("victim", ["rank", "launcher", "all"])
def test_killed_ranks_leave_no_shared_memory(victim: str, tmp_path: Path) -> None:
    plan = chain("sst", ranks=2, steps=50, options={"md": ["--hold", "step:5", "--rank", "1"]})
    shared: set[str] = set()

    def hurt(state: RunState) -> None:
        rank, launcher = int((tmp_path / "run/stages/md/work/held").read_text()), state.stages["md"].pid
        shared.update(shared_memory([rank]))
        if victim == "all":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            os.kill(rank if victim == "rank" else launcher or 0, signal.SIGKILL)

    run_and_hurt(plan, tmp_path, held("md"), hurt)
    assert shared, "MPICH has put its shared memory elsewhere"
    assert [path for path in shared if Path(path).exists()] == []


def test_run_deadline(tmp_path: Path) -> None:
    outcome = run_whole(make_plan([make_stage("md", ["sleep", "100"])], run=1), tmp_path)
    check_failed(outcome, "md", "not done within 1 s")


def test_killed_rank_fails_its_stage(tmp_path: Path) -> None:
    plan = chain("sst", ranks=2, steps=50, options={"md": ["--hold", "step:5", "--rank", "1"]})

    def hurt(_: RunState) -> None:
        os.kill(int((tmp_path / "run/stages/md/work/held").read_text()), signal.SIGKILL)

    outcome = run_and_hurt(plan, tmp_path, held("md"), hurt)
    check_failed(outcome, "md", "killed by signal 9 (SIGKILL): one of its ranks")
    assert outcome.passed_deadlines() == [] and outcome.reaction_s() < NAMED_WITHIN_S


def test_killed_launcher_takes_its_ranks_along(tmp_path: Path) -> None:
    plan = chain("sst", ranks=2, steps=50, options={"md": ["--hold", "step:5"]})
    outcome = run_and_hurt(plan, tmp_path, held("md"), kill("md"))
    launcher = outcome.state.stages["md"].pid
    check_failed(outcome, "md", "killed by signal 9", f"its launcher (mpiexec, process {launcher}) was killed")
    assert outcome.passed_deadlines() == [] and outcome.reaction_s() < NAMED_WITHIN_S


def test_killed_proxy_of_the_launcher_fails_its_stage(tmp_path: Path) -> None:
    plan = chain("sst", ranks=2, steps=50, options={"md": ["--hold", "step:5"]})

    def hurt(state: RunState) -> None:
        pid = state.stages["md"].pid
        proxy = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        os.kill(int(proxy), signal.SIGKILL)

    outcome = run_and_hurt(plan, tmp_path, held("md"), hurt)
    check_failed(outcome, "md", "its launcher had lost its ranks")
    assert outcome.passed_deadlines() == [] and outcome.reaction_s() < NAMED_WITHIN_S


def test_program_that_is_not_there(tmp_path: Path) -> None:
    plan = make_plan([make_stage("md", ["/no/such/program"]), make_stage("other", ["sleep", "100"])])
    outcome = run_whole(plan, tmp_path)
    check_failed(outcome, "md", "exit code 127", "cannot start /no/such/program: No such file or directory")
    assert outcome.state.stages["other"].status == "stopped"


def stubborn_plan() -> Plan:
    return make_plan([make_stage("deaf", [sys.executable, "-c", STUBBORN]), make_stage("md", ["sleep", "100"])], stop=1)


def test_stage_that_ignores_signals_is_killed(tmp_path: Path) -> None:
    outcome = run_and_hurt(stubborn_plan(), tmp_path, held("deaf"), kill("md"))
    check_failed(outcome, "md")
    deaf = outcome.state.stages["deaf"]
    assert deaf.signal == signal.SIGKILL
    assert deaf.exited is not None and outcome.state.stopping is not None
    assert deaf.exited - outcome.state.stopping >= 1, "killed before the deadline of the stop"


@pytest.mark.parametrize(
    "command",
    [
        "sleep 100 & sleep 100",
        "setsid sleep 100 & sleep 100",
        "env -i sleep 100 & sleep 100",
        "(setsid sh -c 'sleep 100 & sleep 100' &) ; sleep 100",
    ],
)
def test_hidden_processes_end_with_the_run(command: str, tmp_path: Path) -> None:
    plan = make_plan([make_stage("shell", ["sh", "-c", command + "; : " + shlex.quote(str(tmp_path))])])

    def members(state: RunState, run_dir: Path) -> set[int]:
        return find_members(str(run_dir), [state.stages["shell"].pid or 0])

    outcome = run_and_hurt(plan, tmp_path, lambda state, run_dir: len(members(state, run_dir)) >= 3, kill("shell"))
    check_failed(outcome, "shell")
    assert members(outcome.state, outcome.run_dir) == set()


def test_caller_that_stops_iterating_ends_the_run(tmp_path: Path) -> None:
    run_dir = write_run(make_plan([make_stage("md", ["sleep", "100"])]), tmp_path)
    states = supervise(run_dir)
    assert any(state.stages["md"].runs for state in states)
    states.close()
    assert find_members(str(run_dir)) == set()
    assert '"interrupted"' in (run_dir / "events.jsonl").read_text().splitlines()[-1]
