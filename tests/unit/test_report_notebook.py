"""What a notebook shows of a report, and who sees the progress of `run_pipeline`. In a kernel: tests/docs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.sample_run import make_events, make_plan, simulate, write_run, write_sample
from workflow import read_report
from workflow.report.notebook_report import RunReport
from workflow.report.report_files import compute_report, write_report
from workflow.report.report_model import Report
from workflow.report.show.report_tables import stage_table, stream_table
from workflow.report.show.text_table import Table

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from workflow import run_pipeline
SETS = ["stages.sim.with.steps=20", "stages.sim.with.write_every=20"]
choice = {"none": None, "true": True, "false": False}[sys.argv[1]]
report = run_pipeline("pipeline.yaml", run_dir="run", progress=choice, sets=SETS)
sys.exit(report.run.exit_code)
"""


class Cells(HTMLParser):
    """The rows of all tables; fails on tags that do not match, and on scripts and style sheets."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "style", "link", "img", "iframe")
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & {*self.open[-2:]}:  # a state is in a span
            self.rows[-1].append(data)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shown(report: RunReport) -> Cells:
    cells = Cells()
    cells.feed(report._repr_html_())
    assert cells.open == []
    return cells


def rows(table: Table) -> list[list[str]]:
    """The table as a page has it: cells without text have no data."""
    return [[cell for cell in row if cell] for row in ([heading.title for heading in table.head], *table.rows)]


def test_tables_are_those_of_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_sample(tmp_path / "runs/it")
    write_report(run_dir)
    monkeypatch.chdir(tmp_path)
    report = read_report("it")
    cells = shown(report)
    assert cells.rows == rows(stage_table(report, "terminal")) + rows(stream_table(report, "terminal"))
    assert cells.links == ["runs/it/report.html"]
    assert "✓ succeeded" in cells.text and str(run_dir / "report.html") in cells.text
    monkeypatch.chdir(run_dir / "stages")
    assert shown(report).links == [(run_dir / "report.html").as_uri()]


def test_a_failure_is_shown_with_its_reason_and_nothing_of_it_is_taken_as_html(tmp_path: Path) -> None:
    metrics = simulate(5, 0.1, 0.1, 0.1)
    events = make_events(metrics, "failed", "saxs", "exited with 1: <script>alert(1)</script> & more")
    run_dir = write_run(tmp_path / "run", make_plan(), events, metrics)
    cells = shown(RunReport.of(compute_report(run_dir), run_dir))
    assert "✗ failed" in cells.text
    assert "<script>alert(1)</script> & more" in cells.text
    assert cells.links == [], "there is no report.html"


def test_the_run_directory_is_no_part_of_the_report(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run")
    report = compute_report(run_dir)
    made = RunReport.of(report, run_dir)
    assert made.to_json() == report.to_json()
    assert Report.model_validate_json(made.to_json()) == report
    assert made.model_copy().run_dir == run_dir


@pytest.mark.parametrize(
    ("terminal", "choice", "sees"),
    [(True, "none", True), (True, "false", False), (False, "none", False), (False, "true", True)],
)
def test_who_sees_the_progress(terminal: bool, choice: str, sees: bool, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_bytes((ROOT / "examples/00-starter/pipeline.yaml").read_bytes())
    ours, theirs = os.openpty() if terminal else os.pipe()
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, choice], stderr=theirs, stdin=subprocess.DEVNULL, cwd=tmp_path, env=environment
    )
    os.close(theirs)
    text = _read_all(ours)
    assert process.wait(120) == 0, text
    if not sees:
        assert text == ""
    elif terminal:
        assert re.search(r"2 written, 2 read", text) and "\x1b[" in text
    else:
        assert "sim: started" in text and "keep: succeeded" in text and "\x1b[" not in text


def _read_all(descriptor: int) -> str:
    """Until the other end is closed, which is an error of a terminal."""
    data = b""
    try:
        while part := os.read(descriptor, 65536):
            data += part
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return data.decode(errors="replace")


def test_print_shows_what_wf_report_prints(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "good", steps=5)
    made = RunReport.of(compute_report(run_dir), run_dir)
    lines = str(made).splitlines()
    assert lines[0] == f"{made.run.name}: succeeded"
    assert any(re.match(r"atoms +md → saxs", line) for line in lines) and "\x1b" not in str(made)
    assert repr(made) == f"<RunReport {made.run.name}: succeeded, {run_dir}>"
