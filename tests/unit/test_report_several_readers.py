"""Streams of several readers, queues without a limit, opens that hang: figures from records made by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_run import START, Record, make_end, make_stage, write_lines, write_run
from workflow.plan.plan_model import Plan, StreamPlan
from workflow.report.build.bottleneck import run_limit, stream_limit, waiting
from workflow.report.build.make_report import make_report
from workflow.report.build.queue_history import longest, queue_history
from workflow.report.build.stage_figures import busy_s
from workflow.report.read.metrics_file import StageMetrics, read_metrics
from workflow.report.read.run_records import Records, read_records
from workflow.report.report_model import ReaderPart, StagePart, StreamPart
from workflow.spec.models.pipeline import Deadlines, Queue

READERS = ["one", "two"]


def fan(limit: int | None = 3, when_full: str = "block", engine: str = "SST") -> Plan:
    """md writes atoms to one and two, and log to keep."""
    queue = None if limit is None else Queue.model_validate({"limit": limit, "when_full": when_full})

    def stream(name: str, readers: list[str]) -> StreamPlan:
        return StreamPlan(
            name=name, writer="md", readers=readers, via=engine.lower(), engine=engine, keep=True, coupling="live",
            path="${{ run.dir }}/streams/" + name, queue=queue, on_disk=["${{ run.dir }}/streams/" + name],
        )  # fmt: skip

    return Plan(
        wf_version="0", pipeline="fan", pipeline_file="pipeline.yaml", site="local",
        stages=[
            make_stage("md", "simulation", [make_end("atoms", "write", engine), make_end("log", "write", engine)]),
            *(make_stage(name, "sink", [make_end("atoms", "read", engine)]) for name in READERS),
            make_stage("keep", "sink", [make_end("log", "read", engine)]),
        ],
        streams=[stream("atoms", READERS), stream("log", ["keep"])],
        deadlines=Deadlines(),
    )  # fmt: skip


def opened(stream: str, side: str, t: float = 0.0) -> Record:
    return {"kind": "open", "t": START + t, "stream": stream, "side": side, "engine": "SST", "seconds": 0.0}


def stepped(
    stream: str, side: str, times: Sequence[float], size: int | None = 100, wait_s: float = 0.0
) -> list[Record]:
    """One step at each of these times, each after so long a wait."""
    return [
        {
            "kind": "step", "t": START + t, "stream": stream, "side": side, "step": step, "bytes": size,
            "wait_s": wait_s, "io_s": 0.25, "compute_s": 0.0,
        }
        for step, t in enumerate(times)
    ]  # fmt: skip


def closed(stream: str, side: str, steps: int, t: float) -> Record:
    return {"kind": "close", "t": START + t, "stream": stream, "side": side, "steps": steps, "complete": True}


def begun(*names: str) -> list[Record]:
    run = {"event": "run_started", "t": START, "run": "fan", "plan_version": 1, "pid": 1, "host": "node1"}
    return [run, *({"event": "stage_started", "t": START, "stage": name, "pid": 9} for name in names)]


def event(kind: str, t: float, **more: Any) -> Record:
    return {"event": kind, "t": START + t, **more}


def records_of(
    folder: Path, plan: Plan, metrics: dict[str, list[Record]], events: list[Record] | None = None
) -> Records:
    return read_records(write_run(folder / "run", plan, [*begun("md", *READERS, "keep"), *(events or [])], metrics))


def metrics_of(*lines: Record) -> StageMetrics:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        write_lines(path, list(lines))
        return read_metrics(path)


def written(times: Sequence[float], size: int | None = 100, wait_s: float = 0.0) -> list[Record]:
    return [opened("atoms", "write"), *stepped("atoms", "write", times, size, wait_s)]


def taken(times: Sequence[float], size: int | None = 100, wait_s: float = 0.0) -> list[Record]:
    return [opened("atoms", "read"), *stepped("atoms", "read", times, size, wait_s)]


# Totals


def test_readers_may_read_less_than_was_written_and_one_more_than_another(tmp_path: Path) -> None:
    metrics = {"md": written([1, 2], 800), "one": taken([1, 2], 100), "two": taken([1, 2], 300)}
    report = make_report(records_of(tmp_path, fan(), metrics))
    stream = report.stream("atoms")
    assert (stream.bytes, [reader.bytes for reader in stream.readers]) == (1600, [200, 600])
    assert stream.throughput == pytest.approx(1600 / 0.5)
    assert [reader.throughput for reader in stream.readers] == pytest.approx([200 / 0.5, 600 / 0.5])
    assert [report.stage(name).bytes_in for name in READERS] == [200, 600]


@pytest.mark.parametrize(("one", "two", "expected"), [(100, 300, 600), (300, 100, 600), (None, 100, 200), (0, 0, None)])
def test_bytes_that_the_writer_does_not_know_are_those_of_the_reader_that_read_most(
    tmp_path: Path, one: int | None, two: int, expected: int | None
) -> None:
    metrics = {"md": written([1, 2], None), "one": taken([1, 2], one), "two": taken([1, 2], two)}
    stream = make_report(records_of(tmp_path, fan(), metrics)).stream("atoms")
    assert (stream.bytes, stream.throughput) == (expected, None)


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
    start = {"kind": "start", "t": START, "stage": "md", "ranks": 1, "adios2": "2.12.1"}
    md = make_report(records_of(tmp_path, fan(), {"md": [start]}, events)).stage("md")
    assert md.open_s == pytest.approx(7 if ended else 10)
    both = [*events[:2], event("stream_opened", 6, stream="atoms", stage="md", side="write"), *events[2:]]
    md = make_report(records_of(tmp_path / "later", fan(), {"md": [start]}, both)).stage("md")
    assert md.open_s == pytest.approx(4 if ended else 7)


# Bottlenecks


def limit_of(wait_md: float, **waits: float) -> str:
    """Who limits atoms: ten steps, one a second, with so long a wait in each."""
    times = [float(step) for step in range(1, 11)]
    metrics = {name: metrics_of(*taken(times, wait_s=wait)) for name, wait in waits.items()}
    metrics["md"] = metrics_of(*written(times, wait_s=wait_md))
    return stream_limit(fan().stream("atoms"), metrics)


@pytest.mark.parametrize(
    ("md", "one", "two", "limits"),
    [
        (0.6, 0.1, 0.4, "one"),  # the writer waits; of its readers, one waits least
        (0.6, 0.4, 0.1, "two"),
        (0.3, 0.4, 0.1, "two"),
        (0.3, 0.4, 0.5, "md"),  # every reader waits longer than the writer
        (0.4, 0.4, 0.5, "md"),
        (0.0, 0.06, 0.3, "md"),
        (0.0, 0.04, 0.3, ""),  # the reader that waits least does not wait much
        (0.04, 0.0, 0.0, ""),
        (0.0625, 0.0, 0.0, "one"),
    ],
)
def test_of_several_readers_the_one_that_waits_least_limits(md: float, one: float, two: float, limits: str) -> None:
    assert limit_of(md, one=one, two=two) == limits


def test_short_waits_limit_nobody_however_large_their_share() -> None:
    """0.1 s in all are needed."""
    stream = fan().stream("atoms")
    for seconds, limits in ((0.04, ""), (0.05, "md")):
        readers = {name: metrics_of(*taken([0.06, 0.12], wait_s=seconds)) for name in READERS}
        assert stream_limit(stream, {"md": metrics_of(*written([0.06, 0.12])), **readers}) == limits


def test_an_end_without_metrics_limits_nobody() -> None:
    stream, seen = fan().stream("atoms"), metrics_of(*taken([1, 2], wait_s=0.9))
    nothing = StageMetrics(exists=False)
    assert stream_limit(stream, {"md": nothing, "one": seen, "two": seen}) == ""
    assert stream_limit(stream, {"md": metrics_of(*written([1, 2])), "one": nothing, "two": nothing}) == ""
    # What can be seen of one reader is enough.
    assert stream_limit(stream, {"md": metrics_of(*written([1, 2])), "one": nothing, "two": seen}) == "md"


def test_waiting_is_a_share_of_the_time_from_open_to_close() -> None:
    lines = written([1, 2], wait_s=0.5)
    assert waiting(metrics_of(*lines), "atoms", "write") == pytest.approx(0.5)
    assert waiting(metrics_of(*lines, closed("atoms", "write", 2, 4)), "atoms", "write") == pytest.approx(0.25)
    assert waiting(metrics_of(*written([0.5], wait_s=2.0)), "atoms", "write") == 1.0
    assert waiting(metrics_of(*lines), "atoms", "read") is None
    assert waiting(metrics_of(*lines[1:]), "atoms", "write") is None
    assert waiting(metrics_of(lines[0]), "atoms", "write") is None


@pytest.mark.parametrize("t", [0.0, -1.0])
def test_a_stream_that_lasted_no_time_has_no_share(t: float) -> None:
    """Clocks have a resolution, and may be set back."""
    assert waiting(metrics_of(*written([t])), "atoms", "write") is None


def part(name: str, writer: str, reader: str, by: str, when_full: str = "block") -> StreamPart:
    return StreamPart(
        name=name, writer=writer, via="sst", engine="SST", coupling="live", steps=3, limited_by=by,
        when_full=when_full, readers=[ReaderPart(stage=reader, steps=3, bytes=8)],
    )  # fmt: skip


def work(name: str, compute_s: float | None, io_s: float | None = None) -> StagePart:
    return StagePart(
        name=name, kind="analysis", program=name, ranks=1, state="succeeded", compute_s=compute_s, io_s=io_s
    )


def test_of_several_stages_that_limit_the_run_the_one_with_most_work_does() -> None:
    streams = [part("x", "a", "b", "a"), part("y", "c", "d", "d")]
    assert run_limit(streams, [work("a", 2.0), work("b", 9.0), work("c", 9.0), work("d", 1.0, 0.5)]) == "a"
    assert run_limit(streams, [work("a", 2.0), work("b", 9.0), work("c", 9.0), work("d", 1.0, 1.5)]) == "d"
    assert run_limit(streams, [work("a", None), work("d", None, 0.5)]) == "d"


def test_in_a_circle_all_that_limit_are_candidates() -> None:
    streams = [part("x", "a", "b", "b"), part("y", "b", "a", "a")]
    assert run_limit(streams, [work("a", 2.0), work("b", 3.0)]) == "b"


def test_nobody_waits_for_what_a_full_queue_discards() -> None:
    streams = [part("x", "a", "b", "b", "discard"), part("y", "a", "c", "a")]
    assert run_limit(streams, [work("a", 1.0), work("b", 5.0), work("c", 1.0)]) == "a"
    assert run_limit(streams[:1], [work("a", 1.0), work("b", 5.0)]) == ""


# Queues


def levels(records: Records, stream: str = "atoms") -> list[tuple[float, int]]:
    return [(t - START, level) for t, level in queue_history(records.plan.stream(stream), records)]


def test_the_queue_is_what_the_slowest_reader_has_not_taken(tmp_path: Path) -> None:
    metrics = {"md": written([1, 2, 5]), "one": taken([1.5, 2.5, 5.5]), "two": taken([3, 4, 6])}
    found = records_of(tmp_path, fan(), metrics)
    assert levels(found) == [(1, 1), (2, 2), (3, 1), (4, 0), (5, 1), (6, 0)]
    assert longest(queue_history(found.plan.stream("atoms"), found)) == 2


@pytest.mark.parametrize(("limit", "expected"), [(2, 2), (3, 3), (None, 4)])
def test_the_queue_is_never_longer_than_its_limit(tmp_path: Path, limit: int | None, expected: int) -> None:
    """A writer notices a released step a moment before its reader notes it."""
    metrics = {"md": written([1, 2, 3, 4]), "one": taken([5, 6, 7, 8]), "two": taken([5, 6, 7, 8])}
    found = levels(records_of(tmp_path, fan(limit), metrics))
    assert max(level for _, level in found) == expected
    rises, falls = [(t, t) for t in range(1, expected + 1)], [(8 - level, level) for level in range(expected)]
    assert found == rises + falls[::-1]


def test_a_reader_ahead_of_its_writer_leaves_an_empty_queue(tmp_path: Path) -> None:
    """Clocks of two hosts differ."""
    metrics = {"md": written([2, 4]), "one": taken([1, 3]), "two": taken([1, 3])}
    assert levels(records_of(tmp_path, fan(), metrics)) == [(1, 0)]


def test_the_queue_of_an_end_that_is_not_seen_is_not_known(tmp_path: Path) -> None:
    plan = fan()
    stages = [
        stage.model_copy(update={"observed": "evidence", "env": {"SstVerbose": "0"}}) if stage.name == "two" else stage
        for stage in plan.stages
    ]
    plan = plan.model_copy(update={"stages": stages})
    metrics = {"md": written([1, 2]), "one": taken([1.5, 2.5])}
    assert levels(records_of(tmp_path, plan, metrics)) == []
    assert longest([]) is None


def test_an_end_that_another_stream_does_not_see_does_not_matter(tmp_path: Path) -> None:
    plan = fan()
    hidden = plan.stage("keep").model_copy(update={"observed": "evidence", "env": {}})
    plan = plan.model_copy(update={"stages": [*plan.stages[:-1], hidden]})
    md = [*written([1, 2]), opened("log", "write"), *stepped("log", "write", [1, 2, 3])]
    found = records_of(tmp_path, plan, {"md": md, "one": taken([3, 4]), "two": taken([3, 4])})
    assert levels(found) == [(1, 1), (2, 2), (3, 1), (4, 0)]
    assert levels(found, "log") == []


def test_steps_that_only_the_supervisor_saw_make_a_queue_too(tmp_path: Path) -> None:
    seen = [
        (1, "md", "write", 1),
        (2, "md", "write", 3),
        (3, "one", "read", 2),
        (4, "one", "read", 3),
        (5, "two", "read", 3),
    ]
    events = [
        event("stream_progress", t, stream="atoms", stage=stage, side=side, steps=steps, bytes=0)
        for t, stage, side, steps in seen
    ]
    assert levels(records_of(tmp_path, fan(), {}, events)) == [(1, 1), (2, 3), (5, 0)]


def test_a_queue_that_discarded_is_not_known_and_one_that_could_have_is(tmp_path: Path) -> None:
    plan = fan(when_full="discard")
    lost = {"md": written([1, 2, 3]), "one": taken([1.5, 2.5]), "two": taken([1.5, 2.5])}
    assert levels(records_of(tmp_path / "lost", plan, lost)) == []
    none = {"md": written([1, 2]), "one": taken([1.5, 2.5]), "two": taken([1.5, 2.5])}
    assert levels(records_of(tmp_path / "none", plan, none)) == [(1, 1), (1.5, 0), (2, 1), (2.5, 0)]


def test_a_stream_without_steps_has_no_queue(tmp_path: Path) -> None:
    assert levels(records_of(tmp_path, fan(), {"one": taken([1]), "two": taken([1])})) == []
