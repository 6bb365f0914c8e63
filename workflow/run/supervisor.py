"""The process that starts the stages of a run, watches them and stops them: the loop around the lifecycle.

`python -m workflow.run.supervisor RUN_DIR` supervises a run whose directory has been written.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from workflow.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_RUN_FAILED, RunError, WfError
from workflow.launch.process_spec import make_process
from workflow.plan.launch_requests import stage_request
from workflow.plan.plan_model import Plan
from workflow.run.cleanup import clean
from workflow.run.events import (
    Cleaned,
    Event,
    EventLog,
    Interrupted,
    RunFinished,
    RunStarted,
    StageExited,
    StageStarted,
    Tick,
)
from workflow.run.lifecycle import Action, End, Finish, Record, Signal, Start, step, wake_at
from workflow.run.observe.progress_readers import Follower
from workflow.run.processes.mpmd_launches import MpmdLaunches
from workflow.run.processes.signals import Signals
from workflow.run.processes.stage_processes import NOT_STARTED, Crew, Ending
from workflow.run.run_directory import has_started, read_filled_plan, stage_dir
from workflow.run.state import RunState, initial_state

POLL_S = 0.25
SHOW_S = 0.5


def supervise(run_dir: Path, hosts: Sequence[str] = ()) -> Generator[RunState, None, None]:
    """Run the plan in `run_dir` to its end; yield the state after every change, the last with the verdict.

    `hosts` are those of the allocation, by the plan's node index; without them launch lines name no host.
    Ctrl-C, SIGTERM and SIGHUP stop the run in order, a second one at once; where this is not the main
    thread they are left alone. A caller that stops iterating ends the run at once. Raises RunError when
    the directory cannot be used.
    """
    run_dir = run_dir.absolute()
    plan = read_filled_plan(run_dir)
    if has_started(run_dir):
        raise RunError(f"{run_dir}: this run has been started before", "start a new one: wf run PIPELINE")
    with Signals() as signals, Crew(run_dir) as crew:
        watch = _Watch(run_dir, plan, hosts, signals, crew)
        reason = "the caller left"
        try:
            yield from watch.run()
        except Exception as error:
            reason = f"the supervisor failed: {error}"
            raise
        finally:
            watch.close(reason)


class _Watch:
    """One run under supervision."""

    def __init__(self, run_dir: Path, plan: Plan, hosts: Sequence[str], signals: Signals, crew: Crew) -> None:
        self.run_dir, self.plan, self.hosts, self.signals, self.crew = run_dir, plan, hosts, signals, crew
        self.state = initial_state(plan)
        self.log = EventLog(run_dir)
        self.followers: dict[str, Follower] = {}
        self.launches = MpmdLaunches(plan, run_dir, hosts)
        self.events: deque[Event] = deque()
        self.polled = 0.0
        crew.watch(signals.descriptor)

    def run(self) -> Iterator[RunState]:
        """Events until the verdict."""
        self.events.append(
            RunStarted(time.time(), self.run_dir.name, self.plan.plan_version, os.getpid(), socket.gethostname())
        )
        shown = 0.0
        while True:
            changed = self.take_events()
            now = time.time()
            if changed or now - shown >= SHOW_S:
                shown = now
                yield self.state
            if self.state.finished is not None:
                return
            self.listen()

    def close(self, reason: str) -> None:
        """End what was left behind in the middle, and say why."""
        if self.state.finished is None:
            self.finish(RunFinished(time.time(), "interrupted", EXIT_INTERRUPTED, reason, ""))
            self.take_events()
        self.log.close()

    def take_events(self) -> bool:
        """Bring all that happened into the state and do what follows. Returns whether anything changed."""
        changed = False
        while self.events:
            event = self.events.popleft()
            self.write(event)
            self.state, actions = step(self.state, event)
            changed = changed or not isinstance(event, Tick) or bool(actions)
            for action in actions:
                self.perform(action)
        return changed

    def perform(self, action: Action) -> None:
        """Do one thing that the lifecycle asks for."""
        match action:
            case Start(stage=name):
                self.start(name)
            case Signal(stages=stages, number=number):
                launches = [self.launches.of(name) for name in stages]
                lines = {launch.process.name for launch in launches if launch is not None}
                self.crew.signal([*lines, *stages], number)
            case End(stage=name):
                self.crew.end(name, stage_dir(self.run_dir, name))
            case Record(event=event):
                self.write(event)
            case Finish(event=event):
                self.finish(event)

    def start(self, name: str) -> None:
        """Start a stage; that this failed is an event as well."""
        stage, folder = self.plan.stage(name), stage_dir(self.run_dir, name)
        launch = self.launches.of(name)
        process = launch.process if launch else make_process(stage_request(stage, str(folder), self.hosts))
        try:
            if launch is None:
                pid = self.crew.start(process)
            else:
                launch.pid = pid = launch.pid or self.crew.start(process)
        except OSError as error:
            text = f"cannot start {process.argv[0]}: {error.strerror}"
            with (folder / "stderr.log").open("a") as file:
                file.write(f"wf: {text}\n")
            self.events.append(StageExited(time.time(), name, NOT_STARTED, None, text))
            return
        self.followers[name] = Follower(stage, folder)
        self.events.append(StageStarted(time.time(), name, pid))

    def listen(self) -> None:
        """Sleep until something happens; turn it into events."""
        now = time.time()
        due = min(self.polled + POLL_S, wake_at(self.state) or now + POLL_S)
        ended = self.crew.wait(due - now)
        now = time.time()
        self.events += [Interrupted(now, name) for name in self.signals.take()]
        if ended or now - self.polled >= POLL_S:
            self.poll(now, ended)
        self.events.append(Tick(now))

    def poll(self, now: float, ended: list[str]) -> None:
        """Look at the files of all stages, then tell of those that ended: counts come before exits."""
        self.polled = now
        self.crew.end_lost(now)
        for name in set(self.followers) - set(ended):
            self.events += self.followers[name].poll(now)
        for stage, ending in self.launches.poll():
            self.tell_end(now, stage, ending)
        for name in ended:
            launch = self.launches.named(name)
            ending = self.crew.collect(name, launch.process.folder if launch else stage_dir(self.run_dir, name))
            for stage, its in launch.last(self.run_dir, ending) if launch else [(name, ending)]:
                self.tell_end(now, stage, its)

    def tell_end(self, now: float, stage: str, ending: Ending) -> None:
        """A stage has ended: what it did until then, and how it ended."""
        succeeded = ending.code == 0 and ending.signal is None
        self.events += self.followers.pop(stage).last(now, succeeded)
        self.events.append(StageExited(now, stage, ending.code, ending.signal, ending.note))

    def finish(self, verdict: RunFinished) -> None:
        """End all that is left, tidy up, and bring the verdict."""
        left = self.crew.end_all()
        cleaned = clean(self.run_dir, self.plan)
        now = time.time()
        self.events.clear()
        if cleaned:
            self.events.append(Cleaned(now, cleaned))
        stuck = f"; processes {sorted(left)} cannot be killed" if left else ""
        self.events.append(RunFinished(now, verdict.state, verdict.exit_code, verdict.reason + stuck, verdict.stage))

    def write(self, event: Event) -> None:
        """Append an event to the run's file; that this failed is an event as well."""
        self.log.write(event)
        if (problem := self.log.take_problem()) is not None:
            self.events.append(problem)


def main(arguments: list[str]) -> int:
    """Supervise the run in the directory given; the exit code is the run's."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m workflow.run.supervisor RUN_DIR\n")
        return EXIT_BAD_INPUT
    try:
        states = list(deque(supervise(Path(arguments[0])), maxlen=1))
    except WfError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return states[-1].finished.exit_code if states and states[-1].finished else EXIT_RUN_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
