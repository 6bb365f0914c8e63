"""The stages as processes: start, wait, signal, and how each ended. None survives its `StageProcesses`."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

from workflow.formats.run_variables import RANK_NAME_VARIABLE, RUN_VARIABLE, STAGE_VARIABLE
from workflow.formats.stage_file import STAGE_FILE
from workflow.launch.launchers import LAUNCHERS, ProcessSpec
from workflow.redaction import read_secrets
from workflow.run.observe.sst_log import last_lines
from workflow.run.processes import process_reaper, run_guard
from workflow.run.processes.adios2_workarounds import use_up_ids, wait_for_ranks
from workflow.run.processes.kernel_oom_kills import MemoryFacts, MemoryWatch
from workflow.run.processes.process_tree import (
    CpuUse,
    children,
    cpu_use,
    descendants,
    exit_status,
    has_children,
    is_alone_in_adios2,
    is_running,
    is_suspended,
    living_ranks,
    local_ranks,
    writers_of,
)
from workflow.run.state.events import RanksEnded

# Set where a launcher has started wf itself: a stage started directly is not a rank of that launch.
_FOREIGN = ("PMI_", "PMIX_", "PALS_RANKID", "OMPI_COMM_WORLD_", "SLURM_PROCID", "SLURM_LOCALID")
_OWN = ("PYDANTIC_DISABLE_PLUGINS", "__all__")  # what `wf` sets for itself


def why_not_started(error: OSError | ValueError, program: str) -> str:
    """Why a process could not be started. The system does not tell apart a script and its interpreter."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno == errno.ENOEXEC:
        return f"{error.strerror}: a script has a first line such as `#!/bin/sh`"
    if error.errno == errno.ENOENT and error.filename == program and Path(program).exists():
        return f"{error.strerror}: the interpreter in its first line is not there"
    return str(error.strerror)


def inherited_environment(without: Iterable[str] = ()) -> dict[str, str]:
    """What a process of a run gets of the environment of wf: nothing that others have set for wf, and not `without`.

    These are names, or beginnings that end in `*`.
    """
    names = {name for name in without if not name.endswith("*")}
    beginnings = (*_FOREIGN, *(name[:-1] for name in without if name.endswith("*")))
    mine = (item for item in os.environ.items() if item != _OWN)
    return {key: value for key, value in mine if not key.startswith(beginnings) and key not in names}


@dataclass(frozen=True)
class Ending:
    """How a stage ended: an exit code, or a signal, or both where a launcher reports the signal of a rank."""

    code: int | None
    signal: int | None
    note: str = ""
    cpu_s: float | None = None  # of all its processes
    by_supervisor: bool = False
    peak_bytes: int | None = None  # the largest resident memory of one of its processes


def to_ending(code: int, launcher: str, lines: Iterable[str]) -> Ending:
    """A process's exit as Popen gives it, with what its launcher's last lines report of the failed rank. Pure."""
    if code < 0:
        return Ending(None, -code)
    known, lines = LAUNCHERS[launcher], list(lines)
    if code and known.not_started is not None and (said := known.not_started.search("\n".join(lines))):
        return Ending(code, None, f"{launcher} did not start it: {said[1]}")
    number = known.signal_of(code, lines) if code else None
    return Ending(code, number, "one of its ranks" if number is not None else "")


def early_end_note(killed: int, spec: ProcessSpec) -> str:
    """What has ended ranks whose launcher reports success."""
    who = "one of its ranks" if killed == 1 else f"{killed} of its ranks"
    return (
        f"{who}, by {Path(spec.argv[0]).name}, which reports success: another rank had left before, with exit code 0 "
        "and without MPI_Finalize (an exit, or MPI_Abort)"
    )


def by_first_end(ending: Ending, first: RanksEnded | None) -> Ending:
    """How a stage ended by what was said of the ranks that ended first: a launcher may report how it ended the others.

    An exit code of 0 stands. Pure.
    """
    if first is None or ending.code == 0:
        return ending
    if first.cause == "killed" and first.number is not None:
        return replace(ending, signal=first.number)
    return replace(ending, code=first.number, signal=None) if first.cause == "exited" else ending


_LOST_STATUS = 255  # of a process that has ended in an unknown way, in place of an exit code
_LAST_LINES = 12  # of a launcher's output, where it may say how a rank ended
# A launcher outlives its ranks by a moment when all goes well.
_LOST_S = 1.0
_FAR_END_S = 2.0  # how long it has to end its ranks on other nodes
_OTHER_FILES = 400  # of this process, beside one per stage
# How many ranks are held by a pidfd: of a stage, and in all. A launcher that kills ranks kills all that are left.
_RANKS_OF_STAGE, _RANKS_HELD = 16, 200
_RANKS_FIRST_S, _RANKS_LOOK_S = 1.0, 0.02  # how long, and how often, to look for ranks that have just been started
_RANKS_END_S = 0.3  # a launcher may end before the ranks that it has killed
_MAPS_FIRST_S, _MAPS_S = 0.25, 60.0  # between the first looks at the ranks' memory; how long to look
_LOOK_S = 1.0  # how often to look at groups that have outlived their leader


class StageProcesses:
    """The processes of one run. A context manager: leaving it ends all that is left."""

    def __init__(self, run_dir: Path, stages: int = 0) -> None:
        self._run_dir = run_dir
        self._open_files = _allow_open_files(stages + _OTHER_FILES)
        self._running: dict[str, tuple[ProcessSpec, subprocess.Popen[bytes]]] = {}
        self._here: set[str] = set()  # what runs on this node with all its processes
        self._groups: set[int] = set()  # the stages' process groups in which something may live
        self._may_live = False  # whether a process of the run may live: one has been started since all were ended
        self._looked = 0.0
        self._memory = MemoryWatch()
        self._shared: dict[str, set[str]] = {}  # launched stage → its shared memory
        # Launched stage → processes seen, when the last one was added, when to look for shared memory again.
        self._looks: dict[str, tuple[frozenset[int], float, float]] = {}
        self._lost: dict[str, float] = {}  # launchers that had children → since when they have none
        self._left: dict[str, tuple[Path, int]] = {}  # what has ended → its folder, its process group
        self._began: dict[str, float] = {}  # when those were started (monotonic)
        self._ranks: dict[str, dict[int, int]] = {}  # launched stage → some of its ranks, by their pidfds
        self._ended: set[str] = set()  # stages whose launcher was killed here for that
        self._selector = selectors.DefaultSelector()
        self._readable: set[int] = set()
        self._guard = _start_guard(run_dir)

    def __enter__(self) -> StageProcesses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_all()
        for name in self._running:
            self._close_exit_descriptor(name)
        self._selector.close()
        if self._open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._open_files)
        with contextlib.suppress(OSError):
            _pipe(self._guard).write(f"{run_guard.DONE}\n".encode())
        with contextlib.suppress(OSError):
            _pipe(self._guard).close()
        self._guard.wait()

    def watch(self, descriptor: int) -> None:
        """Let `wait` return when this can be read, too."""
        self._selector.register(descriptor, selectors.EVENT_READ, None)

    def unwatch(self, descriptor: int) -> None:
        """No longer: one that stays readable would let `wait` return at once for ever."""
        self._selector.unregister(descriptor)

    def start(self, process: ProcessSpec) -> int:
        """Start a process in its own session and return its id. Raises OSError when that fails."""
        if process.separate_ids and self._groups:
            use_up_ids()
        self._may_live = True
        for path, text in process.files.items():
            Path(path).write_text(text, encoding="utf-8")
        own = {
            RUN_VARIABLE: str(self._run_dir),
            STAGE_VARIABLE: str(process.folder / STAGE_FILE),
            RANK_NAME_VARIABLE: LAUNCHERS[process.launcher].rank_variable,
        }
        log = process.folder / "stdout.log", process.folder / "stderr.log"
        with log[0].open("ab") as out, log[1].open("ab") as err, _on_cores(process):
            env = {**inherited_environment(process.without), **process.env, **read_secrets(process.secrets), **own}
            started = subprocess.Popen(
                process.argv, cwd=process.cwd, env=env, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip
        if self._open_files is not None:
            with contextlib.suppress(OSError):  # it has ended already
                resource.prlimit(started.pid, resource.RLIMIT_NOFILE, self._open_files)
        self._running[process.name] = process, started
        if _has_all_processes_here(process):
            self._here.add(process.name)
        self._groups.add(started.pid)
        self._tell(started.pid)
        self._memory.start(process.name, started.pid)
        if process.is_here and _has_proxies(process) and hasattr(os, "pidfd_open"):
            self._ranks[process.name], self._began[process.name] = {}, time.monotonic()
        self._selector.register(_exit_descriptor(started), selectors.EVENT_READ, process.name)
        if process.separate_ids and LAUNCHERS[process.launcher].ranks_below:
            wait_for_ranks(started.pid, process.ranks)
        return started.pid

    def end_lost(self, now: float) -> None:
        """Kill the launchers that have lost their ranks and would wait for ever (`Launcher.outlives_ranks`)."""
        if len(self._groups) > len(self._running) and now - self._looked > _LOOK_S:
            self._looked = now
            self._forget_groups()  # what outlived its leader may have ended
        for name, (spec, process) in self._running.items():
            launcher = LAUNCHERS[spec.launcher]
            if self._memory.is_due(name):
                below = descendants(process.pid) if launcher.ranks_below else ()
                self._memory.look(name, [process.pid, *below])
            if not launcher.outlives_ranks or not launcher.ranks_below:
                continue
            if not self._shared.get(name):
                # While it lives: when one rank dies, its launcher ends the others at once.
                self._find_shared(name, frozenset(descendants(process.pid)), now)
            if has_children(process.pid):
                self._lost[name] = math.inf  # from now on it has something to lose
            elif name in self._lost:
                self._lost[name] = min(self._lost[name], now)
                if now - self._lost[name] > _LOST_S:
                    self._ended.add(name)
                    with contextlib.suppress(OSError):
                        process.kill()

    def _find_shared(self, name: str, processes: frozenset[int], now: float) -> None:
        """Look for the shared memory of a launcher's processes, at growing intervals after a process has been added.

        MPICH's ranks map it some time after their start, those of other MPIs never: reading `maps` costs more than all
        else that is done for a stage.
        """
        known, since, due = self._looks.get(name, (frozenset[int](), now, now))
        if not processes <= known:
            known, since, due = known | processes, now, now
        if now >= due and due - since <= _MAPS_S:
            # What was seen stays: of ranks that have just died nothing is seen any more.
            self._shared[name] = self._shared.get(name, set()) | process_reaper.shared_memory(processes)
            due = now + max(_MAPS_FIRST_S, now - since)
        self._looks[name] = known, since, due

    def wait(self, timeout_s: float) -> list[str]:
        """Wait for the end of a stage, a readable descriptor, or `timeout_s`. Returns the stages that ended."""
        if self._hold_ranks():
            timeout_s = min(timeout_s, _RANKS_LOOK_S)
        ready = [key for key, _ in self._selector.select(max(0.0, timeout_s))]
        self._readable = {key.fd for key in ready}
        return [key.data for key in ready if key.data is not None]

    def _hold_ranks(self) -> bool:
        """Hold some ranks of each launcher, so that the kernel says how they have ended. Returns whether to look again
        soon."""
        soon = False
        for name, held in self._ranks.items():
            spec, process = self._running[name]
            wanted = min(spec.ranks, _RANKS_OF_STAGE)
            if len(held) >= wanted or sum(map(len, self._ranks.values())) >= _RANKS_HELD:
                continue
            now = time.monotonic()
            soon = soon or now < self._began.get(name, 0.0) + _RANKS_FIRST_S
            for rank in local_ranks(process.pid)[:wanted]:
                if rank not in held:
                    with contextlib.suppress(OSError):
                        held[rank] = os.pidfd_open(rank)
        return soon

    def without_ranks(self, limit_s: float) -> list[str]:
        """The launchers whose ranks are all to run on this node, that have run for so long and have started none; each
        is told once."""
        begun = time.monotonic() - limit_s
        found = [name for name, held in self._ranks.items() if self._began.get(name, math.inf) < begun and not held]
        found = [name for name in found if not local_ranks(self._running[name][1].pid)]
        for name in found:
            del self._began[name]
        return found

    @staticmethod
    def _killed_ranks(held: Mapping[int, int]) -> list[int]:
        """Those of these ranks that were ended by a signal, now that their launcher has ended, as far as is known."""
        deadline = time.monotonic() + _RANKS_END_S
        while any(is_running(pid) for pid in held) and time.monotonic() < deadline:
            time.sleep(_RANKS_LOOK_S)
        ends = {pid: exit_status(pid, descriptor) for pid, descriptor in held.items()}
        return [pid for pid, status in ends.items() if status is not None and os.WIFSIGNALED(status)]

    def can_read(self, descriptor: int) -> bool:
        """Whether a watched descriptor could be read at the last `wait`."""
        return descriptor in self._readable

    def is_alive(self, name: str) -> bool | None:
        """Whether all processes of a stage live; False when it is about to end. None when it has ended, or cannot be
        seen: its ranks are on other nodes.
        """
        if name not in self._running:
            return None
        spec, process = self._running[name]
        if _has_exited(process):
            return None
        if not LAUNCHERS[spec.launcher].starts_ranks:
            return True
        if not _has_all_processes_here(spec):
            return None
        return living_ranks(process.pid) >= spec.ranks

    def collect(self, name: str) -> Ending:
        """How a stage that has ended did so."""
        # Before it is reaped: until then no other process can get its id.
        self._forget_groups()
        spec, process = self._running.pop(name)
        self._left[name] = spec.folder, process.pid if process.pid in self._groups else 0
        self._close_exit_descriptor(name)
        code, usage = _reap(process)
        held = self._ranks.pop(name, {})
        killed = self._killed_ranks(held) if code == 0 else []
        for descriptor in held.values():
            os.close(descriptor)
        cpu_s = usage.cpu_s if _has_all_processes_here(spec) else None
        if code is None:
            return Ending(None, None, "another part of this process, or the system, has taken its exit status", cpu_s)
        if code < 0 and LAUNCHERS[spec.launcher].starts_ranks:
            lost = "its launcher had lost its ranks"
            itself = f"its launcher ({spec.launcher}, process {process.pid}) was killed"
            ours = name in self._ended
            return Ending(None, -code, lost if ours else itself, cpu_s, ours, usage.peak_bytes)
        if killed:
            return Ending(0, signal.SIGKILL, early_end_note(len(killed), spec), cpu_s, True, usage.peak_bytes)
        lines = [*_tail(spec.folder / "stdout.log"), *_tail(spec.folder / "stderr.log")]
        ending = to_ending(code, spec.launcher, lines)
        return replace(ending, cpu_s=cpu_s, peak_bytes=usage.peak_bytes)

    def left_behind(self, names: Collection[str]) -> dict[str, list[str]]:
        """What these have started and not ended before they ended themselves → the programs, where they live still.

        By their environment, wherever they have gone; what has emptied that, by its process group and session.
        """
        known = {str(self._left[name][0] / STAGE_FILE): name for name in names if name in self._left}
        if not known:
            return {}
        groups = {file: group for file, name in known.items() if (group := self._left[name][1]) in self._groups}
        found = process_reaper.left_processes(str(self._run_dir), groups, STAGE_VARIABLE)
        return {known[file]: programs for file, programs in found.items() if file in known}

    def memory_facts(self, name: str) -> MemoryFacts:
        """What the kernel reports of the memory of a process that was started here, now that it has been killed."""
        return self._memory.facts(name)

    def processes_seen(self, name: str) -> list[int]:
        """The ids of all processes of a stage that were seen here, also when they have ended."""
        return self._memory.processes(name)

    def has_all_here(self, name: str) -> bool:
        """Whether all processes of what was started under this name run on this node."""
        return name in self._here

    def _pids_here(self, name: str) -> list[int]:
        """All processes of a stage; [] when it has ended, or cannot be seen, as `cpu_use` says."""
        if name not in self._running or not _has_all_processes_here(self._running[name][0]):
            return []
        pid = self._running[name][1].pid
        return [pid, *descendants(pid)]

    def cpu_use(self, name: str) -> CpuUse | None:
        """CPU time of the programs of a stage up to now, without that of its launcher and the launcher's proxies, which
        may spin while they wait. None when it has ended, or cannot be seen: its ranks are on other nodes."""
        pids = self._pids_here(name)
        if not pids:
            return None
        spec = self._running[name][0]
        proxies = children(pids[0]) if _has_proxies(spec) else []
        return cpu_use(pids, {pids[0], *proxies} if LAUNCHERS[spec.launcher].starts_ranks else ())

    def writers_of(self, name: str, path: Path) -> int:
        """How many processes of a stage have opened this file for writing; 0 where they cannot be seen, as `cpu_use`
        says."""
        return len(writers_of(self._pids_here(name), path))

    def alone_in_adios2(self, name: str) -> int:
        """How many processes of a stage use ADIOS2 and are certainly no ranks of one program; 0 where they cannot be
        seen, as `cpu_use` says."""
        return sum(is_alone_in_adios2(pid) for pid in self._pids_here(name))

    def is_suspended(self, name: str) -> bool:
        """Whether processes of a stage have been stopped by a signal; False where they cannot be seen, as `cpu_use`
        says."""
        return is_suspended(self._pids_here(name))

    def _close_exit_descriptor(self, name: str) -> None:
        for key in list(self._selector.get_map().values()):
            if key.data == name:
                self._selector.unregister(key.fd)
                os.close(key.fd)

    def _forget_groups(self) -> None:
        """Forget groups without a living process: other processes may get their ids."""
        for group in self._groups - process_reaper.living_groups(self._groups):
            self._groups.remove(group)
            self._tell(-group)

    def _tell(self, number: int) -> None:
        with contextlib.suppress(OSError):
            _pipe(self._guard).write(b"%d\n" % number)

    def signal(self, stages: Iterable[str], number: int) -> None:
        """Signal the process groups of these stages; SIGKILL goes to all that belongs to the run."""
        for name in stages:
            if name in self._running:
                if self._running[name][0].ranks > 1:
                    found = process_reaper.shared_memory(descendants(self._running[name][1].pid))
                    self._shared[name] = self._shared.get(name, set()) | found
                with contextlib.suppress(OSError):
                    os.killpg(self._running[name][1].pid, number)
        if number == signal.SIGKILL:
            process_reaper.end_members(str(self._run_dir), self._groups, within_s=0.5)

    def pass_on(self, name: str, number: int) -> None:
        """Signal one process, a program or a launcher, which passes the signal on to its ranks."""
        if name in self._running:
            with contextlib.suppress(OSError):
                os.kill(self._running[name][1].pid, number)

    def end(self, name: str, folder: Path) -> None:
        """Kill all that runs of one stage that was started in this folder; the others go on.

        A launcher that is killed leaves the ranks on other nodes, and ends them when it gets SIGTERM before.
        """
        groups = []
        if name in self._running:
            spec, process = self._running[name]
            groups = [process.pid]
            if LAUNCHERS[spec.launcher].other_machines:
                self.pass_on(name, signal.SIGTERM)
                deadline = time.monotonic() + _FAR_END_S
                while not _has_exited(process) and time.monotonic() < deadline:
                    time.sleep(0.01)
        process_reaper.end_members(str(folder / STAGE_FILE), groups, 0.5, STAGE_VARIABLE)

    def end_all(self) -> set[int]:
        """Kill what is left of the run, at once. Returns the ids of processes that did not end."""
        if not self._may_live:  # finding the processes takes 10 ms
            return set()
        left = process_reaper.end_members(str(self._run_dir), self._groups)
        for _, process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        if not left:
            self._may_live = False
            process_reaper.remove_shared(path for paths in self._shared.values() for path in paths)
        return left


class _Usage(NamedTuple):
    """Of a process that has ended, and of those below it: CPU time, and the largest resident memory of one of them."""

    cpu_s: float | None = None
    peak_bytes: int | None = None


def _reap(process: subprocess.Popen[bytes]) -> tuple[int | None, _Usage]:
    """(exit code as of Popen, what it used) of a process that has ended; the code is None where somebody else has
    taken it: a program in whose process this runs, or the system, while SIGCHLD is ignored.

    Linux counts the memory of this process, from which that one was forked: up to that size nothing is known.
    """
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:
        process.returncode = _LOST_STATUS  # nobody waits for it again
        return None, _Usage()
    process.returncode = os.waitstatus_to_exitcode(status)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = usage.ru_maxrss * 1024 if usage.ru_maxrss > own else None
    return process.returncode, _Usage(round(usage.ru_utime + usage.ru_stime, 6), peak)


def _has_all_processes_here(spec: ProcessSpec) -> bool:
    launcher = LAUNCHERS[spec.launcher]
    return not launcher.starts_ranks or (launcher.ranks_below and spec.is_here)


def _has_proxies(spec: ProcessSpec) -> bool:
    """Whether proxies of the launcher start all ranks, as those of hydra do: ranks of Open MPI are its own children."""
    launcher = LAUNCHERS[spec.launcher]
    return launcher.ranks_below and launcher.outlives_ranks


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended; it is not reaped."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _allow_open_files(count: int) -> tuple[int, int] | None:
    """Allow this process so many open files: each stage that runs needs one, and 1,024 are usual. The limits before
    that, which the stages get; None where nothing had to be changed."""
    soft, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (resource.RLIM_INFINITY, hard) or soft >= count or not hasattr(resource, "prlimit"):
        return None
    resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard))
    return before


def _tail(path: Path) -> list[str]:
    return last_lines(path, _LAST_LINES)


def _pipe(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _start_guard(run_dir: Path) -> subprocess.Popen[bytes]:
    """What ends the run when the supervisor is killed. Not PR_SET_PDEATHSIG: ranks would not inherit that."""
    env = {key: value for key, value in os.environ.items() if key != RUN_VARIABLE}
    return subprocess.Popen(
        run_guard.guard_command(run_dir), env=env, bufsize=0, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _exit_descriptor(process: subprocess.Popen[bytes]) -> int:
    """A descriptor that can be read when the process has ended."""
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # an old kernel
            return os.pidfd_open(process.pid)
    reader, writer = os.pipe()

    def wait() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its status is for `collect`
        os.close(writer)

    threading.Thread(target=wait, daemon=True).start()
    return reader


@contextlib.contextmanager
def _on_cores(process: ProcessSpec) -> Iterator[None]:
    """What is started inside inherits the cores of the process. Raises OSError where they may not be used."""
    if not process.cores or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, process.cores)
        yield
    finally:
        os.sched_setaffinity(0, allowed)
