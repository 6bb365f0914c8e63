"""`wf events` in words: one line for each kind of event."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.sample_run import START, make_plan, write_sample
from workflow.report.build.report_notes import make_notes
from workflow.report.read.run_records import read_records
from workflow.report.show.event_lines import event_line, event_text
from workflow.report.show.live_display import news
from workflow.run.records.events_file import NAMES
from workflow.run.state import events as seen
from workflow.run.state import lifecycle_events as decided
from workflow.run.state.events import Event
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import initial_state

T = START
WORDS: list[tuple[Event, str]] = [
    (seen.RunStarted(T, "sample-1", 1, 7, "n1"), "run sample-1 started on n1, process 7"),
    (seen.ProofTaken(T, "proved", 2, 8, 0.51), "placement proved: 2 nodes, 8 ranks, 0.5 s"),
    (seen.ProofTaken(T, "differs", 2, 8, 0.51, ["a", "b"]), "warning: a; warning: b"),
    (seen.ProofTaken(T, "refused", 2, 8, 0.51, ["a", "b"]), "placement refused: a; b"),
    (seen.AllocationReceived(T, "local", "", 1), "it has 1 host"),
    (
        seen.AllocationReceived(T, "slurm", "12", 2, T + 7200, ["no memory limit"]),
        "slurm job 12: it has 2 hosts for 2 h 00 min; no memory limit",
    ),
    (seen.StageStarted(T, "md", 7), "md: started, 2 ranks, process 7"),
    (seen.StageStarted(T, "unplanned", 7), "unplanned: started, process 7"),
    (seen.StagesRestarted(T, ["md", "saxs"], 2, 12), "md and saxs: attempt 2, from step 12 on"),
    (seen.StepsDropped(T, "atoms", 8), "the spool of atoms keeps step 8 and those after it"),
    (
        seen.SpoolGrows(T, "atoms", "not supported"),
        "warning: the spool of atoms keeps all its steps: the disk space of old ones cannot be freed: not supported",
    ),
    (seen.StageCpu(T, "md", 1.5), "md: 1.50 s of CPU time"),
    (seen.StageCpu(T, "md", 1.5, 0.25), "md: 1.50 s of CPU time, ready without a core for 250 ms"),
    (seen.StreamOpening(T, "atoms", "md", "write"), "atoms: md opens it for writing"),
    (seen.StreamOffered(T, "atoms", "md"), "atoms: md waits for its readers"),
    (seen.StreamTransport(T, "atoms", "md", "evpath", "no RDMA"), "atoms: md uses transport evpath (no RDMA)"),
    (
        seen.TransportFault(T, "md", "misdirected", "odd message"),
        "md: got a message for another process: `odd message`",
    ),
    (seen.StreamOpened(T, "atoms", "saxs", "read"), "atoms: saxs has opened it for reading"),
    (seen.StreamProgress(T, "atoms", "md", "write", 12, 2000), "atoms: md has written 12 steps, 2.00 kB"),
    (seen.StreamTrouble(T, "atoms", "saxs", "timeout", "no step"), "atoms: trouble at saxs (timeout): no step"),
    (seen.StreamHint(T, "atoms", "md", "it opened a.bp"), "atoms: md: it opened a.bp"),
    (seen.StageCut(T, "md"), "md: ends early, because the run is to be stopped"),
    (seen.StreamClosed(T, "atoms", "saxs", "read", 1, True), "atoms: saxs has read 1 step, and closed it"),
    (
        seen.StreamClosed(T, "atoms", "saxs", "read", 0, False),
        "atoms: saxs has read 0 steps, and closed it, before its end",
    ),
    (seen.StageExited(T, "md", 3, None, "no licence"), "md: ended with exit code 3: no licence"),
    (seen.StageExited(T, "md", None, 9), "md: was killed by signal 9 (SIGKILL)"),
    (seen.RanksEnded(T, "md", "exited", "rank 1 exited 3"), "md: its launcher says `rank 1 exited 3`"),
    (
        seen.StageKilled(T, "md", cgroup_kills=0),
        "md: was killed: not for lack of memory, as far as its cgroup tells; the sender of the signal is not known",
    ),
    (seen.StageSuspended(T, "md", True), "md: has been stopped by a signal (SIGSTOP)"),
    (seen.StageSuspended(T, "md", False), "md: has been continued"),
    (seen.NodeSeen(T, 0, "n1"), "node n1 reports"),
    (seen.NodeSilent(T, 0, "n1", 5.2), "node n1 is silent since 5 s"),
    (
        seen.GuardActed(T, "n1", "no heartbeat for 60 s"),
        "warning: the guard on n1 has ended all processes of the run there: no heartbeat for 60 s",
    ),
    (
        seen.LoopPaused(T, 31.0, 30.0),
        "warning: the supervisor was stopped for 31 s (SIGSTOP, or its job was suspended)",
    ),
    (
        seen.NodeLost(T, 0, "n1", 10.0, "md (ranks 0-3)"),
        "node n1 was lost (no sign of life for 10 s); it ran md (ranks 0-3)",
    ),
    (decided.NodeReplaced(T, 0, "n1", 4, "n5"), "node n5, which was spare, takes the place of n1"),
    (seen.NodesUnwatched(T, "n1 has no guard"), "warning: n1 has no guard"),
    (seen.NoRankStarted(T, "md", "mpiexec"), "md: mpiexec has started no rank"),
    (
        seen.FewerWriters(T, "atoms", "md", 1, 2),
        "warning: atoms has 1 writer, and md 2 ranks: what the others have is missing, unless the program itself "
        "gathers it",
    ),
    (
        seen.ProcessesLeft(T, "md", ["sleep"], killed=False),
        "warning: md has ended, 1 process that it started still runs (sleep), to be killed at the end of the run: let "
        "the program wait for what it starts (in a shell, `wait`)",
    ),
    (
        seen.ProcessesLeft(T, "md", ["sleep", "sleep"], killed=True),
        "warning: at the end 2 processes were killed that md had left running (sleep)",
    ),
    (seen.NodeRanks(T, 0, "n1", "md", [(0, 7, "0-3")], "rank 0 of md is on n1"), "warning: rank 0 of md is on n1"),
    (seen.SchedulerSaid(T, "12", "PREEMPTED"), "job 12: the scheduler says `PREEMPTED`"),
    (seen.StopPlanned(T, T + 60, T + 120), "the job ends in 2 min 00 s; the run stops in 60.0 s"),
    (seen.Interrupted(T, "SIGINT"), "interrupted by SIGINT"),
    (seen.Requested(T, "kill", "ada@n1"), "ada@n1 asks to kill the run"),
    (seen.RecordsLost(T, "", "the disk is full"), "warning: the disk is full"),
    (seen.RecordsLost(T, "md", "the disk is full"), "warning: md: the disk is full"),
    (seen.Cleaned(T, ["streams/atoms.sst"]), "cleaned: streams/atoms.sst"),
    (decided.StageOpen(T, "md"), "md: its streams are open"),
    (decided.StageSucceeded(T, "md"), "md: succeeded"),
    (
        decided.StageFailed(T, "saxs", "ended with exit code 1", "md"),
        "saxs: failed: ended with exit code 1 (because of md)",
    ),
    (decided.StageIgnored(T, "tap"), "tap: the others go on without it"),
    (
        decided.StageIgnored(T, "sim-07", ["field-07"], "it failed twice"),
        "sim-07: the others go on without it; it was not started again: it failed twice",
    ),
    (decided.StageStopped(T, "md"), "md: stopped"),
    (
        decided.DeadlinePassed(T, "start", "md waits for saxs", "saxs"),
        "saxs: deadline `start` has passed: md waits for saxs",
    ),
    (decided.DeadlinePassed(T, "run", "after 1 h", ""), "deadline `run` has passed: after 1 h"),
    (decided.DeadlockFound(T, "md waits for itself", "md"), "md: deadlock: md waits for itself"),
    (
        decided.StageSilent(T, "md", T - 600, "saxs waits for md"),
        "warning: no step for 10 min 00 s: saxs waits for md",
    ),
    (
        seen.SteeringAsked(T, "1", "md", {"feed": 0.04, "on": True}, "ada@n1", 400),
        "md: ada@n1 asks for feed=0.04, on=true at step 400",
    ),
    (
        seen.StageSteered(T, "1", "md", 57, {"feed": 0.03}, {"feed": 0.04}, "stage saxs"),
        "md: feed 0.03 → 0.04 from step 57 on, by stage saxs",
    ),
    (
        seen.SteeringRefused(T, "1", "md", {"feed": 9.0}, "ada@n1", "step 3 has passed"),
        "md: refuses feed=9.0, asked for by ada@n1: step 3 has passed",
    ),
    (decided.CheckpointRequested(T, "md"), "md: is asked for a checkpoint"),
    (
        decided.RestartDecided(T, "saxs", ["saxs", "keep"], "ended with exit code 1", 5, T + 2),
        "saxs: ended with exit code 1; it is started again in 2.00 s, together with keep",
    ),
    (decided.StopRequested(T, "md failed", "md"), "stopping all stages: md failed"),
    (decided.RunFinished(T, "succeeded", 0, "", ""), "the run succeeded"),
    (decided.RunFinished(T, "interrupted", 130, "Ctrl-C", ""), "the run was interrupted: Ctrl-C"),
]


@pytest.mark.parametrize(("event", "words"), WORDS, ids=[NAMES[type(event)] for event, _ in WORDS])
def test_an_event_in_words(event: Event, words: str) -> None:
    assert event_text(event, make_plan()) == words


def test_every_event_that_is_kept_has_words() -> None:
    assert {type(event) for event, _ in WORDS} == {kind for kind in NAMES if kind.stored}


def test_an_event_is_one_line_with_the_time_since_the_start() -> None:
    trouble = seen.StreamTrouble(T + 2.25, "atoms", "saxs", "other", "two\nlines \x1b[31mred")
    assert event_line(trouble, T, make_plan()) == "     2.2 s  atoms: trouble at saxs (other): two lines [31mred"


def test_the_progress_of_a_run_has_the_same_words() -> None:
    happened: list[Event] = [
        seen.RunStarted(T, "sample", 1, 1, "n1"),
        seen.StageStarted(T + 1, "md", 7),
        decided.StageOpen(T + 2, "md"),
        seen.RecordsLost(T + 3, "md", "the disk is full"),
        seen.NodeSilent(T + 4, 0, "n1", 12.0),
    ]
    after = fold(initial_state(make_plan()), happened)
    assert news(None, after) == [(event.t, event_text(event, make_plan())) for event in happened[1:]]


@dataclass(frozen=True)
class ItRains(seen.RunWarning):
    """A warning that nothing else knows of."""

    text: str = "it rains"


def test_a_new_warning_needs_only_its_text(tmp_path: Path) -> None:
    warned = ItRains(T + 3)
    after = fold(initial_state(make_plan()), [seen.RunStarted(T, "sample", 1, 1, "n1"), warned])
    assert after.warnings == (warned,)
    assert event_text(warned, make_plan()) == "warning: it rains"
    assert news(None, after) == [(T + 3, "warning: it rains")]
    records = read_records(write_sample(tmp_path / "run"))
    assert "it rains" in make_notes(replace(records, state=after), [])
