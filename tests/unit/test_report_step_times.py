"""The distribution of the time per step over the steps of a run, and the slowest rank, with known numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.fan_run import closed, fan, metrics_of, opened, records_of
from tests.support.sample_run import START, Record
from workflow.report.build.make_report import make_report
from workflow.report.build.met_expectations import figures_of
from workflow.report.build.step_times import times_of_end, times_of_stage
from workflow.report.read.stage_metrics import join_attempts
from workflow.report.report_model import ReaderPart, Report, StepTimes, StreamPart
from workflow.report.show.report_tables import spread_table


def step(stream: str, side: str, index: int, t: float, **seconds: float) -> Record:
    spent = {"wait_s": 0.0, "io_s": 0.0, "compute_s": 0.0, **seconds}
    return {"kind": "step", "t": START + t, "stream": stream, "side": side, "step": index, "bytes": 8, **spent}


def compared(moving: tuple[float, float, int], computing: tuple[float, float, int]) -> dict[str, Any]:
    """The field `ranks` of a close line: of each the median, the slowest, and which that is."""
    names = ("median", "slowest", "rank")
    return {"ranks": {"count": 4, "moving_s": dict(zip(names, moving, strict=True)),
                      "compute_s": dict(zip(names, computing, strict=True))}}  # fmt: skip


def test_percentiles_of_21_steps_are_values_of_single_steps() -> None:
    # 0.1 … 2.1 s in mixed order: the 95th percentile is the 20th of 21.
    values = [0.1 * (1 + (8 * index) % 21) for index in range(21)]
    metrics = metrics_of(*(step("atoms", "write", i, i, io_s=value) for i, value in enumerate(values)))
    assert times_of_end(metrics.of("atoms", "write"), lambda each: each.io_s) == StepTimes(p50=1.1, p95=2.0, max=2.1)


def test_between_two_steps_it_is_interpolated_and_one_step_is_itself() -> None:
    two = metrics_of(step("a", "write", 0, 0, io_s=1.0), step("a", "write", 1, 1, io_s=3.0))
    assert times_of_end(two.of("a", "write"), lambda each: each.io_s) == StepTimes(p50=2.0, p95=2.9, max=3.0)
    one = metrics_of(step("a", "write", 0, 0, io_s=1.0))
    assert times_of_end(one.of("a", "write"), lambda each: each.io_s) == StepTimes(p50=1.0, p95=1.0, max=1.0)
    assert times_of_end([], lambda each: each.io_s) is None
    assert times_of_stage(metrics_of()) is None


def test_the_time_of_a_stage_goes_from_step_to_step_of_its_fastest_end() -> None:
    """It reads four steps and writes one for every second: what it writes belongs to the step that it reads then."""
    lines = [
        step("in", "read", 0, 1, compute_s=0.1, wait_s=0.2, io_s=0.7),
        step("in", "read", 1, 2, compute_s=1.0),
        step("out", "write", 0, 3, io_s=5.0),
        step("in", "read", 2, 4, compute_s=1.0),
        step("in", "read", 3, 5, compute_s=2.0),
        step("out", "write", 1, 6, io_s=9.0),
    ]
    assert times_of_stage(metrics_of(*lines)) == StepTimes(p50=1.5, p95=5.4, max=6.0)


def test_steps_that_share_a_record_leave_it_unknown() -> None:
    lines = [step("a", "write", 0, 0, io_s=1.0), {**step("a", "write", 3, 1, io_s=3.0), "kind": "steps", "count": 3}]
    metrics = metrics_of(*({**line, "since": START} for line in lines))
    assert times_of_end(metrics.of("a", "write"), lambda each: each.io_s) is None
    assert times_of_stage(metrics) is None


def make_run(folder: Path, **of_close: Any) -> Report:
    """A run in which md writes two steps, which `one` loads faster than `two`."""
    close = {**closed("atoms", "write", 2, 9), **of_close}
    writes = [step("atoms", "write", index, index, io_s=1.0 + index, wait_s=2.0, compute_s=4.0) for index in range(2)]
    readers = {
        name: [
            opened("atoms", "read"),
            *(step("atoms", "read", index, index, io_s=slow + index, wait_s=5.0) for index in range(2)),
            {**closed("atoms", "read", 2, 9), **compared((1.0, ratio, 1), (1.0, 1.0, 0))},
        ]
        for name, slow, ratio in (("one", 1.0, 1.5), ("two", 3.0, 1.25))
    }
    md = [opened("atoms", "write"), *writes, close]
    return make_report(records_of(folder, fan(), {"md": md, **readers}))


def test_figures_by_the_names_that_campaigns_use(tmp_path: Path) -> None:
    figures = figures_of(make_run(tmp_path, **compared((2.0, 3.0, 2), (8.0, 20.0, 3))))
    wanted = {
        "stages.md.step_p50_s": 7.5, "stages.md.step_p95_s": 7.95, "stages.md.step_max_s": 8.0,
        "stages.md.compute_imbalance": 2.5, "streams.atoms.write_imbalance": 1.5,
        "streams.atoms.write_p50_s": 3.5, "streams.atoms.write_p95_s": 3.95, "streams.atoms.write_max_s": 4.0,
        # Of the reader that is slowest, without its waiting.
        "streams.atoms.load_p50_s": 3.5, "streams.atoms.load_p95_s": 3.95, "streams.atoms.load_max_s": 4.0,
        "streams.atoms.load_imbalance": 1.5,
    }  # fmt: skip
    assert {name: figures[name] for name in wanted} == pytest.approx(wanted)
    # The mean that is there already lies between the median and the largest.
    assert figures["stages.md.step_s"] == pytest.approx(7.5)


def test_the_table_of_the_page(tmp_path: Path) -> None:
    report = make_run(tmp_path, **compared((2.0, 3.0, 2), (8.0, 20.0, 3)))
    assert spread_table(report).rows == [
        ["md", "whole step (ranks: computing)", "7.50 s", "7.95 s", "8.00 s", "2.50 (rank 3)"],
        ["md", "writing atoms", "3.50 s", "3.95 s", "4.00 s", "1.50 (rank 2)"],
        ["one", "whole step (ranks: computing)", "6.50 s", "6.95 s", "7.00 s", "1.00 (rank 0)"],
        ["one", "loading atoms", "1.50 s", "1.95 s", "2.00 s", "1.50 (rank 1)"],
        ["two", "whole step (ranks: computing)", "8.50 s", "8.95 s", "9.00 s", "1.00 (rank 0)"],
        ["two", "loading atoms", "3.50 s", "3.95 s", "4.00 s", "1.25 (rank 1)"],
    ]


def test_copies_to_and_from_a_device_are_timed_at_each_end(tmp_path: Path) -> None:
    def end(side: str, times: list[float], slowest: float) -> list[Record]:
        ranks = compared((1.0, 1.0, 0), (1.0, 1.0, 0))
        ranks["ranks"]["device_s"] = {"median": 1.0, "slowest": slowest, "rank": 3}
        steps = [step("atoms", side, index, index, device_s=time) for index, time in enumerate(times)]
        return [opened("atoms", side), *steps, {**closed("atoms", side, len(times), 9), **ranks}]

    two = [opened("atoms", "read"), step("atoms", "read", 0, 0, io_s=1.0), closed("atoms", "read", 1, 9)]
    lines = {"md": end("write", [0.5, 1.5], 2.0), "one": end("read", [0.25, 0.5, 0.75], 3.0), "two": two}
    report = make_report(records_of(tmp_path, fan(), lines))
    stream = report.stream("atoms")
    ends: list[StreamPart | ReaderPart] = [stream, *stream.readers]
    assert [(each.device_s, each.device_times) for each in ends] == [
        (2.0, StepTimes(p50=1.0, p95=1.45, max=1.5)), (1.5, StepTimes(p50=0.5, p95=0.725, max=0.75)), (None, None),
    ]  # fmt: skip
    assert [each.device_ranks and each.device_ranks.imbalance for each in ends] == [2.0, 3.0, None]


def test_ranks_that_were_not_compared_have_no_imbalance(tmp_path: Path) -> None:
    figures = figures_of(make_run(tmp_path))
    assert "stages.md.compute_imbalance" not in figures and "streams.atoms.write_imbalance" not in figures
    nothing = figures_of(make_run(tmp_path / "nothing", **compared((0.0, 3.0, 2), (0.0, 0.0, 0))))
    assert "stages.md.compute_imbalance" not in nothing and "streams.atoms.write_imbalance" not in nothing


def test_a_stage_with_two_attempts_has_no_comparison_of_its_ranks() -> None:
    close = {**closed("atoms", "write", 1, 9), **compared((1.0, 2.0, 0), (1.0, 2.0, 0))}
    attempt = metrics_of(step("atoms", "write", 0, 0, io_s=1.0), close)
    assert attempt.computing_ranks is not None
    joined = join_attempts([(lambda _: 0, attempt), (lambda _: 1, attempt)])
    assert joined.computing_ranks is None and joined.moving_ranks == {}
