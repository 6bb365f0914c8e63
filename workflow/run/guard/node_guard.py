"""The guard of a run on one node, a program, once per node of the allocation:

    python -I -S node_guard.py RUN_DIR LIMIT_S [JOB COMMAND…]

It prints what it sees of the run's processes (`guard_lines`), and ends them when the supervisor is dead: when for
LIMIT_S the counter in RUN_DIR/lease.json has not changed, and no byte has come through standard input, where launchers
pass on what the supervisor writes. The file is opened anew each time: an NFS client then asks the
server, as it does for no `stat`, and a file that was replaced is found by its name again.

Nothing in the main thread waits for a file of the run directory: its file system may not answer for minutes.

Given the job of the run, which `wf` submitted for it alone, and the command that ends it, the guard then ends the job
too: without its supervisor it would hold its nodes until its time limit.

It does what RUN_DIR/guard_requests.json asks (`formats.guard_requests`): a launcher that was killed leaves its ranks
behind, and spools may be on the node. It ends with the run: by SIGTERM, which some launchers do not pass on, or
when that file says so, when no process of the run is left on its node. Only the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # where the package is

from workflow.formats.bp_holes import drop_data
from workflow.formats.guard_ends import GuardEnd, note_guard_end
from workflow.formats.guard_requests import GuardRequest, has_requests, read_request
from workflow.formats.job_end_file import JOB_END_FILE, JobEnd, claim_job_end
from workflow.formats.lease_file import BEAT_S, LEASE_FILE, SILENCE_S
from workflow.formats.node_folder import links, remove_here
from workflow.formats.read_json import read_json
from workflow.formats.run_variables import GUARDS_VARIABLE, STAGE_VARIABLE
from workflow.interrupts import own_signals
from workflow.replace_file import replace_file
from workflow.run.guard.guard_lines import LINE_S, NodeLoad, to_lines
from workflow.run.guard.own_node import node_name
from workflow.run.guard.rank_processes import RankFinder, RankProcess, allowed_cores
from workflow.run.processes.kernel_oom_kills import MemoryFacts, MemoryWatch
from workflow.run.processes.process_reaper import end_members, find_members, remove_shared, shared_memory

# Between two looks at the lease. Of 10,000 nodes these are 5,000 opens a second. A silent one is looked at more often.
LOOK_S, _SILENT_LOOK_S = 2.0, 0.5
_SUSPECT_S = 5.0
# One pass takes no longer, unless the guard was stopped meanwhile: by a signal, or with its job.
_LONGEST_PASS_S = 2.0
# How often ranks and what comes in are looked at.
_TURN_S = 0.5
# How often all processes of the node are looked at: often while stages start.
_SCAN_S, _FIRST_SCANS_S = 2.0, 20.0
# What the supervisor says on standard input at the end of a run.
END_WORD = b"e"
# So long after a rank was first seen its MPI may make shared memory.
_MPI_START_S = 120.0
# How often load and memory are sent, where nothing else is.
_LOAD_S = 20.0
# How often what is to end is looked for: a rank may have been on its way here.
_END_LOOKS = 3
_PENDING_BYTES = 1 << 20
# The guard on the supervisor's node, if that lives, writes the verdict in this time, and the job ends with its script.
_OWN_END_S = 5.0
_COMMAND_S = 20.0
# For a file of the run directory, whose file system may not answer.
_FILES_S = 3.0


class HeartbeatMonitor:
    """Decides whether the supervisor of a run has died, by its beats in the lease and in the guard's own pipe. Pure.

    Takes the counter at each look; `silent_s` is how long it has not changed. Nobody's clock is compared: the guard
    counts its own seconds. Seconds in which it was suspended never count, and those in which a look hangs do not count
    as silence of the lease: the file may have changed meanwhile. Where the file system shows the beats late, the
    longest delay so far is added to the 10 s after which the lease is silent, up to `limit_s`. Nothing is added to
    `limit_s`: the supervisor counts on it before it starts a stage again on another node.

    The beats in the pipe come from a thread that touches no file. So where they came:
    - only the lease is silent, or cannot be looked at: the supervisor lives, and its file system stalls;
    - only the pipe is silent: it lives, and the launcher, or a link, stalls;
    - both, for `limit_s`: it is dead, or this node is cut off and what runs here must end before it is started again
      elsewhere. A look that hangs says nothing for the supervisor then;
    - the pipe has been closed, as the kernel does when the supervisor is killed, and the lease is silent for 10 s: it
      is dead.
    Not all launchers pass beats to all nodes: without any the lease alone counts, for `limit_s`.
    """

    def __init__(self, limit_s: float) -> None:
        self.silent_s = 0.0
        self._limit_s = limit_s
        self._pipe_silent_s: float | None = None  # None: no beat has ever come through it
        self._closed = False  # whether the pipe was closed after beats had come
        self._unseen_s = 0.0  # since the lease was last seen to change
        self._beat: int | None = None
        self._longest_s = 0.0

    @property
    def next_look_s(self) -> float:
        """When to look again, from now."""
        return LOOK_S if self.silent_s < _SUSPECT_S else _SILENT_LOOK_S

    @property
    def sees_beats(self) -> bool | None:
        """Whether the lease shows that the supervisor lives; None where that is not known yet."""
        if self._is_silent:
            return False
        return None if self._beat is None else True

    @property
    def why_dead(self) -> str:
        """What has been missed for too long; "" while the supervisor may live. Without any lease nothing is known."""
        if self._pipe_silent_s is None:
            is_dead = self._beat is not None and self.silent_s >= self._limit_s
            return f"no heartbeat of the supervisor in the run directory for {self.silent_s:.0f} s" * is_dead
        if self._closed and self._beat is not None and self._is_silent:
            return f"the supervisor has closed its connection, and shows no heartbeat for {self.silent_s:.0f} s"
        if min(self._pipe_silent_s, self._unseen_s) < self._limit_s:
            return ""
        file = f"the run directory has shown none for {self._unseen_s:.0f} s"
        return f"no heartbeat of the supervisor through the launcher for {self._pipe_silent_s:.0f} s, and {file}"

    def look(self, beat: int | None, passed_s: float) -> None:
        """The counter in the lease, None where it cannot be read, `passed_s` after the look before."""
        if beat is None or beat == self._beat:
            self.silent_s += min(passed_s, 2 * self.next_look_s)
            return
        if self._beat is not None:
            self._longest_s = max(self._longest_s, self.silent_s)
        self._beat, self.silent_s, self._unseen_s = beat, 0.0, 0.0

    def listen(self, heard: bool, closed: bool, passed_s: float) -> None:
        """Whether a beat has come through the pipe, and whether it is closed now, `passed_s` after the call before."""
        passed_s = min(passed_s, _LONGEST_PASS_S)
        self._unseen_s += passed_s
        if heard:
            self._pipe_silent_s = 0.0
        elif self._pipe_silent_s is not None:
            self._pipe_silent_s += passed_s
            self._closed = closed

    @property
    def _is_silent(self) -> bool:
        late_s = min(self._longest_s - BEAT_S - 1.25 * LOOK_S, self._limit_s - SILENCE_S)
        return self.silent_s >= SILENCE_S + max(0.0, late_s)


class _LeaseReader(threading.Thread):
    """Reads the counter again and again: a file system that hangs must not silence the guard."""

    def __init__(self, path: Path, limit_s: float) -> None:
        super().__init__(name="lease", daemon=True)
        self.path = path
        self.monitor = HeartbeatMonitor(limit_s)
        self.has_looked = threading.Event()

    def run(self) -> None:
        """Look for ever."""
        last = time.monotonic()
        while True:
            beat = _read_beat(self.path)
            now = time.monotonic()
            self.monitor.look(beat, now - last)
            last = now
            self.has_looked.set()
            time.sleep(
                self.monitor.next_look_s * (0.75 + os.urandom(1)[0] / 512)
            )  # the nodes must not look all at once


def _read_beat(path: Path) -> int | None:
    try:
        return int(read_json(path.read_bytes())["beat"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


class _BeatPipe:
    """Standard input: the beats of the supervisor, and that the run has ended, where the launcher passes them on to
    this node."""

    def __init__(self) -> None:
        self.is_closed = self.has_ended = False

    def has_beat(self) -> bool:
        """Whether one has come since the last call."""
        came = False
        with contextlib.suppress(OSError, ValueError):
            while not self.is_closed and select.select([0], [], [], 0)[0]:
                said = os.read(0, 4096)
                self.is_closed, self.has_ended = not said, self.has_ended or END_WORD in said
                came = came or not self.is_closed
        return came


class _EndRequest:
    """Whether SIGTERM has come; waiting for it ends when it comes."""

    def __init__(self) -> None:
        self.came = False
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        signal.signal(signal.SIGTERM, self._note)

    def wait(self, timeout_s: float) -> None:
        if self.came:
            time.sleep(timeout_s / 5)
        elif select.select([self._reader], [], [], timeout_s)[0]:
            os.read(self._reader, 512)

    def _note(self, *_: object) -> None:
        self.came = True


class RequestTaker(threading.Thread):
    """Does what the supervisor asks: it ends attempts of stages on this node, frees what spools here hold of old steps,
    and removes the spools at the end.

    A thread, because a file system that hangs must not silence the guard.
    """

    def __init__(self, run_dir: str) -> None:
        super().__init__(name="requests", daemon=True)
        self.problem = ""
        self.ended = False
        self._run_dir, self._known = run_dir, set[Path]()
        self._dropped: dict[str, int] = {}
        self._looked: dict[str, int] = {}

    def run(self) -> None:
        """Look for ever, where the run may ask for anything."""
        while has_requests(self._run_dir):
            self.take(read_request(self._run_dir))
            time.sleep(LOOK_S)

    def take(self, request: GuardRequest) -> None:
        """Do what is asked. What cannot be done, whatever the reason, is a problem, and what follows is done still."""
        for stage_file in request.stages:
            try:
                self._end(stage_file)
            except Exception as error:
                self.problem = f"{stage_file}: what is left of it here cannot be ended: {error!r}"
        self._known |= {*links(self._run_dir).values()}
        for name, first in request.first.items():
            try:
                self._free(name, first)
            except Exception as error:
                why = (error.strerror if isinstance(error, OSError) else "") or repr(error)
                self.problem = f"the spool {name} keeps all its steps: {why}"
        self.ended = request.ended

    def remove_spools(self) -> None:
        """No process of the run uses them any more."""
        remove_here(self._run_dir, list(self._known))

    def _end(self, stage_file: str) -> None:
        if (looks := self._looked.get(stage_file, 0)) < _END_LOOKS:
            self._looked[stage_file] = looks + 1
            end_members(stage_file, within_s=0.5, by=STAGE_VARIABLE)

    def _free(self, name: str, first: int) -> None:
        file = Path(self._run_dir, "streams", name)
        if first <= self._dropped.get(name, 0) or not file.exists():
            return
        self._dropped[name] = first
        drop_data(file, first)


class _GuardOutput:
    """Standard output, which must never hold up the guard: what it does not take now waits, or is dropped."""

    def __init__(self) -> None:
        self._waiting = b""
        with contextlib.suppress(OSError):
            os.set_blocking(1, False)

    def send(self, lines: bytes) -> None:
        if len(self._waiting) < _PENDING_BYTES:
            self._waiting += lines
        # At most a pipe's PIPE_BUF at once, and whole lines: then lines of two nodes do not mix.
        with contextlib.suppress(OSError):
            while self._waiting:
                end = self._waiting.rfind(b"\n", 0, 4096) + 1 or 4096
                self._waiting = self._waiting[os.write(1, self._waiting[:end]) :]


class _RunOnNode:
    """The ranks of the run on this node, and the evidence on their memory."""

    def __init__(self, run_dir: str) -> None:
        self._finder, self._memory = RankFinder(run_dir), MemoryWatch()
        self._known: dict[tuple[str, int], RankProcess] = {}
        self._stages: set[str] = set()
        self._shared: dict[int, set[str]] = {}
        self._first_seen: dict[int, float] = {}
        self._began = self._scanned = time.monotonic()
        self._scanned -= _SCAN_S

    def changes(self, now: float) -> tuple[list[RankProcess], list[tuple[str, int]], dict[str, MemoryFacts]]:
        """(ranks that are new or may use other cores, those that have ended, what is known of the latter's stages)."""
        if now - self._scanned >= _SCAN_S or now - self._began < _FIRST_SCANS_S:
            self._scanned = now
            found = {(each.stage, each.rank): each for each in self._finder.find()}
            self._look_at_shared_memory([each.pid for each in found.values()], now)
        else:
            cores = {key: allowed_cores(each.pid) for key, each in self._known.items()}
            found = {key: self._known[key]._replace(cores=text) for key, text in cores.items() if text is not None}
        changed = [each for key, each in found.items() if self._known.get(key) != each]
        gone = [key for key in self._known if key not in found]
        self._known = found
        self._look_at_memory()
        return changed, gone, {stage: self._memory.facts(stage) for stage in {stage for stage, _ in gone}}

    def remove_shared(self) -> None:
        """Remove the shared memory that killed ranks have left, when no process of the run is left here."""
        remove_shared({path for paths in self._shared.values() for path in paths})

    def _look_at_shared_memory(self, pids: list[int], now: float) -> None:
        """MPI_Init makes it, in the first seconds of a rank; one without MPI has none."""
        for pid in pids:
            first = self._first_seen.setdefault(pid, now)
            if not self._shared.get(pid) and now - first < _MPI_START_S:
                self._shared[pid] = shared_memory([pid])

    def _look_at_memory(self) -> None:
        pids: dict[str, list[int]] = {}
        for each in self._known.values():
            pids.setdefault(each.stage, []).append(each.pid)
        for stage, its in pids.items():
            if stage not in self._stages:
                self._stages.add(stage)
                self._memory.start(stage, its[0])
                self._memory.look(stage, its)
            elif self._memory.is_due(stage):
                self._memory.look(stage, its)


def _end_older_guards(run_dir: str) -> None:
    """End the guards of this run that another launcher has left here: nothing comes through their pipes any more."""
    own = [f"SLURMD_NODENAME={name}".encode() for name in [os.environ.get("SLURMD_NODENAME")] if name]
    for pid in find_members(run_dir, by=GUARDS_VARIABLE):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            names = [word for word in variables if word.startswith(b"SLURMD_NODENAME=")]
            # Not its launcher, which has this program among its words.
            is_guard = words[1:5] == [b"-I", b"-S", os.fsencode(__file__), os.fsencode(run_dir)]
            if is_guard and names == own:
                os.kill(pid, signal.SIGKILL)


def _load() -> NodeLoad | None:
    try:
        text = Path("/proc/meminfo").read_text()
        free = next(line.split()[1] for line in text.splitlines() if line.startswith("MemAvailable:"))
        return NodeLoad(round(os.getloadavg()[0], 2), int(free) * 1024)
    except (OSError, StopIteration, ValueError):
        return None


def _end_job(run_dir: Path, silent_s: float, job: str, command: list[str]) -> None:
    """End the job of a run without a supervisor, unless another guard does. Where the file system does not answer,
    each guard may: to cancel a job twice does no harm."""
    claims: list[bool] = []

    def claim() -> None:
        beat = _read_beat(run_dir / LEASE_FILE)
        ends.append(JobEnd(node_name(), job, silent_s + _OWN_END_S, -1 if beat is None else beat))
        claims.append(claim_job_end(run_dir, ends[0]))

    ends: list[JobEnd] = []
    _apart(claim, _FILES_S)
    if claims == [False]:
        return
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
        problem = "" if done.returncode == 0 else " ".join((done.stderr or done.stdout).split())[:200] or "failed"
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem and claims:
        with contextlib.suppress(OSError):
            replace_file(run_dir / JOB_END_FILE, json.dumps(ends[0]._replace(problem=problem)._asdict()).encode())


def _apart(act: Callable[[], None], within_s: float) -> None:
    """Do something with files in a thread, and wait for it for so long: their file system may not answer."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(within_s)


def main(run_dir: str, limit_s: str, job: str = "", *command: str) -> int:
    """Guard until the run has ended, or its supervisor is dead."""
    own_signals()
    asked = _EndRequest()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # they may be meant for the stages, which end in their own time
    _end_older_guards(run_dir)
    lease = _LeaseReader(Path(run_dir, LEASE_FILE), float(limit_s))
    lease.start()
    node, output, ranks = node_name(), _GuardOutput(), _RunOnNode(run_dir)
    lease.has_looked.wait(_TURN_S)
    requests = RequestTaker(run_dir)
    requests.start()
    pipe, told = _BeatPipe(), lease.monitor.sees_beats
    output.send(b"".join(to_lines(node, load=_load(), sees_beats=told)))
    sent = loaded = listened = time.monotonic()
    while True:
        now = time.monotonic()
        lease.monitor.listen(pipe.has_beat(), pipe.is_closed, now - listened)
        listened = now
        if why := lease.monitor.why_dead:
            output.send(b"".join(to_lines(node, ended=why)))
            _apart(lambda: note_guard_end(Path(run_dir), GuardEnd(node, why)), _FILES_S)
            end_members(run_dir)
            ranks.remove_shared()
            _apart(requests.remove_spools, _FILES_S)
            if job:
                time.sleep(_OWN_END_S)
                _end_job(Path(run_dir), lease.monitor.silent_s, job, list(command))
            return 0
        if (asked.came or requests.ended or pipe.has_ended) and not find_members(run_dir):
            ranks.remove_shared()
            _apart(requests.remove_spools, _FILES_S)
            return 0
        if requests.problem:
            output.send(b"".join(to_lines(node, text=requests.problem)))
            requests.problem = ""
        sees = lease.monitor.sees_beats
        if sees is not None and sees != told:
            told = sees
            output.send(b"".join(to_lines(node, sees_beats=sees)))
        changed, gone, memory = ranks.changes(now)
        if changed or gone or now - sent >= LINE_S - _TURN_S / 2:
            load = _load() if changed or gone or now - loaded >= _LOAD_S else None
            loaded = now if load is not None else loaded
            sent = now
            output.send(b"".join(to_lines(node, ranks=changed, gone=gone, memory=memory, load=load)))
        asked.wait(_TURN_S)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
