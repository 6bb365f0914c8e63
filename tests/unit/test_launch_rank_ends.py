"""What srun and slurmstepd print when ranks end badly: lines of real runs of Slurm 22.05."""

from __future__ import annotations

import signal

import pytest

from workflow.launch.launchers import LAUNCHERS
from workflow.launch.rank_ends import EndCause, RankEnd, find_ends, signal_number
from workflow.run.processes.stage_processes import Ending, by_first_end
from workflow.run.state.events import RanksEnded

# srun ends the other ranks (--kill-on-bad-exit), and exits with the highest code of all: 143, SIGTERM.
KILLED = """\
srun: error: n2: task 1: Killed
srun: launch/slurm: _step_signal: Terminating StepId=1.0
slurmstepd-n2: error: *** STEP 1.0 ON n2 CANCELLED AT 2026-11-22T07:36:58 ***
srun: error: n2: task 0: Terminated
srun: error: n3: tasks 2-3: Terminated
srun: Force Terminated StepId=1.0
"""
# `scancel 1.5`
CANCELLED = """\
srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
slurmstepd: error: *** STEP 1.5 ON n2 CANCELLED AT 2026-11-22T07:37:03 ***
srun: error: n3: tasks 2-3: Killed
srun: launch/slurm: _step_signal: Terminating StepId=1.5
srun: error: n2: tasks 0-1: Killed
"""


def ends(text: str) -> list[RankEnd]:
    return find_ends(text, LAUNCHERS["srun"].end_patterns)


def first(text: str) -> tuple[EndCause, str, str, int | None]:
    end = ends(text)[0]
    return end.cause, end.host, end.ranks, end.number


def test_rank_that_was_killed_comes_before_those_that_srun_has_ended() -> None:
    assert [(end.cause, end.host, end.ranks, end.number) for end in ends(KILLED)] == [
        ("killed", "n2", "1", signal.SIGKILL),
        ("cancelled", "n2", "", None),
        ("killed", "n2", "0", signal.SIGTERM),
        ("killed", "n3", "2-3", signal.SIGTERM),
    ]


def test_rank_that_was_killed_in_the_middle_of_a_line() -> None:
    cut = "mpi_dp priority=0 since: Heuristics determined poor compatibility."
    assert ends(cut + KILLED) == ends(KILLED)


def test_step_that_was_cancelled_says_so_before_its_ranks_end() -> None:
    assert first(CANCELLED) == ("cancelled", "n2", "", None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("srun: error: n2: task 1: Segmentation fault", ("killed", "n2", "1", signal.SIGSEGV)),
        ("srun: error: n2: task 1: Aborted (core dumped)", ("killed", "n2", "1", signal.SIGABRT)),
        ("srun: error: n[1-2]: tasks 0,3: Exited with exit code 12", ("exited", "n[1-2]", "0,3", 12)),
        ("srun: error: n2: task 1: Out Of Memory", ("out_of_memory", "n2", "1", None)),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0 cgroup. Some of your processes may have",
            ("out_of_memory", "", "", None),
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed.",
            ("out_of_memory", "", "", None),
        ),
        (
            "slurmstepd-n2: error: *** STEP 1.6 ON n2 CANCELLED AT 2026-11-22T07:38:31 DUE TO TIME LIMIT ***",
            ("time_limit", "n2", "", None),
        ),
        ("slurmstepd: error: *** STEP 1.6 ON n2 CANCELLED AT x DUE TO PREEMPTION ***", ("preempted", "n2", "", None)),
        ("slurmstepd: error: *** STEP 1.6 ON n2 CANCELLED AT x DUE TO JOB REQUEUE ***", ("requeued", "n2", "", None)),
        ("srun: error: *** STEP 1.6 ON n2 CANCELLED AT x DUE TO NODE FAILURE ***", ("node_lost", "n2", "", None)),
        ("srun: error: Node failure on n2", ("node_lost", "n2", "", None)),
        (
            "srun: error: Unable to create step for job 1: Requested nodes are busy",
            ("not_started", "", "", None),
        ),
    ],
)  # fmt: skip
def test_each_line_is_understood(line: str, expected: tuple[EndCause, str, str, int | None]) -> None:
    assert first(f"a line of the program\n{line}\n") == expected
    assert ends(line)[0].words == line


@pytest.mark.parametrize(
    "line",
    [
        "srun: Force Terminated StepId=1.0",
        "srun: interrupt (one more within 1 sec to abort)",
        "slurmstepd: error: execve(): /nonexist: No such file or directory",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert ends(line) == []


def test_signals_are_known_by_their_descriptions() -> None:
    assert signal_number("Killed") == signal.SIGKILL
    assert signal_number("Bus error (core dumped)") == signal.SIGBUS
    assert signal_number("Something else") is None


@pytest.mark.parametrize(
    ("ending", "said", "expected"),
    [
        (Ending(143, 15), ("killed", 9), Ending(143, 9)),
        (Ending(143, 15), ("exited", 3), Ending(3, None)),
        (Ending(137, 9), ("cancelled", None), Ending(137, 9)),
        (Ending(0, None), ("killed", 9), Ending(0, None)),
        (Ending(1, None), None, Ending(1, None)),
    ],
)
def test_exit_code_of_a_launcher_is_that_of_the_rank_that_ended_first(
    ending: Ending, said: tuple[EndCause, int | None] | None, expected: Ending
) -> None:
    event = None if said is None else RanksEnded(1.0, "md", said[0], "words", number=said[1])
    assert by_first_end(ending, event) == expected
