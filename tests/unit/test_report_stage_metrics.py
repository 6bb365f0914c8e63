"""Reading what stages recorded: whole files, half-written ones, and none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from workflow.campaign.ledger import Attempt
from workflow.campaign.results.make_results import trial_violations, why_unknown
from workflow.campaign.show_campaign import violation_lines, violation_text
from workflow.errors import RunError
from workflow.formats.json_lines import read_json_lines
from workflow.plan.plan_model import ExpectationPlan
from workflow.report.build.met_expectations import why_not_measured
from workflow.report.read.stage_metrics import read_metrics, read_own_figures

STEP = (
    '{"kind": "step", "t": 12.5, "stream": "atoms", "side": "read", "step": 0, "bytes": 800, '
    '"wait_s": 0.5, "io_s": 0.25, "compute_s": 0.125}\n'
)


def test_a_missing_file_holds_nothing(tmp_path: Path) -> None:
    metrics = read_metrics(tmp_path / "metrics.jsonl")
    assert not metrics.exists
    assert (metrics.steps, metrics.of("atoms", "read"), metrics.unreadable) == ([], [], 0)


def test_records_are_sorted_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        '{"kind": "start", "metrics_version": 2, "t": 10, "stage": "saxs", "ranks": 2, "adios2": "2.12.1",'
        ' "mpi": false, "parallel": false}\n'
        '{"kind": "open", "t": 11, "stream": "atoms", "side": "read", "engine": "SST", "seconds": 0.75}\n'
        + STEP
        + '{"kind": "of a later version", "t": 12.6}\n'
        '{"kind": "close", "t": 13, "stream": "atoms", "side": "read", "steps": 1, "complete": false, "error": "oh"}\n'
        '{"kind": "end", "t": 14, "compute_s": 0.5}\n'
    )
    metrics = read_metrics(path)
    assert metrics.adios2 == "2.12.1"
    assert metrics.opened == {("atoms", "read"): (11.0, 0.75)}
    (step,) = metrics.of("atoms", "read")
    assert (step.t, step.bytes, step.wait_s, step.io_s, step.compute_s) == (12.5, 800, 0.5, 0.25, 0.125)
    assert (metrics.closed["atoms", "read"].complete, metrics.closed["atoms", "read"].error) == (False, "oh")
    assert (metrics.compute_after_s, metrics.ended, metrics.unreadable) == (0.5, 14.0, 0)


def test_bytes_of_all_ranks_come_in_the_end(tmp_path: Path) -> None:
    line, other = STEP.replace('"bytes": 800', '"bytes": null'), STEP.replace('"atoms"', '"other"')
    closed = '{"kind": "close", "t": 13, "stream": "atoms", "side": "read", "steps": 2, "complete": true'
    first, again = (f'{closed}, "bytes": {told}}}\n' for told in ([10, 20], [30, 40]))
    path = tmp_path / "metrics.jsonl"
    path.write_text(line + line + other + first + line + line + again + line)
    metrics = read_metrics(path)
    assert [step.bytes for step in metrics.of("atoms", "read")] == [10, 20, 30, 40, None]
    assert [step.bytes for step in metrics.steps] == [10, 20, 800, 30, 40, None]


def test_a_line_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for cut in range(2, len(STEP) - 1):
        path.write_text(STEP + STEP[:-cut])
        metrics = read_metrics(path)
        assert (len(metrics.steps), metrics.unreadable) == (1, 0), cut


def test_broken_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(
        b"\xff\xfe broken\n[1, 2]\n\n" + STEP.encode() + b'{"kind": "step", "t": 1, "stream": "atoms", "side": "up"}\n'
    )
    metrics = read_metrics(path)
    assert (len(metrics.steps), metrics.unreadable) == (1, 3)
    assert not read_json_lines(tmp_path / "absent").exists


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "start", "metrics_version": 3, "t": 10, "stage": "saxs", "ranks": 2}\n' + STEP)
    with pytest.raises(RunError, match=r"metrics.jsonl: metrics_version is 3, and this wf reads version 2"):
        read_metrics(path)


def test_a_line_of_totals_that_is_half_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(STEP)
    total = {
        "kind": "total", "steps": 9, "steps_before": 0, "stream": "atoms", "side": "read", "t": 20.0, "bytes": 7200,
        "wait_s": 2.5, "io_s": 1.25, "compute_s": 0.5, "complete": None, "check": 9,
    }  # fmt: skip
    totals = tmp_path / "progress.jsonl"
    totals.write_text(json.dumps(total | {"check": 8}) + "\n")
    assert len(read_metrics(path).steps) == 1
    totals.write_text(json.dumps(total) + "\n")
    rest = read_metrics(path).steps[1]
    assert (rest.count, rest.step, rest.bytes, rest.since, rest.t) == (8, 8, 6400, 12.5, 20.0)
    assert (rest.wait_s, rest.io_s, rest.compute_s) == (2.0, 1.0, 0.375)
    assert read_metrics(path).closed == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "one: figures.json is empty"),
        (b"not json", "one: figures.json is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[1]", 'one: figures.json is not of the form {"name": number}'),
        (b'{"m": NaN, "other": 1}', "one: figures.json: no number: `m`"),
        (b'{"m": "5"}', "one: figures.json: no number: `m`"),
        (b'{"m": null}', "one: figures.json: no number: `m`"),
        (b'{"m": 1e999}', "one: figures.json: no number: `m`"),
        (b'{"n": 1}' + b" " * (1 << 20), "one: figures.json is larger than 1 MiB"),
        (None, "one wrote no figures.json"),
        (b'{"tmax": 1, "text": "x"}', "one measured no `m`; figures of one: tmax"),
        (b'\xef\xbb\xbf{"m": 5}', ""),
    ],
)
def test_why_a_figure_of_a_program_is_not_known(text: bytes | None, problem: str, tmp_path: Path) -> None:
    """In the words that expectations of a run and metrics of a campaign share."""
    if text is not None:
        (tmp_path / "figures.json").write_bytes(text)
    figures, wrong = read_own_figures(tmp_path)
    if not problem:
        assert (figures, wrong) == ({"m": 5.0}, "")
        return
    assert why_not_measured("stages.one.figures.m", figures, wrong) == problem
    attempt = Attempt("succeeded", 1, "r", 1e9, 1.0, figures={f"stages.one.figures.{name}": 1.0 for name in figures})
    attempt = replace(attempt, figure_problems={"one": wrong} if wrong else {})
    assert why_unknown("stages.one.figures.m", [attempt]) == problem
    assert why_unknown("run.wall_s", [attempt]) == ""
    expected = ExpectationPlan(
        figure="stages.one.figures.m",
        expected="> 1",
        comparator=">",
        value=1,
        unit="",
        key="k",
        source="p.yaml",
        line=1,
        column=1,
    )
    _, (violation,) = trial_violations([expected], [attempt])
    assert (
        violation_text(violation, 1)
        == f"expected > 1, and 1 of 1 repetition did not meet it; not measured: {problem} (runs/r)"
    )
    assert violation_lines([expected], attempt) == [f"stages.one.figures.m: expected > 1, not measured: {problem}"]
