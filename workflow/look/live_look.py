"""`wf look --live`: reads the newest steps of a running run, serves the page, and ends with the run."""

from __future__ import annotations

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

# A page asks again at once: so connections of pages that are gone are seen.
_ANSWER_S = 10.0
_LOOK_S = 0.2
# Pages that ask learn that the run has ended; one that has been closed does not ask.
_LAST_WORD_S = 3.0


class LiveLook:
    """The page of a running run: a context manager, while which it is served at `url`. See `live_look`.

    `streams`: those that are shown.
    """

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
        page = make_live_page(title, self._name, self.streams, library_text())
        self._server = LiveServer(page.encode(), self._news, port)
        self.url, self.port = self._server.url, self._server.server_port
        self._title = title
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> LiveLook:
        self._open.callback(self._server.server_close)
        for stream in self._followed:
            reading = self._open.enter_context(LiveReading(stream, self._limit))
            self._threads.append(threading.Thread(target=self._take, args=[stream.name, reading], daemon=True))
        serving = threading.Thread(target=self._server.serve_forever, args=[0.1], daemon=True)
        for thread in (serving, *self._threads):
            thread.start()
        self._open.callback(self._server.shutdown)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def wait(self) -> str:
        """Return when the run has ended, and the pages that are open show that: with how it has ended.

        Raises RunError when no stream can be read any more while the run goes on.
        """
        while (state := list_runs([self.run_dir])[0].state) == "running":
            if len(self._failed) == len(self._followed):
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
        except RunError as error:
            with self._changed:
                self._failed[stream] = error.message
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
