"""The report of runs that succeeded, failed, go on, or left half of their files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import adios2
import pytest

from tests.support.sample_run import (
    START,
    Record,
    make_events,
    make_plan,
    simulate,
    write_lines,
    write_run,
    write_sample,
)
from workflow.errors import RunError
from workflow.formatting import plural
from workflow.report.build.timeline import make_lane
from workflow.report.read.stage_metrics import read_metrics
from workflow.report.report_files import compute_report, read_report, write_report
from workflow.report.report_model import Report
from workflow.report.show.printing import show_status


def test_a_succeeded_run(tmp_path: Path) -> None:
    report = compute_report(write_sample(tmp_path / "run", steps=41, md_s=0.05, saxs_s=0.12))
    run = report.run
    assert (run.name, run.directory, run.state, run.exit_code) == ("shock-diffraction", "run", "succeeded", 0)
    assert run.wall_s == pytest.approx(6.3, abs=0.2)
    assert (run.limited_by, run.stage, run.reason, report.notes) == ("saxs", "", "", [])
    assert [stage.name for stage in report.stages] == ["md", "saxs", "keep"]
    assert {stage.state for stage in report.stages} == {"succeeded"}
    saxs = report.stage("saxs")
    assert (saxs.steps_in, saxs.steps_out, saxs.bytes_in, saxs.bytes_out) == (41, 41, 41 * 2_400_000, 41 * 300_000)
    assert (report.stage("md").steps_in, report.stage("keep").steps_out) == (None, None)


@pytest.mark.parametrize("steps", [2, 3])
def test_a_file_that_was_not_finished_is_named_with_its_steps(
    steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, path = make_plan(), tmp_path / "run/pattern.bp.partial"
    keep = plan.stages[2].model_copy(update={"parameters": {"path": "${{ run.dir }}/pattern.bp", "every": 1}})
    metrics = simulate(4, 0.05, 0.12, 0.002)
    run_dir = write_run(
        tmp_path / "run", plan.model_copy(update={"stages": [*plan.stages[:2], keep]}), make_events(metrics), metrics
    )
    assert compute_report(run_dir).unfinished_files == []
    with adios2.Stream(str(path), "w") as file:
        for step in file.steps(steps):
            file.write("x", step.current_step())
    wanted = f"pattern.bp was not finished: its {plural(steps, 'step')} are in {path}"
    report = compute_report(run_dir)
    assert report.unfinished_files == [wanted]
    show_status(report)
    assert wanted.removesuffix(str(path)).strip() in " ".join(capsys.readouterr().out.split())


def test_the_parts_of_a_stage_add_up(tmp_path: Path) -> None:
    for stage in compute_report(write_sample(tmp_path / "run")).stages:
        parts = (stage.open_s, stage.compute_s, stage.io_s, stage.wait_s, stage.other_s)
        assert sum(part for part in parts if part is not None) == pytest.approx(stage.wall_s, abs=1e-5)
        assert stage.share("wait") == pytest.approx((stage.wait_s or 0) / (stage.wall_s or 1))
        assert stage.overlap == pytest.approx(1.0, abs=0.1)


def test_rates_of_both_ends(tmp_path: Path) -> None:
    stream = compute_report(write_sample(tmp_path / "run")).stream("atoms")
    assert stream.bytes == 41 * 2_400_000
    assert stream.transfer_rate == pytest.approx(stream.bytes / ((stream.io_s or 0) + (stream.wait_s or 0)), rel=1e-4)
    (reader,) = stream.readers
    assert reader.transfer_rate == pytest.approx(2_400_000 / 0.006, rel=1e-4)
    assert stream.last_step is not None
    assert stream.throughput == pytest.approx(stream.bytes / (stream.last_step - START - 0.9))
    assert (reader.steps, reader.dropped, reader.complete) == (41, 0, True)
    assert (stream.queue_limit, stream.when_full, stream.longest_queue) == (2, "block", 2)


@pytest.mark.parametrize(
    ("md_s", "saxs_s", "limits"), [(0.05, 0.12, "saxs"), (0.12, 0.02, "md")], ids=["slow reader", "slow writer"]
)
def test_who_limits_a_stream(tmp_path: Path, md_s: float, saxs_s: float, limits: str) -> None:
    report = compute_report(write_sample(tmp_path / "run", md_s=md_s, saxs_s=saxs_s))
    assert report.stream("atoms").limited_by == limits
    assert report.run.limited_by == limits
    idle = report.stream("atoms").idle
    assert idle is not None
    assert (idle > 0.4) == (limits == "saxs")


def test_a_short_run_does_not_show_what_limits_it(tmp_path: Path) -> None:
    metrics = simulate(4, 0.001, 0.002, 0.0005)
    report = compute_report(write_run(tmp_path / "run", make_plan(), make_events(metrics), metrics))
    assert (report.stream("atoms").idle or 0) > 0.8
    assert (report.run.limited_by, {stream.limited_by for stream in report.streams}) == ("", {""})
    assert "2.00 s are needed to tell" in report.run.limit_unknown


def test_a_failed_run_names_the_stage_and_shows_its_last_lines(tmp_path: Path) -> None:
    metrics = simulate(12, 0.05, 0.05, 0.01)
    metrics["saxs"] = metrics["saxs"][:9]
    events = make_events(metrics, "failed", "saxs", "stage saxs was killed by signal 9")
    run_dir = write_run(tmp_path / "run", make_plan(), events, metrics)
    errors = "Param -   QueueLimit=2\none\n\x1b[1;36mValueError: two\x1b[0m\x07\n"
    (run_dir / "stages/saxs/stderr.log").write_text(errors)
    report = compute_report(run_dir)
    assert (report.run.state, report.run.stage, report.run.exit_code) == ("failed", "saxs", 1)
    saxs = report.stage("saxs")
    assert (saxs.state, saxs.signal, saxs.exit_code, saxs.last_lines) == ("failed", 9, None, ["one", "ValueError: two"])
    assert report.stream("atoms").readers[0].dropped == 12 - 3
    assert report.stage("md").last_lines == []


@pytest.mark.parametrize("how", ["failed", "no step"])
def test_what_limited_a_run_is_told_of_runs_that_moved_data_and_succeeded(tmp_path: Path, how: str) -> None:
    metrics = simulate(0 if how == "no step" else 5, 0.05, 0.12, 0.01)
    events = make_events(metrics) if how == "no step" else make_events(metrics, "failed", "saxs", "killed")
    run = compute_report(write_run(tmp_path / "run", make_plan(), events, metrics)).run
    assert (run.limited_by, run.overlap) == ("", None)


def test_an_open_that_never_returned_is_not_computing(tmp_path: Path) -> None:
    """Both wait in open until they are stopped; on their way out they count that as computing."""
    last = {"md": START + 10, "saxs": START + 10, "keep": START + 10}
    metrics: dict[str, list[Record]] = {
        stage: [
            {"kind": "start", "metrics_version": 2, "t": START + 0.5, "stage": stage, "ranks": 1, "adios2": "2.12.1"},
            {"kind": "end", "t": t, "compute_s": 9.4},
        ]
        for stage, t in last.items()
    }  # fmt: skip
    events = make_events(metrics, "failed", "saxs", "streams not open within 5 s")
    for event in events:
        if event["event"] == "stage_succeeded":
            event["event"] = "stage_stopped"
    events.append({"event": "stream_offered", "t": START + 1.1, "stream": "atoms", "stage": "md"})
    events.sort(key=lambda event: float(event["t"]))
    report = compute_report(write_run(tmp_path / "run", make_plan(), events, metrics))
    md, keep = report.stage("md"), report.stage("keep")
    assert (md.compute_s, keep.compute_s, keep.open_s) == (0, 0, 0)
    assert md.open_s == pytest.approx(9.0)
    (span,) = make_lane(md, read_metrics(tmp_path / "run/stages/md/metrics.jsonl"), START, START + 11).spans
    assert span.activity == "open"
    assert span.start - START == pytest.approx(1.1)
    assert keep.other_s == pytest.approx(10.0)


def test_a_directory_that_cannot_be_written_still_has_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_sample(tmp_path / "run", steps=3)

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    report = write_report(run_dir)
    assert report.run.state == "succeeded"
    assert report.notes == ["report.json and report.html could not be written: Read-only file system"]


def test_programs_without_metrics_are_reported_from_the_events(tmp_path: Path) -> None:
    metrics = simulate(20, 0.05, 0.05, 0.01)
    events = make_events(metrics)
    events += make_progress(metrics, "atoms", "md", "write") + make_progress(metrics, "atoms", "saxs", "read")
    events.sort(key=lambda event: float(event["t"]))
    report = compute_report(write_run(tmp_path / "run", make_plan(), events, {"keep": metrics["keep"]}))
    md, stream = report.stage("md"), report.stream("atoms")
    assert (md.steps_out, md.bytes_out, md.compute_s, md.wait_s) == (20, 20 * 2_400_000, None, None)
    assert (stream.steps, stream.readers[0].steps, stream.transfer_rate, stream.limited_by) == (20, 20, None, "")
    assert stream.longest_queue == 2
    assert stream.first_step is not None
    assert report.notes[0] == ("stage md keeps no metrics of its own: its steps and bytes are what the supervisor saw")


def make_progress(metrics: dict[str, list[Record]], stream: str, stage: str, side: str) -> list[Record]:
    """What a supervisor tells of the steps at one end."""
    ends = [
        line for line in metrics[stage] if line["kind"] == "step" and (line["stream"], line["side"]) == (stream, side)
    ]
    return [
        {
            "event": "stream_progress", "t": line["t"], "stream": stream, "stage": stage, "side": side,
            "steps": count, "bytes": count * line["bytes"],
        }
        for count, line in enumerate(ends, 1)
    ]  # fmt: skip


def test_what_cannot_be_seen_is_not_made_up(tmp_path: Path) -> None:
    metrics = simulate(5, 0.05, 0.05, 0.01)
    plan = make_plan(engine="HDF5", observed="evidence", component=None, program=["./my-sim", "a b"])
    report = compute_report(write_run(tmp_path / "run", plan, make_events(metrics), {}))
    stream = report.stream("atoms")
    assert (stream.steps, stream.bytes, stream.throughput, stream.longest_queue) == (None, None, None, None)
    assert stream.readers[0].dropped is None
    assert report.stage("md").program == "./my-sim 'a b'"


def test_dropped_steps_of_a_discarding_queue(tmp_path: Path) -> None:
    metrics = simulate(20, 0.05, 0.05, 0.01)
    metrics["saxs"] = [line for line in metrics["saxs"] if line.get("side") != "read" or line.get("step") not in (3, 4)]
    report = compute_report(write_run(tmp_path / "run", make_plan(when_full="discard"), make_events(metrics), metrics))
    assert report.stream("atoms").readers[0].dropped == 2
    assert report.stream("atoms").longest_queue is None  # which steps the reader had reached is not known
    assert report.stream("pattern").longest_queue is not None


def test_file_streams_limit_nobody_and_have_no_queue(tmp_path: Path) -> None:
    metrics = simulate(10, 0.05, 0.12, 0.01)
    report = compute_report(write_run(tmp_path / "run", make_plan(engine="BP5"), make_events(metrics), metrics))
    stream = report.stream("atoms")
    assert (stream.limited_by, stream.longest_queue, stream.queue_limit) == ("", None, None)
    assert report.run.limited_by == ""


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    metrics = simulate(10, 0.05, 0.05, 0.01)
    now = metrics["saxs"][10]["t"]
    cut = {stage: [line for line in lines if line["t"] <= now] for stage, lines in metrics.items()}
    events = [event for event in make_events(metrics) if event["t"] <= now]
    report = compute_report(write_run(tmp_path / "run", make_plan(), events, cut))
    assert report.run.state == "unfinished"
    assert {stage.state for stage in report.stages} == {"starting"}
    assert report.stream("atoms").readers[0].dropped is None
    assert report.stream("atoms").complete is None
    assert 0 < (report.stream("atoms").steps or 0) < 10


def test_a_run_that_was_written_but_not_started(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", make_plan(), [], {})
    (run_dir / "events.jsonl").unlink()
    report = read_report(run_dir)
    assert (report.run.state, report.run.wall_s, report.run.started) == ("unfinished", None, None)
    assert {stage.state for stage in report.stages} == {"waiting"}
    assert write_report(run_dir) == report


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.61803, 0.999])
def test_half_written_files_give_what_can_be_had(tmp_path: Path, keep: float) -> None:
    run_dir = write_sample(tmp_path / "run")
    for path in [run_dir / "events.jsonl", *run_dir.glob("stages/*/metrics.jsonl")]:
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    report = write_report(run_dir)
    assert all(stream.steps is not None and stream.steps <= 41 for stream in report.streams)
    assert (run_dir / "report.html").stat().st_size > 5000


def test_broken_lines_are_noted(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run")
    path = run_dir / "stages/md/metrics.jsonl"
    path.write_text('{"kind": "step"}\nnot json\n' + path.read_text())
    assert compute_report(run_dir).notes == ["stages/md/metrics.jsonl: 2 lines left out as unreadable"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, "is not a run directory"), ("{", "it is not JSON"), ('{"stages": 3}', "it is not a plan")],
)
def test_without_a_plan_there_is_no_report(tmp_path: Path, text: str | None, expected: str) -> None:
    if text is not None:
        (tmp_path / "plan.json").write_text(text)
    with pytest.raises(RunError, match=expected):
        compute_report(tmp_path)


def test_the_stored_report_reads_back_the_same(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run")
    written = write_report(run_dir)
    assert Report.model_validate_json((run_dir / "report.json").read_text()) == written
    (run_dir / "stages/md/metrics.jsonl").unlink()
    assert read_report(run_dir) == written, "the stored report was not used"
    assert [path.name for path in run_dir.glob(".report*")] == []


@pytest.mark.parametrize("damage", ["stale", "half", "other version"])
def test_a_report_that_cannot_be_trusted_is_computed_anew(tmp_path: Path, damage: str) -> None:
    run_dir = write_sample(tmp_path / "run")
    written = write_report(run_dir)
    path = run_dir / "report.json"
    text = path.read_text()
    if damage == "stale":
        path.write_text(text.replace('"saxs"', '"sox"'))
        os.utime(path, (START, START))
    else:
        path.write_text(text[:500] if damage == "half" else text.replace('"report_version": 2', '"report_version": 3'))
    assert read_report(run_dir) == written


def test_a_stage_of_two_input_streams_is_counted_over_both(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run")
    lines = (run_dir / "stages/saxs/metrics.jsonl").read_text()
    assert lines.count('"kind": "step"') == 82
    # The sum over the stage does not care which stream a step came from.
    assert compute_report(run_dir).stage("saxs").io_s == pytest.approx(41 * (0.006 + 0.001))
    write_lines(run_dir / "stages/saxs/metrics.jsonl", [])
    assert compute_report(run_dir).stage("saxs").io_s == 0
