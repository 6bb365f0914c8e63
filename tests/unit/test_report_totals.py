"""Totals of stages and streams of several readers, opens that hang, CPU time: from records made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fan_run import (
    READERS,
    closed,
    event,
    fan,
    foreign,
    records_of,
    taken,
    written,
)
from tests.support.sample_run import START
from workflow.report.build.make_report import make_report
from workflow.report.build.stage_and_stream_figures import busy_s, idle, make_stage
from workflow.report.report_model import StagePart


def test_readers_may_read_less_than_was_written_and_one_more_than_another(tmp_path: Path) -> None:
    metrics = {"md": written([1, 2], 800), "one": taken([1, 2], 100), "two": taken([1, 2], 300)}
    report = make_report(records_of(tmp_path, fan(), metrics))
    stream = report.stream("atoms")
    assert (stream.bytes, [reader.bytes for reader in stream.readers]) == (1600, [200, 600])
    assert stream.transfer_rate == pytest.approx(1600 / 0.5)
    assert [reader.transfer_rate for reader in stream.readers] == pytest.approx([200 / 0.5, 600 / 0.5])
    assert stream.throughput == pytest.approx(1600 / 2)
    assert [reader.throughput for reader in stream.readers] == pytest.approx([200 / 2, 600 / 2])
    assert [report.stage(name).bytes_in for name in READERS] == [200, 600]


@pytest.mark.parametrize(("one", "two", "expected"), [(100, 300, 600), (300, 100, 600), (None, 100, 200), (0, 0, None)])
def test_bytes_that_the_writer_does_not_know_are_those_of_the_reader_that_read_most(
    tmp_path: Path, one: int | None, two: int, expected: int | None
) -> None:
    metrics = {"md": written([1, 2], None), "one": taken([1, 2], one), "two": taken([1, 2], two)}
    stream = make_report(records_of(tmp_path, fan(), metrics)).stream("atoms")
    assert (stream.bytes, stream.transfer_rate, stream.bytes_are) == (expected, None, "read" if expected else "unknown")
    assert stream.throughput == (expected and expected / 2)


@pytest.mark.parametrize(
    ("wall_s", "wait_s", "open_s", "expected"),
    [
        (0.5, 0.2, 0.1, 0.2),
        (0.75, 0.25, None, 0.5),
        (0.1, 0.5, None, 0.0),
        (None, 0.1, None, None),
        (1.0, None, None, None),
    ],
)
def test_busy_is_all_but_waiting_and_rendezvous(
    wall_s: float | None, wait_s: float | None, open_s: float | None, expected: float | None
) -> None:
    stage = StagePart(
        name="md",
        kind="simulation",
        program="md",
        ranks=1,
        state="succeeded",
        wall_s=wall_s,
        wait_s=wait_s,
        open_s=open_s,
    )
    assert busy_s(stage) == pytest.approx(expected)


@pytest.mark.parametrize("ended", [None, 9.0])
def test_of_two_opens_that_hang_the_first_counts(tmp_path: Path, ended: float | None) -> None:
    """One after the other: what the second one took is part of it."""
    events = [
        event("stream_offered", 2, stream="atoms", stage="md"), event("stream_offered", 5, stream="log", stage="md"),
        *([event("stage_exited", ended, stage="md", code=1, signal=None)] if ended else []),
        event("stage_exited", 12, stage="keep", code=1, signal=None),
    ]  # fmt: skip
    start = {"kind": "start", "metrics_version": 2, "t": START, "stage": "md", "ranks": 1, "adios2": "2.12.1"}
    md = make_report(records_of(tmp_path, fan(), {"md": [start]}, events)).stage("md")
    assert md.open_s == pytest.approx(7 if ended else 10)
    both = [*events[:2], event("stream_opened", 6, stream="atoms", stage="md", side="write"), *events[2:]]
    md = make_report(records_of(tmp_path / "later", fan(), {"md": [start]}, both)).stage("md")
    assert md.open_s == pytest.approx(4 if ended else 7)


def test_cpu_time_of_stages(tmp_path: Path) -> None:
    """Its samples, and the exact sum of the exit; what it was ready for is known of programs without metrics only."""
    seen = [
        event("stage_cpu", 2, stage="one", cpu_s=1.5, ready_s=0.25), event("stage_cpu", 3, stage="one", cpu_s=1.0),
        event("stage_exited", 4, stage="one", code=0, signal=None, cpu_s=2.5),
        event("stage_exited", 5, stage="md", code=0, signal=None, cpu_s=3.0),
    ]  # fmt: skip
    records = records_of(tmp_path, foreign(fan(), one=1), {"md": written([1, 2])}, seen)
    report = make_report(records)
    assert records.cpu["one"] == [(START, 0, 0), (START + 2, 1.5, 0.25), (START + 3, 1.5, 0.25), (START + 4, 2.5, 0.25)]
    found = {stage.name: (stage.cpu_s, stage.ready_s) for stage in report.stages}
    assert found == {"md": (3.0, None), "one": (2.5, 0.25), "two": (None, None), "keep": (None, None)}
    assert report.stage("one").parts() == {"cpu": 2.5 / 4, "ready": 0.25 / 4}
    assert "cpu" not in report.stage("md").parts()
    assert report.stage("two").parts() == {}


def test_cpu_time_of_a_stage_that_runs_is_that_of_its_last_sample(tmp_path: Path) -> None:
    seen = [event("stage_cpu", t, stage="one", cpu_s=1.0 * t, ready_s=0.25 * t) for t in (1, 2, 3)]
    one = make_report(records_of(tmp_path, foreign(fan(), one=1), {}, seen)).stage("one")
    assert (one.cpu_s, one.ready_s, one.observed) == (3.0, 0.75, "evidence")


def test_a_stage_is_reported_as_the_supervisor_saw_it(tmp_path: Path) -> None:
    seen = [
        event("stage_exited", 4, stage="one", code=3, signal=None),
        event("stage_failed", 5, stage="one", reason="ended with exit code 3"),
    ]
    report = make_report(records_of(tmp_path, fan(), {}, seen))
    one = report.stage("one")
    assert (one.pid, one.exit_code, one.signal, one.state, one.reason) == (
        9,
        3,
        None,
        "failed",
        "ended with exit code 3",
    )
    assert (one.started, one.ended, one.wall_s, one.overlap) == (START, START + 4, 4.0, 1.0)
    two = report.stage("two")
    assert (two.state, two.started, two.ended, two.wall_s, two.observed) == ("starting", START, None, 5.0, "metrics")


def test_the_figures_of_a_program_are_those_of_its_stage(tmp_path: Path) -> None:
    records = records_of(tmp_path, fan(), {"md": written([1, 2])})
    records = replace(records, own_figures={"one": {"fom": 1.5}, "two": {"fom": 2.5}})
    found = {name: make_stage(records.plan.stage(name), records, [], []).figures for name in ("md", "one", "two")}
    assert found == {"md": {}, "one": {"fom": 1.5}, "two": {"fom": 2.5}}


def test_when_a_run_is_over_its_stages_are(tmp_path: Path) -> None:
    """The supervisor was killed; what ended the stages then wrote no events on them."""
    seen = [
        event("stage_exited", 2, stage="one", code=0, signal=None),
        event("run_finished", 6, state="interrupted", exit_code=130, reason="killed", stage=""),
    ]
    report = make_report(records_of(tmp_path, fan(), {}, seen))
    found = {stage.name: (stage.state, stage.ended) for stage in report.stages}
    assert found == {
        "md": ("stopped", START + 6), "one": ("stopped", START + 2), "two": ("stopped", START + 6),
        "keep": ("stopped", START + 6),
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "compute_s"), [("stage_succeeded", 2.25), ("stage_stopped", 1.0)])
def test_what_a_stage_computes_after_its_streams_counts_when_it_succeeded(
    tmp_path: Path, kind: str, compute_s: float
) -> None:
    """The last thing that another one did may have been a wait that never returned."""
    md = written([1, 2])
    for line in md[1:]:
        line["compute_s"] = 0.5
    md.append({"kind": "end", "t": START + 4, "compute_s": 1.25})
    seen = [event("stage_exited", 4, stage="md", code=0, signal=None), event(kind, 4, stage="md")]
    assert make_report(records_of(tmp_path, fan(), {"md": md}, seen)).stage("md").compute_s == compute_s


def test_an_open_that_hangs_for_a_moment_takes_a_moment(tmp_path: Path) -> None:
    seen = [
        event("stream_offered", 2, stream="atoms", stage="md"),
        event("stage_exited", 2.5, stage="md", code=1, signal=None),
    ]
    start = {"kind": "start", "metrics_version": 2, "t": START, "stage": "md", "ranks": 1, "adios2": "2.12.1"}
    assert make_report(records_of(tmp_path, fan(), {"md": [start]}, seen)).stage("md").open_s == 0.5


@pytest.mark.parametrize(
    ("cpu_s", "ready_s", "busy"), [(1.0, 0.5, 1.5), (1.0, None, 1.0), (9.0, 0.0, 2.0), (None, None, None)]
)
def test_a_stage_without_metrics_is_busy_as_long_as_it_had_the_cpu_or_was_ready(
    cpu_s: float | None, ready_s: float | None, busy: float | None
) -> None:
    fields = {"name": "md", "kind": "simulation", "program": "md", "ranks": 1, "state": "succeeded", "wall_s": 2.0}
    assert busy_s(StagePart.model_validate({**fields, "cpu_s": cpu_s, "ready_s": ready_s})) == busy


def test_idle_is_a_share_of_the_time_from_open_to_close(tmp_path: Path) -> None:
    lines = written([1, 2], wait_s=0.5)
    for name, more, share in (("open", [], 0.5), ("closed", [closed("atoms", "write", 2, 4)], 0.25)):
        stream = make_report(records_of(tmp_path / name, fan(), {"md": [*lines, *more]})).stream("atoms")
        assert stream.idle == pytest.approx(share)
    assert idle(3.0, 1.0, 2.0) == 1.0
    assert idle(0.0, 1.0, 2.0) == 0.0
    assert [idle(None, 1.0, 2.0), idle(0.5, None, 2.0), idle(0.5, 1.0, None)] == [None, None, None]


@pytest.mark.parametrize("t", [0.0, -1.0])
def test_a_stream_that_lasted_no_time_has_no_share(t: float) -> None:
    """Clocks have a resolution, and may be set back."""
    assert idle(0.5, 0.0, t) is None
