"""How long the queue of a stream was, and when that is not known: from records made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fan_run import (
    closed,
    event,
    fan,
    opened,
    records_of,
    stepped,
    taken,
    written,
)
from tests.support.sample_run import START, Record
from workflow.report.build.timeline import longest, queue_history, spread_evenly
from workflow.report.read.run_records import Records


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
