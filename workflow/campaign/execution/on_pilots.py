"""Runs the repetitions of a campaign side by side on pilots, each on nodes and cores of its own.

The places are decided by `planning/packing.py`. A repetition is given to the workers of a pilot only when its place is
free, so that none waits there.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from workflow.campaign.execution.campaign_loop import CampaignContext, RepetitionEnd, Room
from workflow.campaign.execution.left_attempts import LeftAttempt, adopt
from workflow.campaign.execution.parsl_workers import is_of_all_workers
from workflow.campaign.execution.pilots import Pilot, Pilots, hosts_of
from workflow.campaign.execution.repetition import RepetitionOrder, StartedAttempt, lost_hosts, place_text, silent_hosts
from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.campaign.planning.packing import Packing, Start
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.planning.trial_requests import EstimatedDurations, all_requests
from workflow.errors import RunError
from workflow.formats.json_lines import read_json_lines
from workflow.formats.run_clock import steady_time
from workflow.formatting import plural
from workflow.launch.allocation import Allocation
from workflow.launch.host_lists import is_same_host
from workflow.run.control.cancellation import REACTION_S
from workflow.run.records.control_requests import Control, send_request
from workflow.run.records.events_file import EVENTS_FILE

# So often pilots are looked at, and requests to stop are read.
_LOOK_S = 0.25
# Pilots that end, one after the other, before any repetition has: then something is wrong with all of them.
_MOST_BARREN = 3
# The same where there is one pilot only, whose workers had answered.
_MOST_BARREN_HERE = 2
# Of the time of a pilot, that a repetition is expected to take at most.
_LARGEST_SHARE = 0.9
# From the start of a repetition until one of its nodes must have answered, where others show that they do.
ANSWER_S = 20.0
# Without a proof stages start at once: then nothing is known of their nodes.
_ANSWERS = frozenset({"node_seen", "proof_taken", "stage_started"})


@dataclass(frozen=True)
class PilotUse:
    """How repetitions use pilots. `grace_s`: nothing is to end later than this before the end of a pilot.

    `renewable`: a pilot that ended is replaced by another one, and one that is not needed ends; otherwise the only
    pilot is what this machine, or the job around this process, has.
    """

    share_nodes: bool
    time_s: float = math.inf
    grace_s: float = 0.0
    renewable: bool = False


@dataclass
class _RunningAttempt:
    repetition: Repetition
    start: StartedAttempt
    pilot: str
    hosts: list[str]
    placed: bool = True
    """Whether the packing holds its place: not after its pilot has gone."""
    resolving: bool = False
    """Whether its worker is done, or gone, and it is found out how the run ended."""
    sent: set[Control] = field(default_factory=set)
    silent: list[str] = field(default_factory=list)
    """The nodes that were lost while it started: it was killed."""


class OnPilots:
    """An executor. A repetition is given to the workers of a pilot only when its place is free."""

    def __init__(
        self, planned: PlannedCampaign, context: CampaignContext, todo: Sequence[Repetition], history: History,
        pilots: Pilots, use: PilotUse,
    ) -> None:  # fmt: skip
        self.planned, self.context, self.pilots, self.use = planned, context, pilots, use
        self.todo = list(todo)
        self.index = {each: index for index, each in enumerate(self.todo)}
        self.of_trial: dict[str, list[int]] = {}
        for index, each in enumerate(self.todo):
            self.of_trial.setdefault(each.key, []).append(index)
        spec = planned.spec
        self.estimates = EstimatedDurations.from_history(history, spec.expected, spec.deadline)
        requests = all_requests(planned, self.todo, self.estimates, share_nodes=use.share_nodes)
        self.packing = Packing([replace(each, expected_s=self.tried_s(each.expected_s)) for each in requests])
        self.waiting_nodes = sum(self.nodes(each) for each in self.todo)
        self.taken: dict[Repetition, Start] = {}
        self.attempts: dict[Future[Attempt], _RunningAttempt] = {}
        self.resolver = ThreadPoolExecutor(1, thread_name_prefix="resolve")
        self.checker = ThreadPoolExecutor(1, thread_name_prefix="check")
        self.starts = StartWatch()
        self.barren = 0
        self.hopeless: RunError | None = None
        self.closed_because = ""
        self.unresolved: list[str] = []
        self.is_stopping = False

    def nodes(self, each: Repetition) -> int:
        """How many nodes a repetition needs."""
        return self.planned.by_key[each.key].nodes

    def tried_s(self, expected_s: float) -> float:
        """What a repetition is taken to last: a guess, and what another pilot has no more time for, is tried."""
        is_guess = self.planned.spec.expected is None and not self.estimates.any_measured
        if not is_guess and not self.use.renewable:
            return expected_s
        return min(expected_s, max(0.0, _LARGEST_SHARE * (self.use.time_s - self.use.grace_s)))

    @property
    def waiting(self) -> int:
        """How many wait."""
        return self.packing.waiting

    @property
    def running(self) -> list[StartedAttempt]:
        """What runs, and what is resolved."""
        return [each.start for each in self.attempts.values()]

    def look(self) -> None:
        """At the pilots. Raises RunError when they end one after the other, once all that ran there is resolved."""
        self.look_at_pilots()
        if self.hopeless is not None and not any(each.resolving for each in self.attempts.values()):
            raise self.hopeless
        if not self.is_stopping and not self.closed_because and self.hopeless is None:
            self.end_silent()

    def next_room(self) -> Room | None:
        """On a pilot. Where there is none, pilots are asked for while work waits, and those without work end."""
        if self.hopeless is not None:
            return None
        if (start := self.packing.next_start(steady_time())) is None:
            self.balance_pilots()
            return None
        repetition = self.todo[start.index]
        self.taken[repetition] = start
        self.waiting_nodes -= self.nodes(repetition)
        return Room(repetition, place_text(_names(self.part_of_pilot(start)), start.place.cores))

    def put_back(self, repetition: Repetition) -> None:
        """It waits again, where it stood before."""
        if self.taken.pop(repetition, None) is not None:
            self.packing.end(self.index[repetition])
        self.packing.put_back(self.index[repetition])
        self.waiting_nodes += self.nodes(repetition)

    def part_of_pilot(self, start: Start) -> Allocation:
        """The nodes that it gets."""
        allocation = self.pilots.alive[start.pilot].allocation
        assert allocation is not None, "a pilot has no places before its nodes are known"
        return hosts_of(allocation, start.place.nodes)

    def start(self, room: Room, attempt: StartedAttempt) -> None:
        """Give it to the workers of its pilot."""
        start, trial = self.taken.pop(room.repetition), self.planned.by_key[room.repetition.key]
        pilot, allocation = self.pilots.alive[start.pilot], self.part_of_pilot(start)
        common = pilot.start_context(self.context.start_context(trial))
        order = RepetitionOrder(
            attempt, trial.loaded, trial.plan, self.context.sites[trial.key], start.place.cores, allocation, common,
            self.context.decide,
        )  # fmt: skip
        running = _RunningAttempt(room.repetition, attempt, start.pilot, _names(allocation))
        self.attempts[pilot.submit(order)] = running

    def ended(self) -> Iterator[RepetitionEnd]:
        """Those whose workers have returned them, and those of lost workers that are resolved."""
        done, _ = wait(self.attempts, _LOOK_S, FIRST_COMPLETED)
        if not self.attempts:
            time.sleep(_LOOK_S)
        for future in done:
            if (end := self.take_end(future)) is not None:
                yield end

    def look_at_pilots(self) -> None:
        """Pilots that have come, and those that have gone."""
        for pilot in list(self.pilots.alive.values()):
            was_ready = pilot.allocation is not None
            if fault := pilot.look():
                self.lose_pilot(pilot, fault)
            elif not was_ready and pilot.allocation is not None:
                self.take_pilot(pilot)
            elif news := pilot.news():
                self.pilots.say(f"pilot {pilot.name}: {news}")

    def take_pilot(self, pilot: Pilot) -> None:
        """Its nodes can be used from now on."""
        allocation = pilot.allocation
        assert allocation is not None
        site = next(iter(self.context.sites.values()))
        until_s = math.inf if allocation.end_time is None else allocation.end_time - self.use.grace_s
        if allocation.end_time is None:
            until_s = steady_time() + self.use.time_s - self.use.grace_s
        self.packing.add_pilot(pilot.name, len(allocation.hosts), site.usable_cores, until_s)
        if self.use.renewable:
            names = _names(allocation)
            shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
            self.pilots.say(f"pilot {pilot.name}: has {plural(len(names), 'node')}: {shown}")

    def lose_pilot(self, pilot: Pilot, fault: str) -> None:
        """It ended, or is of no use: what runs there is looked up in the run directories, and runs again if need be."""
        if pilot.allocation is not None:
            self.packing.remove_pilot(pilot.name)
        self.pilots.say(f"pilot {pilot.name} is lost: {fault}")
        self.pilots.end(pilot.name, lost=True)
        gone = [(future, running) for future, running in self.attempts.items() if running.pilot == pilot.name]
        for _, running in gone:
            running.placed = False
        is_open = [future for future, running in gone if not running.resolving and not _has_result(future)]
        self.resolve(is_open, fault)
        self.count_barren(pilot, fault)

    def count_barren(self, pilot: Pilot, fault: str) -> None:
        """Give up when pilots end one after the other without a repetition that ended."""
        self.barren = 0 if pilot.done else self.barren + 1
        most = _MOST_BARREN if self.use.renewable else _MOST_BARREN_HERE if pilot.allocation is not None else 1
        if self.barren >= most:
            self.hopeless = RunError(f"no repetition could run: {fault}", f"see {pilot.folder}")

    def balance_pilots(self) -> None:
        """Ask for pilots while work waits, and end those that have none."""
        pilots, use = self.pilots, self.use
        for pilot in list(pilots.alive.values()):
            if use.renewable and pilot.allocation is not None and self.packing.is_idle(pilot.name):
                self.packing.remove_pilot(pilot.name)
                pilots.end(pilot.name)
                pilots.say(f"pilot {pilot.name}: ended, because no waiting repetition fits on it")
                if self.packing.waiting:
                    self.count_barren(pilot, "the waiting repetitions do not fit on a pilot, or into its time")
        if not self.packing.waiting or self.hopeless is not None:
            return
        if not use.renewable and not pilots.alive and (self.attempts or self.unresolved):
            # What the pilot before has left may still use its nodes.
            if not self.attempts:
                self.closed_because = "their nodes are still used by processes of an earlier pilot"
        elif use.renewable or not pilots.alive:
            busy = sum(each.nodes for each in self.running)
            wanted = min(pilots.most, math.ceil((busy + self.waiting_nodes) / pilots.nodes))
            while len(pilots.alive) < wanted:
                pilots.ask()
        elif not self.attempts and all(pilot.allocation is not None for pilot in pilots.alive.values()):
            self.closed_because = "they do not fit on the remaining nodes, or into the remaining time"

    def end_silent(self) -> None:
        """Kill the runs that would wait for lost nodes until the deadline of their start."""
        for running in self.attempts.values():
            if running.resolving or running.silent:
                continue
            if nodes := self.starts.silent_nodes(running.pilot, running.start, running.hosts, steady_time()):
                with contextlib.suppress(RunError):  # the next time
                    send_request(running.start.run_dir, "kill")
                    running.silent = nodes

    def resolve(self, futures: list[Future[Attempt]], fault: str) -> None:
        """The workers of repetitions are gone: find out what became of their runs, beside all else and all at once."""
        ends: dict[LeftAttempt, Future[Attempt]] = {}
        for future in futures:
            running = self.attempts.pop(future)
            running.resolving = True
            end = ends[LeftAttempt(running.repetition, running.start)] = Future()
            self.attempts[end] = running
        if ends:
            self.resolver.submit(_look_up, ends, fault)

    def take_end(self, future: Future[Attempt]) -> RepetitionEnd | None:
        """An attempt has ended, or its worker has. None where it is not known yet how."""
        if (running := self.attempts.get(future)) is None:
            return None  # its pilot was lost meanwhile
        if (error := future.exception()) is None:
            del self.attempts[future]
            attempt, pilot = future.result(), self.pilots.alive.get(running.pilot)
            if pilot is None and not running.resolving and attempt.state == "failed":
                # The end of its pilot was seen before that of its run.
                attempt = replace(attempt, state="lost", reason=f"its pilot is lost: {attempt.reason}")
            if attempt.state == "succeeded" or running.resolving or self.is_stopping or pilot is None:
                return self.free(running, attempt)
            # Its place stays taken until the pilot was checked.
            running.resolving = True
            self.attempts[self.checker.submit(pilot.check_attempt, attempt)] = running
            return None
        if running.resolving:
            if not isinstance(error, RunError):
                raise error
            # It keeps its place, and has no end in the ledger: the next call looks at it again.
            del self.attempts[future]
            if str(error) not in self.unresolved:
                self.unresolved.append(str(error))
            return None
        pilot = self.pilots.alive.get(running.pilot)
        if pilot is not None and is_of_all_workers(error):
            self.lose_pilot(pilot, f"its workers no longer answer ({error})")
        else:
            self.resolve([future], f"its worker was lost ({error})")
        return None

    def free(self, running: _RunningAttempt, attempt: Attempt) -> RepetitionEnd:
        """Give its place free, and learn from how it ended."""
        repetition = running.repetition
        if running.silent and attempt.state == "interrupted" and not self.is_stopping:
            text = (
                f"no answer of {', '.join(running.silent)} within {ANSWER_S:.0f} s, although others have started since"
            )
            attempt = replace(attempt, state="lost", reason=text)
        if running.placed:
            if gone := self.gone_hosts(running, attempt):
                attempt = replace(attempt, state="lost")
                self.lose_nodes(running.pilot, gone)
            self.packing.end(self.index[repetition])
        pilot = self.pilots.alive.get(running.pilot)
        if pilot is not None:
            pilot.done += attempt.state != "lost"
        if attempt.state == "succeeded":
            self.starts.note_success(running.pilot, running.start)
            self.revise(repetition.key, attempt.wall_s)
        return repetition, attempt

    def revise(self, key: str, wall_s: float) -> None:
        """A better estimate of a trial; the first of all is one of all trials."""
        first = not self.estimates.any_measured
        self.estimates.add(key, wall_s)
        indices = range(len(self.todo)) if first else self.of_trial[key]
        self.packing.revise({index: self.tried_s(self.estimates.of(self.todo[index].key)) for index in indices})

    def gone_hosts(self, running: _RunningAttempt, attempt: Attempt) -> list[str]:
        """The nodes of which an attempt shows that they are gone.

        A node on which no rank answered is gone where repetitions have succeeded: else the launch line may be wrong.
        """
        if attempt.state == "lost" and running.silent:
            return unanswered(running.start.run_dir, running.hosts)
        if attempt.state == "lost":
            return lost_hosts(running.start.run_dir)
        if attempt.state == "failed" and self.estimates.any_measured:
            return silent_hosts(running.start.run_dir, running.hosts)
        return []

    def lose_nodes(self, name: str, gone: list[str]) -> None:
        """Nodes that are not used again."""
        pilot = self.pilots.alive.get(name)
        hosts = _names(pilot.allocation) if pilot is not None and pilot.allocation else []
        for host in set(gone) & set(hosts):
            self.packing.lose_node(name, hosts.index(host))
            self.pilots.say(f"pilot {name}: node {host} is lost, and not used again")

    def pass_on(self, request: Control) -> None:
        """Ask every run to stop."""
        self.is_stopping = True
        for running in self.attempts.values():
            if request not in running.sent:
                with contextlib.suppress(RunError):  # its directory is not there yet: the next time
                    send_request(running.start.run_dir, request)
                    running.sent.add(request)

    def stop_limits(self) -> Mapping[str, float]:
        """Those that are resolved have a deadline of their own."""
        return {
            each.start.run_dir.name: self.planned.by_key[each.repetition.key].plan.deadlines.stop + 2 * REACTION_S
            for each in self.attempts.values()
            if not each.resolving
        }

    def close(self) -> None:
        """End all pilots."""
        self.pilots.close()
        self.resolver.shutdown(wait=False, cancel_futures=True)
        self.checker.shutdown(wait=False, cancel_futures=True)


def _names(allocation: Allocation) -> list[str]:
    """Its hosts, also those of this machine, which launch lines do not name."""
    return [host.name for host in allocation.hosts]


def _has_result(future: Future[Attempt]) -> bool:
    return future.done() and future.exception() is None


def _look_up(ends: Mapping[LeftAttempt, Future[Attempt]], fault: str) -> None:
    """What has become of attempts whose workers are gone. Those that cannot be ended get the exception."""
    try:
        for left, attempt in adopt(list(ends)):
            assert attempt is not None, "a repetition of a pilot is no job of its own"
            succeeded = attempt.state == "succeeded"
            ends[left].set_result(attempt if succeeded else replace(attempt, state="lost", reason=fault))
    except Exception as error:  # whatever it is, the loop must get it
        for end in ends.values():
            if not end.done():
                end.set_exception(error)


class StartWatch:
    """Detects lost nodes: no node of a repetition answers, although repetitions that began later have succeeded.

    A launcher waits for minutes for a node that is lost while it starts there, and so does a run, for as long as its
    `deadlines: {start: …}` allows: alone it cannot know how long launchers take here. Beside other repetitions on the
    same pilot it shows. Times are in Unix seconds.
    """

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int], float] = {}
        self._answered: set[Path] = set()

    def note_success(self, pilot: str, start: StartedAttempt) -> None:
        """A repetition has succeeded."""
        key = pilot, start.nodes
        self._newest[key] = max(start.t, self._newest.get(key, start.t))

    def silent_nodes(self, pilot: str, start: StartedAttempt, hosts: Sequence[str], now: float) -> list[str]:
        """The nodes of a repetition that are lost. Of another size nothing is concluded: more nodes take longer."""
        if now - start.t < ANSWER_S or start.run_dir in self._answered or not self._has_later(pilot, start):
            return []
        begun = read_json_lines(start.run_dir / EVENTS_FILE).records[:1]
        # The records of its supervisor may be visible here late.
        if not begun or now - start.t < ANSWER_S + begun[0].get("visibility_s", 0.0):
            return []
        silent = unanswered(start.run_dir, hosts)
        if not silent:
            self._answered.add(start.run_dir)
        return silent

    def _has_later(self, pilot: str, start: StartedAttempt) -> bool:
        """Whether one of as many nodes, or more, began later and has succeeded."""
        return any(name == pilot and nodes >= start.nodes and t >= start.t for (name, nodes), t in self._newest.items())


def unanswered(run_dir: Path, hosts: Sequence[str]) -> list[str]:
    """The hosts of a run of which none has answered, without that of its supervisor; none where one has."""
    records = read_json_lines(run_dir / EVENTS_FILE).records
    if not records or any(each.get("event") in _ANSWERS for each in records):
        return []
    return [host for host in hosts if not is_same_host(host, str(records[0].get("host", "")))]
