"""What each stage did when, as the pictures of the report show it: spans of steps, shares and rates of intervals."""

from __future__ import annotations

import pytest

from workflow.formats.sides import Side
from workflow.report.build.timeline import (
    INTERVALS,
    MOST_STEPS,
    SHORTEST_S,
    ActivitySpan,
    cpu_shares,
    data_rates,
    make_lane,
    shares,
    stage_spans,
    step_spans,
)
from workflow.report.read.run_records import CpuSample
from workflow.report.read.stage_metrics import StageMetrics, StepRecord
from workflow.report.report_model import StagePart

START = 1_790_000_000.0


def test_segments_of_a_step_end_when_it_ended() -> None:
    times = {"t": 10.0, "bytes": 1, "wait_s": 1.0, "io_s": 0.5, "compute_s": 2.0}
    read = list(step_spans(StepRecord("a", "read", 0, **times)))  # type: ignore[arg-type]
    assert [(part.activity, part.start, part.end) for part in read] == [
        ("wait", 6.5, 7.5), ("io", 7.5, 8.0), ("compute", 8.0, 10.0),
    ]  # fmt: skip
    copied = list(step_spans(StepRecord("a", "read", 0, device_s=0.25, **times)))  # type: ignore[arg-type]
    assert [(part.activity, part.start, part.end) for part in copied] == [
        ("wait", 6.25, 7.25), ("io", 7.25, 7.75), ("device", 7.75, 8.0), ("compute", 8.0, 10.0),
    ]  # fmt: skip
    # It wrote to another stream between its reading and its end, from 7 to 8.
    read = list(step_spans(StepRecord("a", "read", 0, **times), before=5.5))  # type: ignore[arg-type]
    assert [(part.activity, part.start, part.end) for part in read] == [
        ("wait", 5.5, 6.5), ("io", 6.5, 7.0), ("compute", 8.0, 10.0),
    ]  # fmt: skip
    copied = list(step_spans(StepRecord("a", "write", 0, device_s=0.25, **times)))  # type: ignore[arg-type]
    assert [(part.activity, part.start, part.end) for part in copied] == [
        ("compute", 6.25, 8.25), ("device", 8.25, 8.5), ("io", 8.5, 9.0), ("wait", 9.0, 10.0),
    ]  # fmt: skip
    write = list(step_spans(StepRecord("a", "write", 0, **times)))  # type: ignore[arg-type]
    assert [(part.activity, part.start, part.end) for part in write] == [
        ("compute", 6.5, 8.5), ("io", 8.5, 9.0), ("wait", 9.0, 10.0),
    ]  # fmt: skip


def test_shares_keep_the_time() -> None:
    spans = [ActivitySpan(START + 0.1, START + 0.75, "compute", 0), ActivitySpan(START + 0.75, START + 2.5, "wait", 0)]
    found = shares(spans, START, START + 2, 20)
    assert sum(each.get("compute", 0) for each in found) * 0.1 == pytest.approx(0.65)
    assert sum(each.get("wait", 0) for each in found) * 0.1 == pytest.approx(1.25)
    assert max(sum(each.values()) for each in found) <= 1 + 1e-6
    assert shares(spans, START, START, 4) == [{}, {}, {}, {}]


def test_data_rates_keep_the_bytes() -> None:
    steps = [StepRecord("a", "write", n, START + 0.3 * (n + 1), 1000, 0, 0.05, 0.25) for n in range(10)]
    rates = data_rates(steps, START, START + 4, 160)
    assert sum(rates) * 4 / 160 == pytest.approx(10_000, rel=1e-3)
    assert max(rates) == pytest.approx(1000 / 0.3, rel=1e-3)


def test_a_part_of_no_time_is_no_span() -> None:
    assert not list(step_spans(StepRecord("a", "write", 0, 10.0, 1, 0.0, 0.0, 0.0)))
    (span,) = step_spans(StepRecord("a", "write", 4, 10.0, 1, 0.0, 0.25, 0.0))
    assert span == ActivitySpan(9.75, 10.0, "io", 4, "a")


def step(
    t: float, side: Side = "write", stream: str = "a", number: int = 0, *,
    wait_s: float = 0.0, io_s: float = 0.0, compute_s: float = 0.0, device_s: float = 0.0,
) -> StepRecord:  # fmt: skip
    return StepRecord(stream, side, number, t, 1000, wait_s, io_s, compute_s, device_s=device_s)


def metrics(*steps: StepRecord, opened: dict[tuple[str, Side], tuple[float, float]] | None = None) -> StageMetrics:
    found = StageMetrics(opened=opened or {})
    for each in steps:
        found.steps.append(each)
        found.steps_of.setdefault((each.stream, each.side), []).append(each)
    return found


def test_what_a_stage_reads_begins_where_the_same_end_stopped() -> None:
    """Its opening, or the step before at the same end; not at another one."""
    found = metrics(
        step(4.0, "read", wait_s=1.0, compute_s=0.5), step(4.5, "write", "b", io_s=0.25),
        step(9.0, "read", wait_s=2.0, number=1),
        opened={("a", "read"): (1.0, 0.75), ("b", "write"): (2.0, 0.5)},
    )  # fmt: skip
    spans = list(stage_spans(found))
    assert spans == [
        ActivitySpan(0.25, 1.0, "open", -1, "a"), ActivitySpan(1.5, 2.0, "open", -1, "b"),
        ActivitySpan(1.0, 2.0, "wait", 0, "a"), ActivitySpan(3.5, 4.0, "compute", 0, "a"),
        ActivitySpan(4.25, 4.5, "io", 0, "b"), ActivitySpan(4.0, 6.0, "wait", 1, "a"),
    ]  # fmt: skip
    for end, own in ((("a", "read"), "a"), (("b", "write"), "b")):
        assert list(stage_spans(found, end)) == [span for span in spans if span.stream == own]  # type: ignore[arg-type]


def part(name: str = "md", **more: object) -> StagePart:
    fields: dict[str, object] = {"name": name, "kind": "simulation", "program": name, "ranks": 1, "state": "succeeded"}
    return StagePart.model_validate(fields | more)


def test_a_lane_has_spans_of_few_steps_and_intervals_of_many() -> None:
    few = metrics(*(step(0.1 * n, number=n, compute_s=0.05) for n in range(1, MOST_STEPS + 1)))
    lane = make_lane(part(compute_s=1.0), few, 0.0, 20.0)
    assert (len(lane.spans), lane.intervals) == (MOST_STEPS, [])
    many = metrics(*(step(0.1 * n, number=n, compute_s=0.05) for n in range(1, MOST_STEPS + 2)))
    lane = make_lane(part(compute_s=1.0), many, 0.0, 20.0)
    assert (lane.spans, len(lane.intervals)) == ([], INTERVALS)
    assert sum(each.get("compute", 0.0) for each in lane.intervals) * 20 / INTERVALS == pytest.approx(161 * 0.05)


@pytest.mark.parametrize(("open_s", "spans"), [(1.5, [ActivitySpan(8.0, 9.0, "open", -1)]), (0.5009, []), (None, [])])
def test_an_open_that_never_returned_is_at_the_end(open_s: float | None, spans: list[ActivitySpan]) -> None:
    found = metrics(opened={("a", "write"): (2.0, 0.5)})
    first = ActivitySpan(1.5, 2.0, "open", -1, "a")
    assert make_lane(part(open_s=open_s, ended=9.0), found, 0.0, 10.0).spans == [first, *spans]
    last = [ActivitySpan(9.0, 10.0, "open", -1)] if spans else []
    assert make_lane(part(open_s=open_s), found, 0.0, 10.0).spans == [first, *last]


@pytest.mark.parametrize(("state", "spans"), [("succeeded", [ActivitySpan(5.0, 9.0, "compute", -1)]), ("stopped", [])])
def test_computing_after_the_last_step_is_drawn_where_it_counts_as_computing(
    state: str, spans: list[ActivitySpan]
) -> None:
    found = StageMetrics(compute_after_s=4.0, ended=9.0)
    assert make_lane(part(state=state), found, 0.0, 10.0).spans == spans
    assert make_lane(part(state=state), StageMetrics(compute_after_s=SHORTEST_S, ended=9.0), 0.0, 10.0).spans == []


def test_a_lane_without_metrics_shows_the_cpu() -> None:
    cpu = [CpuSample(0.0, 0.0, 0.0), CpuSample(5.0, 4.0, 0.5), CpuSample(10.0, 4.0, 3.0)]
    lane = make_lane(part(), StageMetrics(exists=False), 0.0, 20.0, cpu)
    assert (lane.stage, len(lane.intervals)) == (part(), INTERVALS)
    assert lane.intervals[0] == {"cpu": pytest.approx(0.8), "ready": pytest.approx(0.1)}
    assert lane.intervals[60] == {"ready": pytest.approx(0.5)}
    assert lane.intervals[-1] == {}
    # Of two ranks, each has had the CPU for half as long.
    lane = make_lane(part(ranks=2), StageMetrics(exists=False), 0.0, 20.0, cpu)
    assert lane.intervals[0] == {"cpu": pytest.approx(0.4), "ready": pytest.approx(0.05)}
    # Threads: all that a picture can show is the whole time.
    lane = make_lane(part(), StageMetrics(exists=False), 0.0, 5.0, [cpu[0], CpuSample(5.0, 12.0, 3.0)])
    assert lane.intervals[0] == {"cpu": 1.0}
    lane = make_lane(part(), StageMetrics(exists=False), 0.0, 5.0, [cpu[0], CpuSample(5.0, 3.0, 30.0)])
    assert lane.intervals[0] == {"cpu": pytest.approx(0.6), "ready": pytest.approx(0.4)}
    # A stage with metrics knows better, and one without samples shows nothing.
    assert make_lane(part(), metrics(step(3.0, io_s=1.0)), 0.0, 20.0, cpu).spans
    nothing = make_lane(part(), StageMetrics(exists=False), 0.0, 20.0)
    assert (nothing.spans, nothing.intervals) == ([], [])


def test_cpu_time_between_samples_is_spread_evenly() -> None:
    samples = [CpuSample(1.0, 0.0, 0.0), CpuSample(3.0, 1.0, 0.5), CpuSample(4.0, 3.0, 0.5)]
    found = cpu_shares(samples, 0.0, 5.0, 5)
    assert found is not None
    assert [share.cores for share in found] == pytest.approx([0, 0.5, 0.5, 2, 0])
    assert [share.ready for share in found] == pytest.approx([0, 0.25, 0.25, 0, 0])
    found = cpu_shares(samples, 2.0, 3.5, 2)
    assert found is not None
    assert [share.cores for share in found] == pytest.approx([0.5, (0.25 * 0.5 + 0.5 * 2) / 0.75])
    assert cpu_shares(samples[:1], 0.0, 5.0, 5) is None
    assert cpu_shares(samples[:2], 0.0, 5.0, 5) is not None
    assert cpu_shares(samples, 5.0, 5.0, 5) is None
    found = cpu_shares(samples, 0.0, 4.0, 1)
    assert found is not None
    assert [*found[0]] == pytest.approx([3 / 4, 0.5 / 4])
    found = cpu_shares([*samples[:2], CpuSample(3.5, 2.0, 0.75), CpuSample(4.0, 3.0, 1.0)], 3.0, 5.0, 2)
    assert found is not None
    assert [*found[0], *found[1]] == pytest.approx([2.0, 0.5, 0.0, 0.0])
    # Two looks at the same time.
    found = cpu_shares([samples[0], CpuSample(1.0, 9.0, 9.0)], 0.0, 5.0, 5)
    assert found is not None
    assert [share.cores for share in found] == [0.0] * 5


def test_spans_are_cut_at_the_intervals() -> None:
    spans = [ActivitySpan(-1.0, 0.5, "open", -1), ActivitySpan(0.75, 2.25, "io", 0), ActivitySpan(2.5, 9.0, "io", 1)]
    assert shares(spans, 0.0, 4.0, 4) == [{"open": 0.5, "io": 0.25}, {"io": 1.0}, {"io": 0.75}, {"io": 1.0}]
    assert shares([ActivitySpan(-2.0, -1.0, "io", 0), ActivitySpan(4.0, 5.0, "io", 0)], 0.0, 4.0, 4) == [{}] * 4
    assert shares(spans, 4.0, 4.0, 2) == [{}, {}]


def test_rates_of_intervals_are_those_of_the_steps_in_them() -> None:
    """From when the first one began to compute; each over the time since the one before."""
    steps = [step(2.0, compute_s=0.5, wait_s=0.25, io_s=0.25), step(4.0, number=1, io_s=0.1), step(4.0, number=2)]
    rates = data_rates(steps, 0.0, 5.0, 5)
    assert rates[:4] == pytest.approx([0, 1000, 500, 1500])  # the third step ended with the second one
    assert sum(rates) == pytest.approx(3000)
    for compute_s, wait_s, io_s, device_s in ((2, 0, 0, 0), (0, 2, 0, 0), (0, 0, 2, 0), (0, 0, 0, 2), (0.5,) * 4):
        one = step(4.0, compute_s=compute_s, wait_s=wait_s, io_s=io_s, device_s=device_s)
        assert data_rates([one], 0.0, 5.0, 5) == pytest.approx([0, 0, 500, 500, 0])
    assert data_rates([], 0.0, 5.0, 2) == [0.0, 0.0]
    assert data_rates(steps, 5.0, 5.0, 2) == [0.0, 0.0]
    unknown = step(3.0, io_s=1.0)
    unknown.bytes = None
    assert data_rates([unknown], 0.0, 5.0, 5) == [0.0] * 5
    # What was moved before the picture begins is not lost: the picture begins with the run.
    assert sum(data_rates([step(1.0, io_s=3.0)], 0.0, 5.0, 5)) == pytest.approx(1000)
