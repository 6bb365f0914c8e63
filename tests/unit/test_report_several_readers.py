"""Streams of several readers, queues without a limit, opens that hang: figures from records made by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_run import START, Record, make_end, make_stage, write_lines, write_run
from workflow.plan.plan_model import Plan, StreamPlan
from workflow.report.build.bottleneck import Limit, Waiting, run_limit, stream_limit, waiting
from workflow.report.build.make_report import make_report
from workflow.report.build.queue_history import longest, queue_history, spread_evenly
from workflow.report.build.stage_figures import busy_s
from workflow.report.build.stream_figures import idle
from workflow.report.read.metrics_file import StageMetrics, read_metrics
from workflow.report.read.run_records import Records, read_records
from workflow.report.report_model import StagePart
from workflow.site.launcher_tables import launcher_options
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
        launch_options=launcher_options("mpiexec"),
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
    start = {"kind": "start", "t": START, "stage": "md", "ranks": 1, "adios2": "2.12.1"}
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
    start = {"kind": "start", "t": START, "stage": "md", "ranks": 1, "adios2": "2.12.1"}
    assert make_report(records_of(tmp_path, fan(), {"md": [start]}, seen)).stage("md").open_s == 0.5


@pytest.mark.parametrize(
    ("cpu_s", "ready_s", "busy"), [(1.0, 0.5, 1.5), (1.0, None, 1.0), (9.0, 0.0, 2.0), (None, None, None)]
)
def test_a_stage_without_metrics_is_busy_as_long_as_it_had_the_cpu_or_was_ready(
    cpu_s: float | None, ready_s: float | None, busy: float | None
) -> None:
    fields = {"name": "md", "kind": "simulation", "program": "md", "ranks": 1, "state": "succeeded", "wall_s": 2.0}
    assert busy_s(StagePart.model_validate({**fields, "cpu_s": cpu_s, "ready_s": ready_s})) == busy


# Bottlenecks


def limit_of(folder: Path, wait_md: float, plan: Plan | None = None, **waits: float) -> Limit:
    """Who limits atoms: ten steps, one a second, with so long a wait in each."""
    times = [float(step) for step in range(1, 11)]
    metrics = {name: taken(times, wait_s=wait) for name, wait in waits.items()}
    metrics["md"] = written(times, wait_s=wait_md)
    records = records_of(folder, plan or fan(), metrics)
    return stream_limit(records.plan.stream("atoms"), records)


@pytest.mark.parametrize(
    ("md", "one", "two", "limits"),
    [
        (0.6, 0.1, 0.4, "one"),  # the writer waits; of its readers, one waits least
        (0.6, 0.4, 0.1, "two"),
        (0.3, 0.4, 0.1, "two"),
        (0.3, 0.4, 0.5, "md"),  # every reader waits longer than the writer
        (0.0, 0.0625, 0.3, "md"),
        (0.0625, 0.0, 0.3, "one"),
    ],
)
def test_the_end_that_works_while_all_others_wait_limits(
    tmp_path: Path, md: float, one: float, two: float, limits: str
) -> None:
    assert limit_of(tmp_path, md, one=one, two=two) == Limit(limits)


@pytest.mark.parametrize(
    ("md", "one", "two", "names"),
    [
        (0.4, 0.4, 0.5, ("md", "one")),
        (0.0, 0.04, 0.3, ("md", "one")),  # the reader that waits least does not wait much
        (0.04, 0.0, 0.3, ("one", "md")),
        (0.6, 0.0, 0.0, ("one", "two")),  # two equally slow readers
    ],
)
def test_ends_that_wait_equally_long_leave_the_limit_unknown(
    tmp_path: Path, md: float, one: float, two: float, names: tuple[str, str]
) -> None:
    limit = limit_of(tmp_path, md, one=one, two=two)
    waits = {name: f"{wait * 100:.0f} %" for name, wait in (("md", md), ("one", one), ("two", two))}
    first, second = names
    why = f"{first} waited for {waits[first]} of the time, {second} for {waits[second]}: about equally long"
    assert limit == Limit("", why)


def test_a_difference_within_its_scatter_is_noise(tmp_path: Path) -> None:
    """One long wait in ten steps does not show who limits; a wait in every step of the same sum does."""
    times = [float(step) for step in range(1, 11)]
    rare = written(times)
    rare[5]["wait_s"] = 0.9
    readers = {name: taken(times) for name in READERS}
    readers["two"] = taken(times, wait_s=0.5)
    records = records_of(tmp_path / "rare", fan(), {"md": rare, **readers})
    limit = stream_limit(records.plan.stream("atoms"), records)
    chance = "in 10 samples such a difference may be chance"
    assert limit.why_unknown == f"one waited for 0 % of the time, md for 9 %: {chance}"
    records = records_of(tmp_path / "often", fan(), {"md": written(times, wait_s=0.09), **readers})
    limit = stream_limit(records.plan.stream("atoms"), records)
    assert limit == Limit("one")
    waited = "while data moved it waited for 0 % of the time, the others for 9 % or more"
    assert limit.evidence == f"{waited}: clear in 10 samples"


@pytest.mark.parametrize(("seconds", "limits"), [(1.99, ""), (2.0, "md")])
def test_a_stream_of_less_than_two_seconds_shows_nothing(tmp_path: Path, seconds: float, limits: str) -> None:
    times = [seconds * step / 8 for step in range(1, 9)]
    readers = {name: taken(times, wait_s=seconds / 10) for name in READERS}
    records = records_of(tmp_path, fan(), {"md": written(times), **readers})
    limit = stream_limit(records.plan.stream("atoms"), records)
    short = "the streams moved data for 1.99 s only; 2.00 s are needed to tell"
    assert limit == (Limit(limits) if limits else Limit("", short))
    assert limit.evidence.endswith("clear, but in 4 samples only; a longer run is surer" if limits else "")


@pytest.mark.parametrize(("opened_at", "text"), [(0.5, "500 ms"), (1.5, "0 s")])
def test_how_short_it_was_is_said(tmp_path: Path, opened_at: float, text: str) -> None:
    """A reader may open after the last step, by the clock of another host."""
    one = [opened("atoms", "read", opened_at), *stepped("atoms", "read", [1.0])]
    records = records_of(tmp_path, fan(), {"md": written([1.0]), "one": one, "two": taken([1.0])})
    why = stream_limit(records.plan.stream("atoms"), records).why_unknown
    assert why == f"the streams moved data for {text} only; 2.00 s are needed to tell"


def test_the_time_is_cut_into_parts_of_half_a_second_ten_at_most(tmp_path: Path) -> None:
    md = [*written([1.0, 2.0], wait_s=0.5), opened("log", "write"), *stepped("log", "write", [3.0, 4.0], wait_s=0.25)]
    records = records_of(tmp_path, fan(), {"md": md, "one": []})
    found = waiting("md", records, START, START + 2.4, ("atoms", "write"))
    assert found == Waiting(found.least, found.least)
    assert found.least == pytest.approx([0.1 / 0.6, 0.4 / 0.6, 0.3 / 0.6, 0.2 / 0.6 + 0.4 / 0.6], abs=1e-6)
    at_all = waiting("md", records, START, START + 4.0)
    assert at_all.least == pytest.approx([0, 1, 0, 1, 0, 0.5, 0, 0.5], abs=1e-6)
    assert len(waiting("md", records, START, START + 60).most) == 10
    assert waiting("keep", records, START, START + 2) == Waiting([0.0] * 4, [1.0] * 4)


def test_a_writer_that_is_done_with_a_stream_does_not_limit_it(tmp_path: Path) -> None:
    """It goes on with another one."""
    plan = fan(limit=None, engine="BP5")
    late = [float(step) for step in range(1, 11)]
    metrics = {
        "md": [*written([0.1, 0.2]), opened("log", "write"), *stepped("log", "write", late)],
        "one": taken(late),
        "two": taken(late, wait_s=0.5),
    }
    records = records_of(tmp_path, plan, metrics)
    assert stream_limit(records.plan.stream("atoms"), records) == Limit("one")


def test_what_happened_before_all_ends_were_open_does_not_count(tmp_path: Path) -> None:
    """The writer waits for a reader that is still opening its other streams."""
    times = [float(step) for step in range(1, 11)]
    md = written([0.5, *times])
    md[1]["wait_s"] = 0.5
    readers = {"one": [opened("atoms", "read", 0.5), *taken(times)[1:]], "two": taken(times, wait_s=0.5)}
    records = records_of(tmp_path, fan(), {"md": md, **readers})
    why = stream_limit(records.plan.stream("atoms"), records).why_unknown
    assert why == "md waited for 0 % of the time, one for 0 %: about equally long"


def cpu(stage: str, *samples: tuple[float, float]) -> list[Record]:
    """CPU time of a stage (when, seconds so far)."""
    return [event("stage_cpu", t, stage=stage, cpu_s=seconds) for t, seconds in samples]


def foreign(plan: Plan, **ranks: int) -> Plan:
    """These stages keep no metrics."""
    stages = [
        stage.model_copy(update={"observed": "evidence", "ranks": ranks[stage.name], "env": {"SstVerbose": "3"}})
        if stage.name in ranks
        else stage
        for stage in plan.stages
    ]
    return plan.model_copy(update={"stages": stages})


@pytest.mark.parametrize(
    ("cpu_s", "ranks", "limits"),
    [
        (9.5, 1, "two"),
        (19.5, 2, "two"),  # one rank may have polled all the time: the other one has worked
        (4.0, 1, "two"),  # it waits at most for 60 %, the others for 80 %
        (0.5, 1, ""),
        (9.5, 2, ""),  # one of its ranks may have polled, and the other one waited
    ],
)
def test_cpu_time_shows_that_a_stage_without_metrics_works(
    tmp_path: Path, cpu_s: float, ranks: int, limits: str
) -> None:
    times = [float(step) for step in range(1, 11)]
    metrics = {"md": written(times, wait_s=0.8), "one": taken(times, wait_s=0.8)}
    seen = [event("stream_opened", 0, stream="atoms", stage="two", side="read"), *cpu("two", (10, cpu_s))]
    records = records_of(tmp_path, foreign(fan(), two=ranks), metrics, seen)
    assert stream_limit(records.plan.stream("atoms"), records).stage == limits


def test_without_cpu_time_it_is_not_known_how_long_a_foreign_stage_waits(tmp_path: Path) -> None:
    times = [float(step) for step in range(1, 11)]
    metrics = {"md": written(times, wait_s=0.8), "one": taken(times, wait_s=0.1)}
    records = records_of(tmp_path, foreign(fan(), two=1), metrics)
    why = stream_limit(records.plan.stream("atoms"), records).why_unknown
    assert why == "two keeps no metrics, and its CPU time does not show how long it waits"


@pytest.mark.parametrize(("wait_s", "limits"), [(0.6, "md"), (0.45, "")])
def test_of_two_ends_one_does_not_wait_while_the_other_one_does(tmp_path: Path, wait_s: float, limits: str) -> None:
    """Nothing is known of the writer but this: while its reader waits, the queue is empty."""
    times = [float(step) for step in range(1, 11)]
    plan = fan()
    plan = plan.model_copy(
        update={"streams": [plan.streams[0].model_copy(update={"readers": ["one"]}), plan.streams[1]]}
    )
    records = records_of(tmp_path, foreign(plan, md=1), {"one": taken(times, wait_s=wait_s)})
    limit = stream_limit(records.plan.stream("atoms"), records)
    assert limit.stage == limits
    bounds = "while data moved it waited for at most 40 % of the time, one for 60 %: clear in 10 samples"
    assert limit.evidence == (bounds if limits else "")


def test_a_stage_is_judged_by_its_waits_at_the_stream_in_question(tmp_path: Path) -> None:
    """The writer waits for another reader, at another stream."""
    times = [float(step) for step in range(1, 11)]
    metrics = {name: taken(times, wait_s=0.6) for name in READERS}
    metrics["md"] = [*written(times), opened("log", "write"), *stepped("log", "write", times, wait_s=0.8)]
    metrics["keep"] = [opened("log", "read"), *stepped("log", "read", times)]
    records = records_of(tmp_path, fan(), metrics)
    assert stream_limit(records.plan.stream("atoms"), records) == Limit("md")
    assert stream_limit(records.plan.stream("log"), records) == Limit("keep")
    assert run_limit(records) == Limit("keep")


def alone(when_full: str = "block") -> Plan:
    """Only one reads atoms."""
    plan = fan(when_full=when_full)
    stream = plan.streams[0].model_copy(update={"readers": ["one"]})
    return plan.model_copy(update={"streams": [stream, plan.streams[1]]})


def test_recorded_waits_are_not_corrected(tmp_path: Path) -> None:
    """Together they may be longer than the time, by the clocks of two hosts."""
    times = [float(step) for step in range(1, 11)]
    metrics = {"md": written(times, wait_s=0.55), "one": taken(times, wait_s=0.52)}
    records = records_of(tmp_path, alone(), metrics)
    why = stream_limit(records.plan.stream("atoms"), records).why_unknown
    assert why == "one waited for 52 % of the time, md for 55 %: about equally long"


def test_a_full_queue_that_discards_says_nothing_of_its_writer(tmp_path: Path) -> None:
    times = [float(step) for step in range(1, 11)]
    records = records_of(tmp_path, foreign(alone("discard"), md=1), {"one": taken(times, wait_s=0.6)})
    assert stream_limit(records.plan.stream("atoms"), records).stage == ""


def test_two_stages_without_evidence_are_both_named(tmp_path: Path) -> None:
    seen = [
        event(kind, t, stream="atoms", stage=stage, side=side, **more)
        for kind, t, more in (("stream_opened", 0, {}), ("stream_progress", 9, {"steps": 9, "bytes": 0}))
        for stage, side in (("md", "write"), ("one", "read"))
    ]
    records = records_of(tmp_path, foreign(alone(), md=1, one=1), {}, seen)
    why = stream_limit(records.plan.stream("atoms"), records).why_unknown
    assert why == "md and one keep no metrics, and their CPU time does not show how long they wait"


@pytest.mark.parametrize(("cpu_s", "ready_s", "limits"), [(1.0, 0.0, "md"), (1.0, 8.8, ""), (20.0, 0.0, "")])
def test_a_stage_without_metrics_that_has_no_cpu_waits(
    tmp_path: Path, cpu_s: float, ready_s: float, limits: str
) -> None:
    """Unless other processes have it. Threads may use several: it does not wait less than never."""
    times = [float(step) for step in range(1, 11)]
    seen = [event("stage_cpu", 10, stage="two", cpu_s=cpu_s, ready_s=ready_s)]
    metrics = {"md": written(times), "one": taken(times, wait_s=0.9)}
    records = records_of(tmp_path, foreign(fan(), two=1), metrics, seen)
    limit = stream_limit(records.plan.stream("atoms"), records)
    assert limit.stage == limits
    if not limits:
        share = round(100 * (1 - min(1.0, (cpu_s + ready_s) / 10)))
        assert limit.why_unknown == f"md waited for 0 % of the time, two for {share} %: about equally long"


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


def whole_run(folder: Path, plan: Plan | None = None, log_wait_s: float = 0.9, **waits: float) -> Limit:
    """Who limits a run in which keep reads log beside atoms: ten steps, one a second."""
    times = [float(step) for step in range(1, 11)]
    metrics = {name: taken(times, wait_s=waits[name]) for name in READERS}
    metrics["md"] = [
        *written(times, wait_s=waits["md"]), opened("log", "write"), *stepped("log", "write", times),
    ]  # fmt: skip
    metrics["keep"] = [opened("log", "read"), *stepped("log", "read", times, wait_s=log_wait_s)]
    return run_limit(records_of(folder, plan or fan(), metrics))


def test_the_run_is_limited_by_the_stage_that_works_while_all_others_wait(tmp_path: Path) -> None:
    assert whole_run(tmp_path / "md", md=0.0, one=0.9, two=0.5) == Limit("md")
    assert whole_run(tmp_path / "one", md=0.5, one=0.1, two=0.5) == Limit("one")
    # Another stream has the slowest reader.
    assert whole_run(tmp_path / "keep", md=0.5, one=0.9, two=0.5, log_wait_s=0.05) == Limit("keep")


@pytest.mark.parametrize(("wait_s", "limits"), [(0.25, "one"), (0.26, "")])
def test_a_stage_that_waits_for_a_quarter_of_the_time_does_not_limit_the_run(
    tmp_path: Path, wait_s: float, limits: str
) -> None:
    limit = whole_run(tmp_path, md=0.9, one=wait_s, two=0.9)
    assert limit.stage == limits
    unknown = "no stage works all the time: one, which waits least, waits for 26 %"
    assert limit.why_unknown == ("" if limits else unknown)


def test_nobody_waits_for_what_a_full_queue_discards(tmp_path: Path) -> None:
    plan = fan()
    discard = Queue.model_validate({"limit": 3, "when_full": "discard"})
    streams = [plan.streams[0].model_copy(update={"queue": discard}), plan.streams[1]]
    # One and two work all the time, and keep no stage waiting.
    changed = plan.model_copy(update={"streams": streams})
    assert whole_run(tmp_path / "one", changed, md=0.1, one=0.0, two=0.0) == Limit("md")
    streams = [stream.model_copy(update={"queue": discard}) for stream in plan.streams]
    none = plan.model_copy(update={"streams": streams})
    assert whole_run(tmp_path / "none", none, md=0.1, one=0.0, two=0.9) == Limit()


def test_a_tap_does_not_limit_the_run(tmp_path: Path) -> None:
    plan = fan()
    tap = plan.stage("one").model_copy(update={"added": "tap"})
    plan = plan.model_copy(update={"stages": [tap if stage.name == "one" else stage for stage in plan.stages]})
    assert whole_run(tmp_path, plan, md=0.1, one=0.0, two=0.9) == Limit("md")


def test_a_stage_that_only_has_taps_limits_nobody(tmp_path: Path) -> None:
    plan = fan()
    stages = [each if each.name == "md" else each.model_copy(update={"added": "tap"}) for each in plan.stages]
    plan = plan.model_copy(update={"stages": stages})
    assert whole_run(tmp_path, plan, md=0.1, one=0.5, two=0.9) == Limit()


def test_a_run_without_live_streams_is_limited_by_nobody(tmp_path: Path) -> None:
    plan = fan()
    streams = [stream.model_copy(update={"coupling": "after"}) for stream in plan.streams]
    assert whole_run(tmp_path, plan.model_copy(update={"streams": streams}), md=0.0, one=0.9, two=0.9) == Limit()


def test_a_stage_that_has_ended_waits(tmp_path: Path) -> None:
    """A writer that is done early leaves its reader alone with a file; it did not limit the run."""
    plan = fan(limit=None, engine="BP5")
    late = [float(step) for step in range(1, 11)]
    metrics = {
        "md": [*written([0.1, 0.2]), opened("log", "write"), *stepped("log", "write", [0.1, 0.2])],
        "one": taken(late),
        "two": taken(late, wait_s=0.5),
        "keep": [opened("log", "read"), *stepped("log", "read", [1, 2])],
    }
    ends = [event("stage_exited", t, stage=name, code=0, signal=None) for name, t in (("md", 0.5), ("keep", 2.5))]
    records = records_of(tmp_path, plan, metrics, ends)
    assert stream_limit(records.plan.stream("atoms"), records) == Limit("one")
    assert run_limit(records) == Limit("one")


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
    """SST's log has the steps of readers when they begin: the last one may still be in the queue."""
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
    assert levels(records_of(tmp_path, fan(), {}, events)) == [(1, 1), (1.5, 2), (2, 3), (5, 1)]


def test_the_queue_is_empty_when_its_writer_has_closed(tmp_path: Path) -> None:
    """The last progress of a reader that the supervisor saw may be older; what it closed with is not."""
    seen = [("md", "write", 1, 4), ("one", "read", 1, 2), ("two", "read", 1, 2)]
    events = [
        *(event("stream_opened", 0, stream="atoms", stage=stage, side=side) for stage, side, _, _ in seen),
        *(
            event("stream_progress", t, stream="atoms", stage=stage, side=side, steps=steps, bytes=0)
            for stage, side, t, steps in seen
        ),
        event("stream_closed", 4, stream="atoms", stage="md", side="write", steps=4, complete=True, bytes=0),
        *(
            event("stream_closed", t, stream="atoms", stage=stage, side="read", steps=4, complete=True, bytes=0)
            for stage, t in (("one", 5), ("two", 6))
        ),
        event("stage_exited", 7, stage="two", code=0, signal=None),
    ]
    assert levels(records_of(tmp_path, fan(), {}, events))[-2:] == [(3.5, 2), (4.0, 0)]


def test_a_reader_that_has_left_holds_no_steps(tmp_path: Path) -> None:
    """Of a file, which has no limit: the reader two is at its end when it closes, one goes on."""
    metrics = {
        "md": [*written([1, 2, 3]), closed("atoms", "write", 3, 3)],
        "one": [*taken([1.5, 6, 7]), closed("atoms", "read", 3, 7)],
        "two": [*taken([1.5]), closed("atoms", "read", 1, 5)],
    }
    found = levels(records_of(tmp_path, fan(limit=None, engine="BP5"), metrics))
    assert found == [(1, 1), (1.5, 0), (2, 1), (3, 2), (6, 1), (7, 0)]


def test_steps_between_two_looks_are_spread_evenly(tmp_path: Path) -> None:
    """The looks at both ends are a moment apart: their difference is not the queue."""
    looks = [("md", "write", 2.0, 20), ("one", "read", 2.25, 21), ("two", "read", 2.25, 21)]
    events = [
        *(event("stream_opened", 0, stream="atoms", stage=stage, side=side) for stage, side, _, _ in looks),
        *(
            event("stream_progress", t + shift, stream="atoms", stage=stage, side=side, steps=steps + more, bytes=0)
            for shift, more in ((0, 0), (2, 20))
            for stage, side, t, steps in looks
        ),
    ]
    found = [level for t, level in levels(records_of(tmp_path, fan(), {}, events)) if 2.25 < t < 4]
    assert set(found) <= {2, 3}, found
    assert list(spread_evenly([(0.0, 0), (1.0, 1), (2.0, 1)])) == [(1.0, 1), (2.0, 1)]
    assert list(spread_evenly([(0.0, 10), (1.0, 12)])) == [(0.5, 11), (1.0, 12)]
    many = list(spread_evenly([(0.0, 0), (1.0, 75)]))
    assert len(many) == 50
    assert many[:2] == [(0.02, 1), (0.04, 3)]


def summed(stream: str, side: str, since: float, t: float, count: int) -> Record:
    """One line of several steps."""
    more = {"kind": "steps", "count": count, "since": START + since}
    return stepped(stream, side, [t])[0] | more


@pytest.mark.parametrize("long", ["md", "two"])
def test_the_history_of_a_long_run_ends_with_the_records_of_single_steps(tmp_path: Path, long: str) -> None:
    metrics = {"md": written([1, 2, 3]), "one": taken([1.5, 2.5, 3.5]), "two": taken([1.5, 2.5, 3.0])}
    metrics[long].append(summed("atoms", "write" if long == "md" else "read", 3, 9, 2))
    # Another stream, which has ended its single steps before.
    metrics["md"] += [opened("log", "write"), summed("log", "write", 0, 9, 5)]
    found = records_of(tmp_path, fan(), metrics)
    assert levels(found) == [(1, 1), (1.5, 0), (2, 1), (2.5, 0), (3, 1)]


def test_an_end_that_is_not_seen_live_but_keeps_metrics_is_known(tmp_path: Path) -> None:
    plan = fan()
    hidden = plan.stage("two").model_copy(update={"observed": "evidence", "env": {"SstVerbose": "0"}})
    plan = plan.model_copy(update={"stages": [hidden if each.name == "two" else each for each in plan.stages]})
    metrics = {"md": written([1, 2]), "one": taken([1.5, 2.5]), "two": taken([1.5, 2.5])}
    assert levels(records_of(tmp_path, plan, metrics)) == [(1, 1), (1.5, 0), (2, 1), (2.5, 0)]


def test_the_queue_of_a_discarding_stream_without_a_step_read_is_not_known(tmp_path: Path) -> None:
    metrics = {"md": written([1]), "one": taken([]), "two": taken([])}
    assert levels(records_of(tmp_path, fan(when_full="discard"), metrics)) == []


def test_a_discarding_queue_of_a_program_that_read_all_is_known(tmp_path: Path) -> None:
    """By the log of SST: its last step is known to be over when it closes the stream."""
    ends = [("md", "write"), ("one", "read"), ("two", "read")]
    events = [
        event(kind, t, stream="atoms", stage=stage, side=side, **more)
        for kind, t, more in (
            ("stream_opened", 0, {}), ("stream_progress", 2, {"steps": 2, "bytes": 0}),
            ("stream_closed", 3, {"steps": 2, "bytes": 0, "complete": True}),
        )
        for stage, side in ends
    ]  # fmt: skip
    found = levels(records_of(tmp_path, fan(when_full="discard"), {}, events))
    assert found == [(1.0, 1), (3.0, 0)]


def test_a_queue_that_discarded_is_not_known_and_one_that_could_have_is(tmp_path: Path) -> None:
    plan = fan(when_full="discard")
    lost = {"md": written([1, 2, 3]), "one": taken([1.5, 2.5]), "two": taken([1.5, 2.5])}
    assert levels(records_of(tmp_path / "lost", plan, lost)) == []
    none = {"md": written([1, 2]), "one": taken([1.5, 2.5]), "two": taken([1.5, 2.5])}
    assert levels(records_of(tmp_path / "none", plan, none)) == [(1, 1), (1.5, 0), (2, 1), (2.5, 0)]


def test_a_stream_without_steps_has_no_queue(tmp_path: Path) -> None:
    assert levels(records_of(tmp_path, fan(), {"one": taken([1]), "two": taken([1])})) == []
