"""The lease of the driver of a campaign: by it others see that it lives, and what must end with it ends.

The driver keeps `lease.json` in the campaign's directory as a supervisor does in that of its run, so that workers on
other hosts know when it has died. `control.jsonl` takes requests to stop from any host.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from workflow.errors import RunError
from workflow.formats.lease_file import DEAD_S, LEASE_FILE, SILENCE_S
from workflow.formats.read_json import read_json
from workflow.formats.typed_fields import from_fields
from workflow.own_process import module_command
from workflow.program_start import begin_program
from workflow.run.control.lease import Heartbeat, Lease, LeaseWatch, Liveness, examine_leases, read_lease
from workflow.run.processes.process_reaper import living_groups
from workflow.run.processes.signals import Signals
from workflow.run.records.control_requests import Control, ControlRequests

# How often the files are read.
LOOK_S = 1.0
PILOTS_FOLDER = "pilots"
WORKERS_LABEL = "parsl"
# Where the workers of a pilot keep the keys of their connections, below its folder.
KEYS_FOLDER = f"{WORKERS_LABEL}/certificates"
_PAUSE_S = 0.1
DRIVER_FILE = "driver.json"
_ENDPOINTS = "endpoints"
# For an answer of the driver's host.
_ANSWER_S = 2.0
END_FILE = "end"
# So long may the supervisors among its processes take to stop their runs.
STOP_S = 45.0
# And so long until the system has removed what was killed: longer only for what is stuck in the kernel.
KILLED_S = 5.0
_BOUND_PAUSE_S = 0.25
# To look at a lease and remove it takes milliseconds; by two clocks, of this host and of the file system.
_TURN_S = 60.0


@contextlib.contextmanager
def driver_lease(directory: Path) -> Iterator[Lease]:
    """Hold the lease of a campaign: what a driver before it left is removed.

    Raises RunError when another process renews it, OSError when its directory cannot be written.
    """
    path = directory / LEASE_FILE
    left = _content(path)
    _refuse_second(directory)
    if left is not None:
        _remove_left(path, left)
    for keys in (directory / PILOTS_FOLDER).glob(f"*/{KEYS_FOLDER}"):
        shutil.rmtree(keys, ignore_errors=True)
    try:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(Heartbeat(directory))
            except RunError as error:
                if not isinstance(error.__cause__, FileExistsError):
                    raise
                _refuse_second(directory)
                raise RunError("another process ran this campaign until now", "give the same command again") from error
            lease = read_lease(directory)
            assert lease is not None
            yield lease
    finally:
        last = read_lease(directory)
        if last is not None and last.is_own:
            path.unlink(missing_ok=True)


def _remove_left(path: Path, left: bytes) -> None:
    """Remove the lease of a driver that has died, unless another process has done so, and has its own there by now.

    One process at a time looks and removes: of a folder, every file system lets one process only make it.
    """
    turn = path.with_name(f".{path.name}.removing")
    try:
        with contextlib.suppress(OSError):
            if time.time() - turn.stat().st_mtime > _TURN_S:
                turn.rmdir()  # its process was killed in between
        turn.mkdir()
    except FileExistsError as error:
        hint = f"give the same command again; if no process starts it: rmdir {shlex.quote(str(turn))}"
        raise RunError("another process starts this campaign", hint) from error
    try:
        if _content(path) == left:  # nobody renews it
            path.unlink()
    finally:
        turn.rmdir()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _refuse_second(directory: Path) -> None:
    """Raises RunError when a process renews the lease. A lock does not tell on every file system, nor of other hosts.

    One that is silent, but may live, is refused too: it may be suspended, or its file system stalls, and it goes on.
    """
    (lives,) = examine_leases([directory], DEAD_S)
    first = lives.lease
    if not lives.alive or first is None or first.is_own:
        return
    if not lives.is_here and lives.silence_text:
        raise _silent(first, lives)
    watch = LeaseWatch(directory, time.monotonic(), DEAD_S)
    while (seen := watch.look(time.monotonic())).alive and seen.lease is not None:
        if seen.lease != first:
            text = f"another process runs this campaign: process {seen.lease.pid} on {seen.lease.host}"
            raise RunError(text, "wait for it, or give another --dir")
        if seen.silence_text:
            raise _silent(first, seen)
        time.sleep(_PAUSE_S)


def _silent(first: Lease, seen: Liveness) -> RunError:
    state = "is suspended" if seen.is_stopped else "is silent"
    who = f"process {first.pid} on {first.host}"
    text = f"another process runs this campaign, and {state}: {who}, no heartbeat for {seen.silent_s:.0f} s"
    way = f"on {first.host}: `kill -CONT {first.pid}` lets it go on, `kill -KILL {first.pid}` ends it"
    return RunError(text, way if seen.is_here else f"{way}; it counts as dead after {DEAD_S / 60:.0f} min of silence")


Endpoint = tuple[str, int]
"""Address and port of a process that ends with the driver, the interchange of Parsl."""


class DriverWatch:
    """Whether the driver that started this process lives. One that was started after it is another one.

    Its silence may be that of a file system that stalls. It is dead when its host also refuses connections to one of
    these `endpoints`, and had accepted them at the beginning: a firewall may refuse what it has never let pass, and a
    host that does not answer may be cut off.
    """

    def __init__(self, directory: Path, driver: Lease, endpoints: Sequence[Endpoint] = ()) -> None:
        self._directory, self._driver = directory, driver
        self._watch = LeaseWatch(directory, time.monotonic(), DEAD_S)
        self._endpoint = next((endpoint for endpoint in endpoints if _is_open(endpoint)), None)
        self._looked = time.monotonic()
        self._lost = False

    def is_lost(self) -> bool:
        """Whether it has died, or ended. Reads the lease once a second at most."""
        now = time.monotonic()
        if not self._lost and now - self._looked >= LOOK_S:
            self._looked = now
            lease = read_lease(self._directory)
            replaced = lease is not None and _identity(lease) != _identity(self._driver)
            seen = self._watch.look(now)
            closed = seen.silent_s >= SILENCE_S and self._endpoint is not None and _is_open(self._endpoint) is False
            self._lost = replaced or not seen.alive or closed
        return self._lost


def _is_open(endpoint: Endpoint) -> bool | None:
    """Whether somebody listens there; None where nobody says."""
    try:
        with socket.create_connection(endpoint, _ANSWER_S):
            return True
    except ConnectionRefusedError:
        return False
    except OSError:
        return None


def _identity(lease: Lease) -> tuple[str, int, str, int]:
    return lease.host, lease.pid, lease.system, lease.born


class StopRequests:
    """Ctrl-C, SIGTERM, SIGHUP and lines of the campaign's control.jsonl. A context manager of the driver."""

    def __init__(self, directory: Path) -> None:
        self._signals = Signals()
        self._requests = ControlRequests(directory)
        self._requests.take()  # those to drivers before this one
        self._looked = time.monotonic()
        self._wanted: Control | None = None

    def __enter__(self) -> StopRequests:
        self._signals.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signals.__exit__(kind, error, trace)

    def wanted(self) -> Control | None:
        """What is asked for by now: `stop`, and with the second request `kill`."""
        asked: list[Control] = ["stop" for _ in self._signals.take()]
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            asked += [each.request for each in self._requests.take()]
        for request in asked:
            self._wanted = "kill" if self._wanted is not None else request
        return self._wanted


def bound_command(folder: Path) -> list[str]:
    """What to put before a command that is to end with this driver."""
    return module_command("workflow.campaign.execution.driver_lease", str(folder), "--")


def write_driver(folder: Path, driver: Lease, endpoints: Sequence[Endpoint] = ()) -> None:
    """Keep the driver's lease, and where it can be met, in the folder of a pilot."""
    (folder / DRIVER_FILE).write_text(json.dumps({**asdict(driver), _ENDPOINTS: endpoints}))


def _read_driver(folder: Path) -> DriverWatch:
    record = read_json((folder / DRIVER_FILE).read_bytes())
    return DriverWatch(
        folder.parents[1], from_fields(Lease, record), [(host, port) for host, port in record[_ENDPOINTS]]
    )


def main(arguments: list[str]) -> int:
    """Run a command that must end when the driver dies; its exit code, or 1 when it was ended because of that.

    `python -m workflow.campaign.execution.driver_lease FOLDER -- COMMAND…`, where FOLDER is that of a pilot, below the
    campaign's directory. It holds the lease of the driver that has made it, and a file `end` once the pilot is to end.
    """
    begin_program()
    folder, command = Path(arguments[0]), arguments[2:]
    watch = _read_driver(folder)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    process, begin = subprocess.Popen(command, start_new_session=True), time.time()
    code: int | None = None
    while code is None:
        time.sleep(_BOUND_PAUSE_S)
        if watch.is_lost():
            code = 1
        elif asked or (folder / END_FILE).exists():
            code = 0
        elif (ended := process.poll()) is not None:
            code = max(ended, 1) if ended else 0
    # Also when the command has ended by itself: a killed manager leaves its workers.
    end_session(process)
    remove_left_sockets(Path(tempfile.gettempdir()), begin)
    return code


def remove_left_sockets(folder: Path, since: float) -> None:
    """Remove the folders that killed processes of Python's multiprocessing have left there since then (Unix s).

    Those of this user that hold nothing but sockets on which nobody listens.
    """
    with contextlib.suppress(OSError):
        listening = {line.rpartition(" ")[2] for line in Path("/proc/net/unix").read_text().splitlines()}
        for left in folder.glob("pymp-*"):
            with contextlib.suppress(OSError):
                status, found = left.stat(), [*left.iterdir()]
                is_ours = status.st_uid == os.getuid() and status.st_mtime >= since - 1
                if is_ours and found and all(each.is_socket() and str(each) not in listening for each in found):
                    shutil.rmtree(left)


def end_session(process: subprocess.Popen[bytes], stop_s: float = STOP_S, killed_s: float = KILLED_S) -> None:
    """End the command and all that it has started. Supervisors among them stop their runs in order.

    Returns after `stop_s` + `killed_s` at the latest: a process that has ended stays in its group until its parent,
    who may be anybody, takes notice.
    """
    begin = time.monotonic()
    _signal(process.pid, signal.SIGTERM)
    while (process.poll() is None or living_groups([process.pid])) and time.monotonic() - begin < stop_s + killed_s:
        if time.monotonic() - begin > stop_s:
            _signal(process.pid, signal.SIGKILL)
        time.sleep(_BOUND_PAUSE_S)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
