"""The progress of a run while it runs. Imported before the first stage starts: it must not import the report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import to_message
from workflow.plan.plan_model import Plan
from workflow.report.show.notebook_output import NotebookOutput, in_notebook
from workflow.report.show.plain_output import print_plain
from workflow.report.show.progress_lines import Pace, stage_cells, stream_cells
from workflow.report.show.rich_terminal import make_console, make_grids, make_live, say
from workflow.run.verdict.stall_detection import present_warnings

if TYPE_CHECKING:
    from workflow.report.show.rich_terminal import Console, Live
    from workflow.run.state.run_state import RunState

# Rates change all the time, and redrawing takes CPU time from the stages.
REDRAW_S = 0.4


def is_watched() -> bool:
    """Whether somebody can see the progress of a run as it is made: in a notebook, or on a terminal."""
    return in_notebook() or sys.stderr.isatty()


class Progress:
    """Shows a run, state by state: redrawn in place on a terminal and in a notebook; otherwise a line per event and
    every few seconds.
    """

    def __init__(self, plan: Plan, run_dir: Path, quiet: bool = False, console: Console | None = None) -> None:
        self._headline, self._quiet = f"{plan.pipeline}: {run_dir}", quiet
        in_place = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._console = console or (make_console(stderr=True) if in_place and not quiet else None)
        self._live: Live | None = None
        self._cell: NotebookOutput | None = None
        self._drawn: tuple[list[str], float, object] = ([], 0.0, None)
        self._pace = Pace()

    def __enter__(self) -> Progress:
        if self._quiet:
            return self
        if self._console is None and in_notebook():
            self._cell = NotebookOutput(self._headline)
            return self
        self._print(self._headline)
        if self._console is not None and self._console.is_terminal:
            self._live = make_live(self._console)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, state: RunState) -> None:
        """Show this state, if it differs from what is shown."""
        if self._quiet:
            return
        if (place := self._live or self._cell) is not None:
            self._redraw(state, place.console)
            return
        for line in self._pace.lines(state):
            self._print(line)

    def say(self, line: str) -> None:
        """Print one line, above what is redrawn."""
        if not self._quiet:
            self._print(line)

    def _redraw(self, state: RunState, console: Console) -> None:
        stages = [stage_cells(stage, state.t) for stage in state.stages.values()]
        streams = [stream_cells(state, stream.name, console.width) for stream in state.plan.streams]
        warnings = [(str(to_message("warning", text)),) for text in present_warnings(state)]
        statuses = [status for _, status, _ in stages]
        old, at, shown = self._drawn
        if (statuses == old and 0 <= state.t - at < REDRAW_S) or shown == (stages, streams, warnings):
            return
        self._drawn = statuses, state.t, (stages, streams, warnings)
        grids = make_grids(console, stages, streams, warnings)
        if self._live is not None:
            self._live.update(grids, refresh=True)
        elif self._cell is not None:
            self._cell.update(grids)

    def _print(self, line: str) -> None:
        if self._console is not None:
            say(self._console, line)
        else:
            self._quiet = not print_plain(sys.stderr, line)
