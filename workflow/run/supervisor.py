"""The process that starts the stages of a run, watches them and stops them: the loop around the lifecycle.

`python -m workflow.run.supervisor RUN_DIR` supervises a run whose directory has been written.

The loop runs in a thread of its own: whoever shows the run may be as slow as a terminal that accepts no output.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_RUN_FAILED, RunError, WfError, to_message
from workflow.formats.rank_files import NOT_STARTED
from workflow.formats.stop_file import write_stop_file
from workflow.launch.allocation import Allocation
from workflow.launch.process_spec import make_process
from workflow.messages import to_text
from workflow.plan.allocation_check import allocation_problems
from workflow.plan.launch_requests import stage_request
from workflow.plan.plan_model import Plan
from workflow.run.actions import (
    Action,
    AskScheduler,
    FinishRun,
    KillStage,
    RecordEvent,
    SignalStages,
    StartStage,
    TellStages,
)
from workflow.run.cleanup import clean
from workflow.run.clock import Clock, bring_between
from workflow.run.control_requests import ControlRequests
from workflow.run.decided_events import RunFinished
from workflow.run.events import (
    AllocationReceived,
    Cleaned,
    Event,
    Interrupted,
    RecordsLost,
    Requested,
    RunStarted,
    SchedulerSaid,
    StageCpu,
    StageExited,
    StageKilled,
    StageStarted,
    Tick,
)
from workflow.run.events_file import EventLog
from workflow.run.failed_start import record_failed_start, was_taken
from workflow.run.job_end import with_planned_end
from workflow.run.job_record import read_job
from workflow.run.lease import Heartbeat
from workflow.run.lifecycle import step, wake_at
from workflow.run.newest_state import NewestState
from workflow.run.nodes.node_guard import node_name
from workflow.run.observe.file_visibility import visibility_s
from workflow.run.observe.progress_readers import Follower
from workflow.run.processes.cpu_time import CpuSchedule
from workflow.run.processes.mpmd_launches import MpmdLaunches
from workflow.run.processes.scheduler_question import SchedulerQuestion
from workflow.run.processes.signals import Signals
from workflow.run.processes.stage_processes import Crew, Ending, by_first_end
from workflow.run.proof.proof_need import must_prove
from workflow.run.received import receive
from workflow.run.run_directory import ALLOCATION_FILE, has_started, read_filled_plan, stage_dir
from workflow.run.state import RunState, initial_state
from workflow.run.state_reducer import apply
from workflow.run.stop_ladder import plan_stop
from workflow.run.verdict.end_causes import first_end
from workflow.site.allocation.discover import discover_allocation

if TYPE_CHECKING:
    from workflow.run.nodes.node_guards import NodeGuards
    from workflow.run.proof.prove import Prover
    from workflow.run.proof.rank_watch import RankWatch

# How often the files of a stage are read, and how many stages a second at most: of 1,000 stages each once a second.
POLL_S = 0.25
POLLS_PER_S = 1000
SHOW_S = 0.5
# How often requests to the supervisor are read: each time the file is opened anew.
CONTROL_S = 1.0


def supervise(run_dir: Path, allocation: Allocation | None = None) -> Generator[RunState, None, None]:
    """Run the plan in `run_dir` to its end; yield the newest state whenever there is one, the last with the verdict.

    `allocation` has the hosts by the plan's node index; without it that of this process is found.
    The run goes on while the caller works on a state: it then misses states, never the last one. Ctrl-C, SIGTERM
    and SIGHUP stop the run in order, a second one at once; where this is not the main thread they are left alone. So
    does a request in control.jsonl. A caller that closes the generator ends the run at once. Raises RunError when the
    directory cannot be used. A plan that does not fit the allocation fails before any stage starts.
    """
    run_dir = run_dir.absolute()
    plan = read_filled_plan(run_dir)
    received = _received() if allocation is None else allocation
    if has_started(run_dir):
        raise RunError(f"{run_dir}: this run has been started before", "start a new one: wf run PIPELINE")
    received = with_planned_end(received, plan, read_job(run_dir), time.time())
    with Heartbeat(run_dir), Signals() as signals:
        newest = NewestState()
        # A daemon: a caller that drops the generator must be able to exit; the run's guard then ends the stages.
        work = (run_dir, plan, received, signals, newest)
        thread = threading.Thread(target=_work, args=work, name="supervisor", daemon=True)
        thread.start()
        try:
            yield from newest.states()
        finally:
            newest.leave()
            thread.join()
            newest.close()
            if newest.error is not None:  # also when the caller closes the generator
                raise newest.error


def _received() -> Allocation:
    """The allocation of this process; one without hosts where they are not known, with the reason in its notes."""
    try:
        return discover_allocation()
    except WfError as error:
        return Allocation("local", "", (), notes=(error.message,))


def _work(run_dir: Path, plan: Plan, allocation: Allocation, signals: Signals, newest: NewestState) -> None:
    """The thread that supervises."""
    try:
        with Crew(run_dir, len(plan.stages)) as crew:
            watch = _Watch(run_dir, plan, allocation, signals, crew, newest)
            reason = "the caller left"
            try:
                watch.run()
            except Exception as error:
                reason = f"the supervisor failed: {error}"
                raise
            finally:
                watch.close(reason)
    except Exception as error:
        newest.error = error
    finally:
        signals.release()
        newest.end()


class _Watch:
    """One run under supervision."""

    def __init__(
        self, run_dir: Path, plan: Plan, allocation: Allocation, signals: Signals, crew: Crew, newest: NewestState
    ) -> None:
        self.run_dir, self.plan, self.allocation = run_dir, plan, allocation
        self.placed = receive(plan, allocation)
        self.signals, self.crew, self.newest = signals, crew, newest
        self.clock = Clock()
        self.state = initial_state(plan)
        self.log = EventLog(run_dir)
        self.followers: dict[str, Follower] = {}
        self.turns: deque[str] = deque()  # the stages, the one whose files were read longest ago first
        self.read: dict[str, float] = {}  # stage → when its files were read
        self.leaving: dict[str, tuple[float, Ending]] = {}  # ended stages whose last records are not visible yet
        self.launches = MpmdLaunches(plan, run_dir, self.placed)
        self.guards = self.make_guards()
        self.scheduler = SchedulerQuestion(allocation.source, allocation.job)
        self.prover = self.make_prover()
        self.rank_watch: RankWatch | None = None  # once the placement was proved
        self.cpu = CpuSchedule(sum(stage.observed == "evidence" for stage in plan.stages))
        self.events: list[Event] = []
        self.polled = -math.inf
        self.requests = ControlRequests(run_dir)
        self.asked = -math.inf
        crew.watch(signals.descriptor)
        crew.watch(newest.left)
        if self.prover is not None:
            crew.watch(self.prover.finished)

    @cached_property
    def visibility_s(self) -> float:
        """How long records may take to become visible."""
        return visibility_s(self.run_dir)

    def make_guards(self) -> NodeGuards | None:
        """What watches the other nodes of the allocation; None without a batch job, in which there are none."""
        if not self.allocation.host_names:
            return None
        from workflow.run.nodes.node_guards import NodeGuards

        return NodeGuards(self.run_dir, self.plan, self.allocation)

    def make_prover(self) -> Prover | None:
        """What proves the placement; None where wf itself decides where all ranks run."""
        if not must_prove(self.plan, self.placed.hosts, node_name()):
            return None
        from workflow.run.proof.prove import Prover

        return Prover(self.run_dir, self.plan, self.placed)

    def run(self) -> None:
        """Events until the verdict, or until the caller leaves."""
        # A record for readers: a disk that is full ends no run.
        with contextlib.suppress(OSError):
            (self.run_dir / ALLOCATION_FILE).write_text(self.allocation.to_json())
        now = self.clock.now()
        begin = RunStarted(
            now,
            self.run_dir.name,
            self.plan.plan_version,
            os.getpid(),
            socket.gethostname(),
            clock_offset_s=self.clock.offset_s,
            visibility_s=self.visibility_s,
            proves=self.prover is not None,
        )
        received = self.received(now)
        self.events += [begin, *received, *plan_stop(self.plan, self.allocation, now)]
        if self.prover is not None and not any(isinstance(event, RunFinished) for event in received):
            self.prover.start()
        shown = -math.inf
        while True:
            changed = self.take_events()
            now = self.clock.now()
            if changed or now - shown >= SHOW_S:
                shown = now
                self.newest.put(self.state)
            if self.state.finished is not None or self.crew.can_read(self.newest.left):
                return
            self.listen()

    def received(self, now: float) -> list[Event]:
        """What the run has; and the verdict, where that is less than the plan needs."""
        job = self.allocation
        problems = allocation_problems(self.plan, job, now)
        notes = [*job.notes, *(each.message for each in problems if each.level != "error")]
        events: list[Event] = [AllocationReceived(now, job.source, job.job, len(job.hosts), job.end_time, notes)]
        if errors := [each for each in problems if each.level == "error"]:
            reason = "; ".join(": ".join(filter(None, (each.message, each.hint))) for each in errors)
            events.append(RunFinished(now, "failed", EXIT_RUN_FAILED, reason, ""))
        return events

    def close(self, reason: str) -> None:
        """End what was left behind in the middle, and say why."""
        try:
            if self.state.finished is None:
                self.finish(RunFinished(self.clock.now(), "interrupted", EXIT_INTERRUPTED, reason, ""))
                self.take_events()
        finally:
            if self.prover is not None:
                self.prover.close()
            if self.guards is not None:
                self.guards.close()
            self.log.close()

    def take_events(self) -> bool:
        """Bring all that happened into the state and do what follows. Returns whether anything changed."""
        changed = False
        while self.events:
            events, self.events = self.events, []
            for event in events:
                self.write(event)
            self.state, actions = step(self.state, *events)
            changed = changed or bool(actions) or not all(isinstance(event, Tick) for event in events)
            for action in actions:
                self.perform(action)
        return changed

    def perform(self, action: Action) -> None:
        """Do one thing that the lifecycle has decided."""
        match action:
            case StartStage(stage=name):
                self.start(name)
            case SignalStages(stages=stages, number=number):
                launches = [self.launches.of(name) for name in stages]
                lines = {launch.process.name for launch in launches if launch is not None}
                self.crew.signal([*lines, *stages], number)
            case TellStages(stages=stages, reason=reason):
                self.tell(stages, reason)
            case AskScheduler():
                self.scheduler.ask()
            case KillStage(stage=name):
                self.crew.end(name, stage_dir(self.run_dir, name))
            case RecordEvent(event=event):
                self.write(event)
            case FinishRun(event=event):
                self.finish(event)

    def tell(self, stages: Iterable[str], reason: str) -> None:
        """Let stages know that the run is to be stopped: by the file, and by the signals that they have asked for."""
        # On a full disk those that look for the file get the signals that follow.
        with contextlib.suppress(OSError):
            write_stop_file(self.run_dir, reason)
        for name in stages:
            launch, wanted = self.launches.of(name), self.plan.stage(name).stop_signal
            if wanted is not None:
                self.crew.pass_on(launch.process.name if launch else name, signal.Signals[f"SIG{wanted}"])

    def start(self, name: str) -> None:
        """Start a stage; that this failed is an event as well."""
        stage, folder = self.plan.stage(name), stage_dir(self.run_dir, name)
        launch = self.launches.of(name)
        if launch is None:
            process = make_process(stage_request(stage, self.plan, str(folder), self.placed))
        else:
            process = launch.process
        shared = launch is not None and launch.pid is not None
        try:
            if launch is None:
                pid = self.crew.start(process)
            else:
                launch.pid = pid = launch.pid or self.crew.start(process)
        except OSError as error:
            text = f"cannot start {process.argv[0]}: {error.strerror}"
            # A full disk may be why it cannot be started.
            with contextlib.suppress(OSError), (folder / "stderr.log").open("a") as file:
                file.write(f"wf: {text}\n")
            self.events.append(StageExited(self.clock.now(), name, NOT_STARTED, None, text))
            return
        now = self.clock.now()
        self.followers[name] = Follower(stage, folder, self.visibility_s)
        self.turns.append(name)
        self.read[name] = now
        self.events.append(StageStarted(now, name, pid, [] if shared else list(process.argv)))

    def listen(self) -> None:
        """Sleep until something happens; turn it into events."""
        now = self.clock.now()
        due = min(self.polled + POLL_S, wake_at(self.state) or math.inf)
        ended = self.crew.wait(due - now)
        now = self.clock.now()
        self.events += [Interrupted(now, name) for name in self.signals.take()]
        if now - self.asked >= CONTROL_S:
            self.asked = now
            self.events += [Requested(now, each.request, each.by) for each in self.requests.take()]
        if (answer := self.scheduler.take()) is not None:
            self.events.append(SchedulerSaid(now, self.allocation.job, answer.state, answer.raw))
        if self.state.proving and self.prover is not None and (proof := self.prover.take()) is not None:
            self.crew.unwatch(self.prover.finished)
            self.events.append(proof.to_event(now))
            self.rank_watch = proof.rank_watch()
        # Counts come before exits, and those of a stage that has ended with those of its neighbours.
        if now - self.polled >= POLL_S:
            self.polled = now
            self.crew.end_lost(now)
            if self.guards is not None:
                self.events += self.guards.poll(now)
                if self.rank_watch is not None:
                    self.events += self.rank_watch.look(self.guards.watch.take_changed(), now)
            turns = self.next_turns()
            self.read_files(turns, now)
            self.sample_cpu(turns, now)
        self.read_files(self.neighbours(ended), now)
        for stage, ending in self.launches.poll():
            self.take_end(now, stage, ending)
        for stage, (since, ending) in list(self.leaving.items()):
            self.take_end(now, stage, ending, since)
        for name in ended:
            launch = self.launches.named(name)
            ending = self.crew.collect(name, launch.process.folder if launch else stage_dir(self.run_dir, name))
            for stage, its in launch.last(self.run_dir, ending) if launch else [(name, ending)]:
                self.take_end(now, stage, its)
        self.events.append(Tick(now))

    def next_turns(self) -> list[str]:
        """The stages whose files are to be read now: all of few, of many those that have waited longest."""
        count = min(len(self.turns), math.ceil(POLLS_PER_S * POLL_S))
        names = [self.turns.popleft() for _ in range(count)]
        running = [name for name in names if name in self.followers]
        self.turns.extend(running)
        return running

    def neighbours(self, processes: Iterable[str]) -> list[str]:
        """The stages at the other ends of the streams of what these processes run."""
        names: list[str] = []
        for name in processes:
            launch = self.launches.named(name)
            names += launch.group.stages if launch else [name]
        streams = [self.plan.stream(end.stream) for name in names for end in self.plan.stage(name).ends]
        others = {stage for stream in streams for stage in (stream.writer, *stream.readers)}
        return [name for name in others if name in self.followers]

    def read_files(self, names: Iterable[str], now: float) -> None:
        """What the files of these stages tell that they did not tell before."""
        for name in names:
            self.events += bring_between(self.followers[name].poll(now), self.read[name], now)
            self.read[name] = now

    def sample_cpu(self, names: Iterable[str], now: float) -> None:
        """The CPU time of those of these stages that keep no metrics."""
        for name in names:
            if self.plan.stage(name).observed == "evidence" and self.cpu.is_due(name, now):
                used = self.crew.cpu_use(name)
                self.events += [] if used is None else [StageCpu(now, name, *(round(value, 6) for value in used))]

    def take_end(self, now: float, stage: str, ending: Ending, since: float | None = None) -> None:
        """A stage has ended, `since` then: what it did until then, and how it ended.

        Files of another node may be out of date. A stage with exit code 0 that has not closed a stream is not judged
        before `visibility_s` has passed: its files are read again until then.
        """
        since = now if since is None else since
        succeeded = ending.code == 0 and ending.signal is None
        final = not succeeded or self.state.stopping is not None
        events = self.followers[stage].last(now, succeeded, final=final)
        late = not final and not self.followers[stage].is_settled
        if late and now >= since + self.visibility_s:
            events += self.followers[stage].last(now, succeeded, final=True)
            late = False
        self.events += bring_between(events, self.read[stage], now)
        self.read[stage] = now
        if late:
            self.leaving[stage] = since, ending
            return
        self.leaving.pop(stage, None)
        ending = by_first_end(ending, first_end(self.followers[stage].said))
        del self.followers[stage], self.read[stage]
        alive, dying = ([], []) if succeeded else self.others(stage)
        if ending.signal == signal.SIGKILL and not ending.by_supervisor and not self.has_killed(stage):
            self.events.append(self.kill_evidence(since, stage, ending))
        self.events.append(
            StageExited(since, stage, ending.code, ending.signal, ending.note, alive, dying, ending.cpu_s)
        )

    def has_killed(self, stage: str) -> bool:
        """Whether this supervisor has sent SIGKILL to a stage, or may have."""
        return self.state.stopping is not None or self.state.stages[stage].killed

    def kill_evidence(self, t: float, stage: str, ending: Ending) -> StageKilled:
        """What is known of a stage that somebody, or the kernel, has killed."""
        launch = self.launches.of(stage)
        name = launch.process.name if launch else stage
        is_here, facts = self.crew.has_all_here(name), self.crew.memory_facts(name)
        seen = self.guards.watch.memory_facts(stage) if self.guards is not None and not is_here else []
        if elsewhere := [facts for _, facts in seen]:
            is_here, facts = True, max(elsewhere, key=lambda facts: (facts.cgroup_kills or 0, facts.node_kills or 0))
        is_own = facts.cgroup_is_own and (launch is None or launch.group.stages == [stage])
        return StageKilled(
            t, stage, is_here, ending.peak_bytes, facts.limit_bytes, facts.cgroup,
            facts.cgroup_kills, is_own, facts.node_kills, list(facts.log),
        )  # fmt: skip

    def others(self, stage: str) -> tuple[list[str], list[str]]:
        """(alive, dying) of the stages from which a stage reads, as the kernel knows them now."""
        found: dict[bool, list[str]] = {True: [], False: []}
        streams = [self.plan.stream(end.stream) for end in self.plan.stage(stage).ends if end.side == "read"]
        for name in {stream.writer for stream in streams} - {stage}:
            if (alive := self.crew.is_alive(name)) is not None:
                found[alive].append(name)
        return found[True], found[False]

    def finish(self, verdict: RunFinished) -> None:
        """End all that is left, tidy up, and bring the verdict, whatever happens to the tidying."""
        reasons = [verdict.reason]
        if left := self.crew.end_all():
            reasons.append(f"processes {sorted(left)} cannot be killed")
        cleaned: list[str] = []
        try:
            cleaned = clean(self.run_dir, self.plan)
        except Exception as error:
            reasons.append(f"files that are not needed any more may be left in the run directory: {error}")
        now = self.clock.now()
        self.events = [event for event in self.events if isinstance(event, RecordsLost)]
        if cleaned:
            self.events.append(Cleaned(now, cleaned))
        reason = "; ".join(text for text in reasons if text)
        self.events.append(dataclasses.replace(verdict, t=now, reason=reason))

    def write(self, event: Event) -> None:
        """Append an event to the run's file; that this failed is an event as well."""
        self.log.write(event)
        problem = self.log.take_problem()
        if problem is None:
            return
        if isinstance(event, Cleaned | RunFinished):
            self.state = apply(self.state, problem)  # in the file nothing follows the verdict
        else:
            self.events.append(problem)


def main(arguments: list[str]) -> int:
    """Supervise the run in the directory given; the exit code is the run's."""
    if len(arguments) != 1:
        usage = "usage: python -m workflow.run.supervisor RUN_DIR"
        sys.stderr.write(to_text([to_message("error", "expected one run directory", usage)]))
        return EXIT_BAD_INPUT
    run_dir = Path(arguments[0]).absolute()
    taken_before, received = was_taken(run_dir), _received()
    try:
        with contextlib.closing(supervise(run_dir, received)) as run:
            states = list(deque(run, maxlen=1))
    except WfError as error:
        sys.stderr.write(to_text(error.problems))
        record_failed_start(run_dir, error, received, taken_before)
        return error.exit_code
    except KeyboardInterrupt:  # after the verdict
        return EXIT_INTERRUPTED
    return states[-1].finished.exit_code if states and states[-1].finished else EXIT_RUN_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
