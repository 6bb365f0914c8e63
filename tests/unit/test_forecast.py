"""The forecast: what limits a pipeline, from measurements that are given, and what it says where they are missing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_run import START, make_end, make_plan, make_stage, write_sample
from workflow.calibration.stage_records import find_runs, make_records, with_records
from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.ledger import Attempt, Ledger, Repetition
from workflow.errors import RunError
from workflow.forecast.calibration_model import (
    Calibration,
    CompressorRates,
    MeasuringConditions,
    StageRecord,
    StreamPoint,
    StreamRates,
    calibrated_text,
)
from workflow.forecast.forecast_model import StageForecast
from workflow.forecast.known_stages import competitors, share_of_a_core, step_ratios, stream_sizes
from workflow.forecast.make_forecast import coupled_stages, make_forecast
from workflow.forecast.quartiles import Estimate, Quartiles, exactly, quartiles, together
from workflow.forecast.stream_costs import at_size
from workflow.plan.plan_model import EndPlan, OperatorPlan, Plan, StagePlan
from workflow.report.read.run_records import read_records
from workflow.report.report_files import compute_report
from workflow.report.show.forecast_tables import forecast_tables, pace_lines

MEASURED = MeasuringConditions(
    date="2026-11-22T10:00:00+00:00", host="node1", cores=4, wf_version="0.1.0", python="3.11", adios2="2.12.1",
    parallel_adios2=True, quick=False,
)  # fmt: skip
MB = 1_000_000


def point(size: int, step_ms: float, write_ms: float, read_ms: float) -> StreamPoint:
    ms = [exactly(each / 1e3) for each in (step_ms, write_ms, read_ms, write_ms, read_ms)]
    return StreamPoint(
        bytes=size, step_s=ms[0], write_s=ms[1], read_s=ms[2], write_cpu_s=ms[3], read_cpu_s=ms[4]
    )  # fmt: skip


def sst(**changes: Any) -> StreamRates:
    """A transport of 1 ms and 1 GB/s; writing takes a quarter of that."""
    points = [point(size, 1 + size / MB, (1 + size / MB) / 4, 1 + size / MB) for size in (MB, 10 * MB, 100 * MB)]
    given = {"via": "sst-tcp", "engine": "SST", "transport": "", "writers": 1, "readers": 1, "nodes": 1}
    return StreamRates.model_validate({**given, "points": points, **changes})


def calibration(**parts: Any) -> Calibration:
    measured: dict[str, Any] = dict.fromkeys(("transports", "file_system", "compressors"), MEASURED)
    return Calibration.model_validate({"site": "local", "measured": measured, "transports": [sst()], **parts})


def known(tmp_path: Path, md_s: float = 0.05, saxs_s: float = 0.12, **parts: Any) -> Calibration:
    """With the stages of a run md → saxs → keep: steps of 2.4 MB and 0.3 MB."""
    records, left_out = make_records([write_sample(tmp_path / "former", md_s=md_s, saxs_s=saxs_s)])
    assert not left_out
    return with_records(calibration(**parts), records)


def test_a_figure_keeps_its_quartiles() -> None:
    values = quartiles([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (values.median, values.low, values.high, values.count) == (3.0, 2.0, 4.0, 5)
    assert together([values, values * 2]) == Quartiles(median=9.0, low=6.0, high=12.0)
    assert values.rate_of(12.0) == Quartiles(median=4.0, low=3.0, high=6.0, count=5)
    assert quartiles([7.0]) == exactly(7.0, 1)


def test_bounds_of_80_percent() -> None:
    """In logarithms 1.9 times as far as the quartiles, and an error of the model that is independent of it."""
    spread = Quartiles(median=2.0, low=2.0 / 1.1, high=2.0 * 1.2)
    bounds = spread.eight_of_ten(0.15)
    assert bounds.median == 2.0
    assert bounds.low == pytest.approx(2.0 / math.exp(math.hypot(1.9 * math.log(1.1), math.log(1.15))))
    assert bounds.high == pytest.approx(2.0 * math.exp(math.hypot(1.9 * math.log(1.2), math.log(1.15))))
    assert exactly(2.0).eight_of_ten(0.15).high == pytest.approx(2.3)
    assert spread.model_copy(update={"low": 0.0}).eight_of_ten(0.15).low == 0
    assert exactly(0.0).eight_of_ten(0.15) == Estimate(median=0, low=0, high=0)


def test_times_between_and_beyond_the_measured_sizes() -> None:
    points = sst().points
    seconds = {size: at_size(points, size, lambda each: each.step_s).median for size in (1, 5 * MB, 10 * MB, 300 * MB)}
    assert seconds == pytest.approx({1: 0.002, 5 * MB: 0.006, 10 * MB: 0.011, 300 * MB: 0.303})


def test_the_slowest_stage_sets_the_pace(tmp_path: Path) -> None:
    forecast = make_forecast(make_plan(), known(tmp_path))
    (group,) = forecast.groups
    assert (group.stages, group.limited_by, group.complete) == (["md", "saxs", "keep"], "stage saxs", True)
    saxs = forecast.stage("saxs")
    assert {(term.name, term.stream): round(term.seconds.median, 4) for term in saxs.terms} == {
        ("compute", ""): 0.12,
        ("read", "atoms"): 0.0034,
        ("write", "pattern"): 0.0005,
    }
    assert saxs.step.median == pytest.approx(0.12 + 0.0034 + 0.0005)
    assert group.step.low < saxs.step.median < group.step.high
    atoms = forecast.stream("atoms")
    assert atoms.bytes == 2.4 * MB
    assert atoms.throughput is not None
    assert atoms.throughput.median == pytest.approx(2.4 * MB / 0.1239)
    assert atoms.queue_memory == 7_200_000
    assert forecast.missing == forecast.warnings == []
    assert forecast.calibrated == "2026-11-22 on node1"


def test_a_slow_transport_sets_the_pace_and_is_named(tmp_path: Path) -> None:
    slow = sst(points=[point(MB, 100, 1, 2)])
    forecast = make_forecast(make_plan(), known(tmp_path, transports=[slow]))
    assert forecast.groups[0].limited_by == "stream atoms"
    assert forecast.groups[0].step.median == pytest.approx(0.24)
    assert forecast.warnings == [
        "stream atoms: its stages could use 20.0 MB/s, the transport gave 10.0 MB/s: it limits the pipeline"
    ]


def test_a_sum_with_a_part_that_is_not_known_is_a_bound_that_a_run_can_keep(tmp_path: Path) -> None:
    spread = Quartiles(median=0.12, low=0.06, high=0.15)
    calibrated = known(tmp_path)
    stages = [
        each.model_copy(update={"compute_s": spread}) for each in calibrated.stages if each.program in ("saxs", "keep")
    ]
    forecast = make_forecast(make_plan(), calibrated.model_copy(update={"stages": stages}))
    (line,) = pace_lines(forecast)
    least = forecast.groups[0].step.low
    assert least < 0.06 < forecast.groups[0].step.median
    assert line.startswith(f"time per step: at least {least * 1e3:.1f} ms, limited by "), line
    assert [stream.throughput for stream in forecast.streams] == [None, None]
    first = forecast_tables(forecast.model_copy(update={"stages": [_nothing_known(forecast.stage("md"))]}))[0]
    assert first.rows[0][2] == "-"


def _nothing_known(stage: StageForecast) -> StageForecast:
    return stage.model_copy(update={"terms": [], "work": exactly(0.0), "complete": False})


def test_a_bound_has_no_difference_from_what_was_measured(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run", saxs_s=0.12)
    calibrated = known(tmp_path)
    less = calibrated.model_copy(update={"stages": [each for each in calibrated.stages if each.program == "saxs"]})
    (run_dir / "forecast.json").write_text(make_forecast(make_plan(), less).to_json())
    lines = {line.what: line for line in compute_report(run_dir).forecast}
    pace = lines["time per step of saxs"]
    assert not pace.complete and pace.measured is not None and pace.difference is None


def test_a_busy_machine_widens_the_intervals_downwards_and_is_named() -> None:
    conditions = MEASURED.model_copy(update={"others": 2.0})
    assert (conditions.free, conditions.is_disturbed, MEASURED.is_disturbed) == (0.5, True, False)
    time = Quartiles(median=20.0, low=16.0, high=30.0, count=9)
    assert time.widened(0.5) == Quartiles(median=20.0, low=8.0, high=30.0, count=9)
    assert time.widened_rate(0.5) == Quartiles(median=20.0, low=16.0, high=60.0, count=9)
    measured: dict[str, Any] = {"memory": MEASURED, "transports": conditions}
    assert calibrated_text(Calibration.model_validate({"site": "local", "measured": measured})) == (
        "2026-11-22 on node1 while other programs used 2.0 of 4 cores"
    )


def test_cores_set_the_pace_where_stages_share_them(tmp_path: Path) -> None:
    calibrated = known(tmp_path)
    busy = [each.model_copy(update={"cpu_s": 0.11}) for each in calibrated.stages]
    calibrated = calibrated.model_copy(update={"stages": busy})
    # make_plan's node has one core.
    forecast = make_forecast(make_plan(), calibrated)
    assert forecast.groups[0].limited_by == "cores of node 0"
    assert forecast.groups[0].step.median == pytest.approx(0.33, abs=0.02)


def test_without_former_runs_it_says_what_is_missing() -> None:
    forecast = make_forecast(make_plan(), calibration())
    assert forecast.missing == [
        "stream atoms: the size of its steps is not known: state `step_size:`, or run it once and "
        "`wf calibrate --from RUN`",
        "stream pattern: the size of its steps is not known: state `step_size:`, or run it once and "
        "`wf calibrate --from RUN`",
        *(
            f"stage {name}: its computing time is not known: run it once, then `wf calibrate --from RUN`"
            for name in ("md", "saxs", "keep")
        ),
    ]
    assert not forecast.groups[0].complete and forecast.is_empty and pace_lines(forecast) == []


def test_what_was_not_measured_is_missing(tmp_path: Path) -> None:
    forecast = make_forecast(make_plan(), known(tmp_path, transports=[sst(engine="SHM")]))
    assert forecast.missing[0] == "stream atoms: SST was not measured on site local: `wf calibrate --only transports`"


def test_files_and_queues_that_discard_separate_stages(tmp_path: Path) -> None:
    assert coupled_stages(make_plan()) == [["md", "saxs", "keep"]]
    assert coupled_stages(make_plan(engine="BP5")) == [["md"], ["saxs"], ["keep"]]
    discarding = make_plan(when_full="discard")
    assert coupled_stages(discarding) == [["md"], ["saxs"], ["keep"]]
    forecast = make_forecast(discarding, known(tmp_path, md_s=0.05, saxs_s=0.01))
    # md is not held up; saxs, though faster, waits for its steps.
    assert [group.limited_by for group in forecast.groups] == ["stage md"] * 3
    assert forecast.stage("saxs").step == forecast.stage("md").step


def test_a_compressor_that_does_not_pay_is_named(tmp_path: Path) -> None:
    plan = _compressed(make_plan(engine="BP5"))
    file = sst(via="bp5", engine="BP5")
    zfp = CompressorRates(
        operator="zfp", parameters={"accuracy": "0.01"}, data="V of gray_scott", bytes=MB, ratio=0.5,
        compress=exactly(100e6), decompress=exactly(1e9),
    )  # fmt: skip
    forecast = make_forecast(plan, known(tmp_path, file_system=[file], compressors=[zfp]))
    terms = {term.name: term.seconds.median for term in forecast.stage("md").terms}
    # 1.2 of the 2.4 MB are written, by two ranks; the operator does 100 MB/s on each.
    assert terms["write"] == pytest.approx(0.0005)
    assert terms["compress"] == pytest.approx(0.012)
    # Without it: 1.2 MB by each rank in 0.55 ms.
    (warning,) = forecast.warnings
    assert warning.startswith("stream atoms: this compressor makes output 23× slower here")
    without = make_forecast(plan, known(tmp_path, file_system=[file]))
    assert without.missing[0].startswith("stream atoms: zfp was not measured on site local: `wf calibrate --only comp")


def _compressed(plan: Plan) -> Plan:
    def end(given: EndPlan) -> EndPlan:
        writes = given.stream == "atoms" and given.side == "write"
        operators = {"*": OperatorPlan(type="zfp", parameters={"accuracy": "0.01"}, bound=0.01)}
        return given.model_copy(update={"operators": operators}) if writes else given

    stages = [each.model_copy(update={"ends": [end(one) for one in each.ends]}) for each in plan.stages]
    return plan.model_copy(update={"stages": stages})


def test_computing_grows_with_what_a_stage_reads(tmp_path: Path) -> None:
    calibrated = known(tmp_path)
    atoms, pattern = make_plan().streams
    larger = [atoms.model_copy(update={"step_size": 4_800_000}), pattern]
    plan = make_plan().model_copy(update={"streams": larger})
    compute = make_forecast(plan, calibrated).stage("saxs").terms[0]
    assert compute.seconds.median == pytest.approx(0.24)
    assert compute.source == "41 steps of run former, in proportion to what it reads: 4.80 MB for 2.40 MB"


def test_records_of_the_same_stage_replace_each_other(tmp_path: Path) -> None:
    first, _ = make_records([write_sample(tmp_path / "a", saxs_s=0.1)])
    second, _ = make_records([write_sample(tmp_path / "b", saxs_s=0.2)])
    both = with_records(with_records(calibration(), first), second)
    assert [(each.program, each.run) for each in both.stages] == [("md", "b"), ("saxs", "b"), ("keep", "b")]
    pooled, _ = make_records([tmp_path / "a", tmp_path / "b"])
    saxs = next(each for each in pooled if each.program == "saxs")
    assert (saxs.steps, saxs.run) == (82, "a and 1 others")
    assert 0.1 < saxs.compute_s.median < 0.2
    # A step of atoms for each of md, however many runs are added up.
    md = next(each for each in pooled if each.program == "md")
    assert [(port.port, port.steps) for port in md.ports] == [("atoms", 82)]
    forecast = make_forecast(make_plan(), with_records(calibration(), pooled))
    assert [stage.steps_per_step for stage in forecast.stages] == [1.0, 1.0, 1.0]


def test_the_report_shows_forecast_beside_measurement(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run", md_s=0.05, saxs_s=0.15)
    forecast = make_forecast(make_plan(), known(tmp_path, saxs_s=0.12))
    assert compute_report(run_dir).forecast == []
    (run_dir / "forecast.json").write_text(forecast.to_json())
    assert not forecast.is_empty
    report = compute_report(run_dir)
    lines = {line.what: line for line in report.forecast}
    pace = lines["time per step of saxs"]
    assert pace.forecast == forecast.stage("saxs").step.median
    assert pace.measured == pytest.approx(0.157, abs=0.01)
    assert pace.difference == pytest.approx(0.1239 / 0.157 - 1, abs=0.05)
    assert report.off == "saxs: compute"
    assert lines["saxs: read atoms"].measured == pytest.approx(0.006)
    assert lines["throughput of atoms"].measured == pytest.approx(2.4 * MB / 0.157, rel=0.05)
    (run_dir / "forecast.json").write_text(make_forecast(make_plan(), calibration()).to_json())
    assert compute_report(run_dir).forecast == []
    (run_dir / "forecast.json").write_text("{}")
    assert read_records(run_dir).forecast is None


def test_a_reader_that_takes_a_part_of_a_step(tmp_path: Path) -> None:
    plan = make_plan()
    calibrated = known(tmp_path)
    halves = [
        each.model_copy(update={"ports": [port.model_copy(update={"share": 0.5}) for port in each.ports]})
        for each in calibrated.stages
    ]
    forecast = make_forecast(plan, calibrated.model_copy(update={"stages": halves}))
    terms = {(term.name, term.stream): term.seconds.median for term in forecast.stage("saxs").terms}
    # 1.2 of 2.4 MB; the writer writes all.
    assert terms["read", "atoms"] == pytest.approx(0.0022)
    assert forecast.stream("atoms").bytes == 2.4 * MB


def test_a_stream_with_fewer_steps_than_its_writer(tmp_path: Path) -> None:
    plan = make_plan()
    calibrated = known(tmp_path, md_s=0.05, saxs_s=0.3)
    tenth = [
        each.model_copy(update={"ports": [port.model_copy(update={"steps": 4}) for port in each.ports], "steps": 40})
        if each.program == "md"
        else each
        for each in calibrated.stages
    ]
    forecast = make_forecast(plan, calibrated.model_copy(update={"stages": tenth}))
    # One step of atoms for ten of md: saxs has 0.5 s for each.
    assert forecast.groups[0].limited_by == "stage md"
    assert forecast.stage("saxs").steps_per_step == pytest.approx(0.1)
    assert forecast.stage("saxs").step.median == pytest.approx(10 * forecast.stage("md").step.median)


def test_a_pipe_computes_nothing(tmp_path: Path) -> None:
    plan = make_plan()
    md, saxs, keep = plan.stages
    plan = plan.model_copy(
        update={"stages": [md, saxs, keep.model_copy(update={"added": "pipe", "component": "pipe"})]}
    )
    forecast = make_forecast(plan, known(tmp_path))
    assert forecast.missing == [] and forecast.stage("keep").complete
    assert [term.name for term in forecast.stage("keep").terms] == ["compute", "read"]


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
    records, _ = make_records([run_dir])
    keep = next(each for each in records if each.program == "keep")
    assert [port.side for port in keep.ports] == ["read"]


def test_the_cores_of_one_stage_set_the_pace(tmp_path: Path) -> None:
    calibrated = known(tmp_path)
    busy = [each.model_copy(update={"cpu_s": 0.5 if each.program == "saxs" else None}) for each in calibrated.stages]
    forecast = make_forecast(make_plan(), calibrated.model_copy(update={"stages": busy}))
    assert forecast.groups[0].limited_by == "CPU of stage saxs"
    assert forecast.groups[0].step.median == pytest.approx(0.5, abs=0.01)


def test_the_start_of_a_stage_is_no_cpu_time_of_its_steps(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run", saxs_s=0.12)
    events = (run_dir / "events.jsonl").read_text().splitlines()
    ended = [json.loads(line) for line in events]
    for event in ended:
        if event["event"] == "stage_exited" and event["stage"] == "saxs":
            event["cpu_s"] = 0.2 + 41 * 0.1  # it opens its first stream after 0.2 s
    (run_dir / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in ended))
    records, _ = make_records([run_dir])
    saxs = next(each for each in records if each.program == "saxs")
    assert saxs.cpu_s == pytest.approx(0.1 * 120 / 127, abs=0.002)


def test_time_ready_to_run_is_not_computing(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run", saxs_s=0.12)
    alone, _ = make_records([run_dir])
    # In these 4 s saxs had the CPU for half of the time, and was ready to run in the other half.
    samples = [
        {"event": "stage_cpu", "t": START + at, "stage": "saxs", "cpu_s": share, "ready_s": share}
        for at, share in ((1.5, 0.0), (3.5, 1.0), (5.5, 2.0))
    ]
    with (run_dir / "events.jsonl").open("a") as events:
        events.writelines(f"{json.dumps(sample)}\n" for sample in samples)
    shared, _ = make_records([run_dir])
    before, after = (next(each for each in found if each.program == "saxs") for found in (alone, shared))
    assert after.compute_s.median == pytest.approx(before.compute_s.median / 2, rel=0.1)
    # Half of the period is CPU time, and of that what belongs to 120 of 127 ms.
    assert before.cpu_s is None
    assert after.cpu_s == pytest.approx(0.128 / 2 * 120 / 127, abs=0.005)


def on_cores(plan: Plan, cores: int, **of_stage: list[int]) -> Plan:
    """The plan on a node of so many cores, the stages bound to these; [] is no binding."""

    def moved(stage: StagePlan) -> StagePlan:
        placement = stage.placement.model_copy(update={"cores": of_stage[stage.name]})
        return stage.model_copy(update={"placement": placement})

    node = plan.node.model_copy(update={"cores": cores})
    return plan.model_copy(update={"stages": [moved(stage) for stage in plan.stages], "node": node})


@pytest.mark.parametrize(
    ("cores", "of_stage", "expected"),
    [
        (4, {"md": [0, 1], "saxs": [2], "keep": [3]}, []),
        (4, {"md": [0, 1], "saxs": [], "keep": []}, []),
        (2, {"md": [0, 1], "saxs": [], "keep": []}, ["saxs", "keep"]),
        (2, {"md": [], "saxs": [], "keep": []}, ["saxs", "keep"]),
        (3, {"md": [], "saxs": [], "keep": [2]}, []),
        (3, {"md": [0, 1], "saxs": [1], "keep": [2]}, ["saxs"]),
    ],
)
def test_who_runs_on_the_cores_of_a_stage(cores: int, of_stage: dict[str, list[int]], expected: list[str]) -> None:
    plan = on_cores(make_plan(), cores, **of_stage)
    assert [each.name for each in competitors(plan.stage("md"), ["md", "saxs", "keep"], plan)] == expected


def test_those_that_are_ready_have_equal_parts_of_a_core() -> None:
    assert share_of_a_core([]) == 1
    assert share_of_a_core([1.0]) == pytest.approx(1 / 2)
    assert share_of_a_core([0.3]) == pytest.approx(1 - 0.3 / 2)
    assert share_of_a_core([1.0, 1.0]) == pytest.approx(1 / 3)
    assert share_of_a_core([0.5, 0.5]) == pytest.approx(1 / 4 + 1 / 2 / 2 + 1 / 4 / 3)


def test_ranks_that_share_all_cores_with_others_wait_for_them(tmp_path: Path) -> None:
    calibrated = known(tmp_path, md_s=0.1, saxs_s=0.03)
    apart = make_forecast(on_cores(make_plan(), 4, md=[0, 1], saxs=[2], keep=[3]), calibrated)
    together_ = make_forecast(on_cores(make_plan(), 2, md=[0, 1], saxs=[], keep=[]), calibrated)
    assert apart.groups[0].limited_by == "stage md"
    assert together_.groups[0].limited_by == "cores of stage md"
    works = [stage.work.median for stage in apart.stages]
    assert together_.groups[0].step.median == pytest.approx(sum(works))
    # An analysis of two ranks polls while it waits: md has half of its cores all the time.
    plan = on_cores(make_plan(), 2, md=[0, 1], saxs=[], keep=[])
    md, saxs, keep = plan.stages
    two = saxs.model_copy(update={"placement": saxs.placement.model_copy(update={"ranks_per_node": 2})})
    polled = make_forecast(plan.model_copy(update={"stages": [md, two, keep]}), calibrated)
    assert polled.groups[0].step.median == pytest.approx(2 * works[0] + works[2])
    assert polled.groups[0].step.low < 0.9 * polled.groups[0].step.median


def test_what_others_took_of_the_cores_is_not_computing(tmp_path: Path) -> None:
    """Of the former run: saxs was busy with 0.037 of each 0.104 s of md, on the same cores, and keep almost never."""
    alone, _ = make_records([write_sample(tmp_path / "alone", md_s=0.1, saxs_s=0.03)])
    shared = on_cores(make_plan(), 2, md=[0, 1], saxs=[], keep=[])
    run_dir = write_sample(tmp_path / "shared", md_s=0.1, saxs_s=0.03, plan=shared)
    records, _ = make_records([run_dir])
    ratios = {
        one.program: other.compute_s.median / one.compute_s.median for one, other in zip(alone, records, strict=True)
    }
    assert ratios["md"] == pytest.approx(1 - 0.037 / 0.104 / 2, abs=0.02)
    # saxs has one rank: md leaves it a part of a core only.
    assert ratios["saxs"] == pytest.approx(0.5, abs=0.03)
    # A program that records no steps: what it had the CPU, or was ready to run, counts.
    (run_dir / "stages/saxs/metrics.jsonl").unlink()
    silent, left_out = make_records([run_dir])
    assert "stage md: saxs ran on its cores for an unknown time" in "; ".join(left_out)
    assert silent[0].compute_s.median > records[0].compute_s.median
    with (run_dir / "events.jsonl").open("a") as events:
        for at, cpu_s, ready_s in ((0.5, 0.1, 0.1), (2.5, 0.3, 0.2), (10.5, 3.1, 1.1)):
            sample = {"event": "stage_cpu", "t": START + at, "stage": "saxs", "cpu_s": cpu_s, "ready_s": ready_s}
            events.write(f"{json.dumps(sample)}\n")
    sampled, left_out = make_records([run_dir])
    assert sampled[0].compute_s.median / alone[0].compute_s.median == pytest.approx(1 - 0.4 / 2, abs=0.02)
    assert "for how long is not known" not in "; ".join(left_out)


def test_a_thread_that_writes_takes_time_from_the_computing(tmp_path: Path) -> None:
    given = point(MB, 1, 0.2, 1).model_copy(update={"behind_s": exactly(0.03)})
    file = sst(via="bp5", engine="BP5", async_write="guided", points=[given])
    plan = _with_parameters(make_plan(engine="BP5"), AsyncWrite="Guided")
    forecast = make_forecast(plan, known(tmp_path, file_system=[file]))
    terms = {term.name: term.seconds.median for term in forecast.stage("md").terms}
    # 1.2 MB by each rank.
    assert terms["write behind"] == pytest.approx(0.036)
    assert forecast.stage("md").work.median == pytest.approx(sum(terms.values()))
    stages = [
        each.model_copy(update={"placement": each.placement.model_copy(update={"cores_per_rank": 2})})
        for each in plan.stages
    ]
    roomy = make_forecast(plan.model_copy(update={"stages": stages}), known(tmp_path, file_system=[file]))
    assert "write behind" not in {term.name for term in roomy.stage("md").terms}
    assert not any("stream atoms" in line for line in forecast.missing) and forecast.stage("md").complete
    # Measured for one of two sizes only: not known, rather than less.
    partly = file.model_copy(update={"points": [given, point(10 * MB, 10, 2, 10)]})
    lacking = make_forecast(plan, known(tmp_path, file_system=[partly]))
    assert lacking.missing[0] == (
        "stream atoms: what its writing thread takes from the computing was not measured on site local: "
        "`wf calibrate --only file_system`"
    )
    assert "write behind" not in {term.name for term in lacking.stage("md").terms}
    assert not lacking.stage("md").complete
    run_dir = write_sample(tmp_path / "run")
    (run_dir / "forecast.json").write_text(forecast.to_json())
    lines = {line.what: line.forecast for line in compute_report(run_dir).forecast}
    assert lines["md: compute"] == pytest.approx(terms["compute"] + terms["write behind"])
    assert lines["md: write atoms"] == pytest.approx(terms["write"])


def _with_parameters(plan: Plan, **parameters: str) -> Plan:
    def end(given: EndPlan) -> EndPlan:
        mine = given.stream == "atoms" and given.side == "write"
        return given.model_copy(update={"parameters": parameters}) if mine else given

    stages = [each.model_copy(update={"ends": [end(one) for one in each.ends]}) for each in plan.stages]
    return plan.model_copy(update={"stages": stages})


def test_a_pipe_writes_what_it_reads(tmp_path: Path) -> None:
    """Whatever its former run wrote: that was of another simulation."""
    plan = make_plan()
    md, saxs, keep = plan.stages
    pipe = saxs.model_copy(update={"added": "pipe"})
    forecast = make_forecast(plan.model_copy(update={"stages": [md, pipe, keep]}), known(tmp_path))
    assert {stream.name: stream.bytes for stream in forecast.streams} == {"atoms": 2.4 * MB, "pattern": 2.4 * MB}
    # What it once wrote is the best that is known behind a writer of which nothing is.
    other = md.model_copy(update={"component": "other"})
    behind = make_forecast(plan.model_copy(update={"stages": [other, pipe, keep]}), known(tmp_path))
    assert {stream.name: stream.bytes for stream in behind.streams} == {"atoms": None, "pattern": 0.3 * MB}


def test_steps_of_streams_in_a_circle(tmp_path: Path) -> None:
    """md reads what saxs makes of each tenth of its steps, or of ten for each: that does not change its own pace."""
    plan = make_plan()
    atoms, pattern = plan.streams
    back = pattern.model_copy(update={"readers": ["keep", "md"]})
    plan = plan.model_copy(update={"streams": [atoms, back]})
    for steps, share in ((4, 0.1), (400, 10.0)):
        records = {
            stage.name: [
                each.model_copy(
                    update={"steps": 40, "ports": [port.model_copy(update={"steps": steps}) for port in each.ports]}
                )
                for each in known(tmp_path).stages
                if each.program == stage.name == "md"
            ]
            for stage in plan.stages
        }
        of_stage, of_stream = step_ratios(plan, records)
        assert of_stage == pytest.approx({"md": 1.0, "saxs": share, "keep": share})
        assert of_stream == pytest.approx({"atoms": share, "pattern": share})


def test_a_long_chain_that_passes_on() -> None:
    """Thousands of stages, the last one first: no recursion, and no loop over all streams for each of them."""
    plan = make_plan()
    saxs, atoms = plan.stage("saxs"), plan.stream("atoms")
    count = 3000
    first = make_stage("s0", "simulation", [make_end("c0", "write")])
    stages = [saxs.model_copy(update={"name": f"s{n}", "added": "relay"}) for n in range(1, count)]
    streams = [
        atoms.model_copy(update={"name": f"c{n}", "writer": f"s{n}", "readers": [f"s{n + 1}"], "step_size": None})
        for n in range(count - 1)
    ]
    streams[0] = streams[0].model_copy(update={"step_size": MB})
    plan = plan.model_copy(update={"stages": [*stages[::-1], first], "streams": streams[::-1]})
    records: dict[str, list[StageRecord]] = {stage.name: [] for stage in plan.stages}
    assert {size.bytes for size in stream_sizes(plan, records).values()} == {MB}
    assert len(stream_sizes(plan, records)) == count - 1
    of_stage, of_stream = step_ratios(plan, records)
    assert set(of_stage.values()) == set(of_stream.values()) == {1.0} and len(of_stage) == count
