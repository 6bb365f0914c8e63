"""The report as pandas tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.sample_run import make_plan, write_run, write_sample
from workflow.errors import WfError
from workflow.report.notebook_report import report_tables, steps_table
from workflow.report.report_files import compute_report

pytest.importorskip("pandas")


def test_tables_hold_what_the_report_says(tmp_path: Path) -> None:
    report = compute_report(write_sample(tmp_path / "run"))
    tables = report_tables(report)
    assert set(tables) == {"stages", "streams", "readers"}
    assert tables["stages"].loc["saxs", "compute_s"] == report.stage("saxs").compute_s
    assert tables["streams"].loc["atoms", "bytes"] == report.stream("atoms").bytes
    assert tables["readers"].loc[("pattern", "keep"), "steps"] == 41
    times = report.stage("saxs").step_times
    assert times is not None and tables["stages"].loc["saxs", "step_times_p95"] == times.p95
    assert tables["streams"]["write_ranks_imbalance"].isna().all(), "no ranks were compared"


def test_tables_of_a_run_that_never_started(tmp_path: Path) -> None:
    report = compute_report(write_run(tmp_path / "run", make_plan(), [], {}))
    assert report_tables(report)["stages"]["wall_s"].isna().all()
    assert len(steps_table(tmp_path / "run")) == 0


def test_a_file_of_a_sink_has_the_name_that_it_ends_with(tmp_path: Path) -> None:
    """While it is written it is `pdf.bp.partial`, and stages note that."""
    run_dir = write_sample(tmp_path / "run", steps=10)
    metrics = run_dir / "stages/saxs/metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"stream": "pattern"', '"stream": "pattern.bp.partial"'))
    assert set(steps_table(run_dir)["stream"]) == {"atoms", "pattern", "pattern.bp"}


def test_steps_table(tmp_path: Path) -> None:
    table = steps_table(write_sample(tmp_path / "run", steps=10))
    assert len(table) == 4 * 10
    assert table[(table.stage == "md")]["bytes"].sum() == 10 * 2_400_000


def test_without_pandas_the_error_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = compute_report(write_sample(tmp_path / "run"))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(WfError, match="pip install"):
        report_tables(report)
