"""The progress of a run while it runs. Imported before the first stage starts: it must not import the report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import to_message
from workflow.plan.plan_model import Plan
from workflow.report.show.plain_output import print_plain
from workflow.report.show.progress_lines import Pace, stage_cells, stream_cells
from workflow.report.show.rich_terminal import make_console, make_grids, make_live, say
from workflow.run.verdict.stall_detection import present_warnings

if TYPE_CHECKING:
    from workflow.report.show.rich_terminal import Console, Live
    from workflow.run.state import RunState

# Rates change all the time, and redrawing takes CPU time from the stages.
REDRAW_S = 0.4


class Progress:
    """Shows a run, state by state: redrawn in place on a terminal, otherwise a line per event and every few seconds."""

    def __init__(self, plan: Plan, run_dir: Path, quiet: bool = False, console: Console | None = None) -> None:
        self._plan, self._run_dir, self._quiet = plan, run_dir, quiet
        in_place = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._console = console or (make_console(stderr=True) if in_place and not quiet else None)
        self._live: Live | None = None
        self._drawn: tuple[list[str], float, object] = ([], 0.0, None)
        self._pace = Pace()

    def __enter__(self) -> Progress:
        if not self._quiet:
            self._print(f"{self._plan.pipeline}: {self._run_dir}")
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
        if self._live is None:
            for line in self._pace.lines(state):
                self._print(line)
            return
        stages = [stage_cells(stage, state.t) for stage in state.stages.values()]
        streams = [stream_cells(state, stream.name, self._live.console.width) for stream in state.plan.streams]
        warnings = [(str(to_message("warning", text)),) for text in present_warnings(state)]
        statuses = [status for _, status, _ in stages]
        old, at, shown = self._drawn
        if (statuses != old or not 0 <= state.t - at < REDRAW_S) and shown != (stages, streams, warnings):
            self._drawn = statuses, state.t, (stages, streams, warnings)
            self._live.update(make_grids(self._live.console, stages, streams, warnings), refresh=True)

    def _print(self, line: str) -> None:
        if self._console is not None:
            say(self._console, line)
        else:
            self._quiet = not print_plain(sys.stderr, line)
