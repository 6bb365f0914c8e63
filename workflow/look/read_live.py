"""Reads the steps of one stream of a running run while they come, in a process of its own.

A process for each stream: ADIOS2 holds Python's lock while it reads, and may crash. The page is served meanwhile.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from workflow.data_files.read_steps import DataStep, StepGone, VariableKind, follow_data
from workflow.errors import RunError
from workflow.formats.bp_index import read_index
from workflow.look.drawn_variables import VariableLabel
from workflow.look.fit_page_size import ENOUGH_STEPS
from workflow.look.live_views import DrawnStream, LiveStep, LiveViews
from workflow.look.read_numbers import Encoded, encode, note_labels, read_view, time_of
from workflow.own_process import code_command

# Who is late shows the newest step: this, and the time to read it, is how old that is at most.
BEHIND_S = 0.5
_SAID_BYTES = 2000


@dataclass(frozen=True)
class FollowedStream:
    """A stream of a running run: its file, the events of the run, and how many steps come before the first one in the
    file. `title`: what the page calls it."""

    name: str
    title: str
    path: Path
    events: Path
    before: int = 0


class LiveReading:
    """The process that reads a stream: a context manager. Iterate to get its steps as they come.

    The loop ends when the stream or the run has ended. Raises RunError when the stream cannot be read.
    """

    def __init__(self, stream: FollowedStream, limit: int) -> None:
        self._stream, self._is_closed = stream, False
        self._receiving = threading.Lock()
        with contextlib.ExitStack() as opened:  # of a start that fails nothing stays
            self._said = opened.enter_context(tempfile.TemporaryFile())
            pipe, theirs = Pipe()
            self._pipe = opened.enter_context(pipe)
            with theirs:
                program = f"from {__name__} import serve; serve({theirs.fileno()})"
                self._process = subprocess.Popen(
                    code_command(program), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=self._said,
                )  # fmt: skip
            opened.callback(self._end_process)
            self._pipe.send((stream, limit))
            self._open = opened.pop_all()

    def __enter__(self) -> LiveReading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _end_process(self) -> None:
        self._is_closed = True
        self._process.kill()
        self._process.wait()
        with self._receiving:  # until the end, which it has come to
            self._pipe.close()

    def __iter__(self) -> Iterator[LiveStep]:
        while True:
            try:
                with self._receiving:
                    message = self._pipe.recv()
            except (EOFError, OSError) as error:
                if self._is_closed:
                    return
                raise RunError(
                    f"stream {self._stream.name}: {self._end()}", "the run has nothing to do with it"
                ) from error
            if message is None:
                return
            if isinstance(message, str):
                raise RunError(message)
            yield message

    def _end(self) -> str:
        """How the process has ended."""
        code, said = self._process.wait(), ""
        with contextlib.suppress(ValueError):  # closed meanwhile
            self._said.seek(0)
            said = self._said.read()[-_SAID_BYTES:].decode("utf-8", "replace").strip().rpartition("\n")[2]
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"the process that read it {how}" + (f" ({said})" if said else "")


# What the process does.


def serve(pipe: int) -> None:
    """Send what is asked for, until the stream has ended or nobody asks any more."""
    # Ctrl-C is for the process that asks: it ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(pipe) as asked:
        stream, limit = asked.recv()
        threading.Thread(target=_end_with, args=[asked], daemon=True).start()
        try:
            for step in _read(stream, limit):
                asked.send(step)
            asked.send(None)
        except RunError as error:
            asked.send(error.message)
        except ConnectionError:
            return


def _end_with(asked: Connection) -> None:
    """End this process when the other one has ended, also in the middle of waiting for a step."""
    try:
        asked.recv_bytes()
    except (EOFError, OSError):
        os._exit(0)


def _read(stream: FollowedStream, limit: int) -> Iterator[LiveStep]:
    views, labels, described, unit = LiveViews(limit), dict[str, VariableLabel](), -1, ""
    told: DrawnStream | None = None
    for step in _steps(stream):
        kinds, attributes = step.kinds(), step.attributes()
        # More attributes than before may describe a variable.
        note_labels(step, [name for name in kinds if name not in labels or len(attributes) != described], labels)
        described = len(attributes)
        views.take(kinds)
        try:
            time, time_unit = time_of(step, kinds, attributes)
            numbers = _numbers(step, kinds, views)
        except StepGone:
            continue
        unit = unit or time_unit
        now = replace(views.drawn, labels=dict(labels), time_unit=unit)
        yield LiveStep(step.number, _finite(time), views.extents, numbers, None if now == told else now)
        told = now


def _steps(stream: FollowedStream) -> Iterator[DataStep]:
    """The steps from some before the newest one on."""
    index = read_index(stream.path / "md.idx")
    first = stream.before + max(0, (index.steps if index else 0) - ENOUGH_STEPS)
    with follow_data(stream.path, stream.events, stream.name, first, stream.before, BEHIND_S) as steps:
        yield from steps


def _finite(time: float | None) -> float | None:
    return time if time is not None and math.isfinite(time) else None


def _numbers(
    step: DataStep, kinds: Mapping[str, VariableKind], views: LiveViews
) -> dict[str, tuple[Encoded | None, ...]]:
    found: dict[str, tuple[Encoded | None, ...]] = {}
    for view in views.drawn.views:
        if view.name in views.extents:
            thinning = views.drawn.thinned[view.name]
            arrays = read_view(step, kinds, view, views.extents[view.name], thinning)
            columns = (arrays.get(number) for number in range(len(view.columns)))
            found[view.name] = tuple(None if each is None else encode(each, thinning.item_bytes) for each in columns)
    return found
