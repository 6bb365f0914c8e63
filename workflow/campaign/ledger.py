"""The ledger of a campaign, `ledger.jsonl`, append-only: one line when a repetition starts, and one when it ends.

A killed campaign leaves whole lines, at most one cut off at the end. Reading it again takes time in proportion to its
length.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from workflow.errors import RunError
from workflow.formats.json_lines import read_json_lines
from workflow.formats.typed_fields import from_fields
from workflow.run.control.lease import Lease, read_lease

CAMPAIGNS = "campaigns"
LEDGER_FILE = "ledger.jsonl"
LEDGER_VERSION = 1
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
# lost: its nodes, its job or its pilot ended, which is no failure of its programs.
RunEnd = Literal["succeeded", "failed", "interrupted", "lost"]


@dataclass(frozen=True)
class Repetition:
    """Which repetition of which trial: equal in every campaign that measures the same thing."""

    key: str
    number: int
    warmup: bool = False

    @property
    def name(self) -> str:
        """As part of the name of its run directory: `3f2a91c07b12-r03`, `…-w1` for a warm-up."""
        return f"{self.key}-w{self.number}" if self.warmup else f"{self.key}-r{self.number:02d}"


@dataclass(frozen=True)
class Attempt:
    """One run of a repetition that ended."""

    state: RunEnd
    attempt: int
    run: str
    """Name of its run directory below `runs/`."""
    started: float
    """Unix seconds."""
    wall_s: float
    """From the first to the last thing that the campaign did for it."""
    nodes: int = 1
    load: float | None = None
    """Load average of this machine over the minute before it started."""
    reason: str = ""
    """Why it did not succeed, or what has failed in one that did: `5 of 6 members`."""
    place: str = ""
    """Its hosts and cores, where others ran beside it: `n1 cores 0-1, n2`."""
    host: str = ""
    """Where its supervisor ran; empty where that is not known."""
    figures: Mapping[str, float] = field(default_factory=dict)
    figure_problems: Mapping[str, str] = field(default_factory=dict)
    """Stage → what is wrong with its own figures."""
    data_bytes: int | None = None
    """Size of what its stages wrote, also where that was removed; None: not known."""


@dataclass(frozen=True)
class OpenAttempt:
    """One that was started, and whose end is not recorded: its campaign was killed, or it runs now."""

    run: str
    attempt: int
    t: float
    place: str = ""


@dataclass(frozen=True)
class TrialContent:
    """What a trial is, and what its key is made from: recorded once, to say later why a key is another one."""

    parameters: Mapping[str, Any]
    plan: Mapping[str, Any]
    """Its decisions without paths."""
    files: Sequence[str] = ()
    """`<NAME CHECKSUM>` of its programs, inputs and Python modules."""
    versions: Mapping[str, str] = field(default_factory=dict)
    pythons: Sequence[Mapping[str, str]] = ()
    """The versions of other Pythons that its stages use."""
    is_baseline: bool = False


@dataclass
class History:
    """The ledger as read: the last attempt of each repetition that ended, and how many were started.

    An attempt that succeeded stays the last one until another one succeeds.
    """

    ended: dict[Repetition, Attempt] = field(default_factory=dict)
    started: dict[Repetition, int] = field(default_factory=dict)
    failures: dict[Repetition, int] = field(default_factory=dict)
    open: dict[tuple[Repetition, int], OpenAttempt] = field(default_factory=dict)
    """By repetition and number of the attempt."""
    earlier: dict[Repetition, list[Attempt]] = field(default_factory=dict)
    """Attempts that succeeded, of repetitions that were measured again since; the oldest first."""
    contents: dict[str, TrialContent] = field(default_factory=dict)
    """Key → what it is made from; not of trials that an older wf has run."""
    spent_s: float = 0.0
    spent_node_s: float = 0.0
    unreadable: int = 0

    def succeeded(self, repetition: Repetition) -> bool:
        """Whether it has been measured: it does not run again."""
        last = self.ended.get(repetition)
        return last is not None and last.state == "succeeded"

    def measurements(self, repetition: Repetition) -> list[Attempt]:
        """Its attempts that succeeded, the oldest first."""
        last = [self.ended[repetition]] if self.succeeded(repetition) else []
        return [*self.earlier.get(repetition, []), *last]

    def begin(self, repetition: Repetition) -> int:
        """A new attempt; returns its number, from 1."""
        self.started[repetition] = self.started.get(repetition, 0) + 1
        return self.started[repetition]

    def end(self, repetition: Repetition, attempt: Attempt) -> None:
        """An attempt has ended."""
        if not self.succeeded(repetition):
            self.ended[repetition] = attempt
        elif attempt.state == "succeeded":
            self.earlier.setdefault(repetition, []).append(self.ended[repetition])
            self.ended[repetition] = attempt
        self.failures[repetition] = self.failures.get(repetition, 0) + (attempt.state == "failed")
        self.open.pop((repetition, attempt.attempt), None)
        self.spent_s += attempt.wall_s
        self.spent_node_s += attempt.wall_s * attempt.nodes


def read_history(directory: Path) -> History:
    """The ledger of a campaign's directory; empty where there is none.

    Raises:
        RunError: a newer version of wf has written it.
    """
    history = History()
    lines = read_json_lines(directory / LEDGER_FILE, infinity=True)  # a value that was varied may be infinite
    history.unreadable = lines.unreadable
    for record in lines.records:
        try:
            take_record(history, record)
        except (KeyError, TypeError):
            history.unreadable += 1
    return history


def take_record(history: History, record: Mapping[str, Any]) -> tuple[Repetition, Attempt] | None:
    """Add a line of the ledger to a history; returns the attempt that ended by it.

    Raises:
        RunError: a newer version of wf has written it.
        KeyError, TypeError: it is no line of a ledger.
    """
    event = record["event"]
    if event == "campaign":
        version = record["ledger_version"]
        if type(version) is not int or version > LEDGER_VERSION:
            raise RunError(f"{LEDGER_FILE} has version {version}; this wf reads {LEDGER_VERSION}", "install a newer wf")
        return None
    if event == "trial":
        content = from_fields(TrialContent, record)
        history.contents[str(record["key"])] = content
        return None
    repetition = from_fields(Repetition, record)
    if event == "started":
        attempt = from_fields(OpenAttempt, record)
        number = attempt.attempt
        history.started[repetition] = max(history.started.get(repetition, 0), number)
        history.open[repetition, number] = attempt
    elif event == "ended":
        ended = from_fields(Attempt, record)
        history.end(repetition, ended)
        return repetition, ended
    return None


def runs_already(directory: Path, lease: Lease | None) -> RunError:
    """That a process runs this campaign: the holder of `lease`, or one that has not written it yet."""
    who = "another process" if lease is None else f"a process on {lease.host} (process {lease.pid})"
    name = directory.name if directory.parent == Path(CAMPAIGNS).absolute() else os.path.relpath(directory)
    return RunError(f"{who} runs this campaign", f"wf campaign watch {name}, or wf campaign cancel {name}")


class Ledger:
    """The ledger of the one process that runs the campaign. A context manager: others are refused meanwhile."""

    def __init__(self, directory: Path) -> None:
        self._path = path = directory / LEDGER_FILE
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Where the file system has no locks, as Lustre mounted without them, the driver's lease keeps others away.
            if error.errno not in NO_LOCKS:
                os.close(self._file)
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                    raise RunError(f"cannot lock {path}: {error.strerror}", "give another --dir") from error
                raise runs_already(directory, read_lease(directory)) from error
        try:
            # First of all: a ledger of a newer version stays as it is.
            self.history = read_history(directory)
            self._end_last_line()
            self._write({"event": "campaign", "ledger_version": LEDGER_VERSION})
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def note_trial(self, key: str, content: TrialContent) -> None:
        """Record what a trial depends on, unless that is known."""
        if key not in self.history.contents:
            self.history.contents[key] = content
            self._write({"event": "trial", "key": key, **asdict(content)})

    def begin(self, repetition: Repetition, attempt: OpenAttempt) -> None:
        """Record that an attempt starts; its run directory is not there yet."""
        self.history.open[repetition, attempt.attempt] = attempt
        self._write({"event": "started", **asdict(repetition), **asdict(attempt)})

    def end(self, repetition: Repetition, attempt: Attempt) -> None:
        """Record how an attempt ended; it is on the disk when this returns."""
        self.history.end(repetition, attempt)
        self._write({"event": "ended", **asdict(repetition), **asdict(attempt)})
        with self._writing():
            os.fsync(self._file)

    def _write(self, record: Mapping[str, Any]) -> None:
        data = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        with self._writing():
            while data:
                data = data[os.write(self._file, data) :]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Raises RunError where the disk takes no more: what has run and is not recorded runs again."""
        try:
            yield
        except OSError as error:
            hint = "make room there; `wf campaign run` then goes on with what is left"
            raise RunError(f"cannot write {self._path}: {error.strerror}", hint) from error

    def _end_last_line(self) -> None:
        """A process that was killed may have left half a line: what follows must not become part of it."""
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            with self._writing():
                os.write(self._file, b"\n")
