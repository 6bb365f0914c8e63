"""The report of real runs: its figures against numbers computed here from the lines of their files.

tests/recorded-reports/record.py made the recordings, on two cores that other programs used as well.
"""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from workflow.formatting import rate
from workflow.report.build.timeline import make_lane, queue_history
from workflow.report.read.run_records import read_records
from workflow.report.report_files import compute_report, write_report
from workflow.report.report_model import Report
from workflow.report.show.live_display import stream_cells
from workflow.report.show.report_tables import limit_lines, stream_table
from workflow.report.show.run_in_words import summary, total_text

RECORDED = Path(__file__).parents[1] / "recorded-reports"
RUNS = ["foreign-bottleneck", "gray-scott", "starter-1", "starter-2", "two-foreign", "two-foreign-ucx"]
# Streams whose writer keeps metrics.
MEASURED = [
    ("foreign-bottleneck", "field", "make"),
    ("foreign-bottleneck", "pdf", "pdf"),
    ("gray-scott", "field", "simulation"),
    ("gray-scott", "histogram", "statistics"),
    ("starter-1", "field", "sim"),
    ("starter-2", "pdf", "pdf"),
]


def report_of(name: str) -> Report:
    return compute_report(RECORDED / name)


def events_of(name: str, kind: str, **fields: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (RECORDED / name / "events.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind and fields.items() <= line.items()]


def lines_of(name: str, stage: str, kind: str, stream: str, side: str) -> list[dict[str, Any]]:
    text = (RECORDED / name / "stages" / stage / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    return [line for line in lines if line["kind"] == kind and (line["stream"], line["side"]) == (stream, side)]


# What limits


def test_a_stage_without_metrics_that_works_while_the_others_wait_limits_the_run() -> None:
    report = report_of("foreign-bottleneck")
    assert (report.run.limited_by, report.run.limit_unknown) == ("use", "")
    assert [stream.limited_by for stream in report.streams] == ["use", "use", "pdf"]
    assert report.stage("pdf").share("compute") == pytest.approx(0, abs=0.02)
    assert report.stage("use").share("compute") is None
    # It had the CPU for a third of the time, and was ready to run for the rest: what is left is its start.
    assert sum(report.stage("use").parts().values()) == pytest.approx(0.9, abs=0.05)
    assert report.run.overlap == pytest.approx(sum(report.stage("use").parts().values()), abs=0.02)


@pytest.mark.parametrize("name", ["two-foreign", "two-foreign-ucx"])
def test_of_two_stages_without_metrics_the_one_that_computes_limits_the_run(name: str) -> None:
    report = report_of(name)
    assert report.run.limited_by == report.stream("field").limited_by == "make"
    assert report.stream("result").limited_by == "use", "keep waits for it, whatever it waits for itself"


def test_a_component_that_computes_while_the_others_wait_limits_the_run() -> None:
    report = report_of("gray-scott")
    assert (report.run.limited_by, report.stream("field").limited_by) == ("simulation", "simulation")


def test_two_runs_of_the_starter_get_the_same_answer() -> None:
    """Its streams last a fifth of a second, in which the simulation waits once for a stage that still starts."""
    for name in ("starter-1", "starter-2"):
        report = report_of(name)
        assert (report.run.limited_by, report.run.overlap) == ("", None)
        assert {stream.limited_by for stream in report.streams} == {""}
        assert "2.00 s are needed to tell" in report.run.limit_unknown
        assert limit_lines(report)[0] == f"what limited the run is not known: {report.run.limit_unknown}"
        assert "limited by" not in summary(report)
        assert [row[-1] for row in stream_table(report, "status").rows] == ["not known", "not known"]


def test_without_cpu_time_nothing_is_said_of_foreign_stages(tmp_path: Path) -> None:
    """As in events of version 2."""
    run_dir = shutil.copytree(RECORDED / "two-foreign", tmp_path / "run")
    lines = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    old = [{**line, "cpu_s": None} if "cpu_s" in line else line for line in lines if line["event"] != "stage_cpu"]
    (run_dir / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in old))
    run = compute_report(run_dir).run
    assert run.limited_by == ""
    assert run.limit_unknown.endswith("keeps no metrics, and its CPU time does not show how long it waits")


# CPU time


@pytest.mark.parametrize("name", RUNS)
def test_cpu_time_is_that_of_the_exit(name: str) -> None:
    report = report_of(name)
    for stage in report.stages:
        (exited,) = events_of(name, "stage_exited", stage=stage.name)
        assert stage.cpu_s == pytest.approx(exited["cpu_s"])
        assert bool(events_of(name, "stage_cpu", stage=stage.name)) == (stage.observed == "evidence")


def test_the_timeline_shows_the_cpu_time_of_a_stage_without_metrics() -> None:
    records = read_records(RECORDED / "foreign-bottleneck")
    report = report_of("foreign-bottleneck")
    start, end = report.run.started, report.run.ended
    assert start is not None
    assert end is not None
    use = report.stage("use")
    lane = make_lane(use, records.metrics["use"], start, end, records.cpu["use"])
    shown_s = {
        activity: sum(shares.get(activity, 0.0) for shares in lane.intervals) * (end - start) / len(lane.intervals)
        for activity in ("cpu", "ready")
    }
    last = events_of("foreign-bottleneck", "stage_cpu", stage="use")[-1]
    assert shown_s["cpu"] == pytest.approx(use.cpu_s, rel=0.02)
    assert shown_s["ready"] == pytest.approx(last["ready_s"], rel=0.02)


# Rates, steps and bytes


@pytest.mark.parametrize(("name", "stream", "writer"), MEASURED)
def test_throughput_is_bytes_over_the_time_of_the_stream(name: str, stream: str, writer: str) -> None:
    part = report_of(name).stream(stream)
    steps = lines_of(name, writer, "step", stream, "write")
    (opened,), (closed,) = (lines_of(name, writer, kind, stream, "write") for kind in ("open", "close"))
    volume = sum(step["bytes"] for step in steps)
    assert (part.steps, part.bytes, part.bytes_are) == (len(steps), volume, "written")
    assert part.throughput == pytest.approx(volume / (closed["t"] - opened["t"]))
    assert part.transfer_rate == pytest.approx(volume / sum(step["io_s"] + step["wait_s"] for step in steps))
    for reader in part.readers:
        if reader.stage != "use":  # a program without metrics
            own = lines_of(name, reader.stage, "step", stream, "read")
            (end,) = lines_of(name, reader.stage, "close", stream, "read")
            (begin,) = lines_of(name, reader.stage, "open", stream, "read")
            # Ranks add up in the end what they have read.
            got = sum(end.get("bytes") or [step["bytes"] for step in own])
            assert reader.bytes == got
            assert reader.throughput == pytest.approx(got / (end["t"] - begin["t"]))
            assert reader.transfer_rate == pytest.approx(got / sum(step["io_s"] for step in own))


@pytest.mark.parametrize("name", RUNS)
def test_the_live_view_the_status_the_json_and_the_tables_have_the_same_rates(name: str, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    from workflow.report.notebook_report import report_tables

    run_dir = shutil.copytree(RECORDED / name, tmp_path / "run")
    report = write_report(run_dir)
    stored = {each["name"]: each for each in json.loads((run_dir / "report.json").read_text())["streams"]}
    state = read_records(run_dir).state
    status = {row[0]: row for row in stream_table(report, "status").rows[::-1]}
    for stream in report.streams:
        shown = "" if stream.throughput is None else rate(stream.throughput)
        assert shown == stream_cells(state, stream.name)[4]
        assert (shown or "-") in status[stream.name]
        assert stored[stream.name]["throughput"] == stream.throughput
        for column in ("throughput", "transfer_rate"):
            value = report_tables(report)["streams"].loc[stream.name, column]
            known = getattr(stream, column)
            assert pd.isna(value) if known is None else value == pytest.approx(known)


def test_steps_are_those_of_each_stream() -> None:
    assert ", field 11 steps, pdf 11 steps, 5.78 MB" in summary(report_of("starter-1"))


def test_bytes_between_two_foreign_programs_are_those_of_the_log_of_sst() -> None:
    report = report_of("two-foreign")
    (closed,) = events_of("two-foreign", "stream_closed", stream="field", stage="use")
    assert report.stream("field").bytes == closed["bytes"] == 40 * 500_000 * 8
    assert report.stream("field").bytes_are == "read"
    opened = events_of("two-foreign", "stream_opened", stream="field", stage="make")[0]["t"]
    ended = events_of("two-foreign", "stream_closed", stream="field", stage="make")[0]["t"]
    assert report.stream("field").throughput == pytest.approx(closed["bytes"] / (ended - opened))
    assert total_text(report) == "160 MB"
    assert "the bytes of field are those that use read: make records none" in report.notes


def test_a_total_without_the_bytes_of_a_stream_says_so() -> None:
    """SST's log has the bytes of TCP only."""
    report = report_of("two-foreign-ucx")
    assert (report.stream("field").bytes, report.stream("field").bytes_are) == (None, "unknown")
    assert total_text(report) == "at least 320 kB (not known of field)"
    assert [row[5] for row in stream_table(report, "status").rows] == ["not known", "320 kB"]
    assert any(note.startswith("the bytes of field are not known: ADIOS2's log") for note in report.notes)


# Queues


@pytest.mark.parametrize(("name", "stream", "writer"), MEASURED[1:])
def test_the_queue_is_what_was_written_and_not_read(name: str, stream: str, writer: str) -> None:
    records = read_records(RECORDED / name)
    plan = records.plan.stream(stream)
    own = {reader: [line["t"] for line in lines_of(name, reader, "step", stream, "read")] for reader in plan.readers}
    written = [line["t"] for line in lines_of(name, writer, "step", stream, "write")]
    (closed,) = lines_of(name, writer, "close", stream, "write")
    history = queue_history(plan, records)
    assert history[-1][1] == 0
    times = sorted({t for each in (written, *own.values()) for t in each} | {closed["t"]})
    levels = dict(history)
    at = 0
    for t, after in itertools.pairwise(times):
        at = levels.get(t, at)
        middle = (t + after) / 2
        read = min(sum(end <= middle for end in ends) for ends in own.values())
        expected = min(2, max(0, sum(end <= middle for end in written) - read))
        assert at == expected, f"{middle - times[0]:.4f} s after the first step"


@pytest.mark.parametrize("name", ["foreign-bottleneck", "two-foreign", "two-foreign-ucx"])
def test_the_queue_is_empty_when_its_writer_has_ended(name: str) -> None:
    records = read_records(RECORDED / name)
    for stream in records.plan.streams:
        history = queue_history(stream, records)
        (closed,) = events_of(name, "stream_closed", stream=stream.name, stage=stream.writer)
        assert history[-1][1] == 0, stream.name
        assert history[-1][0] <= closed["t"] + 0.01, stream.name


def test_the_queue_of_a_slow_foreign_reader_is_full_from_beginning_to_end() -> None:
    records = read_records(RECORDED / "foreign-bottleneck")
    history = queue_history(records.plan.stream("field"), records)
    (closed,) = events_of("foreign-bottleneck", "stream_closed", stream="field", stage="make")
    spans = itertools.pairwise([*history, (closed["t"], 0)])
    full_s = sum(after - t for (t, level), (after, _) in spans if level == 2)
    assert full_s > 0.8 * (closed["t"] - history[0][0])
