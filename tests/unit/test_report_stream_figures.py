"""The figures of streams: steps, bytes, rates, and what compression did, from records made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.fan_run import (
    READERS,
    closed,
    event,
    fan,
    foreign,
    opened,
    records_of,
    stepped,
    taken,
    written,
)
from tests.support.sample_run import START, make_end
from workflow.plan.plan_model import MemberPlan, Plan
from workflow.report.build.make_report import make_report
from workflow.report.build.report_notes import _bytes_of_readers
from workflow.report.report_model import StreamPart
from workflow.report.show.run_in_words import compression_lines


@pytest.mark.parametrize(
    ("closed_at", "rates"), [(None, [400 / 3, 300 / 3]), (5.0, [400 / 4, 300 / 4])], ids=["open", "closed"]
)
def test_the_time_of_a_stream_ends_with_its_close_and_until_then_with_its_last_step(
    tmp_path: Path, closed_at: float | None, rates: list[float]
) -> None:
    md = [opened("atoms", "write", 1.0), *stepped("atoms", "write", [2, 4], 200)]
    one = [opened("atoms", "read", 1.0), *stepped("atoms", "read", [2, 4], 150)]
    if closed_at is not None:
        md.append(closed("atoms", "write", 2, closed_at))
        one.append(closed("atoms", "read", 2, closed_at))
    stream = make_report(records_of(tmp_path, fan(), {"md": md, "one": one})).stream("atoms")
    assert [stream.throughput, stream.readers[0].throughput] == pytest.approx(rates)


@pytest.mark.parametrize(("closed_at", "seconds"), [(None, 3.0), (5.0, 4.0)])
@pytest.mark.parametrize(("ranks", "are"), [(1, "read"), (2, "at_least")])
def test_rates_and_bytes_of_programs_without_metrics_are_what_the_supervisor_saw(
    tmp_path: Path, closed_at: float | None, seconds: float, ranks: int, are: str
) -> None:
    ends = [("md", "write", 0), ("one", "read", 600), ("two", "read", 200)]
    seen = [event("stream_opened", 1, stream="atoms", stage=stage, side=side) for stage, side, _ in ends]
    seen += [
        event("stream_progress", 4, stream="atoms", stage=stage, side=side, steps=2, bytes=count)
        for stage, side, count in ends
    ]
    seen += [
        event("stream_closed", closed_at, stream="atoms", stage=stage, side=side, steps=2, bytes=count, complete=True)
        for stage, side, count in ends
        if closed_at is not None
    ]
    plan = foreign(fan(), md=1, one=ranks, two=1)
    stream = make_report(records_of(tmp_path, plan, {}, seen)).stream("atoms")
    assert (stream.steps, stream.bytes, stream.bytes_are, stream.transfer_rate) == (2, 600, are, None)
    assert stream.throughput == pytest.approx(600 / seconds)
    assert [reader.throughput for reader in stream.readers] == pytest.approx([600 / seconds, 200 / seconds])
    assert [reader.transfer_rate for reader in stream.readers] == [None, None]


def test_the_size_of_a_file_that_is_handed_over_counts_though_its_steps_do_not(tmp_path: Path) -> None:
    plan = foreign(fan(limit=None, engine="HDF5"), md=1, one=1, two=1)
    seen = [event("stream_closed", 4, stream="atoms", stage="md", side="write", steps=0, bytes=700, complete=True)]
    stream = make_report(records_of(tmp_path, plan, {}, seen)).stream("atoms")
    assert (stream.steps, stream.bytes, stream.bytes_are) == (None, 700, "stored")
    assert _bytes_of_readers([stream]) == [
        "the bytes of atoms are the size of its files, with gaps that HDF5 leaves: md records none"
    ]


def stream_of(folder: Path, plan: Plan | None = None, events: list[Any] | None = None, **metrics: Any) -> StreamPart:
    return make_report(records_of(folder, plan or fan(), metrics, events)).stream("atoms")


def test_times_of_both_ends_and_of_the_steps(tmp_path: Path) -> None:
    md = [opened("atoms", "write"), *stepped("atoms", "write", [1, 2, 4], wait_s=0.5)]
    one = [opened("atoms", "read"), *stepped("atoms", "read", [1.5, 3, 5], wait_s=0.125)]
    stream = stream_of(tmp_path, md=md, one=one)
    assert (stream.io_s, stream.wait_s, stream.first_step, stream.last_step) == (0.75, 1.5, START + 1, START + 4)
    reader, silent = stream.readers
    assert (reader.io_s, reader.wait_s) == (0.75, 0.375)
    assert reader.throughput == pytest.approx(300 / 5)
    assert (silent.io_s, silent.wait_s, silent.throughput, silent.bytes) == (None, None, None, None)


def test_a_stream_that_is_open_and_has_no_step_has_no_rate(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, md=[opened("atoms", "write")], one=[opened("atoms", "read")])
    assert (stream.throughput, stream.readers[0].throughput, stream.io_s, stream.wait_s) == (None, None, None, None)
    assert (stream.first_step, stream.last_step, stream.complete) == (None, None, None)


def test_steps_that_never_arrived_at_a_reader_that_is_gone(tmp_path: Path) -> None:
    """one has ended without closing the stream, and two lives: it may still take its steps."""
    seen = [
        event("stream_progress", 4, stream="atoms", stage=stage, side=side, steps=steps, bytes=0)
        for stage, side, steps in (("md", "write", 5), ("one", "read", 2), ("two", "read", 3))
    ]
    stream = stream_of(tmp_path, None, [*seen, event("stage_exited", 5, stage="one", code=0, signal=None)])
    assert [reader.lost for reader in stream.readers] == [3, None]


def test_what_the_plan_says_of_a_stream(tmp_path: Path) -> None:
    plan = fan()
    changed = plan.streams[0].model_copy(update={"step_size": 100, "queue_memory": 300})
    end = make_end("atoms", "write").model_copy(update={"parameters": {"QueueLimit": "7"}})
    md = plan.stage("md").model_copy(update={"ends": [plan.stage("md").ends[1], end]})
    plan = plan.model_copy(update={"streams": [changed, plan.streams[1]], "stages": [md, *plan.stages[1:]]})
    stream = stream_of(tmp_path, plan, [event("stream_transport", 1, stream="atoms", stage="md", plane="evpath")])
    assert (stream.step_size, stream.queue_memory, stream.transport) == (100, 300, "tcp")
    assert stream.parameters == {"QueueLimit": "7"}


@pytest.mark.parametrize("complete", [True, False])
def test_whether_an_end_was_closed_in_order(tmp_path: Path, complete: bool) -> None:
    """By its own record, whatever the supervisor saw; by what the supervisor saw where it has none."""
    seen = [
        event("stream_closed", 3, stream="atoms", stage=stage, side=side, steps=2, bytes=0, complete=not own)
        for stage, side, own in (("md", "write", complete), ("one", "read", complete), ("two", "read", not complete))
    ]
    md = [*written([1, 2]), {**closed("atoms", "write", 2, 3), "complete": complete}]
    one = [*taken([1, 2]), {**closed("atoms", "read", 2, 3), "complete": complete}]
    stream = stream_of(tmp_path, None, seen, md=md, one=one)
    assert [stream.complete, *(reader.complete for reader in stream.readers)] == [complete] * 3
    foreigner = stream_of(tmp_path / "foreign", foreign(fan(), md=1), [{**seen[0], "complete": complete}])
    assert (foreigner.complete, foreigner.readers[0].complete) == (complete, None)


@pytest.mark.parametrize(("read", "dropped"), [(2, 0), (1, 1), (0, 2), (3, 0)])
def test_what_was_written_and_not_read_is_dropped(tmp_path: Path, read: int, dropped: int) -> None:
    ends = [("md", "write", 2), ("one", "read", read)]
    seen = [
        event("stream_closed", 3, stream="atoms", stage=stage, side=side, steps=steps, bytes=0, complete=True)
        for stage, side, steps in ends
    ]
    exits = [event("stage_exited", 4, stage=stage, code=0, signal=None) for stage in ("md", "one")]
    plan = foreign(fan(), md=1, one=1)
    assert stream_of(tmp_path / "over", plan, [*seen, *exits]).readers[0].dropped == dropped
    # While one of them runs, more may come.
    assert stream_of(tmp_path / "runs", plan, [*seen, exits[0]]).readers[0].dropped is None


def test_nothing_written_and_nothing_read_is_nothing_dropped(tmp_path: Path) -> None:
    exits = [event("stage_exited", 4, stage=stage, code=0, signal=None) for stage in ("md", "one")]
    assert stream_of(tmp_path, foreign(fan(), md=1, one=1), exits).readers[0].dropped == 0


def test_the_bytes_of_a_stream_are_those_of_the_reader_that_read_most(tmp_path: Path) -> None:
    """Of one that has several ranks only a part is known, but it read less."""
    seen = [
        event("stream_closed", 3, stream="atoms", stage=stage, side="read", steps=2, bytes=count, complete=True)
        for stage, count in (("one", 200), ("two", 600))
    ]
    stream = stream_of(tmp_path / "less", foreign(fan(), md=1, one=2, two=1), seen)
    assert (stream.bytes, stream.bytes_are) == (600, "read")
    stream = stream_of(tmp_path / "most", foreign(fan(), md=1, one=1, two=2), seen)
    assert (stream.bytes, stream.bytes_are) == (600, "at_least")
    # The ranks of a stage with metrics add up what they have read.
    stream = stream_of(tmp_path / "metrics", foreign(fan(), md=1, two=2), two=taken([1, 2], 300))
    assert (stream.bytes, stream.bytes_are) == (600, "read")


def test_bytes_of_which_some_are_not_known_are_not_known(tmp_path: Path) -> None:
    """A stage of several ranks that was killed: they had not added up their last step."""
    one = [*taken([1], 100), *stepped("atoms", "read", [2], None)]
    assert stream_of(tmp_path, one=one).readers[0].bytes is None


def test_a_stream_by_file_has_no_queue_and_no_limit(tmp_path: Path) -> None:
    plan = fan(limit=None, engine="BP5")
    streams = [stream.model_copy(update={"coupling": "after"}) for stream in plan.streams]
    plan = plan.model_copy(update={"streams": streams})
    times = [float(step) for step in range(1, 11)]
    metrics = {"md": written(times), **{name: taken([t + 0.5 for t in times], wait_s=0.9) for name in READERS}}
    stream = stream_of(tmp_path, plan, None, **metrics)
    assert (stream.limited_by, stream.limit_unknown, stream.longest_queue) == ("", "", None)
    live = stream_of(tmp_path / "live", None, None, **metrics)
    assert (live.limited_by, live.longest_queue) == ("md", 1)
    metrics["md"] = written(times, wait_s=0.9)
    assert "about equally long" in stream_of(tmp_path / "unknown", None, None, **metrics).limit_unknown


# Compression


def compressed(tmp_path: Path) -> Plan:
    """A plan in which md compresses atoms, into files below this folder."""
    plan = fan(limit=None, engine="BP5")
    operator = {"x": {"type": "zfp", "parameters": {}, "bound": 0.1}}
    end = type(make_end("atoms", "write")).model_validate(
        {**make_end("atoms", "write").model_dump(), "operators": operator}
    )
    md = plan.stage("md").model_copy(update={"ends": [end, plan.stage("md").ends[1]]})
    atoms = plan.streams[0].model_copy(update={"on_disk": [str(tmp_path / "atoms.bp")]})
    return plan.model_copy(update={"streams": [atoms, plan.streams[1]], "stages": [md, *plan.stages[1:]]})


def test_the_size_of_compressed_files_is_that_of_their_data(tmp_path: Path) -> None:
    plan = compressed(tmp_path)
    assert stream_of(tmp_path / "none", plan).stored is None
    (tmp_path / "atoms.bp").mkdir()
    for name, size in (("data.0", 5), ("data.1", 7), ("md.0", 100)):
        (tmp_path / "atoms.bp" / name).write_bytes(bytes(size))
    report = make_report(records_of(tmp_path / "run", plan, {}))
    assert (report.stream("atoms").stored, report.stream("log").stored) == (12, None)
    assert (report.stream("atoms").compressed, report.stream("log").compressed) == (True, False)


def test_files_without_compression_have_a_size_to_compare_with(tmp_path: Path) -> None:
    plan = compressed(tmp_path)
    plain = plan.model_copy(update={"stages": fan(limit=None, engine="BP5").stages})
    (tmp_path / "atoms.bp").mkdir()
    (tmp_path / "atoms.bp/data.0").write_bytes(bytes(40))
    report = make_report(records_of(tmp_path / "plain", plain, {}))
    assert (report.stream("atoms").stored, report.stream("atoms").compressed) == (40, False)
    assert not compression_lines(report)
    # An HDF5 file is one file, a live stream has none.
    (tmp_path / "atoms.h5").write_bytes(bytes(30))
    one, live = ({"on_disk": [str(tmp_path / "atoms.h5")], "engine": engine} for engine in ("HDF5", "SST"))
    for number, (changes, expected) in enumerate(((one, 30), (live, None))):
        changed = plain.model_copy(
            update={"streams": [plain.streams[0].model_copy(update=changes), *plain.streams[1:]]}
        )
        assert stream_of(tmp_path / f"other-{number}", changed).stored == expected


def test_compressed_variables_that_nobody_read_are_named(tmp_path: Path) -> None:
    accuracy = {
        "kind": "accuracy", "t": START + 3, "stream": "atoms", "side": "read", "variable": "x", "operator": "zfp",
        "bound": 0.1, "largest": 0.05, "compared": 3, "steps": 1,
    }  # fmt: skip
    note = {"kind": "compressed", "t": START + 3, "stream": "atoms", "side": "write", "variables": ["x", "y"]}
    metrics = {"md": [*written([1]), note], "one": [*taken([1]), accuracy], "two": taken([1])}
    stream = stream_of(tmp_path / "read", compressed(tmp_path), **metrics)
    assert stream.unread == ["y"]
    assert [(each.variable, each.largest) for each in stream.readers[0].accuracy] == [("x", 0.05)]
    assert stream.readers[1].accuracy == []
    # A reader without records may have read it.
    del metrics["two"]
    assert stream_of(tmp_path / "unknown", compressed(tmp_path), **metrics).unread == []


def test_what_was_read_counts_as_written_while_the_run_goes_on(tmp_path: Path) -> None:
    """The files of the two ends are read one after the other, and a fast stage writes meanwhile."""
    md = [opened("atoms", "write", 1.0), *stepped("atoms", "write", [2, 4], 200)]
    one = [opened("atoms", "read", 1.0), *stepped("atoms", "read", [2, 4, 5], 200)]
    running = make_report(records_of(tmp_path, fan(), {"md": md, "one": one})).stream("atoms")
    assert (running.steps, running.readers[0].steps) == (3, 3)
    verdict = event("run_finished", 9, state="failed", exit_code=1, reason="x", stage="one")
    over = make_report(records_of(tmp_path, fan(), {"md": md, "one": one}, [verdict])).stream("atoms")
    assert (over.steps, over.readers[0].steps) == (2, 3), "of a run that is over that is a fault, which is shown"


@pytest.mark.parametrize(("read", "steps"), [([], 1), ([2, 3], 2)])
def test_what_was_read_of_a_run_that_goes_on_was_written(tmp_path: Path, read: list[float], steps: int) -> None:
    """The records of the writer were read before those of its readers."""
    lines = {"md": written([2]), "one": taken(read)}
    assert make_report(records_of(tmp_path, fan(), lines)).stream("atoms").steps == steps
    over = [event("run_finished", 9, state="succeeded", exit_code=0, reason="", stage="")]
    assert make_report(records_of(tmp_path / "over", fan(), lines, over)).stream("atoms").steps == 1


def test_of_a_stream_without_a_step_none_was_written(tmp_path: Path) -> None:
    opens = [event("stream_opened", 1, stream="atoms", stage="md", side="write")]
    plan = foreign(fan(), md=1, one=1, two=1)
    assert make_report(records_of(tmp_path, plan, {}, opens)).stream("atoms").steps == 0


@pytest.mark.parametrize(("added", "passed_on"), [("spool", True), (None, False)])
def test_what_a_spool_writes_is_passed_on(tmp_path: Path, added: str | None, passed_on: bool) -> None:
    plan = fan()
    stages = [stage.model_copy(update={"added": added}) if stage.name == "md" else stage for stage in plan.stages]
    streams = [plan.streams[0], plan.streams[1].model_copy(update={"readers": []})]
    report = make_report(records_of(tmp_path, plan.model_copy(update={"stages": stages, "streams": streams}), {}))
    assert [stream.passed_on for stream in report.streams] == [passed_on, passed_on]


def test_a_stage_has_the_member_that_it_is_and_the_steps_that_it_skips(tmp_path: Path) -> None:
    plan = fan()
    one = plan.stage("one")
    end = one.ends[0].model_copy(update={"first_step": 2})
    member = MemberPlan(ensemble="all", index=1, values={"n": 3})
    one = one.model_copy(update={"ends": [end], "member": member})
    stages = [one if stage.name == "one" else stage for stage in plan.stages]
    again = [event("stages_restarted", 2, stages=["one"], attempt=1, first_step=2, skipped={"one": [1]})]
    report = make_report(records_of(tmp_path, plan.model_copy(update={"stages": stages}), {}, again))

    def of(name: str) -> tuple[str, dict[str, Any], int | None, list[int]]:
        stage = report.stage(name)
        return stage.ensemble, stage.values, stage.first_step, stage.skipped

    assert of("one") == ("all", {"n": 3}, 2, [1])
    assert of("md") == ("", {}, 0, [])
