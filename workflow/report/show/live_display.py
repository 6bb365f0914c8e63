"""The progress of a run while it runs: redrawn in place, or in lines.

Imported before the first stage starts: it must not import the report.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import to_message
from workflow.formatting import duration, rate
from workflow.plan.plan_model import Plan
from workflow.report.show.event_lines import (
    OPEN_TEXT,
    STOPPING_TEXT,
    attempt_text,
    event_text,
    line_at,
    move_text,
    proof_lines,
    repeats_text,
    restart_text,
    started_text,
)
from workflow.report.show.folded_members import Folding, counts_text, groups
from workflow.report.show.terminal import NotebookOutput, Output, in_notebook, make_console, make_live, styled
from workflow.report.show.text_table import Heading, Table, column_widths, narrowed, row_lines
from workflow.run.state.run_state import EndState, RunState, StageState
from workflow.run.state.stream_rates import bytes_moved, throughput
from workflow.run.stop_sequence import unended
from workflow.run.verdict.stall_detection import present_warnings

if TYPE_CHECKING:
    from workflow.report.show.terminal import Console, Live

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
        self._output = Output(sys.stderr, console=self._console)
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
        folding = Folding.of_plan(state.plan)
        stages = stage_rows(state, folding)
        streams = fitted(stream_rows(state, folding), console.width)
        warnings = [str(to_message("warning", text)) for text in present_warnings(state)]
        warnings += [text] if (text := unended_text(state)) else []
        statuses = [status for _, status, _ in stages]
        old, at, shown = self._drawn
        if (statuses == old and 0 <= state.t - at < REDRAW_S) or shown == (stages, streams, warnings):
            return
        self._drawn = statuses, state.t, (stages, streams, warnings)
        tables = Table(STAGE_HEAD, [list(row) for row in stages]), streams
        lines = [line for table in tables for line in row_lines(table, column_widths(table, console.width))]
        drawn = styled(console, [*lines, *([(text, "")] for text in warnings)])
        if self._live is not None:
            self._live.update(drawn, refresh=True)
        elif self._cell is not None:
            self._cell.update(drawn)

    def _print(self, line: str) -> None:
        self._quiet = not self._output.say(line)


# Without a terminal: the shortest time between two lines on a stream, and their share of a long run's time.
LINE_EVERY_S = 5.0
LINE_SHARE = 0.03
# The columns have no titles. Of the stages: name, state, time.
STAGE_HEAD = [Heading("", "text"), Heading("", "state"), Heading("", "text")]
# Of the streams: name, ends, steps, steps per second, data per second, queue. On a narrow terminal the ends give way
# first, since the stages stand above. FULL: how wide the columns get, so that none is there for the first second only.
STREAM_HEAD = [
    Heading("", "text"), Heading("", "text", 1), Heading("", "text"), Heading("", "text", 2), Heading("", "text", 3),
    Heading("", "text"),
]  # fmt: skip
FULL = ["", "", "999 written, 999 read", "99.9 steps/s", "99.9 MB/s", "queue 2/2"]


def stage_cells(stage: StageState, now: float) -> tuple[str, str, str]:
    """(name, status, how long it has run)."""
    if stage.started is None:
        return stage.name, stage.status, ""
    if stage.exited is not None:
        return stage.name, stage.status, duration(stage.exited - stage.started)
    # Whole seconds, so that a run in which nothing happens is redrawn once a second.
    seconds = int(max(now, stage.started) - stage.started)
    return stage.name, stage.status, f"{seconds} s" if seconds < 60 else duration(seconds)


def stage_rows(state: RunState, folding: Folding) -> list[tuple[str, str, str]]:
    """The cells of each stage; of the members of an ensemble how many are in which state, and the longest time."""
    cells = groups(
        (stage_cells(stage, state.t) for stage in state.stages.values()), lambda cell: folding.stage(cell[0])
    )
    started = {stage.name: stage.started for stage in state.stages.values() if stage.started is not None}
    rows = []
    for name, each in cells.items():
        first = min(each, key=lambda cell: started.get(cell[0], state.t))
        rows.append(each[0] if len(each) == 1 else (name, counts_text(status for _, status, _ in each), first[2]))
    return rows


def fitted(streams: Sequence[tuple[str, ...]], width: int) -> Table:
    """The rows of the streams with as many of their columns as fit into this width."""
    table, _ = narrowed(Table(STREAM_HEAD, [FULL, *map(list, streams)]), width)
    return Table(table.head, table.rows[1:])


def stream_rows(state: RunState, folding: Folding) -> list[tuple[str, ...]]:
    """The cells of each stream; of the streams of an ensemble the steps of all."""
    rows: list[tuple[str, ...]] = []
    for name, each in groups(state.plan.streams, lambda one: folding.streams.get(one.name, one.name)).items():
        if len(each) == 1:
            rows.append(stream_cells(state, name))
            continue
        written = sum(state.writer(one.name).steps for one in each)
        read = sum(min(end.steps for end in state.readers(one.name)) for one in each if one.readers)
        ends = f"{folding.stage(each[0].writer)} → {', '.join(folding.ends(each[0].readers))}"
        rows.append((name, ends, f"{written} written, {read} read", "", "", ""))
    return rows


def stream_cells(state: RunState, stream: str) -> tuple[str, ...]:
    """(name, ends, steps written and read, steps per second, throughput, queue), as in `STREAM_HEAD`.

    Both rates are over the time of the stream, as in `wf status` and in the report. The records of both ends are seen
    at different moments: a reader that seems to be ahead of its writer has read what is known to be written.
    """
    plan, writer, readers = state.plan.stream(stream), state.writer(stream), state.readers(stream)
    ends = f"{plan.writer} → {', '.join(plan.readers)}"
    read = min((end.steps for end in readers if end.counted), default=None)
    if read is not None and writer.counted:
        read = min(read, writer.steps)
    steps = f"{_steps(writer)} written" + ("" if read is None else f", {read} read")
    per_second = throughput(state.steps_here(writer), writer.begun, writer.last_moved)
    volume = bytes_moved(writer.bytes, (end.bytes for end in readers))
    moving = throughput(volume, writer.begun, writer.last_moved)
    queue = state.queue(stream)
    limit = "" if queue is None or plan.queue is None or writer.opened is None else f"queue {queue}/{plan.queue.limit}"
    steps_rate = f"{per_second:.3g} steps/s" if per_second else ""
    return stream, ends, steps, steps_rate, rate(moving) if moving else "", limit


def stream_line(state: RunState, stream: str) -> str:
    """One stream in words: `atoms: 12 written, 11 read, 3.4 steps/s, 34.2 MB/s, queue 2/2`."""
    name, _, *cells = stream_cells(state, stream)
    return f"{name}: {', '.join(cell for cell in cells if cell)}"


def news(before: RunState | None, now: RunState) -> list[tuple[float, str]]:
    """What has happened since that state, each with its own time (Unix s), in order: stages that started, opened
    their streams, ended or failed, and a stop.

    Reasons are printed once, at the end, when they are certain.
    """
    lines: list[tuple[float, str]] = []
    if now.proof is not None and (before is None or before.proof is None):
        lines += [(now.proof.t, line) for line in proof_lines(now.proof)]
    lines += [(each.t, restart_text(each)) for each in now.restarts[len(before.restarts) if before else 0 :]]
    lines += [(each.t, move_text(each)) for each in now.moves[len(before.moves) if before else 0 :]]
    begun = now.attempts[len(before.attempts) if before else 0 :]
    lines += [(each.t, attempt_text(each)) for each in begun]
    for name, stage in now.stages.items():
        old = before.stages[name] if before else None
        if old is not None and old.attempt != stage.attempt:
            old = None
        if stage.started is not None and (old is None or old.started is None):
            lines.append((stage.started, started_text(name, stage.pid, now.plan)))
        if stage.opened is not None and (old is None or old.opened is None) and now.plan.stage(name).ends:
            lines.append((stage.opened, f"{name}: {OPEN_TEXT}"))
            if stage.attempt == 1 and (again := repeats_text(now.plan.stage(name))):
                lines.append((stage.opened, again))
        never_began = stage.status == "stopped" and stage.started is None
        if stage.is_over and not (old and old.is_over) and not never_began:
            lines.append((now.t if stage.exited is None else stage.exited, f"{name}: {stage.status}"))
    said = before.warnings if before else ()
    lines += [(each.t, event_text(each, now.plan)) for each in now.warnings if each not in said]
    if now.stopping is not None and (before is None or before.stopping is None):
        lines.append((now.stopping, STOPPING_TEXT))
    return sorted(lines, key=lambda line: line[0])


def unended_text(state: RunState) -> str:
    """`mean still runs: killed in 5 s`: while a run stops, of stages that go on. Empty: there are none."""
    if (found := unended(state)) is None:
        return ""
    names, rung = found
    what = "killed" if rung.number == signal.SIGKILL else signal.Signals(rung.number).name
    verb = "runs" if len(names) == 1 else "run"
    return f"{' and '.join(names)} still {verb}: {what} in {max(0.0, rung.at - state.t):.0f} s"


class Pace:
    """Remembers what was printed: each change is printed once, the progress of a stream at most every few seconds."""

    def __init__(self) -> None:
        self._before: RunState | None = None
        self._spoken: dict[str, tuple[float, int]] = {}
        self._rung = 0  # of the stop, of which stages that do not react were named

    def lines(self, state: RunState) -> list[str]:
        """What is new in this state, each line with the time since the run's start, also when it is seen late."""
        lines = news(self._before, state)
        self._before = state
        if state.rung > self._rung and (text := unended_text(state)):
            self._rung = state.rung
            lines.append((state.t, text))
        for stream in state.plan.streams:
            steps = state.writer(stream.name).steps + sum(end.steps for end in state.readers(stream.name))
            at, before = self._spoken.setdefault(stream.name, (state.t, 0))
            # Less often in long runs: their output is often kept in a log.
            pause = max(LINE_EVERY_S, LINE_SHARE * (state.t - (state.started or state.t)))
            if steps != before and state.t - at >= pause:
                lines.append((state.t, stream_line(state, stream.name)))
                self._spoken[stream.name] = (state.t, steps)
        begin = state.started
        return [line_at(0.0 if begin is None else t - begin, line) for t, line in lines]


def _steps(end: EndState) -> str:
    return str(end.steps) if end.counted else "?"
