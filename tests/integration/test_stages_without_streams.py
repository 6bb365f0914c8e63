"""Stages without streams that hang: a deadline of their own, and who is blamed."""

from __future__ import annotations

from pathlib import Path

from tests.support.pipelines import run

TWO = """
stages:
  manager: {command: [sh, -c, "while :; do :; done"]}
  macro: {command: [sleep, "300"]}
"""


def test_the_one_that_uses_no_cpu_time_is_ended_by_the_deadline_for_that(tmp_path: Path) -> None:
    done = run(tmp_path, TWO, "--set", "deadlines.exit=3 s", "--set", "deadlines.stop=1 s")
    assert done.report.run.stage == "macro"
    assert done.report.run.reason.startswith("no sign of work for 3 s: macro has not used a core for ")


def test_the_deadline_of_the_run_blames_none_of_several(tmp_path: Path) -> None:
    done = run(tmp_path, TWO, "--set", "deadlines.run=4 s", "--set", "deadlines.stop=1 s")
    assert done.report.run.stage == ""
    assert done.report.run.reason.startswith("not done within 4 s: manager runs; macro ")


def test_what_a_program_said_on_its_standard_output_is_shown_too(tmp_path: Path) -> None:
    text = """
stages:
  a: {command: [sh, -c, "echo cannot open mesh.dat; echo in main >&2; exit 3"]}
"""
    done = run(tmp_path, text)
    assert done.report.stage("a").last_output == ["cannot open mesh.dat"]
    assert "last lines of stages/a/stdout.log:\n    cannot open mesh.dat" in done.said
    assert "last lines of stages/a/stderr.log:\n    in main" in done.said
