"""What is printed while a run goes on: redrawn on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.sample_run import START, make_plan
from workflow.report.show import live_display
from workflow.report.show.live_display import Pace, stream_line
from workflow.report.show.text_table import column_widths, row_lines
from workflow.run.lifecycle import step
from workflow.run.state.events import (
    Event,
    Interrupted,
    RunStarted,
    StageExited,
    StagesRestarted,
    StageStarted,
    StreamOpened,
    StreamProgress,
    Tick,
)
from workflow.run.state.lifecycle_events import RunFinished, StageFailed, StageOpen, StageSucceeded
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import RunState, initial_state


def states() -> list[RunState]:
    """A run in a few moments: two stages start, steps flow, the analysis fails."""

    def flow(t: float, written: int, read: int) -> list[Event]:
        return [
            StreamProgress(START + t, "atoms", "md", "write", written, 100 * written),
            StreamProgress(START + t, "atoms", "saxs", "read", read, 100 * read),
        ]

    moments: list[list[Event]] = [
        [RunStarted(START, "sample", 1, 1, "node1"), StageStarted(START + 0.1, "md", 7)],
        [StageStarted(START + 0.2, "saxs", 8)],
        [
            StreamOpened(START + 1, "atoms", "md", "write"),
            StreamOpened(START + 1, "atoms", "saxs", "read"),
            StageOpen(START + 1, "md"),
        ],
        flow(2, 3, 2),
        flow(7, 12, 11),
        [StageExited(START + 8, "saxs", None, 9), StageFailed(START + 8, "saxs", "killed by signal 9")],
    ]
    result: list[RunState] = []
    state = initial_state(make_plan())
    for events in moments:
        state = fold(state, events)
        result.append(state)
    return result


def test_plain_progress_says_each_thing_once() -> None:
    pace = Pace()
    lines = [line for state in states() for line in pace.lines(state) + pace.lines(state)]
    assert lines == [
        "     0.1 s  md: started, 2 ranks, process 7",
        "     0.2 s  saxs: started, 1 rank, process 8",
        "     1.0 s  md: its streams are open",
        "     7.0 s  atoms: 12 written, 11 read, 2 steps/s, 200 B/s, queue 1/2",
        "     8.0 s  saxs: failed",
    ]


def test_a_simulation_that_computes_steps_again_says_so_once_it_begins() -> None:
    plan = make_plan()
    md = plan.stage("md")
    ends = [end.model_copy(update={"first_step": 48, "repeated": 48, "part_step": 48}) for end in md.ends]
    stages = [md.model_copy(update={"ends": ends}), *(each for each in plan.stages if each.name != "md")]
    pace, lines = Pace(), list[str]()
    for state in states():
        lines += pace.lines(replace(state, plan=plan.model_copy(update={"stages": stages})))
    assert [line.strip() for line in lines if "again" in line] == [
        "1.0 s  md: computes steps 0 to 47 again; step 48 is the first new one"
    ]


def test_a_stage_that_does_not_react_to_the_stop_is_named_with_what_comes_next() -> None:
    """A program in adios2 takes no SIGINT until its step has come."""
    state = states()[3]
    pace = Pace()
    pace.lines(state)
    state, _ = step(state, Interrupted(START + 3, "SIGINT"))
    (stopping,) = pace.lines(state)  # nothing of `keep`, which was not started
    assert "stopping all stages" in stopping
    said = []
    for t in (3.5, 4.0, 4.1, 4.6, 8.0, 9.1, 9.5):
        state, _ = step(state, Tick(START + t))
        if t == 4.6:
            state, _ = step(state, StageExited(START + t, "md", None, 2))
        said += [line.strip() for line in pace.lines(state) if "still run" in line]
    assert said == ["4.0 s  md and saxs still run: SIGTERM in 4 s", "9.1 s  saxs still runs: killed in 54 s"]
    ended = [StageExited(START + 10, "saxs", None, 15), RunFinished(START + 10, "interrupted", 130, "", "")]
    assert not any("still run" in line for line in pace.lines(fold(state, ended)))


def test_a_reader_is_never_shown_ahead_of_its_writer() -> None:
    """The records of the writer, maybe on another node, are seen later than those of the reader."""
    ahead = [
        StreamProgress(START + 7, "atoms", "md", "write", 48, 1),
        StreamProgress(START + 7, "atoms", "saxs", "read", 49, 1),
    ]
    assert stream_line(fold(states()[2], ahead), "atoms").startswith("atoms: 48 written, 48 read, ")


def test_progress_that_is_seen_late_has_the_times_and_the_order_of_what_happened() -> None:
    state = fold(states()[-1], [StageSucceeded(START + 20, "md"), StageStarted(START + 4, "keep", 9)])
    assert Pace().lines(state) == [
        "     0.1 s  md: started, 2 ranks, process 7",
        "     0.2 s  saxs: started, 1 rank, process 8",
        "     1.0 s  md: its streams are open",
        "     4.0 s  keep: started, 1 rank, process 9",
        "     8.0 s  saxs: failed",
        "    20.0 s  md: succeeded",
    ]


@pytest.mark.parametrize(("width", "shown"), [(80, ""), (100, "statistics → keep, picture")])
def test_each_stream_is_one_row_whose_less_important_cells_give_way(width: int, shown: str) -> None:
    """At 80 columns the rows of the first examples were three lines each."""
    full = ["31 written, 31 read", "5.17 steps/s", "21.7 MB/s", "queue 0/2"]
    rows = [("histogram", "statistics → keep, picture", *cells) for cells in (full, ["0 written, 0 read", "", "", ""])]
    for row in rows:  # the same columns in the first second as later
        table = live_display.fitted([row], width)
        assert table.rows == [[cell for cell in row if cell != row[1] or shown]]
        (line,) = row_lines(table, column_widths(table, width))
        assert len("".join(text for text, _ in line)) <= width


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_progress_on_a_terminal_is_redrawn_only_when_it_changed(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, height=40, markup=False, highlight=False)
    with live_display.Progress(make_plan(), Path("runs/x"), console=console) as progress:
        for state in states():
            progress.update(state)
            size = len(file.getvalue())
            progress.update(replace(state, t=state.t + 0.01))
            assert len(file.getvalue()) == size, "drawn again though nothing changed"
    text = file.getvalue()
    for part in ("saxs", "starting", "failed", "12 written, 11 read", "queue 1/2"):
        assert part in text


def test_progress_without_a_terminal_prints_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with live_display.Progress(make_plan(), Path("runs/x")) as progress:
        for state in states():
            progress.update(state)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[0] == "shock-diffraction: runs/x"
    assert len(captured.err.splitlines()) == 6
    with live_display.Progress(make_plan(), Path("runs/x"), quiet=True) as progress:
        progress.update(states()[0])
    assert capsys.readouterr() == ("", "")


def test_reader_of_the_progress_that_leaves_does_not_end_the_run() -> None:
    """`wf run … 2>&1 | head -1`"""
    program = (
        "import sys; from pathlib import Path; from tests.unit.test_report_progress import *\n"
        "sys.stdin.readline()\n"
        "with live_display.Progress(make_plan(), Path('runs/x')) as progress:\n"
        "    for state in states(): progress.update(state)\n"
        "sys.exit(4)"
    )
    reader, writer = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=writer)
    os.close(writer)
    os.close(reader)
    process.communicate(b"\n", timeout=60)
    assert process.returncode == 4


def test_the_rate_of_a_stream_whose_writer_was_started_again_is_over_all_its_time() -> None:
    """The steps of the attempts before count, and so does their time."""
    state = fold(
        initial_state(make_plan()),
        [
            RunStarted(START, "sample", 1, 1, "node1"),
            StageStarted(START, "md", 7),
            StreamOpened(START + 1, "atoms", "md", "write"),
            StreamProgress(START + 21, "atoms", "md", "write", 40, 4000),
            StagesRestarted(START + 22, ["md"], 2, 40),
            StreamOpened(START + 30, "atoms", "md", "write"),
            StreamProgress(START + 31, "atoms", "md", "write", 60, 6000),
        ],
    )
    assert "60 written, 0 read, 2 steps/s, 200 B/s" in stream_line(state, "atoms")
