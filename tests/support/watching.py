"""Running a plan while watching it: hurt it when a condition is met, then see how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.chains import write_run
from workflow.engines import CONTACT_SUFFIXES
from workflow.plan.plan_model import Plan
from workflow.run.processes.process_reaper import find_members
from workflow.run.records.events_file import read_events
from workflow.run.state.events import Event, RunStarted
from workflow.run.state.lifecycle_events import DeadlinePassed, RunFinished
from workflow.run.state.run_state import RunState
from workflow.run.supervisor import supervise

Condition = Callable[[RunState, Path], bool]
# Longer than any deadline of these plans: a run that meets it hangs.
LONGEST_S = 150.0
# From a fault to the verdict that names it: the promise of docs/how-to/when-a-node-dies.md.
NAMED_WITHIN_S = 20.0


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `hurt`: when it was hurt, in seconds of the monotonic clock."""

    run_dir: Path
    state: RunState
    hurt: float | None = None

    @property
    def verdict(self) -> RunFinished:
        assert self.state.finished is not None
        return self.state.finished

    def events(self) -> list[Event]:
        return list(read_events(self.run_dir))

    def passed_deadlines(self) -> list[str]:
        """The deadlines that passed. A run that ends by what befell it has none, however slow the machine is."""
        return [event.deadline for event in self.events() if isinstance(event, DeadlinePassed)]

    def reaction_s(self) -> float:
        """Seconds from when it was hurt to its verdict, by the supervisor's clock."""
        assert self.hurt is not None
        (offset_s,) = [event.clock_offset_s for event in self.events() if isinstance(event, RunStarted)]
        return self.verdict.t - (self.hurt + offset_s)

    def assert_tidy(self) -> None:
        assert find_members(str(self.run_dir)) == set(), "processes are left"
        left = [path for path in (self.run_dir / "streams").glob("*") if path.suffix in CONTACT_SUFFIXES]
        assert not left, "contact files are left"
        for index in self.run_dir.rglob("md.idx"):
            assert index.read_bytes()[39] == 0, f"{index} looks as if it still grew"


def run_and_hurt(plan: Plan, folder: Path, when: Condition, hurt: Callable[[RunState], object]) -> Outcome:
    """Run the plan to its end; once `when` holds, `hurt` it, once."""
    run_dir = write_run(plan, folder)
    begin, hurt_at, state = time.monotonic(), None, None
    with contextlib.closing(supervise(run_dir)) as states:
        for state in states:
            if hurt_at is None and state.finished is None and when(state, run_dir):
                hurt_at = time.monotonic()
                hurt(state)
            assert time.monotonic() - begin < LONGEST_S, f"hangs: {describe(state, run_dir)}"
    assert state is not None
    assert hurt_at is not None, f"the condition was never met: {describe(state, run_dir)}"
    return Outcome(run_dir, state, hurt_at)


def run_whole(plan: Plan, folder: Path) -> Outcome:
    """Run the plan to its end."""
    return run_and_hurt(plan, folder, lambda state, _: state.started is not None, lambda _: None)


def describe(state: RunState, run_dir: Path) -> str:
    """For the message of a failed assertion."""
    logs = [(path.parent.name, path.read_text(errors="replace")[-400:]) for path in run_dir.glob("stages/*/stderr.log")]
    return f"{ {name: stage.status for name, stage in state.stages.items()} } {state.finished} {logs}"


def held(name: str) -> Condition:
    """The program of that stage has stopped where it was told to."""
    return lambda state, run_dir: state.stages[name].runs and (run_dir / "stages" / name / "work" / "held").exists()


def stepped(name: str, steps: int) -> Condition:
    """Some stream of that stage has come so far."""
    return lambda state, _: state.stages[name].runs and any(end.steps >= steps for end in state.ends_of(name))


def kill(name: str, number: int = signal.SIGKILL) -> Callable[[RunState], object]:
    """Send a signal to the process of a stage."""

    def hurt(state: RunState) -> None:
        pid = state.stages[name].pid
        assert pid is not None
        os.kill(pid, number)

    return hurt


def guards(supervisor: int) -> list[int]:
    """The shells below a supervisor that end the run when it dies."""
    tasks = Path(f"/proc/{supervisor}/task").glob("*/children")
    children = [int(pid) for task in tasks for pid in task.read_text().split()]
    found = [pid for pid in children if "while read -r" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert found, "no guard was found"
    return found
