"""The forecast: what a step costs by what runs have measured, what limits a pipeline, and what is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_run import make_end, make_plan, make_stage, write_sample
from workflow.calibration.keep_measurements import find_runs, make_calibration, merged
from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.ledger import Attempt, Ledger, Repetition
from workflow.errors import RunError
from workflow.forecast.calibration_model import Calibration, StageRecord
from workflow.forecast.earlier_runs import find_earlier_runs
from workflow.forecast.forecast_model import Cost, Forecast
from workflow.forecast.make_forecast import coupled_stages, make_forecast
from workflow.forecast.quartiles import Quartiles, exactly, quartiles, together
from workflow.plan.plan_model import EndPlan, OperatorPlan, Plan
from workflow.report.show.forecast_tables import cost_table, pace_text

MB = 1_000_000


def known(tmp_path: Path, md_s: float = 0.05, saxs_s: float = 0.12) -> Calibration:
    """Of a run md → saxs → keep: steps of 2.4 MB and 0.3 MB."""
    calibration, left_out = make_calibration([write_sample(tmp_path / "former", md_s=md_s, saxs_s=saxs_s)])
    assert not left_out
    return calibration


def cost(forecast: Forecast, stage: str, name: str) -> Cost:
    return next(each for each in forecast.costs if (each.stage, each.name) == (stage, name))


def seconds(forecast: Forecast, stage: str, name: str) -> float:
    found = cost(forecast, stage, name).seconds
    assert found is not None
    return found.median


def with_stages(calibration: Calibration, **changes: Any) -> Calibration:
    """The same for all its stages."""
    return calibration.model_copy(update={"stages": [each.model_copy(update=changes) for each in calibration.stages]})


def with_ports(calibration: Calibration, program: str, **changes: Any) -> Calibration:
    stages = [
        each.model_copy(update={"ports": [port.model_copy(update=changes) for port in each.ports]})
        if each.program == program
        else each
        for each in calibration.stages
    ]
    return calibration.model_copy(update={"stages": stages})


def with_size(plan: Plan, stream: str, step_size: int | None) -> Plan:
    streams = [
        each.model_copy(update={"step_size": step_size}) if each.name == stream else each for each in plan.streams
    ]
    return plan.model_copy(update={"streams": streams})


def test_a_figure_keeps_its_quartiles() -> None:
    values = quartiles([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (values.median, values.low, values.high, values.count) == (3.0, 2.0, 4.0, 5)
    assert together([values, values * 2]) == Quartiles(median=9.0, low=6.0, high=12.0)
    assert quartiles([7.0]) == exactly(7.0, 1)


def test_the_slowest_stage_sets_the_pace(tmp_path: Path) -> None:
    forecast = make_forecast(make_plan(), known(tmp_path))
    (pace,) = forecast.paces
    assert (pace.stages, pace.stage, pace.mostly, pace.complete) == (["md", "saxs", "keep"], "saxs", "compute", True)
    assert [each.name for each in forecast.costs if each.stage == "saxs"] == ["compute", "read atoms", "write pattern"]
    parts = [seconds(forecast, "saxs", name) for name in ("compute", "read atoms", "write pattern")]
    assert parts[0] == pytest.approx(0.12) and parts[1] == pytest.approx(0.006)
    assert pace.seconds.median == pytest.approx(sum(parts))
    assert cost(forecast, "saxs", "compute").source == "38 steps of run former"
    assert cost(forecast, "saxs", "read atoms").source == "2.40 MB in run former"
    assert pace_text(pace, named=False).endswith("limited by stage saxs: compute")


def test_without_earlier_runs_nothing_is_known() -> None:
    forecast = make_forecast(make_plan(), Calibration(site="local"))
    assert forecast.is_empty and forecast.paces == []
    assert cost(forecast, "md", "compute").source == "run it once, then `wf calibrate RUN`"
    assert "state `step_size:`" in cost(forecast, "md", "write atoms").source


def test_a_sum_with_a_part_that_is_not_known_is_a_bound(tmp_path: Path) -> None:
    calibration = with_stages(known(tmp_path), seconds=Quartiles(median=0.12, low=0.06, high=0.15))
    less = calibration.model_copy(update={"stages": [each for each in calibration.stages if each.program != "md"]})
    forecast = make_forecast(with_size(make_plan(), "atoms", 2_400_000), less)
    (pace,) = forecast.paces
    assert not pace.complete
    assert pace_text(pace, named=False) == (
        f"time per step: at least {pace.seconds.low * 1e3:.1f} ms, limited by stage saxs: compute"
    )
    rows = cost_table(forecast).rows
    assert rows[0][:3] == ["md", "compute", "not known"]


def test_a_program_that_read_steps_of_another_size_is_not_known(tmp_path: Path) -> None:
    forecast = make_forecast(with_size(make_plan(), "atoms", 4_800_000), known(tmp_path))
    compute, read = cost(forecast, "saxs", "compute"), cost(forecast, "saxs", "read atoms")
    assert compute.seconds is read.seconds is None
    assert compute.source == (
        "it read steps of 2.40 MB in run former, here they have 4.80 MB: correct `step_size:`, or run it once, then "
        "`wf calibrate RUN`"
    )
    assert read.source.startswith("SST, read by 1 rank was measured up to 2.40 MB, not with 4.80 MB: ")


def test_a_program_of_which_another_number_of_ranks_ran_is_not_known(tmp_path: Path) -> None:
    plan = make_plan()
    stages = [each.model_copy(update={"ranks": 4}) if each.name == "saxs" else each for each in plan.stages]
    forecast = make_forecast(plan.model_copy(update={"stages": stages}), known(tmp_path))
    assert cost(forecast, "saxs", "compute").seconds is None
    assert cost(forecast, "saxs", "read atoms").source.startswith("SST, read by 4 ranks was not measured: ")


def test_between_two_measured_sizes_it_is_interpolated(tmp_path: Path) -> None:
    calibration = known(tmp_path)
    (read,) = [each for each in calibration.ends if each.kind.side == "read" and each.bytes == 2.4 * MB]
    larger = read.model_copy(update={"bytes": 12.4 * MB, "seconds": exactly(0.026), "run": "other"})
    ends = [each for each in calibration.ends if each.kind != read.kind]
    calibration = calibration.model_copy(
        update={"ends": [*ends, read.model_copy(update={"seconds": exactly(0.006)}), larger]}
    )
    for size, expected in ((7_400_000, 0.016), (12_400_000, 0.026), (1000, 0.006)):
        forecast = make_forecast(with_size(make_plan(), "atoms", size), calibration)
        assert seconds(forecast, "saxs", "read atoms") == pytest.approx(expected)
    forecast = make_forecast(with_size(make_plan(), "atoms", 7_400_000), calibration)
    source = cost(forecast, "saxs", "read atoms").source
    assert source == "between 2.40 MB in run former and 12.4 MB in run other"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"parameters": {"AsyncWrite": "Guided"}}, "BP5, written by 2 ranks, async guided was not measured"),
        ({"operators": {"*": OperatorPlan(type="zfp", parameters={"accuracy": "0.01"}, bound=0.01)}},
         "BP5, written by 2 ranks, zfp accuracy=0.01 was not measured"),
    ],
)  # fmt: skip
def test_another_way_of_writing_is_not_known(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    plain = make_plan(engine="BP5")
    calibration, _ = make_calibration([write_sample(tmp_path / "former", plan=plain)])
    assert cost(make_forecast(plain, calibration), "md", "write atoms").seconds is not None
    other = with_end(plain, **changes)
    assert cost(make_forecast(other, calibration), "md", "write atoms").source.startswith(text)
    same, _ = make_calibration([write_sample(tmp_path / "same", plan=other)])
    assert cost(make_forecast(other, same), "md", "write atoms").seconds is not None


def with_end(plan: Plan, **changes: Any) -> Plan:
    """The end that writes atoms, changed."""

    def end(given: EndPlan) -> EndPlan:
        mine = given.stream == "atoms" and given.side == "write"
        return given.model_copy(update=changes) if mine else given

    stages = [each.model_copy(update={"ends": [end(one) for one in each.ends]}) for each in plan.stages]
    return plan.model_copy(update={"stages": stages})


def test_between_nodes_it_is_another_figure(tmp_path: Path) -> None:
    plan = make_plan()
    saxs = plan.stage("saxs").placement.model_copy(update={"nodes": [(1, 2)]})
    stages = [each.model_copy(update={"placement": saxs}) if each.name == "saxs" else each for each in plan.stages]
    forecast = make_forecast(plan.model_copy(update={"stages": stages}), known(tmp_path))
    assert cost(forecast, "saxs", "compute").seconds is not None
    assert cost(forecast, "saxs", "read atoms").source.startswith("SST, read by 1 rank, between nodes was not measured")


def test_files_and_queues_that_discard_separate_stages(tmp_path: Path) -> None:
    assert coupled_stages(make_plan()) == [["md", "saxs", "keep"]]
    assert coupled_stages(make_plan(engine="BP5")) == [["md"], ["saxs"], ["keep"]]
    discarding = make_plan(when_full="discard")
    assert coupled_stages(discarding) == [["md"], ["saxs"], ["keep"]]
    forecast = make_forecast(discarding, known(tmp_path, md_s=0.05, saxs_s=0.01))
    # md is not held up; saxs, though faster, waits for its steps.
    assert [(pace.stages, pace.stage) for pace in forecast.paces] == [
        (["md"], "md"),
        (["saxs"], "md"),
        (["keep"], "md"),
    ]


def test_stages_that_share_cores_are_named(tmp_path: Path) -> None:
    # The node of the plan has one core.
    (note,) = make_forecast(make_plan(), known(tmp_path)).notes
    assert note.startswith("the stages on node 0 have 4 processes and share 1 core: ")
    node = make_plan().node.model_copy(update={"cores": 4})
    assert make_forecast(make_plan().model_copy(update={"node": node}), known(tmp_path)).notes == []


def test_records_of_the_same_stage_replace_each_other(tmp_path: Path) -> None:
    first, _ = make_calibration([write_sample(tmp_path / "a", saxs_s=0.1)])
    second, _ = make_calibration([write_sample(tmp_path / "b", saxs_s=0.2)])
    both = merged(second, first)
    assert [(each.program, each.run) for each in both.stages] == [("md", "b"), ("saxs", "b"), ("keep", "b")]
    assert {each.run for each in both.ends} == {"b"} and len(both.ends) == len(first.ends) == 4
    smaller = with_ports(first, "saxs", bytes_per_step=1000.0)
    assert [each.run for each in merged(second, smaller).stages if each.program == "saxs"] == ["b", "a"]


def test_repetitions_are_one_measurement(tmp_path: Path) -> None:
    runs = [write_sample(tmp_path / name, saxs_s=seconds_) for name, seconds_ in (("a", 0.1), ("b", 0.2))]
    pooled, _ = make_calibration(runs)
    saxs = next(each for each in pooled.stages if each.program == "saxs")
    assert (saxs.seconds.count, saxs.run) == (76, "a and 1 more")
    assert 0.1 < saxs.seconds.median < 0.2
    assert len(pooled.stages) == 3 and len(pooled.ends) == 4
    assert find_earlier_runs(make_plan(), pooled).stage_steps == {"md": 1.0, "saxs": 1.0, "keep": 1.0}


def test_a_reader_that_takes_a_part_of_a_step(tmp_path: Path) -> None:
    """It reads a half of the steps that it gets: that is what moving them takes."""
    calibration = with_ports(known(tmp_path), "saxs", bytes_per_step=1.2 * MB, share=0.5)
    forecast = make_forecast(make_plan(), calibration)
    assert cost(forecast, "saxs", "compute").seconds is not None
    found = find_earlier_runs(make_plan(), calibration)
    (end,) = [end for end in make_plan().stage("saxs").ends if end.side == "read"]
    assert found.share(make_plan().stage("saxs"), end) == 0.5 and found.sizes["atoms"] == 2.4 * MB


def test_an_analysis_of_each_tenth_step(tmp_path: Path) -> None:
    calibration = with_ports(known(tmp_path, md_s=0.05, saxs_s=0.3), "md", per_step=0.1)
    forecast = make_forecast(make_plan(), calibration)
    # One step of atoms for ten of md: saxs has 0.5 s for each.
    assert forecast.paces[0].stage == "md"
    assert find_earlier_runs(make_plan(), calibration).stage_steps == pytest.approx(
        {"md": 1.0, "saxs": 0.1, "keep": 0.1}
    )


def test_steps_of_streams_in_a_circle(tmp_path: Path) -> None:
    """md reads what saxs makes of each tenth of its steps, or of ten for each: that does not change its own pace."""
    plan = make_plan()
    atoms, pattern = plan.streams
    back = pattern.model_copy(update={"readers": ["keep", "md"], "closes_circle": True})
    md = plan.stage("md")
    md = md.model_copy(update={"ends": [*md.ends, make_end("pattern", "read")]})
    plan = plan.model_copy(update={"streams": [atoms, back], "stages": [md, *plan.stages[1:]]})
    for share in (0.1, 10.0):
        found = find_earlier_runs(plan, with_ports(known(tmp_path / str(share)), "md", per_step=share))
        assert found.stage_steps == pytest.approx({"md": 1.0, "saxs": share, "keep": 1.0})
        assert found.stream_steps == pytest.approx({"atoms": share, "pattern": share})


def test_a_stage_that_writes_ten_steps_for_each_that_it_reads_computes_as_often(tmp_path: Path) -> None:
    """A record counts the steps of the faster end."""
    calibration = known(tmp_path)
    saxs = next(each for each in calibration.stages if each.program == "saxs")
    ports = [each.model_copy(update={"per_step": 0.1 if each.side == "read" else 1.0}) for each in saxs.ports]
    records = [each if each is not saxs else saxs.model_copy(update={"ports": ports}) for each in calibration.stages]
    found = find_earlier_runs(make_plan(), calibration.model_copy(update={"stages": records}))
    assert found.stage_steps == pytest.approx({"md": 1.0, "saxs": 10.0, "keep": 10.0})
    assert found.stream_steps == pytest.approx({"atoms": 1.0, "pattern": 10.0})


def test_who_reads_no_data_does_the_same_whatever_their_size(tmp_path: Path) -> None:
    calibration = with_ports(known(tmp_path), "saxs", bytes_per_step=0.0)
    forecast = make_forecast(with_size(make_plan(), "atoms", 4_800_000), calibration)
    assert cost(forecast, "saxs", "compute").seconds is not None


def test_programs_without_workflow_stage_are_not_to_be_calibrated(tmp_path: Path) -> None:
    plan = make_plan()
    stages = [each.model_copy(update={"observed": "evidence", "component": "own"}) if each.name == "saxs" else each
              for each in plan.stages]  # fmt: skip
    forecast = make_forecast(plan.model_copy(update={"stages": stages}), known(tmp_path))
    assert cost(forecast, "saxs", "compute").source == "its program does not use workflow.stage"


def test_a_group_behind_a_queue_that_discards_is_no_more_complete_than_it_is(tmp_path: Path) -> None:
    calibration = known(tmp_path, md_s=0.05, saxs_s=0.01)
    stages = [each for each in calibration.stages if each.program != "saxs"]
    paces = make_forecast(make_plan(when_full="discard"), calibration.model_copy(update={"stages": stages})).paces
    behind = next(pace for pace in paces if pace.stages == ["saxs"])
    assert behind.stage == "md" and not behind.complete


def test_a_pipe_writes_what_it_reads(tmp_path: Path) -> None:
    """Whatever its earlier run wrote: that was of another simulation."""
    plan = make_plan()
    md, saxs, keep = plan.stages
    pipe = saxs.model_copy(update={"added": "pipe"})
    found = find_earlier_runs(plan.model_copy(update={"stages": [md, pipe, keep]}), known(tmp_path))
    assert found.sizes == {"atoms": 2.4 * MB, "pattern": 2.4 * MB}


def test_a_long_chain_that_passes_on() -> None:
    """Thousands of stages, the last one first: no recursion, and no loop over all streams for each of them."""
    plan = make_plan()
    saxs, atoms = plan.stage("saxs"), plan.stream("atoms")
    count = 3000
    first = make_stage("s0", "simulation", [make_end("c0", "write")])
    stages = [
        saxs.model_copy(
            update={
                "name": f"s{n}", "added": "relay",
                "ends": [make_end(f"c{n - 1}", "read"), *([make_end(f"c{n}", "write")] if n < count - 1 else [])],
            }
        )
        for n in range(1, count)
    ]  # fmt: skip
    streams = [
        atoms.model_copy(update={"name": f"c{n}", "writer": f"s{n}", "readers": [f"s{n + 1}"], "step_size": None})
        for n in range(count - 1)
    ]
    streams[0] = streams[0].model_copy(update={"step_size": MB})
    plan = plan.model_copy(update={"stages": [*stages[::-1], first], "streams": streams[::-1]})
    found = find_earlier_runs(plan, Calibration(site="local"))
    assert {*found.sizes.values()} == {MB} and len(found.sizes) == count - 1
    assert set(found.stage_steps.values()) == set(found.stream_steps.values()) == {1.0}
    assert len(found.stage_steps) == count


def test_the_measured_runs_of_a_campaign_count_and_no_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [ScheduledTrial(key="a", parameters={})]
    schedule = Schedule(wf_version="1", site="local", host="h", versions={}, trials=trials)
    (tmp_path / "schedule.json").write_text(schedule.model_dump_json())
    with Ledger(tmp_path) as ledger:
        ledger.end(Repetition("a", 1, warmup=True), Attempt("succeeded", 1, "a-w1", 1e9, 2.0))
        ledger.end(Repetition("a", 1), Attempt("succeeded", 2, "a-r1-a2", 1e9, 2.0))
        ledger.end(Repetition("a", 2), Attempt("failed", 1, "a-r2", 1e9, 2.0))
        ledger.end(Repetition("old", 1), Attempt("succeeded", 1, "old-r1", 1e9, 2.0))
    assert [path.name for path in find_runs(tmp_path)] == ["a-r1-a2"]
    monkeypatch.chdir(tmp_path)
    Path("campaigns").mkdir()
    Path("campaigns/small").symlink_to(tmp_path)
    assert [path.name for path in find_runs(Path("small"))] == ["a-r1-a2"]
    (tmp_path / "schedule.json").write_text(schedule.model_copy(update={"trials": []}).model_dump_json())
    with pytest.raises(RunError, match="no measured repetition of this campaign has succeeded"):
        find_runs(tmp_path)
    run_dir = write_sample(tmp_path / "single")
    assert find_runs(run_dir) == [run_dir]
    events = run_dir / "events.jsonl"
    events.write_text(events.read_text().replace('"state": "succeeded"', '"state": "failed"'))
    with pytest.raises(RunError, match="this run has not succeeded"):
        find_runs(run_dir)


def test_a_file_of_a_program_s_own_is_no_stream(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run")
    metrics = run_dir / "stages/keep/metrics.jsonl"
    lines = metrics.read_text().splitlines()
    read = next(line for line in lines if '"kind": "step"' in line)
    own = read.replace(json.loads(read)["stream"], "out.bp.partial").replace('"side": "read"', '"side": "write"')
    metrics.write_text("\n".join([*lines, own, ""]))
    calibration, _ = make_calibration([run_dir])
    assert [port.side for port in of(calibration, "keep").ports] == ["read"] and len(calibration.ends) == 4


def test_a_stage_without_records_is_named(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run")
    (run_dir / "stages/saxs/metrics.jsonl").unlink()
    calibration, left_out = make_calibration([run_dir])
    assert left_out == ["stage saxs: it has no steps"] and len(calibration.stages) == 2


def of(calibration: Calibration, program: str) -> StageRecord:
    return next(each for each in calibration.stages if each.program == program)
