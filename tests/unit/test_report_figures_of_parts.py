"""What a pipeline expects is expected of all parts of a run together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sample_run import make_events, make_plan, simulate, write_run, write_sample
from workflow.plan.plan_model import ExpectationPlan, PartPlan
from workflow.report.build.figures_of_parts import figures_of_run
from workflow.report.build.make_report import make_report
from workflow.report.build.met_expectations import figures_of
from workflow.report.read.run_records import read_records
from workflow.report.report_files import compute_report


def test_the_figures_of_two_parts(tmp_path: Path) -> None:
    """Times and bytes are added, rates are of the whole amount in the whole time, shares are weighted by time."""
    slow = make_report(read_records(write_sample(tmp_path / "slow", steps=10, saxs_s=0.5)))
    records = read_records(write_sample(tmp_path / "fast", steps=30))
    fast = make_report(records)
    one, two = figures_of(slow), figures_of(fast)
    both = figures_of_run([slow, fast], records)
    for name in (
        "run.wall_s",
        "stages.md.wait_s",
        "stages.saxs.bytes_in",
        "streams.atoms.bytes",
    ):
        assert both[name] == pytest.approx(one[name] + two[name]), name
    seconds = sum(part["streams.atoms.bytes"] / part["streams.atoms.throughput"] for part in (one, two))
    assert both["streams.atoms.throughput"] == pytest.approx(both["streams.atoms.bytes"] / seconds)
    assert one["streams.atoms.throughput"] < both["streams.atoms.throughput"] < two["streams.atoms.throughput"]
    waits = [part["stages.md.wait_share"] * part["stages.md.wall_s"] for part in (one, two)]
    assert both["stages.md.wait_share"] == pytest.approx(sum(waits) / both["stages.md.wall_s"])
    longest = [part["streams.atoms.longest_queue"] for part in (one, two)]
    assert both["streams.atoms.longest_queue"] == max(longest)
    steps = 10 * one["stages.md.step_s"] + 30 * two["stages.md.step_s"]
    assert both["stages.md.step_s"] == pytest.approx(steps / 40)
    assert both["stages.md.step_rate"] == pytest.approx((10 + 30) / both["stages.md.wall_s"])
    assert both["streams.atoms.steps"] == records.state.writer("atoms").steps, "as the state counts them: of all parts"


def test_copies_to_a_device_are_added_and_their_shares_weighted(tmp_path: Path) -> None:
    """A part without copies adds none to the whole; a stage without metrics is not known to have made none."""
    records = read_records(write_sample(tmp_path / "fast", steps=30))
    without = make_report(records)
    assert figures_of(without)["stages.md.device_s"] == figures_of(without)["stages.md.device_share"] == 0
    stage = without.stage("md").model_copy(update={"device_s": 0.5})
    copied = without.model_copy(update={"stages": [stage, *without.stages[1:]]})
    both = figures_of_run([copied, without, copied], records)
    assert both["stages.md.device_s"] == pytest.approx(1.0)
    assert both["stages.md.device_share"] == pytest.approx(1.0 / both["stages.md.wall_s"])
    blind = without.stage("md").model_copy(update={"compute_s": None, "io_s": None, "wait_s": None})
    unknown = without.model_copy(update={"stages": [blind, *without.stages[1:]]})
    assert "stages.md.device_s" not in figures_of(unknown)
    assert "stages.md.device_s" not in figures_of_run([copied, unknown], records)


def test_what_a_part_does_not_tell_is_not_known_of_the_whole(tmp_path: Path) -> None:
    records = read_records(write_sample(tmp_path / "fast", steps=30))
    whole = make_report(records)
    stage = whole.stage("md").model_copy(update={"bytes_out": None, "cpu_s": None})
    killed = whole.model_copy(update={"stages": [stage, *whole.stages[1:]]})
    both = figures_of_run([killed, whole], records)
    assert "stages.md.bytes_out" not in both and "stages.saxs.bytes_in" in both
    done = whole.model_copy(update={"stages": [stage.model_copy(update={"started": None}), *whole.stages[1:]]})
    assert "stages.md.bytes_out" in figures_of_run([whole, done], records), "it had done its work before"


def test_a_part_does_not_fail_because_another_one_has_done_the_rest(tmp_path: Path) -> None:
    expected = ExpectationPlan(
        figure="streams.atoms.steps", expected="== 41", comparator="==", value=41, unit="steps", key="expect",
        source="pipeline.yaml", line=1, column=1,
    )  # fmt: skip
    write_sample(tmp_path / "run", steps=12, plan=make_plan())
    plan = make_plan().model_copy(update={"expectations": [expected]})
    stages = []
    for stage in plan.stages:
        ends = [end.model_copy(update={"first_step": 12, "part_step": 12}) for end in stage.ends]
        stages.append(stage.model_copy(update={"ends": ends}))
    part = PartPlan(number=2, run=str(tmp_path / "run"), finished={}, pieces={})
    plan = plan.model_copy(update={"stages": stages, "part": part})
    metrics = simulate(29, 0.05, 0.12, 0.002)
    *events, end = make_events(metrics)
    seen = {"t": end["t"], "stream": "atoms", "stage": "md", "side": "write", "steps": 41, "bytes": 0}
    events += [{"event": "stream_progress", **seen}, end]
    later = write_run(tmp_path / "part2", plan, events, metrics)
    report = compute_report(later)
    assert [each.state for each in report.expectations] == ["met"]
    assert report.stream("atoms").steps == 29, "the tables are of this part"
    (tmp_path / "run/plan.json").unlink()
    assert [each.state for each in compute_report(later).expectations] == ["not_measured"]
