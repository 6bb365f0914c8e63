"""What goes wrong in a launch line of several stages: all of it ends, and who is at fault is named."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import waiting
from tests.support.ssc_runs import STAGED, command, logs, need_mpi, running
from workflow.formats.rank_files import EXITS_FILE
from workflow.report.report_files import read_report
from workflow.run.processes.process_reaper import find_members
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StageExited

WITHIN_S = 120.0  # much more than it takes on any machine
PIPELINE = """
stages:
  md: {command: %s, ranks: %d, writes: {atoms: {}}}
  saxs: {command: %s, reads: {atoms: {}}, writes: {pattern: {}}}
  keep: {command: %s, reads: {pattern: {}}}
streams:
  atoms: {from: md, to: saxs, via: ssc}
  pattern: {from: saxs, to: keep, via: ssc}
"""


@pytest.fixture(autouse=True)
def with_mpi() -> None:
    need_mpi()


def pipeline(ranks: int = 1, **options: str) -> str:
    """md → saxs → keep; `options` are added to a stage's command line."""
    words = {name: [word for word in options.get(name, "").split(" ") if word] for name in ("md", "saxs", "keep")}
    return PIPELINE % (
        command(STAGED, "--steps", "100000", "--step-s", "0.005", *words["md"]), ranks,
        command(STAGED, *words["saxs"]), command(STAGED, *words["keep"]),
    )  # fmt: skip


def wait_until(condition: Callable[[], object], what: str, folder: Path) -> None:
    try:
        waiting.wait_until(condition, what, WITHIN_S)
    except TimeoutError as error:
        raise TimeoutError(f"{error}{logs(folder)}") from None


def flows(folder: Path) -> bool:
    """Steps arrive at the last stage."""
    metrics = folder / "run/stages/keep/metrics.jsonl"
    return metrics.exists() and metrics.read_text().count('"kind": "step"') >= 3


def process_of(folder: Path, stage: str) -> int:
    """The process of the stage's program, as what started it has noted."""
    text = (folder / "run/stages" / stage / EXITS_FILE).read_text()
    return int(text.split('"started": ')[1].split("}")[0])


def end_of(folder: Path, process: Any) -> Any:
    """The report of a run that ends soon, tidily."""
    wait_until(lambda: process.poll() is not None, "the end", folder)
    assert find_members(str(folder / "run")) == set(), "processes are left"
    assert not list((folder / "run/streams").iterdir()), "files of SSC's handshake are left"
    return read_report(folder / "run")


@pytest.mark.parametrize("victim", ["md", "saxs", "keep"])
def test_killed_stage_is_named(victim: str, tmp_path: Path) -> None:
    with running(tmp_path, pipeline()) as process:
        wait_until(lambda: flows(tmp_path), "steps", tmp_path)
        os.kill(process_of(tmp_path, victim), signal.SIGKILL)
        report = end_of(tmp_path, process)
    assert process.returncode == 1
    assert report.run.stage == victim, report.run.reason + logs(tmp_path)
    assert "killed by signal 9 (SIGKILL)" in report.run.reason
    assert {stage.state for stage in report.stages if stage.name != victim} == {"stopped"}


@pytest.mark.parametrize(
    ("victim", "moment"), [("md", "step:5"), ("saxs", "step:5"), ("keep", "step:5"), ("saxs", "open")]
)
def test_exit_code_of_the_stage_at_fault(victim: str, moment: str, tmp_path: Path) -> None:
    with running(tmp_path, pipeline(1, **{victim: f"--exit {moment}:3"})) as process:
        wait_until(lambda: (tmp_path / "run/events.jsonl").exists(), "a start", tmp_path)
        wait_until(lambda: process.poll() is not None, "the end", tmp_path)
        report = end_of(tmp_path, process)
    assert report.run.stage == victim, report.run.reason + logs(tmp_path)
    assert "ended with exit code 3" in report.run.reason


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_exception_ends_all_and_its_stage_is_named(ranks: int, tmp_path: Path) -> None:
    program = tmp_path / "raises.py"
    program.write_text(
        "from workflow import stage\n"
        "with stage.open_reader('atoms') as atoms:\n"
        "    for step in atoms:\n"
        "        if step.index == 3 and stage.rank() == stage.size() - 1:\n"
        "            raise ArithmeticError('in the reader')\n"
        "        step.read('x')\n"
    )
    text = f"""
stages:
  md: {{command: {command(STAGED, "--steps", "100000", "--step-s", "0.005")}, ranks: 2, writes: {{atoms: {{}}}}}}
  saxs: {{command: {command(program)}, ranks: {ranks}, reads: {{atoms: {{}}}}}}
streams:
  atoms: {{from: md, to: saxs, via: ssc}}
"""
    with running(tmp_path, text) as process:
        wait_until(lambda: process.poll() is not None, "the end", tmp_path)
        report = end_of(tmp_path, process)
    assert report.run.stage == "saxs", report.run.reason + logs(tmp_path)
    assert "in the reader" in (tmp_path / "run/stages/saxs/stderr.log").read_text()
    assert "in the reader" not in (tmp_path / "run/stages/md/stderr.log").read_text()


def test_a_program_that_fails_before_mpi_does_not_leave_the_others_waiting(tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text("import no_such_module\n")
    text = pipeline().replace(command(STAGED), command(program), 1)
    with running(tmp_path, text) as process:
        wait_until(lambda: process.poll() is not None, "the end", tmp_path)
        report = end_of(tmp_path, process)
    assert report.run.stage == "saxs", report.run.reason + logs(tmp_path)
    assert "ended with exit code 1" in report.run.reason


def test_a_stage_that_hangs_is_found_by_the_deadline(tmp_path: Path) -> None:
    text = pipeline(saxs="--hold step:5")
    # Longer than a step of any other stage takes on a busy machine.
    with running(tmp_path, text, "--set", "deadlines.step=6 s") as process:
        wait_until(lambda: process.poll() is not None, "the end", tmp_path)
        report = end_of(tmp_path, process)
    assert report.run.stage == "saxs", report.run.reason + logs(tmp_path)
    assert "saxs has been computing" in report.run.reason


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_in_order(number: int, tmp_path: Path) -> None:
    with running(tmp_path, pipeline(ranks=2)) as process:
        wait_until(lambda: flows(tmp_path), "steps", tmp_path)
        process.send_signal(number)
        report = end_of(tmp_path, process)
    assert process.returncode == 130
    assert report.run.state == "interrupted", report.run.reason
    exits = [event for event in read_events(tmp_path / "run") if isinstance(event, StageExited)]
    assert {event.stage for event in exits} == {"md", "saxs", "keep"}
