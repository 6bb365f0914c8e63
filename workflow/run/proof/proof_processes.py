"""Runs short programs, a limited number at a time, and reads their output; kills those that take too long."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workflow.formats.rank_files import NOT_STARTED
from workflow.formats.stage_file import RANK_NAME_VARIABLE, RUN_VARIABLE, STAGE_VARIABLE
from workflow.launch.launchers import ProcessSpec
from workflow.run.processes.inherited_environment import inherited_environment

_PIPE_BYTES = 1 << 16
_TICK_S = 0.05
# A launcher that gets SIGTERM ends its ranks on other nodes; killed at once it may leave them.
_TERM_S = 1.0
# Launchers that run at once: each asks the scheduler's controller, which centres want to be spared.
AT_ONCE = 50


@dataclass
class ShortProcess:
    """One of them. `lines` are (seconds since all began, a line of its output); `code` is None where it was killed."""

    name: str
    spec: ProcessSpec
    log: Path
    lines: list[tuple[float, bytes]] = field(default_factory=list)
    code: int | None = None
    ended_s: float | None = None
    rest: bytes = b""

    def last_words(self) -> str:
        """The last line of its standard error that says anything."""
        with contextlib.suppress(OSError):
            lines = self.log.read_bytes()[-4096:].decode(errors="replace").splitlines()
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""


Heard = Callable[[ShortProcess, float, bytes], None]
Enough = Callable[[list[ShortProcess]], bool]


def run_short(
    units: Iterable[Sequence[ShortProcess]],
    run_dir: Path,
    give_up: threading.Event,
    heard: Heard,
    is_enough: Enough,
) -> None:
    """Run them until all have ended, or `give_up` is set: at most AT_ONCE at a time, those of a unit together. All that
    run are killed when `is_enough` returns True.

    `heard` gets each line with the seconds since the start, `is_enough` those that run, 20 times a second.
    """
    begin = time.monotonic()
    waiting = deque(units)
    running: dict[int, tuple[ShortProcess, subprocess.Popen[bytes]]] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while (running or waiting) and not give_up.is_set():
                while waiting and (not running or len(running) + len(waiting[0]) <= AT_ONCE):
                    for process in waiting.popleft():
                        started = _start(process, run_dir)
                        if started is not None and started.stdout is not None:
                            running[started.pid] = process, started
                            os.set_blocking(started.stdout.fileno(), False)
                            selector.register(started.stdout, selectors.EVENT_READ, started.pid)
                for key, _ in selector.select(_TICK_S):
                    process, started = running[key.data]
                    if _read(process, key.fd, time.monotonic() - begin, heard):
                        selector.unregister(key.fileobj)
                        process.code = started.wait()
                        process.ended_s = time.monotonic() - begin
                        running.pop(key.data)[1].stdout.close()  # type: ignore[union-attr]
                if running and is_enough([process for process, _ in running.values()]):
                    for _, started in running.values():
                        selector.unregister(started.stdout)  # type: ignore[arg-type]
                    _end([started for _, started in running.values()])
                    running.clear()
        finally:
            _end([started for _, started in running.values()])


def _start(process: ShortProcess, run_dir: Path) -> subprocess.Popen[bytes] | None:
    spec = process.spec
    Path(spec.folder).mkdir(parents=True, exist_ok=True)
    env = {
        **inherited_environment(spec.without),
        **spec.env,
        RUN_VARIABLE: str(run_dir),
        STAGE_VARIABLE: str(process.log),
        RANK_NAME_VARIABLE: "",  # Open MPI warns of a variable that it is to export and that is not set
    }
    process.log.parent.mkdir(parents=True, exist_ok=True)
    with process.log.open("ab") as log:
        try:
            for path, text in spec.files.items():
                Path(path).write_text(text, encoding="utf-8")
            return subprocess.Popen(
                spec.argv, cwd=spec.cwd, env=env, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        except OSError as error:
            log.write(f"cannot start {spec.argv[0]}: {error.strerror}\n".encode())
            process.code = NOT_STARTED
            return None


def _read(process: ShortProcess, descriptor: int, now: float, heard: Heard) -> bool:
    """Take what has come; True at its end."""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(descriptor, _PIPE_BYTES):
            *lines, process.rest = (process.rest + data).split(b"\n")
            for line in lines:
                process.lines.append((now, line))
                heard(process, now, line)
        return True
    return False


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Kill what is left, with the launchers' time to end what they have started."""
    deadline = time.monotonic() + _TERM_S
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, number)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.05, deadline - time.monotonic()))
    for process in processes:
        if process.stdout is not None:
            process.stdout.close()
