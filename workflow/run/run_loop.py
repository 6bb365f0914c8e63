"""One run under supervision: the loop that turns what happens into events, and does what the lifecycle decides."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import signal
import socket
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import EXIT_RUN_FAILED, RunError
from workflow.formats.absent_readers import note_absent
from workflow.formats.bp_holes import drop_data
from workflow.formats.bp_index import deactivate
from workflow.formats.guard_ends import GuardEnd, read_guard_ends
from workflow.formats.node_folder import links, remove_links
from workflow.formats.reader_profile import remove_profile
from workflow.formats.run_clock import this_boot
from workflow.formats.stage_file import STAGE_FILE
from workflow.formats.steering_files import ValueChange
from workflow.formats.stop_file import write_stop_file
from workflow.launch.allocation import Allocation
from workflow.launch.launchers import make_process
from workflow.launch.rank_ends import NOT_STARTED
from workflow.plan.allocation_check import allocation_problems
from workflow.plan.launch_requests import stage_request
from workflow.plan.plan_model import Plan
from workflow.run.actions import (
    Action,
    AskScheduler,
    FinishRun,
    KillStage,
    PassSignal,
    PassValues,
    RecordEvent,
    ReplaceReader,
    RestartStages,
    SignalStages,
    StartStage,
    TellStages,
)
from workflow.run.attempts import find_beginning, prepare_attempt, to_attempt
from workflow.run.cleanup import clean
from workflow.run.guard.own_node import node_name
from workflow.run.lifecycle import step, wake_at
from workflow.run.newest_state import NewestState
from workflow.run.observe.disk_room import full_disk_note, full_place_text
from workflow.run.observe.followed_stages import POLL_S, FollowedStages, visibility_s
from workflow.run.observe.stream_evidence import copies_text
from workflow.run.part_files import join_files, joined_inputs
from workflow.run.passed_values import hand_over
from workflow.run.processes.adios2_workarounds import stand_in
from workflow.run.processes.process_tree import CpuSchedule, WorkWatch
from workflow.run.processes.signals import Signals
from workflow.run.processes.stage_processes import Ending, StageProcesses, by_first_end, why_not_started
from workflow.run.proof.proof_need import must_prove
from workflow.run.records.control_requests import ControlRequests
from workflow.run.records.events_file import EventLog
from workflow.run.records.run_directory import ALLOCATION_FILE, attempt_dir, stage_dir
from workflow.run.run_allocation import granted_nodes, to_event
from workflow.run.spool_limit import LOOK_S, LOOK_SHARE, droppable, units_behind
from workflow.run.state.events import (
    REPORTED_S,
    Cleaned,
    Clock,
    Event,
    FewerWriters,
    GuardActed,
    Interrupted,
    LoopPaused,
    NoRankStarted,
    ProcessesLeft,
    RecordsLost,
    Requested,
    RunStarted,
    SchedulerSaid,
    SpoolGrows,
    StageCpu,
    StageExited,
    StageKilled,
    StagesRestarted,
    StageStarted,
    StageSuspended,
    StageWorked,
    SteeringRefused,
    StepsDropped,
    StreamHint,
    StreamTrouble,
    Tick,
)
from workflow.run.state.lifecycle_events import RunFinished
from workflow.run.state.reducer import apply
from workflow.run.state.run_state import initial_state
from workflow.run.steering_requests import KnownRequests, taken_from_file, to_asked
from workflow.run.stop_sequence import free_within_s, plan_stop
from workflow.run.verdict.end_causes import first_end
from workflow.run.verdict.failure_origin import doubted_nodes
from workflow.run.verdict.run_verdict import abandoned_verdict, unstarted_verdict
from workflow.schedulers.job_questions import NodesQuestion, OwnJobQuestion

if TYPE_CHECKING:
    from workflow.run.nodes.guards import NodeGuards
    from workflow.run.proof.compare_placement import RankWatch
    from workflow.run.proof.prove import Prover

# How often a state is handed on although nothing has changed.
SHOW_S = 0.5
# How often requests to the supervisor are read: each time the file is opened anew.
CONTROL_S = 1.0
# After its end a stage's launcher may still be ending what it has started; at the end of the run there is less time.
LEFT_S, LEFT_END_S = 1.0, 0.4
# A stage that has made no step for so long may have been stopped by a signal.
QUIET_S = 1.0
# A pass of the loop that takes longer has waited for a file, or its process was stopped: nothing was seen meanwhile.
PAUSE_S = 10.0
# How often the scheduler is asked about nodes that are silent.
ASK_NODES_S = 15.0
# So long the guards of nodes may take at the end of a run of which ranks may have been killed.
CLEARED_S = 3.0


class RunLoop:
    """One run under supervision."""

    def __init__(
        self,
        run_dir: Path,
        plan: Plan,
        allocation: Allocation,
        signals: Signals,
        processes: StageProcesses,
        newest: NewestState,
    ) -> None:
        self.run_dir, self.plan, self.allocation = run_dir, plan, allocation
        self.placed = granted_nodes(plan, allocation)
        self.signals, self.processes, self.newest = signals, processes, newest
        self.clock = Clock()
        self.state = initial_state(plan)
        self.log = EventLog(run_dir)
        self.visibility_s = visibility_s(run_dir)
        self.followed = FollowedStages(plan, self.visibility_s)
        self.leaving: dict[str, tuple[float, Ending]] = {}  # ended stages whose last records are not visible yet
        self.guards = self.make_guards()
        self.scheduler = OwnJobQuestion(allocation.source, allocation.job)
        self.prover = self.make_prover()
        self.rank_watch: RankWatch | None = None  # once the placement was proved
        self.cpu = CpuSchedule(len(plan.stages))
        self.work = WorkWatch()
        # Processes that open a stream in place of a stage that has failed → the stream, their folder.
        self.replacements: dict[str, tuple[str, Path]] = {}
        self.events: list[Event] = []
        self.polled = -math.inf
        self.woke: float | None = None  # when the last pass of the loop began
        self.nodes = NodesQuestion(allocation.source)
        self.nodes_asked = -math.inf
        self.requests = ControlRequests(run_dir)
        self.steering = KnownRequests(plan)
        self.asked = -math.inf
        self.suspended_at = -math.inf  # when to look next for stages that are stopped by a signal
        # Streams whose spools keep the newest steps only, and when they are looked at again.
        done = () if plan.part is None else plan.part.finished
        self.limited = [each for each in plan.streams if each.drops and plan.stream(each.spool).writer not in done]
        self.drops_at = -math.inf
        self.done: dict[str, float] = {}  # ended with exit code 0 → when to look for what it has left running
        self.fewer: dict[FewerWriters, float] = {}  # when to look next whether several processes write such a file
        self.has_freed_nodes = False
        self.has_spools_on_nodes = any(end.on_node for stage in plan.stages for end in stage.ends)
        processes.watch(signals.descriptor)
        processes.watch(newest.left)
        if self.prover is not None:
            processes.watch(self.prover.finished)

    def make_guards(self) -> NodeGuards | None:
        """What watches the other nodes of the allocation; None without a batch job, in which there are none."""
        if not self.allocation.host_names:
            return None
        from workflow.run.nodes.guards import NodeGuards

        return NodeGuards(self.run_dir, self.plan, self.allocation, self.clock.now)

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
            boot=this_boot(),
            visibility_s=self.visibility_s,
            proves=self.prover is not None,
        )
        problems = allocation_problems(self.plan, self.allocation, now)
        self.events += [begin, to_event(self.allocation, problems, now)]
        if misfits := [each for each in problems if each.level == "error"]:
            self.events.append(unstarted_verdict(misfits, now))
        else:
            self.events += plan_stop(self.plan, self.allocation, now)
            if self.prover is not None:
                self.prover.start()
        shown = -math.inf
        while True:
            changed = self.take_events()
            now = self.clock.now()
            if changed or now - shown >= SHOW_S:
                shown = now
                self.newest.put(self.state)
            if self.state.finished is not None or self.processes.can_read(self.newest.left):
                return
            self.listen()

    def close(self, reason: str) -> None:
        """End what was left behind in the middle, and say why."""
        try:
            if self.state.finished is None:
                self.finish(abandoned_verdict(reason, self.clock.now()))
                self.take_events()
        finally:
            if self.prover is not None:
                self.prover.close()
            if self.guards is not None:
                if self.state.finished is None or self.state.finished.state != "succeeded":
                    self.guards.let_clear(CLEARED_S)
                self.guards.close()
            if self.has_freed_nodes:
                remove_links(self.run_dir)  # the guards needed them
            self.log.close()

    def take_events(self) -> bool:
        """Bring all that happened into the state and do what follows. Returns whether anything changed."""
        changed = False
        while self.events:
            events, self.events = self.steering.without_known(self.events), []
            if not events:
                continue
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
                self.processes.signal(stages, number)
            case PassSignal(stage=name, signal=word):
                self.pass_on(name, word)
            case PassValues(stage=name, change=change):
                self.pass_values(name, change)
            case TellStages(stages=stages, reason=reason):
                self.tell(stages, reason)
            case AskScheduler():
                self.scheduler.ask()
            case KillStage(stage=name):
                self.end(name)
            case RestartStages(stages=stages):
                self.restart(stages)
            case ReplaceReader(stage=name, streams=streams):
                self.replace_reader(name, streams)
            case RecordEvent(event=event):
                self.write(event)
            case FinishRun(event=event):
                self.finish(event)

    def end(self, name: str) -> None:
        """Kill what runs of a stage, also on other nodes: by its launcher, which may have left something there."""
        self.processes.end(name, self.folder(name))
        if self.guards is not None:
            self.guards.end_stage(self.folder(name) / STAGE_FILE)

    def tell(self, stages: Iterable[str], reason: str) -> None:
        """Let stages know that the run is to be stopped: by the file, and by the signals that they have asked for."""
        # On a full disk those that look for the file get the signals that follow.
        with contextlib.suppress(OSError):
            write_stop_file(self.run_dir, reason)
        for name in stages:
            if (word := self.plan.stage(name).told_by) is not None:
                self.pass_on(name, word)

    def pass_on(self, name: str, word: str) -> None:
        """Send the signal `USR1` to the program of a stage or to its launcher."""
        self.processes.pass_on(name, signal.Signals[f"SIG{word}"])

    def pass_values(self, name: str, change: ValueChange) -> None:
        """Let the program of a stage find new values; that this failed is an event as well."""
        try:
            signals = hand_over(self.plan.stage(name), stage_dir(self.run_dir, name), change)
        except OSError as error:
            reason = f"cannot write {error.filename}: {error.strerror}"
            values = dict(change.values)
            self.events.append(SteeringRefused(self.clock.now(), change.id, name, values, change.by, reason))
            return
        for word in signals:
            self.pass_on(name, word)
        if (taken := taken_from_file(self.state, name, change, self.clock.now())) is not None:
            self.events.append(taken)

    def start(self, name: str) -> None:
        """Start a stage; that this failed is an event as well."""
        stage, folder = self.plan.stage(name), self.folder(name)
        self.done.pop(name, None)
        placed = self.placed.with_replaced(self.state.replaced)
        process = make_process(stage_request(stage, self.plan, str(folder), placed))
        try:
            self.join_inputs(name)
            self.end_inputs(name)
            pid = self.processes.start(process)
        except (OSError, ValueError) as error:
            text = f"cannot start {process.argv[0]}: {why_not_started(error, process.argv[0])}"
            # A full disk may be why it cannot be started.
            with contextlib.suppress(OSError), (folder / "stderr.log").open("a") as file:
                file.write(f"wf: {text}\n")
            self.events.append(StageExited(self.clock.now(), name, NOT_STARTED, None, text))
            return
        now = self.clock.now()
        before = {(end.stream, end.side): (end.steps, end.bytes) for end in self.state.ends_of(name) if end.steps}
        self.followed.begin(name, folder, now, before)
        self.events.append(StageStarted(now, name, pid, list(process.argv)))

    def join_inputs(self, name: str) -> None:
        """Join what the parts of this run have written of the files that a stage reads whole. Raises OSError,
        ValueError."""
        if (part := self.plan.part) is not None:
            ends = self.plan.stage(name).ends
            join_files(self.run_dir, part.pieces, joined_inputs(ends, self.run_dir, part.pieces))

    def end_inputs(self, name: str) -> None:
        """Mark as ended what a stage reads whole and one that was left out has written: it would wait for more."""
        for stream in (self.plan.stream(end.stream) for end in self.plan.stage(name).ends if end.side == "read"):
            if stream.coupling == "after" and self.state.goes_without(stream.writer):
                deactivate(Path(stream.path) / "md.idx")

    def restart(self, stages: Sequence[str]) -> None:
        """Start the next attempt of these stages, at the first steps that they have not finished."""
        where, attempt = find_beginning(self.run_dir, self.state, stages), self.state.stages[stages[0]].attempt + 1
        ends = {name: dict(steps) for name, steps in where.ends.items()}
        skipped = {name: list(steps) for name, steps in where.skipped.items()}
        begun = StagesRestarted(self.clock.now(), list(stages), attempt, where.first_step, ends, skipped)
        self.write(begun)
        self.state = apply(self.state, begun)
        self.end_replacements(stages)
        # All are prepared before one starts: a contact file of the last attempt would lead its readers astray.
        for name in [name for name in stages if self.prepare(name, attempt, where.repeated.get(name, {}))]:
            self.start(name)

    def prepare(self, name: str, attempt: int, repeated: Mapping[str, int]) -> bool:
        """Write what the next attempt of a stage needs; that this failed is an event as well."""
        try:
            prepare_attempt(self.run_dir, to_attempt(self.plan.stage(name), self.state, repeated), attempt)
        except (OSError, ValueError, RunError) as error:
            text = f"cannot be started again: {error}"
            self.events.append(StageExited(self.clock.now(), name, NOT_STARTED, None, text))
            return False
        return True

    def folder(self, name: str) -> Path:
        """The folder of the present attempt of a stage."""
        return attempt_dir(self.run_dir, name, self.state.stages[name].attempt)

    def replace_reader(self, name: str, streams: Iterable[str]) -> None:
        """Open these streams in place of a stage. Where that fails, `deadlines.start` ends those who wait for it."""
        for stream in streams:
            end = self.plan.stage(name).end(stream, "read")
            if end.traits.library == "own":
                with contextlib.suppress(OSError):
                    note_absent(Path(end.path + end.traits.contact_suffix), name)
                continue
            folder = stage_dir(self.run_dir, name) / "replacement"
            with contextlib.suppress(OSError):
                folder.mkdir(exist_ok=True)
                process = stand_in(self.plan, self.plan.stage(name), stream, folder)
                self.processes.start(process)
                self.replacements[process.name] = stream, folder

    def end_replacements(self, writers: Collection[str]) -> None:
        """End what opens streams of these stages in place of a reader: their next attempts do not wait for that."""
        for name, (stream, folder) in self.replacements.items():
            if self.plan.stream(stream).writer in writers:
                self.processes.end(name, folder)

    def collect_replacements(self, ended: Collection[str]) -> list[str]:
        """Of what has ended, what is no replacement of a reader."""
        found = self.replacements.keys() & set(ended)
        for name in found:
            del self.replacements[name]
            self.processes.collect(name)
        return [name for name in ended if name not in found]

    def listen(self) -> None:
        """Sleep until something happens; turn it into events."""
        now = self.clock.now()
        due = min(self.polled + POLL_S, wake_at(self.state) or math.inf)
        ended = self.collect_replacements(self.processes.wait(due - now))
        before, now = now, self.clock.now()
        self.note_pause(before, due, now)
        self.take_requests(now)
        self.take_answers(now)
        # Counts come before exits, and those of a stage that has ended with those of its neighbours.
        if now - self.polled >= POLL_S:
            self.polled = now
            self.observe(now)
        self.events += self.confirmed(self.followed.poll(self.followed.neighbours(ended), now))
        self.take_ends(ended, now)
        self.events.append(Tick(now))

    def note_pause(self, before: float, due: float, now: float) -> None:
        """Where the last pass, which ended `before`, or the wait after it, which was `due` to end, took far too long:
        say so before all that is seen now."""
        worked_s = 0.0 if self.woke is None else before - self.woke
        overslept_s = now - max(before, due)
        self.woke = now
        if worked_s + overslept_s >= PAUSE_S:
            self.events.insert(0, LoopPaused(now, round(worked_s + overslept_s, 3), round(max(0.0, overslept_s), 3)))

    def take_requests(self, now: float) -> None:
        """What signals and the control file ask for."""
        self.events += [Interrupted(now, name) for name in self.signals.take()]
        if now - self.asked >= CONTROL_S:
            self.asked = now
            self.events += [Requested(now, each.request, each.by) for each in self.requests.take()]
            self.events += [to_asked(each.stage, each.change, now) for each in self.requests.take_steering()]

    def take_answers(self, now: float) -> None:
        """What the scheduler has said of the job, and the proof of the placement has found."""
        if (answer := self.scheduler.take()) is not None:
            self.events.append(SchedulerSaid(now, self.allocation.job, answer.state, answer.raw))
        if self.state.proving and self.prover is not None and (proof := self.prover.take()) is not None:
            self.processes.unwatch(self.prover.finished)
            self.events.append(proof.to_event(now))
            self.rank_watch = proof.rank_watch()

    def observe(self, now: float) -> None:
        """What can only be found by looking: nodes and their ranks, records of the stages, CPU time, connections."""
        self.processes.end_lost(now)
        if self.guards is not None:
            self.ask_about_silent(now)
            self.guards.doubt(doubted_nodes(self.state), self.nodes.down)
            self.events += self.guards.poll(now)
            if self.rank_watch is not None:
                moved = {*self.state.replaced.values()}  # what the proof has not looked at
                changed = [rank for rank in self.guards.take_changed() if rank.node not in moved]
                self.events += self.rank_watch.look(changed, now)
        turns = self.followed.next_turns()
        seen = self.confirmed(self.followed.poll(turns, now))
        self.events += seen
        self.look_for_copies(seen, now)
        for stage in self.processes.without_ranks(self.plan.deadlines.start):
            self.events.append(NoRankStarted(now, stage, self.plan.stage(stage).launch.launcher))
        self.sample_cpu(turns, now)
        self.look_for_left(now)
        self.look_for_suspended(now)
        if self.limited and now >= self.drops_at:
            self.drop_steps()
            # Where it takes long, because there are big states to check, it is done less often.
            taken_s = self.clock.now() - now
            self.drops_at = now + max(LOOK_S, LOOK_SHARE * taken_s)

    def ask_about_silent(self, now: float) -> None:
        """Let the scheduler say whether it has lost the nodes that are silent, too."""
        silent = [each.host for each in self.state.silent.values() if now - each.t + each.silence_s >= REPORTED_S]
        self.nodes.keep(silent)
        if silent and now - self.nodes_asked >= ASK_NODES_S:
            self.nodes_asked = now
            self.nodes.ask(silent)

    def drop_steps(self) -> None:
        """Free what limited spools hold beyond what they are to keep, and no stage that is started again needs."""
        for stream in list(self.limited):
            end = droppable(self.state, stream)
            for unit in units_behind(self.state, stream) if end else []:
                where = find_beginning(self.run_dir, self.state, unit)
                end = min([end, *(where.begins(name, stream.name) for name in unit if name in stream.readers)])
            # Noted before it is done: nobody reads data that may be gone. Where it cannot be noted, nothing is freed;
            # asked before, too, so that not each look adds a line to those that wait for room on the disk.
            if end <= self.state.spool_first.get(stream.name, 0) or not self.log.sync():
                continue
            noted = StepsDropped(self.clock.now(), stream.name, end)
            self.write(noted)
            if not self.log.sync():
                continue
            self.state = apply(self.state, noted)
            try:
                spool = self.plan.stream(stream.spool)
                before = self.plan.stage(spool.writer).end(spool.name, "write").before
                self.free(Path(spool.path), end - before)
            except OSError as error:
                self.limited.remove(stream)
                self.events.append(SpoolGrows(self.clock.now(), stream.name, error.strerror or str(error)))

    def free(self, file: Path, step: int) -> None:
        """Free the data of the steps before this one, or let the node that has the file do it. Raises OSError."""
        if self.guards is not None and file.is_symlink() and not file.exists():
            self.guards.free(file.name, step)
        else:
            drop_data(file, step)

    def look_for_left(self, now: float) -> None:
        """What stages that have ended have left running: it is killed at the end of the run."""
        due = [name for name, t in self.done.items() if t <= now]
        for name, programs in self.processes.left_behind(due).items() if due else ():
            self.events.append(ProcessesLeft(now, name, programs, killed=False))
        self.done |= dict.fromkeys(due, math.inf)

    def kill_left(self) -> list[ProcessesLeft]:
        """What stages that have ended have left running, and is killed now; a moment is given to what is ending."""
        deadline = self.clock.now() + LEFT_END_S
        while (left := self.processes.left_behind(self.done)) and self.clock.now() < deadline:
            time.sleep(LEFT_END_S / 20)
        return [ProcessesLeft(self.clock.now(), name, programs, killed=True) for name, programs in left.items()]

    def take_ends(self, ended: Iterable[str], now: float) -> None:
        """The stages that have ended: those whose last records were awaited, and these."""
        for stage, (since, ending) in list(self.leaving.items()):
            self.take_end(now, stage, ending, since)
        for name in ended:
            self.take_end(now, name, self.processes.collect(name))

    def sample_cpu(self, names: Iterable[str], now: float) -> None:
        """The CPU time of these stages, and the time in which they had no CPU; which of those that have closed their
        streams, or have none, work."""
        for name in names:
            has_left = self.state.left_since(name) is not None or not self.plan.stage(name).ends
            has_left = has_left and self.work.is_due(name, now)
            is_sampled = self.cpu.is_due(name, now)
            used = self.processes.cpu_use(name) if has_left or is_sampled else None
            if used is None:
                continue
            # Of one without streams the first look says that there is something to see.
            is_first = self.state.stages[name].worked is None and not self.plan.stage(name).ends
            if has_left and (self.work.works(name, now, used.cpu_s) or is_first):
                self.events.append(StageWorked(now, name))
            if is_sampled:
                self.events.append(StageCpu(now, name, *(round(value, 6) for value in used)))

    def look_for_copies(self, events: Sequence[Event], now: float) -> None:
        """Whether a file with too few writers is written by several processes, each of which begins it anew."""
        self.fewer |= {event: now for event in events if isinstance(event, FewerWriters)}
        for event in [event for event, due in self.fewer.items() if due <= now]:
            self.fewer[event] = now + max(QUIET_S, now - event.t)
            end = self.plan.stage(event.stage).end(event.stream, "write")
            if self.processes.writers_of(event.stage, Path(end.path) / "md.idx") > 1:
                text = copies_text(event.stage, event.stream, event.ranks)
                self.events.append(StreamTrouble(now, event.stream, event.stage, "copies", text))

    def confirmed(self, events: Iterable[Event]) -> list[Event]:
        """These events; copies of a program, of which a log alone tells, as a hint where its processes do not show it,
        too."""
        return [
            StreamHint(event.t, event.stream, event.stage, f"by its log, {event.text}")
            if isinstance(event, StreamTrouble)
            and event.trouble == "copies"
            and self.processes.alone_in_adios2(event.stage) < 2
            else event
            for event in events
        ]

    def look_for_suspended(self, now: float) -> None:
        """Which stages have been stopped by a signal; asked now and then, of those that make no step."""
        if now < self.suspended_at:
            return
        for name in self.state.going:
            stage, signs = self.state.stages[name], [end.last_sign or 0.0 for end in self.state.ends_of(name)]
            is_quiet = stage.runs and now - max([stage.started or 0.0, *signs]) >= QUIET_S
            if (is_quiet and self.processes.is_suspended(name)) != (stage.suspended is not None):
                self.events.append(StageSuspended(now, name, stage.suspended is None))
        # Where there are many of them, it is done less often.
        self.suspended_at = now + max(QUIET_S, LOOK_SHARE * (self.clock.now() - now))

    def take_end(self, now: float, stage: str, ending: Ending, since: float | None = None) -> None:
        """A stage has ended, `since` then: what it did until then, and how it ended.

        Files of another node may be out of date: a stage with exit code 0 that has not closed a stream is not judged
        before `visibility_s` has passed.
        """
        since = now if since is None else since
        succeeded = ending.code == 0 and ending.signal is None
        final = not succeeded or self.state.stopping is not None
        events, is_all = self.followed.last(stage, now, since, succeeded, final=final)
        self.events += self.confirmed(events)
        if not is_all:
            self.leaving[stage] = since, ending
            return
        self.leaving.pop(stage, None)
        if succeeded:
            self.done[stage] = now + LEFT_S
        self.remove_profiles(stage)
        ending = by_first_end(ending, first_end(self.followed.end(stage)))
        alive, dying = ([], []) if succeeded else self.others(stage)
        if ending.signal == signal.SIGKILL and not ending.by_supervisor and not self.has_killed(stage):
            self.events.append(self.kill_evidence(since, stage, ending))
        note = ending.note or ("" if succeeded else self.full_disk_note(stage))
        self.events.append(StageExited(since, stage, ending.code, ending.signal, note, alive, dying, ending.cpu_s))

    def full_disk_note(self, stage: str) -> str:
        """What to say of a failure while a disk is full to which this stage writes."""
        if note := full_disk_note(self.run_dir):
            return note
        ends = [end for end in self.plan.stage(stage).ends if end.on_node]
        notes = (full_disk_note(Path(end.path), full_place_text(Path(end.path), end.stream)) for end in ends)
        return next(filter(None, notes), "")

    def remove_profiles(self, stage: str) -> None:
        """Remove what a program of the user's own has left of reading files; `workflow.stage` does that itself."""
        ends = self.plan.stage(stage).ends
        paths = [end.path for end in ends if end.side == "read" and end.traits.leaves_profiles]
        pids = self.processes.processes_seen(stage) if paths else []
        for path, pid in itertools.product(paths, pids):
            remove_profile(path, pid)

    def has_killed(self, stage: str) -> bool:
        """Whether this supervisor has sent SIGKILL to a stage, or may have."""
        return self.state.stopping is not None or self.state.stages[stage].killed

    def kill_evidence(self, t: float, stage: str, ending: Ending) -> StageKilled:
        """What is known of a stage that somebody, or the kernel, has killed."""
        is_here, facts = self.processes.has_all_here(stage), self.processes.memory_facts(stage)
        seen = self.guards.memory_facts(stage) if self.guards is not None and not is_here else []
        if elsewhere := [facts for _, facts in seen]:
            is_here, facts = True, max(elsewhere, key=lambda facts: facts.cgroup_kills or 0)
        return StageKilled(
            t, stage, is_here, ending.peak_bytes, facts.limit_bytes, facts.cgroup,
            facts.cgroup_kills, facts.cgroup_is_own, self.guard_that_killed(),
        )  # fmt: skip

    def guard_that_killed(self) -> str:
        """The guard that has ended the processes of the run on its node, and why; "" where none has."""
        said = [*self.state.warnings, *self.events]
        acts = [GuardEnd(each.host, each.why) for each in said if isinstance(each, GuardActed)]
        if self.guards is not None:
            acts += read_guard_ends(self.run_dir)
        return f"the guard on {acts[0].host}: {acts[0].why}" if acts else ""

    def others(self, stage: str) -> tuple[list[str], list[str]]:
        """(alive, dying) of the stages from which a stage reads, as the kernel knows them now."""
        found: dict[bool, list[str]] = {True: [], False: []}
        streams = [self.plan.stream(end.stream) for end in self.plan.stage(stage).ends if end.side == "read"]
        for name in {stream.writer for stream in streams} - {stage}:
            if (alive := self.processes.is_alive(name)) is not None:
                found[alive].append(name)
        return found[True], found[False]

    def finish(self, verdict: RunFinished) -> None:
        """End all that is left, tidy up, and bring the verdict, whatever happens to the tidying."""
        killed = self.kill_left()
        reasons = [verdict.reason, *(event.text for event in killed)]
        if left := self.processes.end_all():
            reasons.append(f"processes {sorted(left)} cannot be killed")
        self.has_freed_nodes = self.free_nodes()
        if not self.has_freed_nodes:
            reasons.append("files of spools may be left on other nodes: the guards there do not answer")
        cleaned: list[str] = []
        try:
            if self.plan.part is not None:
                join_files(self.run_dir, self.plan.part.pieces)
        except Exception as error:
            reasons.append(f"the files of the parts of the run cannot be joined, so each has its own: {error}")
            if verdict.state == "succeeded":
                verdict = dataclasses.replace(verdict, state="failed", exit_code=EXIT_RUN_FAILED)
        try:
            cleaned = clean(self.run_dir, self.plan)
        except Exception as error:
            reasons.append(f"files that are not needed any more may be left in the run directory: {error}")
        now = self.clock.now()
        self.events = [*(event for event in self.events if isinstance(event, RecordsLost)), *killed]
        if cleaned:
            self.events.append(Cleaned(now, cleaned))
        reason = "; ".join(text for text in reasons if text)
        self.events.append(dataclasses.replace(verdict, t=now, reason=reason))

    def free_nodes(self) -> bool:
        """Let the guards remove what spools have on other nodes. Returns whether nothing can be left there."""
        on_others = [link for link in links(self.run_dir) if not link.exists()] if self.has_spools_on_nodes else []
        within_s = free_within_s(self.state, self.clock.now())
        return not on_others or self.guards is None or self.guards.end_run(within_s)

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
