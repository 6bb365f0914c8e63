"""Where each stage ran: in the report, and in its table on a terminal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from workflow.launch.allocation import Allocation, Host
from workflow.report.report_files import compute_report
from workflow.report.show.printing import show_report
from workflow.report.show.report_tables import hosts_text
from workflow.run.records.events_file import to_line
from workflow.run.state.lifecycle_events import NodeReplaced

RUN = Path(__file__).parents[1] / "recorded-reports/starter-1"


def of_job(folder: Path, *hosts: str) -> Path:
    run = folder / "run"
    shutil.copytree(RUN, run)
    allocation = Allocation("slurm", "7", tuple(map(Host, hosts)))
    (run / "allocation.json").write_text(allocation.to_json())
    return run


def test_a_report_names_the_nodes_of_each_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = compute_report(of_job(tmp_path, "n1", "n2"))
    assert {tuple(stage.hosts) for stage in report.stages} == {("n1",)}
    show_report(report)
    said = capsys.readouterr().out
    assert "nodes" in said and "n1" in said


def test_a_spare_node_stands_in_the_place_of_a_lost_one(tmp_path: Path) -> None:
    run = of_job(tmp_path, "n1", "n2")
    events = (run / "events.jsonl").read_text().splitlines(keepends=True)
    moved = to_line(NodeReplaced(1e9, 0, "n1", 1, "n2"))
    (run / "events.jsonl").write_text("".join([*events[:-1], moved, events[-1]]))
    assert compute_report(run).stages[0].hosts == ["n2"]


def test_without_a_job_it_is_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    report = compute_report(RUN)
    assert not any(stage.hosts for stage in report.stages)
    show_report(report)
    assert "nodes" not in capsys.readouterr().out


def test_many_hosts_are_the_first_and_the_last() -> None:
    assert hosts_text(["n1", "n2", "n3"]) == "n1, n2, n3"
    assert hosts_text(["n1", "n2", "n3", "n4"]) == "n1 … n4 (4)"
