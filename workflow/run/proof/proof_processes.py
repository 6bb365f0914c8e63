"""Runs the short programs of a proof, a limited number at a time, and kills those that take too long.

Launchers need minutes for the start of 10,000 nodes; programs that run answer in seconds. So a launch line has as long
as the plan allows for its start, and then a deadline for what must follow.
"""

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

from workflow.formats.run_variables import RANK_NAME_VARIABLE, RUN_VARIABLE, STAGE_VARIABLE
from workflow.launch.launchers import ProcessSpec
from workflow.launch.rank_ends import NOT_STARTED
from workflow.run.observe.sst_log import last_lines
from workflow.run.processes.stage_processes import inherited_environment

# From one answer to the next, at least; from the start of all ends of a stream until it is open, and from then to its
# last step.
ANSWER_S = 10.0
# The same as a share of the time that the answers have taken so far: those of many ranks come in the course of minutes,
# and not evenly.
_ANSWER_SHARE = 0.25


class ProofDeadlines:
    """Launch lines and streams by their names. Times are of the caller's clock."""

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self._begun: dict[str, float] = {}
        self._moved: dict[str, float] = {}
        self._reached: dict[str, int] = {}

    def begin(self, name: str, now: float) -> None:
        """It runs; the first call counts."""
        self._begun.setdefault(name, now)

    def note_answer(self, name: str, now: float) -> None:
        """A rank of this line has answered."""
        self._moved[name] = now

    def reach(self, name: str, mark: int, now: float) -> None:
        """All ends of this stream have come as far as `mark`, which counts from 1; 0: some have not begun."""
        if mark > self._reached.get(name, 0):
            self._reached[name], self._moved[name] = mark, now

    def is_over(self, name: str, now: float) -> bool:
        """Whether nothing more is to be expected of it. What was not started has all its time left."""
        if name in self._moved:
            taken_s = 0.0 if name in self._reached else self._moved[name] - self._begun.get(name, self._moved[name])
            return now >= self._moved[name] + max(ANSWER_S, _ANSWER_SHARE * taken_s)
        return name in self._begun and now >= self._begun[name] + self.start_s


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

    def last_error_line(self) -> str:
        """The last line of its standard error that says anything."""
        return "".join(last_lines(self.log, 1)).strip()


OnLine = Callable[[ShortProcess, float, bytes], None]
IsEnough = Callable[[list[ShortProcess]], bool]


def run_short(
    units: Iterable[Sequence[ShortProcess]],
    run_dir: Path,
    give_up: threading.Event,
    on_line: OnLine,
    is_enough: IsEnough,
) -> None:
    """Run them until all have ended, or `give_up` is set: at most AT_ONCE at a time, those of a unit together. All that
    run are killed when `is_enough` returns True.

    `on_line` gets each line with the seconds since the start, `is_enough` those that run, 20 times a second.
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
                    if _read(process, key.fd, time.monotonic() - begin, on_line):
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


def _read(process: ShortProcess, descriptor: int, now: float, on_line: OnLine) -> bool:
    """Take what has come; True at its end."""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(descriptor, _PIPE_BYTES):
            *lines, process.rest = (process.rest + data).split(b"\n")
            for line in lines:
                process.lines.append((now, line))
                on_line(process, now, line)
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
