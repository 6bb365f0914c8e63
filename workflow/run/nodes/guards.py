"""The guards on all nodes of an allocation, from the supervisor's side: started by one launch line, read, ended."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO

from workflow.formats.guard_requests import REQUEST_FILE, GuardRequest, write_request
from workflow.formats.lease_file import BEAT_S
from workflow.formats.run_variables import GUARDS_VARIABLE, RUN_VARIABLE
from workflow.launch.allocation import Allocation
from workflow.launch.host_lists import is_same_host
from workflow.launch.launch_request import LaunchRequest, RankLayout
from workflow.launch.launchers import LAUNCHERS, make_process
from workflow.plan.launch_requests import launcher_of, node_facts
from workflow.plan.plan_model import Plan, StagePlan
from workflow.run.guard import node_guard
from workflow.run.guard.own_node import node_name
from workflow.run.nodes.lost_nodes import NodeMonitor, RankSeen
from workflow.run.observe.sst_log import last_lines
from workflow.run.processes.kernel_oom_kills import MemoryFacts
from workflow.run.processes.process_reaper import end_members
from workflow.run.processes.stage_processes import inherited_environment
from workflow.run.records.job_record import read_job
from workflow.run.state.events import Event, NodesUnwatched
from workflow.run.state.node_loss import node_limit
from workflow.schedulers.schedulers import scheduler_named

LOG = "guards.log"
_PIPE_BYTES = 1 << 20
# A launcher that ended is started again: a lost node may have ended it, and the guards on the others with it.
_STARTS, _PAUSE_S = 3, 2.0
_END_S = 1.0
# How often the connection to the guards is looked at, where nothing comes.
_TURN_S = 0.25


def guard_request(plan: Plan, hosts: Sequence[str], folder: Path, program: Sequence[str]) -> LaunchRequest | None:
    """One process of this program on each of these hosts, by the launcher of the plan; None where it needs none.

    None, too, where the launcher would wait for cores that the stages have.
    """
    line = launcher_of(plan)
    if line is None or not LAUNCHERS[line.launcher].shares_cores:
        return None
    return LaunchRequest(
        name="guards",
        launcher=line.launcher,
        executable=line.executable,
        arguments=[*line.arguments, *LAUNCHERS[line.launcher].independent],
        program=program,
        ranks=len(hosts),
        layout=RankLayout(nodes=len(hosts), first_node=0, ranks_per_node=1, cores_per_rank=0),
        folder=str(folder),
        cwd=str(folder),
        hosts=hosts,
        node=node_facts(plan),
        options=plan.launch_options,
        start_s=plan.deadlines.start,
    )


class _Connection(threading.Thread):
    """What goes to the guards and comes from them while their launcher runs.

    It touches no file: a run directory that does not answer holds up the loop of the run, and nobody may take that
    for the end of the supervisor, or of a node.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], watch: NodeMonitor, lock: threading.RLock, now: Callable[[], float]
    ) -> None:
        super().__init__(name="guards", daemon=True)
        self._process, self._watch, self._lock, self._now = process, watch, lock, now
        self._events: list[Event] = []
        self._rest = b""
        self._closed = threading.Event()
        pipe = _pipe(process)
        assert process.stdin is not None
        for each in (pipe, process.stdin):
            os.set_blocking(each.fileno(), False)
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def run(self) -> None:
        """Until the launcher has closed its output, or `close` is called."""
        said, goes_on, ready = -math.inf, True, select.poll()
        ready.register(_pipe(self._process), select.POLLIN)
        while goes_on and not self._closed.is_set():
            ready.poll(1000 * _TURN_S)
            if time.monotonic() - said >= BEAT_S:
                said = time.monotonic()
                self.say()
            lines, goes_on = self._lines()
            with self._lock:
                now = self._now()
                self._events += self._watch.take(lines, now)
                self._events += self._watch.look(now)

    def close(self) -> None:
        """Its launcher has ended: come to an end, although something that it has left may hold the pipe."""
        self._closed.set()
        self.join()

    def take(self) -> list[Event]:
        """What has happened since the last call."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def say(self, word: bytes = b"\n") -> None:
        """A beat, or another word, which some launchers pass on to all guards."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            os.write(self._process.stdin.fileno(), word)

    def _lines(self) -> tuple[list[bytes], bool]:
        """The whole lines that have come; whether more may come."""
        parts, goes_on = [self._rest], True
        with contextlib.suppress(BlockingIOError):
            while data := os.read(_pipe(self._process).fileno(), _PIPE_BYTES):
                parts.append(data)
            goes_on = False
        *lines, self._rest = b"".join(parts).split(b"\n")
        return lines, goes_on


class NodeGuards:
    """The guards of one run; none where all of it runs on this host. They never hold it up, and end with it.

    `now` is the clock of the run, in whose times its events are.
    """

    def __init__(
        self, run_dir: Path, plan: Plan, allocation: Allocation, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._run_dir, self._now = run_dir, now
        hosts, own = allocation.host_names, node_name()
        elsewhere = [host for host in hosts if not is_same_host(host, own)]
        limit_s = node_limit(plan).seconds
        job = _own_job(run_dir, allocation)
        program = [sys.executable, "-I", "-S", node_guard.__file__, str(run_dir), f"{limit_s:g}", *job]
        self._make_request = functools.partial(guard_request, plan, folder=run_dir, program=program)
        self._request = self._make_request(hosts) if elsewhere else None
        self._watch = NodeMonitor(hosts if self._request is not None else (), own, limit_s)
        self._lock = threading.RLock()
        self._asked = GuardRequest()
        may_ask = any(
            stage.restart or stage.optional or any(end.on_node for end in stage.ends) for stage in plan.stages
        )
        if self._request is not None and may_ask:
            # Without it the guards do not look.
            with contextlib.suppress(OSError):
                self._ask(self._asked)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: _Connection | None = None
        self._starts = 0
        self._due = 0.0

    def poll(self, now: float) -> list[Event]:
        """Start the guards at the first call; what they have said since the last one."""
        if self._request is None:
            return []
        if self._process is None or self._connection is None:
            return self._start(now) if now >= self._due and self._starts < _STARTS else []
        ended = self._process.poll() is not None
        if ended:
            self._connection.close()
        events = self._connection.take()
        if ended:
            events += self._note_end(now)
        return events

    def doubt(self, failing: Collection[int], down: Mapping[str, str]) -> None:
        """What makes silent nodes lost ones: see `NodeMonitor`."""
        with self._lock:
            self._watch.failing, self._watch.down = failing, down

    def take_changed(self) -> list[RankSeen]:
        """See `NodeMonitor`."""
        with self._lock:
            return self._watch.take_changed()

    def memory_facts(self, stage: str) -> list[tuple[str, MemoryFacts]]:
        """See `NodeMonitor`."""
        with self._lock:
            return [*self._watch.memory_facts(stage)]

    def end_stage(self, stage_file: Path) -> None:
        """Let the guards end what is left of one attempt of a stage, which has this file, on their nodes."""
        if self._request is not None:
            with contextlib.suppress(OSError):
                self._ask(self._asked._replace(stages=(*self._asked.stages, str(stage_file))))

    def free(self, file: str, step: int) -> None:
        """Let them free the data of the steps before this one, of a spool on a node. Raises OSError."""
        self._ask(self._asked._replace(first={**self._asked.first, file: step}))

    def end_run(self, within_s: float) -> bool:
        """Let them remove the spools, and wait until they have ended, on all nodes. Returns whether they have, or none
        is needed. None is started again."""
        if self._request is None:
            return True
        with contextlib.suppress(OSError):
            self._ask(self._asked._replace(ended=True))
        self._starts = _STARTS
        return self._have_left(within_s)

    def let_clear(self, within_s: float) -> None:
        """Let them remove what ranks that were killed have left, where the launcher passes the word on to all of them:
        srun, which then ends them by SIGKILL."""
        if self._request is None or self._connection is None:
            return
        if LAUNCHERS[self._request.launcher].passes_input:
            self._connection.say(node_guard.END_WORD)
            self._have_left(within_s)

    def _have_left(self, within_s: float) -> bool:
        if self._process is None:
            return False
        try:
            return self._process.wait(within_s) == 0
        except subprocess.TimeoutExpired:
            return False

    def close(self) -> None:
        """End the guards. Those on other nodes that do not end now do so without a supervisor's heartbeat."""
        if self._process is not None:
            deadline = time.monotonic() + _END_S
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(max(0.1, deadline - time.monotonic()))
                    break
            if self._connection is not None:
                self._connection.close()
            _close(self._process)
            self._process = self._connection = None
        if self._starts:
            # Launchers put what they start into sessions of their own, and send no signal to what has not reached them
            # yet: it would wait for them for ever.
            end_members(str(self._run_dir), within_s=_END_S, by=GUARDS_VARIABLE)
        self._starts = _STARTS
        with contextlib.suppress(OSError):
            (self._run_dir / REQUEST_FILE).unlink(missing_ok=True)

    def _ask(self, request: GuardRequest) -> None:
        write_request(self._run_dir, request)
        self._asked = request

    def _start(self, now: float) -> list[Event]:
        with self._lock:
            lost = self._watch.lost_hosts
        if lost and self._request is not None:
            self._request = self._make_request([host for host in self._request.hosts if host not in lost])
        assert self._request is not None
        self._starts += 1
        process = make_process(self._request)
        # Without the name of the run: the guards outlive a supervisor that was killed, until they have ended the rest.
        env = {key: value for key, value in inherited_environment(process.without).items() if key != RUN_VARIABLE}
        env[GUARDS_VARIABLE] = str(self._run_dir)
        try:
            for path, text in process.files.items():
                Path(path).write_text(text, encoding="utf-8")
            with (self._run_dir / LOG).open("ab") as log:
                self._process = subprocess.Popen(
                    process.argv, cwd=process.cwd, env={**env, **process.env}, start_new_session=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                )  # fmt: skip
        except OSError as error:
            self._starts = _STARTS
            return [NodesUnwatched(now, f"cannot start {process.argv[0]}: {error.strerror}")]
        self._connection = _Connection(self._process, self._watch, self._lock, self._now)
        self._connection.start()
        return []

    def _note_end(self, now: float) -> list[Event]:
        """The launcher of the guards has ended while the run goes on."""
        assert self._process is not None
        code = self._process.returncode
        _close(self._process)
        self._process = self._connection = None
        self._due = now + _PAUSE_S
        if self._starts < _STARTS:
            return []
        said = " ".join(last_lines(self._run_dir / LOG, 1))
        return [NodesUnwatched(now, f"the guards of the nodes have ended with exit code {code}: {said or LOG}")]


def _own_job(run_dir: Path, allocation: Allocation) -> list[str]:
    """The job of the run and the command that ends it, where `wf` has submitted it for this run alone: [] in a pilot,
    and in an allocation of the user's own."""
    record = read_job(run_dir)
    if record is None or record.scheduler != allocation.source or record.number not in ("", allocation.job):
        return []
    return [f"{record.scheduler} job {allocation.job}", *scheduler_named(record.scheduler).cancel(allocation.job)]


def _may_ask(stage: StagePlan) -> bool:
    """Whether the guards may be asked to end an attempt of a stage, or for what it has on its node."""
    return stage.restart is not None or stage.optional or any(end.on_node for end in stage.ends)


def _pipe(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def _close(process: subprocess.Popen[bytes]) -> None:
    for each in (process.stdin, process.stdout):
        if each is not None:
            each.close()
