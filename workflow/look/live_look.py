"""`wf look --live`: reads the newest steps of a running run, serves the page, and ends with the run."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from workflow.data_files.read_steps import find_data
from workflow.errors import RunError
from workflow.look.live_server import LiveServer
from workflow.look.live_steps import LiveSteps, PageVersion
from workflow.look.look_page import make_live_page
from workflow.look.read_live import FollowedStream, LiveReading
from workflow.look.write_look import DEFAULT_LIMIT, WrittenPage, library_text, write_look, write_steps
from workflow.report.read.run_states import list_runs
from workflow.run.records.events_file import read_start_and_verdict

# A page asks again at once: so connections of pages that are gone are seen.
_ANSWER_S = 10.0
_LOOK_S = 0.2
# Whether its supervisor lives is looked at less often: that reads the plan and all attempts, too.
_LOOK_WELL_S = 2.0
# Pages that ask learn that the run has ended; one that has been closed does not ask.
_LAST_WORD_S = 3.0


class LiveLook:
    """The page of a running run: a context manager, while which it is served at `url`. See `live_look`.

    `streams`: those that are shown. `port`: the one that was asked for; inside `with` the one that it is served at.
    """

    url: str

    def __init__(
        self, run_dir: Path, typed: str, title: str, streams: Sequence[FollowedStream], limit: int | None, port: int
    ) -> None:
        self.run_dir, self.streams = run_dir, [stream.name for stream in streams]
        self._followed, self._limit = streams, DEFAULT_LIMIT if limit is None else limit
        self._typed = typed
        self._name = run_dir.name
        self._steps = LiveSteps(self._name, [(stream.name, stream.title) for stream in streams], self._limit)
        self._changed = threading.Condition()
        self._came = 0.0
        self._ended = ""
        self._failed: dict[str, str] = {}
        self._asking: set[str] = set()
        self._open = ExitStack()
        self._page = make_live_page(title, self._name, self.streams, library_text()).encode()
        self._title, self.port = title, port
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> LiveLook:
        with ExitStack() as opened:  # of a start that fails nothing stays
            server = LiveServer(self._page, self._news, self.port)
            opened.callback(server.server_close)
            for stream in self._followed:
                reading = opened.enter_context(LiveReading(stream, self._limit))
                self._threads.append(threading.Thread(target=self._take, args=[stream.name, reading], daemon=True))
            threading.Thread(target=server.serve_forever, args=[0.1], daemon=True).start()
            opened.callback(server.shutdown)
            for thread in self._threads:
                thread.start()
            self.url, self.port = server.url, server.server_port
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def wait(self) -> str:
        """Return when the run has ended, and the pages that are open show that: with how it has ended.

        Raises RunError when no stream can be read any more while the run goes on.
        """
        looked = -math.inf
        while True:
            has_failed, is_time = len(self._failed) == len(self._followed), time.monotonic() - looked >= _LOOK_WELL_S
            if has_failed or is_time or read_start_and_verdict(self.run_dir).finished is not None:
                state, looked = list_runs([self.run_dir])[0].state, time.monotonic()
                if state != "running":
                    break
                if has_failed:
                    raise RunError(next(iter(self._failed.values())), f"try again: wf look {self._typed} --live")
            time.sleep(_LOOK_S)
        until = time.monotonic() + _LAST_WORD_S
        for thread in self._threads:  # steps of the end
            thread.join(max(0.0, until - time.monotonic()))
        with self._changed:
            self._ended = f"{self._name} has ended: {state}"
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._asking, timeout=_LAST_WORD_S)
        return self._ended

    def write_page(self, page: Path | None) -> WrittenPage:
        """The ordinary page, of what the run has archived; where it has archived nothing, of the steps shown last."""
        if find_data(self.run_dir):
            return write_look([self.run_dir], page, self._limit)
        with self._changed:
            return write_steps(self._title, self._name, self._steps.files(), self._notes(), page)

    def _take(self, stream: str, reading: LiveReading) -> None:
        """Take what comes of a stream, until it ends."""
        try:
            for each in reading:
                with self._changed:
                    self._steps.add(stream, each)
                    self._came = time.monotonic()
                    self._changed.notify_all()
        except Exception as error:  # the page would show an old step for ever
            what = f"stream {stream} cannot be shown any more: {type(error).__name__}: {error}"
            with self._changed:
                self._failed[stream] = error.message if isinstance(error, RunError) else what
                self._changed.notify_all()

    def _news(self, after: str, page: str) -> dict[str, Any]:
        """What is new for a page. Waits for something."""
        known = PageVersion.read(after)
        with self._changed:
            self._asking.add(page)
            self._changed.wait_for(lambda: self._ended or known != self._steps.version, timeout=_ANSWER_S)
            if self._ended:
                self._asking.discard(page)
                self._changed.notify_all()
            news = self._steps.news(known)
            age_s = round(time.monotonic() - self._came, 3) if self._came else None
            return news | {"age_s": age_s, "ended": self._ended, "notes": self._notes()}

    def _notes(self) -> list[str]:
        return [*self._steps.left_out(), *self._failed.values()]
