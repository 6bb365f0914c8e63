"""Who limits a stream, or the run, and when that is not known: from records made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fan_run import (
    READERS,
    event,
    fan,
    foreign,
    opened,
    records_of,
    stepped,
    taken,
    written,
)
from tests.support.sample_run import START, Record
from workflow.plan.plan_model import Plan
from workflow.report.build.limiting_stage import Limit, Waiting, find_limit, run_limit, stream_limit, waiting
from workflow.spec.models.pipeline import Queue


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
    chance = "in 10 samples such a difference may be due to chance"
    assert limit.why_unknown == f"one waited for 0 % of the time, md for 9 %: {chance}"
    records = records_of(tmp_path / "often", fan(), {"md": written(times, wait_s=0.09), **readers})
    limit = stream_limit(records.plan.stream("atoms"), records)
    assert limit == Limit("one")
    waited = "while data moved it waited for 0 % of the time, each of the others for at least 9 %"
    assert limit.evidence == f"{waited}: clear in 10 samples"


@pytest.mark.parametrize(("seconds", "limits"), [(1.99, ""), (2.0, "md")])
def test_a_stream_of_less_than_two_seconds_shows_nothing(tmp_path: Path, seconds: float, limits: str) -> None:
    times = [seconds * step / 8 for step in range(1, 9)]
    readers = {name: taken(times, wait_s=seconds / 10) for name in READERS}
    records = records_of(tmp_path, fan(), {"md": written(times), **readers})
    limit = stream_limit(records.plan.stream("atoms"), records)
    short = "the streams moved data for 1.99 s only; 2.00 s are needed to tell"
    assert limit == (Limit(limits) if limits else Limit("", short))
    assert limit.evidence.endswith("clear, but in only 4 samples; a longer run is more certain" if limits else "")


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


def steady(least: float, most: float | None = None, count: int = 10) -> Waiting:
    return Waiting([least] * count, [least if most is None else most] * count)


@pytest.mark.parametrize(
    ("waits", "evidence"),
    [
        (
            {"a": steady(0.9), "b": steady(0.0, 0.1), "c": steady(0.3, 0.6)},
            "at most 10 % of the time, each of the others for at least 30 %: clear in 10 samples",
        ),
        (
            {"md": steady(0.0), "one": steady(0.4, 1.0)},
            "0 % of the time, one for at least 40 %: clear in 10 samples",
        ),
        (
            {"md": steady(0.0, count=8), "one": steady(0.4, count=8)},
            "0 % of the time, one for 40 %: clear in 8 samples",
        ),
        (
            {"md": steady(0.0, count=7), "one": steady(0.4, count=7)},
            "0 % of the time, one for 40 %: clear, but in only 7 samples; a longer run is more certain",
        ),
    ],
)
def test_the_evidence_says_by_how_much_and_how_sure(waits: dict[str, Waiting], evidence: str) -> None:
    assert find_limit(waits).evidence == f"while data moved it waited for {evidence}"


SELDOM = [0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 0.9, 0.0, 0.0]


@pytest.mark.parametrize(
    ("md", "one", "why"),
    [
        (steady(0.0), steady(0.05), "md waited for 0 % of the time, one for 5 %: about equally long"),
        (
            steady(0.0),
            Waiting(SELDOM, SELDOM),
            "md waited for 0 % of the time, one for 18 %: in 10 samples such a difference may be due to chance",
        ),
        (
            steady(0.0, 0.3),
            steady(0.3),
            "md keeps no metrics, and its CPU time does not show how long it waits",
        ),
        (
            steady(0.0, 0.3),
            steady(0.3, 0.9),
            "md and one keep no metrics, and their CPU time does not show how long they wait",
        ),
    ],
)
def test_why_the_limit_is_not_known(md: Waiting, one: Waiting, why: str) -> None:
    limit = find_limit({"md": md, "one": one})
    assert (limit, limit.evidence) == (Limit("", why), "")


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
