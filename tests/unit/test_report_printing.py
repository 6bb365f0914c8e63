"""What is printed, in any width, and on terminals without Unicode or colours."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.sample_run import make_events, make_plan, simulate, write_run, write_sample
from workflow.compare.comparison import Comparison, Difference, FileComparison
from workflow.errors import to_message
from workflow.formatting import NO_BREAK
from workflow.plan.plan_model import NodePlan, ParameterPlan, Placement
from workflow.report.html.page import key_facts
from workflow.report.html.page_sections import make_time_shares
from workflow.report.report_files import compute_report, write_report
from workflow.report.report_model import Report, StagePart
from workflow.report.show import printing, report_tables
from workflow.report.show.component_and_site_tables import component_table
from workflow.report.show.plan_tables import (
    SettingOfStages,
    end_table,
    nodes_table,
    plan_stream_table,
    setting_lines,
    transport_table,
    verdict_text,
)
from workflow.report.show.report_tables import data_text
from workflow.report.show.run_in_words import summary, total_text
from workflow.report.show.terminal import Output
from workflow.report.show.text_table import (
    Column,
    text_column,
)
from workflow.spec.models.component import Component

WIDTHS = pytest.mark.parametrize("width", [40, 60, 80, 160])
RED = Comparison(
    a="runs/a", b="runs/b", tolerance=0, only_b=["streams/atoms.bp"], notes=["runs/a failed"],
    files=[FileComparison(path="pattern.bp", steps=41, variables=2, bytes=10**6, differences=[
        Difference(what="values", name="intensity", step=3, steps=2, message="1.0 and 2.0", values=7, of=99,
                   max_abs=1.0, max_rel=0.5, where=[1, 2])])],
)  # fmt: skip


def printed(show: Callable[[Output], None], width: int, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    show(Output(file, width))
    file.flush()
    return raw.getvalue().decode(encoding)


def test_parameters_are_listed_in_the_plan_and_the_report(tmp_path: Path) -> None:
    params = {"n": ParameterPlan(value=64), "tolerance": ParameterPlan(value=0.001, unit="m", text="largest error")}
    plan = make_plan().model_copy(update={"params": params})
    line = "  params: n = 64, tolerance = 0.001 m\n"
    assert line in printed(lambda output: printing.show_plan(plan, output), 160)
    whole = printed(lambda output: printing.show_plan(plan, output, whole=True), 160)
    assert "\natoms, pattern: SST listens on all network interfaces of its node; streams in shared memory" in whole
    assert line not in whole and re.search(r"^tolerance +0\.001 m +largest error$", whole, re.MULTILINE)
    report = compute_report(write_sample(tmp_path)).model_copy(update={"params": params})
    assert line in printed(lambda output: printing.show_report(report, output), 160)
    assert ("params", "n = 64, tolerance = 0.001 m") in [(fact.name, fact.value) for fact in key_facts(report)]


def failed_run(tmp_path: Path) -> Path:
    metrics = simulate(5, 0.05, 0.05, 0.01)
    run_dir = write_run(tmp_path / "bad", make_plan(), make_events(metrics, "failed", "saxs", "killed"), metrics)
    (run_dir / "stages/saxs/stderr.log").write_text("Traceback …\n[red]ValueError[/red]: Å\n")
    return run_dir


@WIDTHS
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_everything_can_be_shown_everywhere(tmp_path: Path, width: int, encoding: str) -> None:
    good, bad = compute_report(write_sample(tmp_path / "good", steps=5)), compute_report(failed_run(tmp_path))
    plan = make_plan().model_copy(update={"advice": ["ranks → cores: 4 × 2"]})
    component = Component.model_validate(
        {
            "component": "lammps", "kind": "simulation", "summary": "atoms → Å",
            "parameters": {"cells": {"type": "int[3]", "help": "unit cells", "default": [1, 2, 3]}},
            "writes": {"atoms": {"variables": {"position": {"type": "float64", "shape": ["N", 3], "unit": "Å"}}}},
            "reads": {"input": {"any": True, "help": "anything"}},
        }
    )  # fmt: skip

    def show(output: Output) -> None:
        for report in (good, bad):
            printing.show_report(report, output)
            printing.show_status(report, output)
            printing.show_end(report, tmp_path, output)
        printing.show_plan(plan, output, whole=True)
        printing.show_comparison(RED, output)
        output.draw(component_table([component]))
        printing.show_component(component, output)

    text = printed(show, width, encoding)
    # The narrowest terminal has no room for the first of these, and folds the second.
    wide = ("98.4 MB" if "98.4 MB" in text else "12.0 MB", "intensity") if width > 40 else ()
    for part in ("shock-diffraction: succeeded", *wide, "atoms", "signal 9",
                 "[red]ValueError[/red]", "QueueLimit=2", "python md.py", "atoms.bp"):  # fmt: skip
        assert part in text, part


@WIDTHS
def test_tables_stay_within_the_terminal(tmp_path: Path, width: int) -> None:
    report = compute_report(write_sample(tmp_path / "good", steps=5))
    lines = printed(lambda output: printing.show_status(report, output), width).splitlines()
    assert max(len(line) for line in lines) <= width


def plain(width: int) -> list[str]:
    """What `wf plan` prints of a plan with a long reason, in a terminal of this width."""
    plan = make_plan(limit=3)
    stages = [stage.model_copy(update={"env": {"TUNABLES": "a=1:b=2"}}) for stage in plan.stages]
    reasons = {f"stages.{stage.name}.env.TUNABLES": "big buffers are reused, " * 20 for stage in stages}
    long = plan.model_copy(update={"stages": stages, "reasons": reasons})
    return printed(lambda output: printing.show_plan(long, output, whole=True), width).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_plan_stays_a_table_and_its_prose_is_wrapped(width: int) -> None:
    lines = plain(width)
    commands = lines.index("launch lines")
    assert max(len(line) for line in lines[:commands]) <= width
    heads = [line.split() for line in lines if line.startswith(("stage ", "stream "))]
    assert [head[:2] for head in heads] == [["stage", heads[0][1]], ["stream", "from,"], ["stream", "end"]]
    rows = [line for line in lines if line.startswith("md ")]
    assert [row.split()[1] for row in rows] == ["simulation", "at"], "stages, and where they begin when resumed"
    assert "  md, saxs, keep: TUNABLES=a=1:b=2" in lines


def test_the_less_important_columns_go_first_and_wide_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    narrow, wide = "\n".join(plain(60)), "\n".join(plain(10_000))
    assert re.search(r"^`--wide` shows (1 more column|\d more columns): (path|coupling, path)", narrow, re.MULTILINE)
    assert "--wide" not in wide and re.search(
        r"^stream +from, to +engine +coupling +queue +path *$", wide, re.MULTILINE
    )
    head = next(line for line in narrow.splitlines() if line.startswith("stream "))
    assert "engine" in head and "path" not in head
    printing.show_plan(make_plan())
    piped = capsys.readouterr().out
    assert "path" in piped and "more column" not in piped, "a pipe has no width"


def test_colours_only_where_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = compute_report(write_sample(tmp_path / "good", steps=3))

    def show() -> str:
        file = io.StringIO()
        console = Console(file=file, force_terminal=True, color_system="standard")
        printing.show_report(report, Output(file, 100, console))
        return file.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m" in show()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in show()


def test_the_end_of_a_run_needs_no_rich_without_a_terminal(tmp_path: Path) -> None:
    run_dir = failed_run(tmp_path)
    write_report(run_dir)
    program = (
        "import sys; from pathlib import Path\n"
        "from workflow.report.show.printing import *; from workflow.report.report_files import *\n"
        f"d = Path({str(run_dir)!r}); show_end(read_report(d), d); assert 'rich' not in sys.modules"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert result.stderr.splitlines()[1:] == [
        "error: stage saxs: killed", "  last lines of stages/saxs/stderr.log:", "    Traceback ...",
        "    [red]ValueError[/red]: A", f"  {run_dir}/report.html",
        f"  next: `wf logs saxs --run {run_dir}` shows what it printed",
    ]  # fmt: skip


def end_of(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    printing.show_end(compute_report(run_dir), run_dir)
    return capsys.readouterr().err.splitlines()[1:]


def test_the_reason_of_a_failure_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = simulate(5, 0.05, 0.05, 0.01)
    reason = "saxs ended with exit code 1: plot needs `pwer`; the stream has power"
    run_dir = write_run(tmp_path / "bad", make_plan(), make_events(metrics, "failed", "saxs", reason), metrics)
    log = run_dir / "stages/saxs/stderr.log"
    log.write_text("something else\nStageError: plot needs `pwer`; the stream has power\n")
    after = f"  next: `wf logs saxs --run {run_dir}` shows what it printed"
    assert end_of(run_dir, capsys) == [
        f"error: {reason}", "  last lines of stages/saxs/stderr.log:", "    something else", after
    ]  # fmt: skip
    log.write_text("plot needs `pwer`; the stream has power\n")
    assert end_of(run_dir, capsys) == [f"error: {reason}", after]


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        ("", "correct the error and go on: `wf resume {}` (with `--dry-run`: from which steps)"),
        ("supervisor_killed", "`wf resume {}` goes on (with `--dry-run`: from which steps)"),
    ],
)
def test_what_failed_by_itself_is_corrected_first(
    cause: str, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = simulate(5, 0.05, 0.05, 0.01)
    events = make_events(metrics, "failed", "", "no file")  # its stages have done their work
    events[-1]["cause"] = cause
    run_dir = write_run(tmp_path / "bad", make_plan(), events, metrics)
    assert end_of(run_dir, capsys)[-1] == f"  next: {advice.format(run_dir)}"


def test_after_ctrl_c_it_is_said_when_nothing_can_be_used_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = simulate(5, 0.05, 0.05, 0.01)
    events = make_events(metrics, "interrupted", "", "interrupted by SIGINT")
    run_dir = write_run(tmp_path / "cut", make_plan(), events, metrics)
    report = compute_report(run_dir)
    for resumable, end in (
        (True, f"  next: `wf resume {run_dir}` goes on (with `--dry-run`: from which steps)"),
        (False, "  nothing of it can be used again: `wf run` starts a new run"),
    ):
        run = report.run.model_copy(update={"resumable": resumable})
        printing.show_end(report.model_copy(update={"run": run}), run_dir)
        assert capsys.readouterr().err.splitlines()[-1] == end


def test_pictures_are_named_when_there_are_any(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = failed_run(tmp_path)
    (run_dir / "pictures/deep").mkdir(parents=True)
    assert not any("/pictures" in line for line in end_of(run_dir, capsys))
    (run_dir / "pictures/deep/a.png").write_bytes(b"")
    assert f"  {run_dir}/pictures" in end_of(run_dir, capsys)


def test_the_status_has_the_process_of_each_stage_that_runs(tmp_path: Path) -> None:
    """To kill one, or to look at it; also on a terminal, where `wf run` does not name them."""
    whole = compute_report(write_sample(tmp_path / "good", steps=5))

    def status(report: Report) -> str:
        return printed(lambda output: printing.show_status(report, output), 100)

    assert [stage.pid for stage in whole.stages] == [100, 101, 102]
    assert "process" not in status(whole)
    running = [
        stage if stage.name == "md" else stage.model_copy(update={"ended": None, "state": "running"})
        for stage in whole.stages
    ]
    text = status(whole.model_copy(update={"stages": running}))
    table = {line.split()[0]: line.split() for line in text.splitlines() if line[:4].strip() in ("stag", "md", "saxs")}
    column = table["stage"].index("process")
    assert table["md"][column] == "-" and table["saxs"][column] == "101", text
    members = [stage.model_copy(update={"ensemble": "all", "ended": None}) for stage in whole.stages]
    assert "process" not in status(whole.model_copy(update={"stages": members}))


def test_what_a_rate_is_stands_below_the_table(tmp_path: Path) -> None:
    report = compute_report(write_sample(tmp_path / "good", steps=5))
    for show in (printing.show_report, printing.show_status):
        assert "throughput: data ÷ the time of" in printed(lambda output, show=show: show(report, output), 160)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([], "3.0 s"),
        ([1], "a 1 step"),
        ([3, None], "a 3 steps, b steps not counted"),
        ([3, 4, 5], "a 3 steps, b 4 steps, c 5 steps"),
        ([3, 4, 5, None], "4 streams of 3 to 5 steps"),
        ([7, 7, 7, 7], "4 streams of 7 steps"),
        ([1, 1, 1, 1], "4 streams of 1 step"),
        ([None, None, None, None], "4 streams"),
    ],
)
def test_the_steps_of_each_stream_are_said_and_of_many_streams_their_range(
    tmp_path: Path, steps: list[int | None], text: str
) -> None:
    report = compute_report(write_sample(tmp_path / "good", steps=3))
    streams = [
        report.streams[0].model_copy(update={"name": name, "steps": count, "bytes": 10})
        for name, count in zip("abcd", steps, strict=False)
    ]
    run = report.run.model_copy(update={"wall_s": 3.0, "limited_by": ""})
    line = summary(report.model_copy(update={"streams": streams, "run": run}))
    assert line == (f"3.00 s, {text}, {10 * len(steps)} B" if steps else "3.00 s")


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        (["written", "read"], "20 B"),
        (["written", "at_least"], "at least 20 B"),
        (["written", "unknown"], "at least 10 B (not known of b)"),
        (["unknown"] * 5, "size not known of a, b, c and others"),
    ],
)
def test_a_total_says_what_is_missing(tmp_path: Path, kinds: list[str], text: str) -> None:
    report = compute_report(write_sample(tmp_path / "good", steps=3))
    streams = [
        report.streams[0].model_copy(
            update={"name": name, "bytes": None if kind == "unknown" else 10, "bytes_are": kind}
        )
        for name, kind in zip("abcde", kinds, strict=False)
    ]
    assert total_text(report.model_copy(update={"streams": streams})) == text
    cells = {"written": "10 B", "read": "10 B", "at_least": "≥ 10 B", "unknown": "not known"}
    assert [data_text(stream) for stream in streams] == [cells[kind] for kind in kinds]
    none = streams[-1].model_copy(update={"bytes": None, "steps": 0, "bytes_are": "unknown"})
    assert data_text(none) == "-"
    assert total_text(report.model_copy(update={"streams": [none]})) == "0 B"


def test_what_a_pipe_writes_again_counts_once(tmp_path: Path) -> None:
    plan = make_plan()
    saxs = plan.stage("saxs").model_copy(update={"added": "pipe"})
    plan = plan.model_copy(update={"stages": [saxs if each.name == "saxs" else each for each in plan.stages]})
    report = compute_report(write_sample(tmp_path / "piped", steps=3, plan=plan))
    assert [stream.passed_on for stream in report.streams] == [True, False]
    pattern = report.stream("pattern")
    assert pattern.bytes and total_text(report) == data_text(pattern)


def test_a_column_is_one_line_for_the_terminal_and_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_sample(tmp_path / "good", steps=5)
    column: Column[StagePart] = text_column("sort", lambda stage: f"a-{stage.kind}")
    monkeypatch.setattr(report_tables, "STAGE_COLUMNS", [*report_tables.STAGE_COLUMNS, column])
    report = write_report(run_dir)
    assert 'class="text" data-label="sort">a-analysis</td>' in (run_dir / "report.html").read_text()
    assert "a-analysis" in printed(lambda output: printing.show_report(report, output), 160)


def test_the_shares_of_a_stage_are_its_whole_time(tmp_path: Path) -> None:
    report = compute_report(write_sample(tmp_path / "run", steps=50))
    text = printed(lambda output: printing.show_report(report, output), 160)
    head = next(line.split() for line in text.splitlines() if line.startswith("stage "))
    for stage in report.stages:
        row = next(line for line in text.splitlines() if line.startswith(f"{stage.name} "))
        shares = [int(share) for share in re.findall(r"(\d+) %", row)]
        assert abs(sum(shares[:4]) - 100) <= 2, f"{row}: each is rounded"
    assert head[head.index("computing") : head.index("rest") + 1] == ["computing", "moving", "waiting", "rest"]
    assert "the run was limited by saxs: while data moved it waited for " in text and "of the time" in text
    for bar in make_time_shares(report):
        shares = [int(share) for share in re.findall(rf"(\d+){NO_BREAK}%", bar.text)]
        assert abs(sum(shares) - 100) <= 3, bar.text


@pytest.mark.parametrize(("width", "shares", "cpu"), [(160, True, True), (60, True, False), (50, False, False)])
def test_columns_are_explained_only_where_they_are_shown(tmp_path: Path, width: int, shares: bool, cpu: bool) -> None:
    report = compute_report(write_sample(tmp_path / "run", steps=50))
    text = " ".join(printed(lambda output: printing.show_report(report, output), width).split())
    head = text[text.index("stage ") :].partition("─")[0].split()
    assert (set(head) >= {"computing", "moving", "waiting", "rest"}, "CPU" in head) == (shares, cpu), head
    assert ("Shares of the time: computing, moving data" in text, "CPU: CPU time" in text) == (shares, cpu), text


def test_a_plan_says_what_is_the_same_once() -> None:
    plan = make_plan()
    writer = plan.stages[0]
    ends = [end.model_copy(update={"units": {"position": "Å", "time": "ps"}}) for end in writer.ends]
    copy = plan.stages[1].model_copy(update={"name": "again"})
    reasons = {f"streams.{stream.name}.transport": "one machine" for stream in plan.streams}
    twice = plan.model_copy(
        update={"stages": [writer.model_copy(update={"ends": ends}), *plan.stages[1:], copy], "reasons": reasons}
    )
    read = next(row for row in end_table(twice).rows if row[1].endswith(" read"))
    assert read[:2] == ["atoms", "saxs, again read"]
    (row,) = transport_table(twice).rows
    assert (row[0], row[2]) == (", ".join(stream.name for stream in plan.streams), "one machine")
    table = plan_stream_table(twice)
    assert (table.head[-1].title, table.rows[0][-1]) == ("units", "position Å, time ps")
    setting = SettingOfStages(["md", "saxs"], "TUNABLES=a=1:bb=22:c=3", "")
    assert setting_lines(setting, 80) == ["md, saxs: TUNABLES=a=1:bb=22:c=3"]
    assert setting_lines(setting, 30) == ["md, saxs: TUNABLES=", "    a=1:", "    bb=22:", "    c=3"]


def test_a_plan_begins_with_its_verdict() -> None:
    plan = make_plan()
    cores = [
        stage.model_copy(
            update={"placement": Placement(nodes=[(0, 1)], ranks_per_node=1, cores=[number], cores_per_rank=1)}
        )
        for number, stage in enumerate(plan.stages)
    ]
    placed = plan.model_copy(update={"stages": cores, "node": NodePlan(cores=8, reserved=[7])})
    warning = to_message("warning", "no matplotlib")
    assert verdict_text(placed, []) == "shock-diffraction fits: 3 of 7 cores; streams by SST; nothing missing"
    assert verdict_text(placed, [warning, warning]).endswith("; 2 things may be missing")
    assert verdict_text(placed, [to_message("note", "another machine")]).endswith("; programs not checked here")
    assert verdict_text(placed, [to_message("error", "no lammps"), warning]) == (
        "shock-diffraction cannot start here: 2 things missing; 3 of 7 cores; streams by SST"
    )
    several = placed.model_copy(update={"nodes": 2, "streams": []})
    assert verdict_text(several, []) == (
        "shock-diffraction fits: 2 nodes, at most 3 of 7 cores on each; no streams; nothing missing"
    )
    printed_plan = printed(lambda output: printing.show_plan(placed, output, [warning]), 80).splitlines()
    assert printed_plan[0].startswith("shock-diffraction fits") and "launch lines" not in printed_plan


def test_placement_groups_nodes_with_the_same_stages() -> None:
    plan = make_plan()
    wide = Placement(nodes=[(0, 1000)], ranks_per_node=2, cores=[0, 1, 2, 5], cores_per_rank=1)
    half = Placement(nodes=[(0, 500)], ranks_per_node=1, cores=[6], cores_per_rank=1)
    last = Placement(nodes=[(999, 1000)], ranks_per_node=1, cores=[], cores_per_rank=0)
    stages = [s.model_copy(update={"placement": p}) for s, p in zip(plan.stages, (wide, half, last), strict=True)]
    assert nodes_table(plan.model_copy(update={"stages": stages})).rows == [
        ["0-499", "md: 0-2, 5; saxs: 6"], ["500-998", "md: 0-2, 5"], ["999", "md: 0-2, 5; keep: not bound"],
    ]  # fmt: skip


def test_a_pipe_gets_whole_tables_without_colours_and_rich_is_not_loaded() -> None:
    program = (
        "import sys; from tests.support.sample_run import make_plan\n"
        "from workflow.report.show.printing import show_plan\n"
        "show_plan(make_plan())\n"
        "sys.exit(5 if 'rich' in sys.modules else 0)"
    )
    argv = [sys.executable, "-c", program]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONUTF8": "1"})
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    head = next(index for index, line in enumerate(lines) if line.startswith("stream "))
    row = lines[head + 1]
    assert row[lines[head].index("from, to") :].startswith("md → saxs")
    assert "\x1b" not in answer.stdout
    assert all(line == line.rstrip() for line in lines)
