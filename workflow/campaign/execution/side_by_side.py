"""Runs the repetitions of a campaign side by side on pilots, each on nodes and cores of its own.

The places are decided by `planning/packing.py`. A repetition is given to the workers of a pilot only when its place is
free, so that none waits there.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from workflow.campaign.execution.adoption import LeftAttempt, adopt
from workflow.campaign.execution.parsl_workers import is_of_all_workers
from workflow.campaign.execution.pilots import Pilot, Pilots, hosts_of
from workflow.campaign.execution.remaining import (
    UNFINISHED,
    AttemptsLeft,
    EndedRepetition,
    RepetitionChoice,
    RepetitionToRun,
    is_spent,
    remaining,
)
from workflow.campaign.execution.repetition import StartedAttempt, lost_hosts, place_text, silent_hosts
from workflow.campaign.execution.start_watch import ANSWER_S, StartWatch, unanswered
from workflow.campaign.execution.worker import DecideOnSite, RepetitionOrder
from workflow.campaign.execution.workplace import Workplace
from workflow.campaign.ledger import Attempt
from workflow.campaign.planning.estimated_duration import EstimatedDurations
from workflow.campaign.planning.packing import Packing, Start
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.planning.trial_requests import to_request
from workflow.campaign.planning.waiting_requests import Request
from workflow.errors import RunError
from workflow.formatting import duration, plural
from workflow.run.cancellation import REACTION_S
from workflow.run.control_requests import Control, send_request
from workflow.site.site_model import Site

# So often pilots are looked at, and requests to stop are read.
_LOOK_S = 0.25
# Pilots that end, one after the other, before any repetition has: then something is wrong with all of them.
_MOST_BARREN = 3
# The same where there is one pilot only, whose workers had answered.
_MOST_BARREN_HERE = 2
# Of the time of a pilot, that a repetition is expected to take at most.
_LARGEST_SHARE = 0.9


@dataclass(frozen=True)
class SideBySide:
    """How repetitions run on pilots. `grace_s`: nothing is to end later than this before the end of a pilot.

    `renewable`: a pilot that ended is replaced by another one, and one that is not needed ends; otherwise the only
    pilot is what this machine, or the job around this process, has.
    """

    pilots: Pilots
    sites: Mapping[str, Site]
    """Key of a trial → its site."""
    decide: DecideOnSite
    share_nodes: bool
    time_s: float = math.inf
    grace_s: float = 0.0
    renewable: bool = False


@dataclass
class _RunningAttempt:
    index: int
    waiting: RepetitionToRun
    start: StartedAttempt
    pilot: str
    hosts: list[str]
    placed: bool = True
    """Whether the packing holds its place: not after its pilot has gone."""
    settling: bool = False
    """Whether its worker is done, or gone, and it is found out how the run ended."""
    sent: set[Control] = field(default_factory=set)
    silent: list[str] = field(default_factory=list)
    """The nodes that were lost while it started: it was killed."""


def execute_side_by_side(
    planned: PlannedCampaign, place: Workplace, how: SideBySide, which: RepetitionChoice = UNFINISHED
) -> Generator[EndedRepetition, None, str]:
    """Run what is not finished, and tell of each attempt that ended. Returns why something is left, if it is.

    Raises RunError when pilots cannot be had, or end one after the other.
    """
    loop = _Loop(planned, place, how, which)
    try:
        yield from loop.run()
        return "; ".join([*([loop.left_because] if loop.left_because else []), *loop.stubborn])
    finally:
        loop.close()


class _Loop:
    """The state of one call."""

    def __init__(self, planned: PlannedCampaign, place: Workplace, how: SideBySide, which: RepetitionChoice) -> None:
        self.planned, self.place, self.how = planned, place, how
        self.todo = remaining(planned, place.ledger.history, which)
        spec = planned.spec
        self.estimates = EstimatedDurations.from_history(place.ledger.history, spec.expected, spec.deadline)
        self.packing = Packing([self.request(each) for each in self.todo])
        self.attempts = AttemptsLeft(planned, place.ledger.history, self.todo, which)
        self.waiting_nodes = sum(each.trial.nodes for each in self.todo)
        self.of_trial: dict[str, list[int]] = {}
        for index, each in enumerate(self.todo):
            self.of_trial.setdefault(each.trial.key, []).append(index)
        self.running: dict[Future[Attempt], _RunningAttempt] = {}
        self.settler = ThreadPoolExecutor(1, thread_name_prefix="settle")
        self.judge = ThreadPoolExecutor(1, thread_name_prefix="judge")
        self.starts = StartWatch()
        self.barren = 0
        self.hopeless: RunError | None = None
        self.left_because = ""
        self.stubborn: list[str] = []
        self.began = time.monotonic()
        self.stop_since: float | None = None

    def request(self, each: RepetitionToRun) -> Request:
        """What a repetition asks of a pilot. A guess, and what another pilot has no more time for, is tried."""
        asked = to_request(
            each.trial, each.repetition, self.planned.spec, self.estimates, share_nodes=self.how.share_nodes
        )
        is_guess = self.planned.spec.expected is None and not self.estimates.any_measured
        if not is_guess and not self.how.renewable:
            return asked
        most_s = max(0.0, _LARGEST_SHARE * (self.how.time_s - self.how.grace_s))
        return replace(asked, expected_s=min(asked.expected_s, most_s))

    def run(self) -> Iterator[EndedRepetition]:
        """Until nothing runs and nothing can start."""
        while True:
            stop = self.place.stop.wanted()
            self.look_at_pilots()
            if self.hopeless is not None and not any(each.settling for each in self.running.values()):
                raise self.hopeless
            if stop is None and not self.left_because and self.hopeless is None:
                self.end_silent()
                self.start_all()
                self.balance_pilots()
            elif stop is not None:
                self.pass_on(stop)
            if not self.running and (stop is not None or self.left_because or not self.packing.waiting):
                return
            done, _ = wait(self.running, _LOOK_S, FIRST_COMPLETED)
            if not self.running:
                time.sleep(_LOOK_S)
            for future in done:
                yield from self.take_end(future)

    def look_at_pilots(self) -> None:
        """Pilots that have come, and those that have gone."""
        for pilot in list(self.how.pilots.alive.values()):
            was_ready = pilot.allocation is not None
            if fault := pilot.look():
                self.lose_pilot(pilot, fault)
            elif not was_ready and pilot.allocation is not None:
                self.take_pilot(pilot)
            elif news := pilot.news():
                self.how.pilots.say(f"pilot {pilot.name}: {news}")

    def take_pilot(self, pilot: Pilot) -> None:
        """Its nodes can be used from now on."""
        allocation = pilot.allocation
        assert allocation is not None
        site = next(iter(self.how.sites.values()))
        until_s = math.inf if allocation.end_time is None else allocation.end_time - self.how.grace_s
        if allocation.end_time is None:
            until_s = time.time() + self.how.time_s - self.how.grace_s
        self.packing.add_pilot(pilot.name, len(allocation.hosts), site.usable_cores, until_s)
        if self.how.renewable:
            names = [host.name for host in allocation.hosts]
            shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
            self.how.pilots.say(f"pilot {pilot.name}: has {plural(len(names), 'node')}: {shown}")

    def lose_pilot(self, pilot: Pilot, fault: str) -> None:
        """It ended, or is of no use: what runs there is looked up in the run directories, and runs again if need be."""
        if pilot.allocation is not None:
            self.packing.remove_pilot(pilot.name)
        self.how.pilots.say(f"pilot {pilot.name} is lost: {fault}")
        self.how.pilots.end(pilot.name, lost=True)
        gone = [(future, running) for future, running in self.running.items() if running.pilot == pilot.name]
        for _, running in gone:
            running.placed = False
        is_open = [future for future, running in gone if not running.settling and not _has_result(future)]
        self.settle(is_open, fault)
        self.count_barren(pilot, fault)

    def count_barren(self, pilot: Pilot, fault: str) -> None:
        """Give up when pilots end one after the other without a repetition that ended."""
        self.barren = 0 if pilot.done else self.barren + 1
        most = _MOST_BARREN if self.how.renewable else _MOST_BARREN_HERE if pilot.allocation is not None else 1
        if self.barren >= most:
            self.hopeless = RunError(f"no repetition could run: {fault}", f"see {pilot.folder}")

    def balance_pilots(self) -> None:
        """Ask for pilots while work waits, and end those that have none."""
        pilots, how = self.how.pilots, self.how
        for pilot in list(pilots.alive.values()):
            if how.renewable and pilot.allocation is not None and self.packing.is_idle(pilot.name):
                self.packing.remove_pilot(pilot.name)
                pilots.end(pilot.name)
                pilots.say(f"pilot {pilot.name}: ended, nothing that waits fits there")
                if self.packing.waiting:
                    self.count_barren(pilot, "what waits does not fit on a pilot, or in its time")
        if not self.packing.waiting or self.hopeless is not None:
            return
        if not how.renewable and not pilots.alive and (self.running or self.stubborn):
            # What the pilot before has left may still use its nodes.
            if not self.running:
                self.left_because = "their nodes are used by what was left of a pilot"
        elif how.renewable or not pilots.alive:
            busy = sum(each.waiting.trial.nodes for each in self.running.values())
            wanted = min(pilots.most, math.ceil((busy + self.waiting_nodes) / pilots.nodes))
            while len(pilots.alive) < wanted:
                pilots.ask()
        elif not self.running and all(pilot.allocation is not None for pilot in pilots.alive.values()):
            self.left_because = "they do not fit on the nodes, or in the time, that are left"

    def start_all(self) -> None:
        """Everything for which there is room now."""
        while (start := self.packing.next_start(time.time())) is not None:
            waiting = self.todo[start.index]
            if is_spent(self.planned, self.place.ledger.history, waiting.trial.nodes, self.promised()):
                self.packing.end(start.index)
                self.packing.put_back(start.index)
                self.left_because = "the budget is spent"
                return
            self.start(start, waiting)

    def promised(self) -> tuple[float, float]:
        """Seconds and node-seconds that what runs now is expected to take."""
        expected = self.planned.spec.expected or 0.0
        return expected * len(self.running), expected * sum(each.waiting.trial.nodes for each in self.running.values())

    def start(self, start: Start, waiting: RepetitionToRun) -> None:
        """Give a repetition to the workers of its pilot."""
        pilot, trial = self.how.pilots.alive[start.pilot], waiting.trial
        assert pilot.allocation is not None
        allocation = hosts_of(pilot.allocation, start.place.nodes)
        hosts = [host.name for host in allocation.hosts]
        where = place_text(hosts, start.place.cores)
        begun = self.place.begin(waiting, where)
        site, common = self.how.sites[trial.key], pilot.circumstances(self.place.circumstances(trial))
        order = RepetitionOrder(
            begun, trial.loaded, trial.plan, site, start.place.cores, allocation, common, self.how.decide
        )
        self.waiting_nodes -= trial.nodes
        self.running[pilot.submit(order)] = _RunningAttempt(start.index, waiting, begun, start.pilot, hosts)

    def end_silent(self) -> None:
        """Kill the runs that would wait for lost nodes until the deadline of their start."""
        for running in self.running.values():
            if running.settling or running.silent:
                continue
            if nodes := self.starts.silent_nodes(running.pilot, running.start, running.hosts, time.time()):
                with contextlib.suppress(RunError):  # the next time
                    send_request(running.start.run_dir, "kill")
                    running.silent = nodes

    def settle(self, futures: list[Future[Attempt]], fault: str) -> None:
        """The workers of repetitions are gone: find out what became of their runs, beside all else and all at once."""
        ends: dict[LeftAttempt, Future[Attempt]] = {}
        for future in futures:
            running = self.running.pop(future)
            running.settling = True
            end = ends[LeftAttempt(running.waiting.identity, running.start)] = Future()
            self.running[end] = running
        if ends:
            self.settler.submit(_look_up, ends, fault)

    def take_end(self, future: Future[Attempt]) -> Iterator[EndedRepetition]:
        """An attempt has ended, or its worker has."""
        if (running := self.running.get(future)) is None:
            return  # its pilot was lost meanwhile
        if (error := future.exception()) is None:
            del self.running[future]
            attempt, pilot = future.result(), self.how.pilots.alive.get(running.pilot)
            if attempt.state == "succeeded" or running.settling or self.stop_since is not None or pilot is None:
                yield from self.record(running, attempt)
            else:
                # Its place stays taken until the pilot was judged.
                running.settling = True
                self.running[self.judge.submit(pilot.judge, attempt)] = running
            return
        if running.settling:
            if not isinstance(error, RunError):
                raise error
            # It keeps its place, and has no end in the ledger: the next call looks at it again.
            del self.running[future]
            if str(error) not in self.stubborn:
                self.stubborn.append(str(error))
            return
        pilot = self.how.pilots.alive.get(running.pilot)
        if pilot is not None and is_of_all_workers(error):
            self.lose_pilot(pilot, f"its workers are not heard of any more ({error})")
        else:
            self.settle([future], f"its worker was lost ({error})")

    def record(self, running: _RunningAttempt, attempt: Attempt) -> Iterator[EndedRepetition]:
        """Into the ledger; what failed or was lost waits again, as often as it may."""
        index, waiting = running.index, running.waiting
        if running.silent and attempt.state == "interrupted" and self.stop_since is None:
            text = f"no answer of {', '.join(running.silent)} within {ANSWER_S:.0f} s, in which others have started"
            attempt = replace(attempt, state="lost", reason=text)
        if running.placed:
            if gone := self.gone_hosts(running, attempt):
                attempt = replace(attempt, state="lost")
                self.lose_nodes(running.pilot, gone)
            self.packing.end(index)
        self.place.end(self.planned, waiting.identity, attempt)
        pilot = self.how.pilots.alive.get(running.pilot)
        if pilot is not None:
            pilot.done += attempt.state != "lost"
        if attempt.state == "succeeded":
            self.starts.note_success(running.pilot, running.start)
            self.revise(waiting.trial.key, attempt.wall_s)
        if self.attempts.take(index, attempt):
            self.packing.put_back(index)
            self.waiting_nodes += waiting.trial.nodes
        yield self.attempts.tell(index, attempt, time.monotonic() - self.began)

    def revise(self, key: str, wall_s: float) -> None:
        """A better estimate of a trial; the first of all is one of all trials."""
        first = not self.estimates.any_measured
        self.estimates.add(key, wall_s)
        indices = range(len(self.todo)) if first else self.of_trial[key]
        self.packing.revise({index: self.request(self.todo[index]).expected_s for index in indices})

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
        pilot = self.how.pilots.alive.get(name)
        hosts = [host.name for host in pilot.allocation.hosts] if pilot is not None and pilot.allocation else []
        for host in set(gone) & set(hosts):
            self.packing.lose_node(name, hosts.index(host))
            self.how.pilots.say(f"pilot {name}: node {host} is lost, and not used again")

    def pass_on(self, request: Control) -> None:
        """Ask every run to stop. Raises RunError when they do not end."""
        now = time.monotonic()
        if self.stop_since is None:
            self.stop_since = now
        for running in self.running.values():
            if request not in running.sent:
                with contextlib.suppress(RunError):  # its directory is not there yet: the next time
                    send_request(running.start.run_dir, request)
                    running.sent.add(request)
        # Those that are settled have a deadline of their own.
        late = [each for each in self.running.values() if not each.settling]
        longest_s = max((each.waiting.trial.plan.deadlines.stop for each in late), default=0.0) + 2 * REACTION_S
        if late and now - self.stop_since > longest_s:
            names = ", ".join(each.start.run_dir.name for each in late)
            text = f"{names}: not stopped within {duration(longest_s)}"
            raise RunError(text, "the next `wf campaign run` looks for what became of them")

    def close(self) -> None:
        """End all pilots."""
        self.how.pilots.close()
        self.settler.shutdown(wait=False, cancel_futures=True)
        self.judge.shutdown(wait=False, cancel_futures=True)


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
