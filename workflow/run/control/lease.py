"""The lease of a run, `lease.json`: its supervisor rewrites it every two seconds, so that every host that sees the run
directory can tell whether the supervisor lives. Clocks of hosts differ: a reader waits for the counter to change.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from workflow.errors import RunError
from workflow.formats.job_end_file import read_job_end
from workflow.formats.lease_file import BEAT_S, DEAD_S, LEASE_FILE, SILENCE_S
from workflow.formats.read_json import read_json
from workflow.formats.run_clock import this_boot
from workflow.formats.typed_fields import from_fields
from workflow.replace_file import create_whole
from workflow.run.processes.process_reaper import born_ticks
from workflow.run.processes.process_tree import is_suspended

_PAUSE_S = 0.1
# A reader that looks so seldom was stopped, or its look has hung: the lease may have changed meanwhile.
_OWN_PAUSE_S = 5.0
_PROC = Path("/proc")
_PADDED = 1024


@dataclass(frozen=True)
class Lease:
    """Who supervises a run. `run_dir`: the run's directory as its processes name it.

    `system` names a boot of a machine and a PID namespace; `born` is when the process was started, in clock ticks
    after the boot. Both are empty or 0 where there is no /proc.
    """

    host: str
    pid: int
    beat: int
    run_dir: str = ""
    system: str = ""
    born: int = 0

    @property
    def is_own(self) -> bool:
        """Whether this process has taken it."""
        return (self.pid, self.system, self.host) == (os.getpid(), this_system(), socket.gethostname())


@dataclass(frozen=True)
class Liveness:
    """Whether the supervisor of a run lives. `lease`: None for a run without one. `silent_s`: seconds since its last
    beat, at least.
    """

    lease: Lease | None
    alive: bool
    silent_s: float = 0.0

    @property
    def is_stopped(self) -> bool:
        """Whether its supervisor is a process of this machine that a signal has stopped, or its job's suspension."""
        return self.alive and self.lease is not None and is_suspended([self.lease.pid]) and self.is_here

    @property
    def silence_text(self) -> str:
        """Of one that may live: `its supervisor on n1 is silent: no heartbeat for 14 s`; "" while it is heard."""
        if self.lease is None or not self.alive or self.silent_s < SILENCE_S:
            return ""
        return self.silence_of("is suspended" if self.is_stopped else "is silent")

    def silence_of(self, what: str) -> str:
        """The same, whatever is known; `what` it does: `is suspended`."""
        host = "" if self.lease is None else f" on {self.lease.host}"
        return f"its supervisor{host} {what}: no heartbeat for {self.silent_s:.0f} s"

    @property
    def is_here(self) -> bool:
        """Whether its supervisor runs, or ran, on this machine, where its processes can be seen."""
        return self.lease is not None and has_process(self.lease) is not None

    @property
    def text(self) -> str:
        """Why the supervisor counts as dead: `no heartbeat for 14 s: its supervisor on n1 has died`."""
        if self.lease is None:
            return "it has no supervisor"
        if self.silent_s < SILENCE_S or has_process(self.lease) is False:
            return f"its supervisor on {self.lease.host} (process {self.lease.pid}) has died"
        return f"no heartbeat for {self.silent_s:.0f} s: its supervisor on {self.lease.host} has died"


def read_lease(run_dir: Path) -> Lease | None:
    """The lease of a run; None where there is none, or it cannot be read now."""
    try:
        record = read_json((run_dir / LEASE_FILE).read_bytes())
        return from_fields(Lease, record)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def has_lease(run_dir: Path) -> bool:
    """Whether a supervisor has taken this run at any time."""
    return (run_dir / LEASE_FILE).exists()


class Heartbeat:
    """Takes the lease of a run and renews it until the end: a context manager of the supervisor.

    A thread of its own: a supervisor that waits for a slow file system is alive. Raises RunError when the run has a
    lease, or it cannot be written.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / LEASE_FILE
        pid = os.getpid()
        self._lease = Lease(socket.gethostname(), pid, 0, str(run_dir), this_system(), born_ticks(pid) or 0)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        try:
            create_whole(self._path, self._text(0))  # of two supervisors one gets the lease
        except FileExistsError as error:
            raise RunError(
                f"{self._path.parent}: this run has been started before", "start a new one: wf run PIPELINE"
            ) from error
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror}") from error
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _renew(self) -> None:
        beat = 0
        while not self._end.wait(BEAT_S):
            beat += 1
            self._write(self._text(beat))

    def _write(self, text: bytes) -> None:
        """Replace the file; on a full file system, where no new file can be written, overwrite it."""
        temporary = self._temporary()
        try:
            temporary.write_bytes(text)
            temporary.replace(self._path)
            return
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        with contextlib.suppress(OSError), self._path.open("r+b", buffering=0) as file:
            file.write(text)

    def _text(self, beat: int) -> bytes:
        # Always of one length, so that it can be overwritten.
        return json.dumps({**asdict(self._lease), "beat": beat}).encode().ljust(_PADDED) + b"\n"

    def _temporary(self) -> Path:
        return self._path.with_name(f".{LEASE_FILE}.{os.getpid()}")


class LeaseWatch:
    """Watches the lease of a run; `now` is a clock of the reader that nobody sets. A supervisor of another machine is
    dead after `dead_s` without a beat; one of this machine when its process has ended.
    """

    def __init__(self, run_dir: Path, now: float, dead_s: float = SILENCE_S) -> None:
        self._run_dir, self._dead_s = run_dir, dead_s
        self._lease: Lease | None = None
        self._changed = self._looked = now

    def look(self, now: float) -> Liveness:
        """Whether the supervisor lives, as far as is known by now: until `dead_s` have passed, it may."""
        if now - self._looked > _OWN_PAUSE_S:
            self._changed += now - self._looked
        self._looked = now
        lease = read_lease(self._run_dir)
        if lease is not None and (self._lease is None or lease.beat != self._lease.beat):
            self._lease, self._changed = lease, now
        lease = self._lease
        silent_s = now - self._changed
        here = None if lease is None else has_process(lease)
        alive = lease is not None and here is not False and (here is True or silent_s < self._dead_s)
        return Liveness(lease, alive and not _is_job_ended(self._run_dir, lease), silent_s)


def examine_leases(run_dirs: Sequence[Path], dead_s: float = SILENCE_S) -> list[Liveness]:
    """Whether the supervisors of these runs live. Takes up to SILENCE_S for those of other hosts, all at once: one that
    was silent for so long is dead, or with `dead_s` only when its lease is older than that."""
    begin = time.monotonic()
    watches = [LeaseWatch(run_dir, begin, dead_s) for run_dir in run_dirs]
    first = [watch.look(begin) for watch in watches]
    found = [_at_once(run_dir, seen) for run_dir, seen in zip(run_dirs, first, strict=True)]
    while any(seen is None for seen in found):
        time.sleep(_PAUSE_S)
        now = time.monotonic()
        for number, watch in enumerate(watches):
            before = first[number].lease
            if found[number] is None and before is not None:
                seen = watch.look(now)
                if not seen.alive or seen.silent_s >= SILENCE_S:
                    silent_s = max(seen.silent_s, _age_s(run_dirs[number]))
                    found[number] = Liveness(seen.lease, seen.alive and silent_s < dead_s, silent_s)
                elif seen.lease is not None and seen.lease.beat != before.beat:
                    found[number] = seen
    return [seen for seen in found if seen is not None]


def lost_lease(run_dir: Path) -> Liveness:
    """That of a supervisor which is known to be dead."""
    return Liveness(read_lease(run_dir), False, _age_s(run_dir))


def may_be_written(run_dir: Path) -> bool:
    """Whether the supervisor of a run that has a verdict may still write its report.

    The process of a notebook lives on when its runs have ended: after DEAD_S without a heartbeat it has.
    """
    if not has_lease(run_dir):
        return False
    lease = read_lease(run_dir)
    ended = lease is not None and has_process(lease) is False
    return not ended and _age_s(run_dir) <= DEAD_S


def _at_once(run_dir: Path, seen: Liveness) -> Liveness | None:
    """What one look at a lease tells for certain; None where its beat has to be watched."""
    if seen.lease is None:
        return seen
    age_s = _age_s(run_dir)
    if _is_job_ended(run_dir, seen.lease):
        return Liveness(seen.lease, False, age_s)
    here = has_process(seen.lease)
    if here is not None:
        return Liveness(seen.lease, here, age_s)
    return Liveness(seen.lease, False, age_s) if age_s > DEAD_S else None


def _is_job_ended(run_dir: Path, lease: Lease | None) -> bool:
    """Whether a guard has found that the supervisor is dead, and has ended the job. One that was suspended, and whose
    beats go on, is not dead."""
    end = read_job_end(run_dir)
    return end is not None and not end.problem and lease is not None and lease.beat == end.beat


def _age_s(run_dir: Path) -> float:
    """Seconds since the lease was written, by the clocks of this host and of the file system."""
    try:
        return max(0.0, time.time() - (run_dir / LEASE_FILE).stat().st_mtime)
    except OSError:
        return 0.0


def has_process(lease: Lease) -> bool | None:
    """Whether the process of a lease runs; None for one of another machine, or of another PID namespace."""
    if not lease.system or lease.system != this_system():
        return None
    return (born_ticks(lease.pid) or 0) == lease.born


def this_system() -> str:
    """Names the boot of this machine and the PID namespace of this process; empty where there is no /proc."""
    boot = this_boot()
    try:
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}" if boot else ""
    except OSError:
        return ""
