"""What runs measured, kept for forecasts: what stages computed per step, and what moving data took at each end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workflow.calibration.calibration_file import calibration_path, load_calibration, write_calibration
from workflow.campaign.campaign_directory import read_schedule
from workflow.campaign.ledger import CAMPAIGNS, LEDGER_FILE, read_history
from workflow.errors import RunError, WfError
from workflow.forecast.calibration_model import Calibration, MovingRecord, PortRecord, StageRecord
from workflow.forecast.earlier_runs import end_kind, identity_of, same_size, stage_identity
from workflow.forecast.quartiles import quartiles
from workflow.plan.plan_model import Plan, StagePlan
from workflow.plan.read_plan import read_plan
from workflow.provenance.provenance_model import read_provenance
from workflow.report.read.run_records import read_records
from workflow.report.read.stage_metrics import StageMetrics, StepRecord, number_of_steps
from workflow.run.records.events_file import read_start_and_verdict
from workflow.run.records.find_runs import find_run, is_run
from workflow.run.records.run_directory import PLAN_FILE, RUNS

# The first steps set up arrays, connections and caches: left out where enough others remain.
WARM_STEPS = 3


@dataclass(frozen=True)
class KeptMeasurements:
    """What was measured, and where it is kept."""

    stages: int
    """How many were recorded now."""
    calibration: Calibration
    """With what earlier runs have measured."""
    file: Path
    notes: list[str]
    """Of which nothing is known, and why."""


@dataclass
class _Pool:
    """The same thing, measured in one or several runs."""

    record: StageRecord | MovingRecord
    runs: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def to_record(self) -> StageRecord | MovingRecord:
        """The record of all of them."""
        more = len(set(self.runs)) - 1
        run = f"{self.runs[0]} and {more} more" if more else self.runs[0]
        return self.record.model_copy(update={"seconds": quartiles(self.seconds), "run": run})


def keep_measurements(source: Path) -> KeptMeasurements:
    """Keep what a run, or the repetitions of a campaign, measured, in the calibration of their site.

    Raises:
        WfError: there is no such run, it has not succeeded, or nothing is known about its stages.
    """
    run_dirs = find_runs(source)
    found, notes = make_calibration(run_dirs)
    if not found.stages:
        raise WfError(f"{source}: nothing is known about its stages: {'; '.join(notes)}")
    old = load_calibration(found.site)
    calibration = found if old is None else merged(found, old)
    file = calibration_path(found.site)
    write_calibration(calibration, file)
    return KeptMeasurements(len(found.stages), calibration, file, notes)


def find_runs(given: Path) -> list[Path]:
    """The run of that name or path, or the measured runs of the campaign of that name or in that directory.

    Of a campaign those that succeeded, of its trials as they are now, without warm-up.

    Raises:
        RunError: there are none, or the run has not succeeded: its stages may have stopped anywhere.
    """
    if not (given / LEDGER_FILE).is_file() and Path(CAMPAIGNS, given, LEDGER_FILE).is_file() and not is_run(str(given)):
        given = Path(CAMPAIGNS, given)
    if (given / LEDGER_FILE).is_file():
        keys = {trial.key for trial in read_schedule(given).trials}
        found = [
            given / RUNS / attempt.run
            for identity, attempt in read_history(given).ended.items()
            if attempt.state == "succeeded" and not identity.warmup and identity.key in keys
        ]
        if not found:
            text = "no measured repetition of this campaign has succeeded"
            raise RunError(f"{given}: {text}", "`wf campaign status` says why; then: `wf campaign run CAMPAIGN`")
        return sorted(found)
    run_dir = find_run(given)
    finished = read_start_and_verdict(run_dir).finished
    if finished is None or finished.state != "succeeded":
        text = f"{run_dir}: this run has not succeeded, so the times of its stages are not known"
        raise RunError(text, "choose one that has: `wf runs` lists them")
    return [run_dir]


def make_calibration(run_dirs: Sequence[Path]) -> tuple[Calibration, list[str]]:
    """What these runs measured, and of which of their stages nothing is known, with the reason."""
    pools: list[_Pool] = []
    notes: dict[str, None] = {}
    site = ""
    for run_dir in run_dirs:
        try:
            records = read_records(run_dir)
            plan = read_plan((run_dir / PLAN_FILE).read_bytes(), str(run_dir / PLAN_FILE))
        except (WfError, OSError) as error:
            notes[f"{run_dir.name}: {error}"] = None
            continue
        site, run = plan.site, run_dir.resolve().name
        provenance = read_provenance(run_dir)
        host = "" if provenance is None else provenance.host
        for stage in plan.stages:
            metrics = records.metrics[stage.name]
            if not metrics.steps:
                why = "its program does not use workflow.stage" if stage.observed == "evidence" else "it has no steps"
                notes[f"stage {stage.name}: {why}"] = None
            for record, seconds in _measured(stage, metrics, records.metrics, plan, run, host):
                pool = next((each for each in pools if _is_same(each.record, record)), None)
                if pool is None:
                    pools.append(pool := _Pool(record))
                pool.runs.append(run)
                pool.seconds += seconds
    every = [pool.to_record() for pool in pools]
    stages = [each for each in every if isinstance(each, StageRecord)]
    ends = [each for each in every if isinstance(each, MovingRecord)]
    return Calibration(site=site, stages=stages, ends=ends), list(notes)


def merged(new: Calibration, old: Calibration) -> Calibration:
    """The new records before the old ones, in place of those of the same things."""
    stages = [each for each in old.stages if not any(_same_stage(each, other) for other in new.stages)]
    ends = [each for each in old.ends if not any(_same_end(each, other) for other in new.ends)]
    return new.model_copy(update={"stages": [*new.stages, *stages], "ends": [*new.ends, *ends]})


def _is_same(one: StageRecord | MovingRecord, other: StageRecord | MovingRecord) -> bool:
    if isinstance(one, StageRecord):
        return isinstance(other, StageRecord) and _same_stage(one, other)
    return isinstance(other, MovingRecord) and _same_end(one, other)


def _same_stage(one: StageRecord, other: StageRecord) -> bool:
    """Whether both are of the same program with steps of the same sizes."""
    sizes = [{(each.port, each.side): each.bytes_per_step for each in record.ports} for record in (one, other)]
    return (
        identity_of(one) == identity_of(other)
        and sizes[0].keys() == sizes[1].keys()
        and all(same_size(size, sizes[1][port]) for port, size in sizes[0].items())
    )


def _same_end(one: MovingRecord, other: MovingRecord) -> bool:
    return one.kind == other.kind and same_size(one.bytes, other.bytes)


def _measured(
    stage: StagePlan, metrics: StageMetrics, of_all: Mapping[str, StageMetrics], plan: Plan, run: str, host: str
) -> Iterator[tuple[StageRecord | MovingRecord, list[float]]]:
    """The records of a stage of one run, each with its seconds per step.

    A program may also write files of its own, which are no streams of the pipeline.
    """
    compute_s, ports = _compute_times(metrics), list[PortRecord]()
    for end in stage.ends:
        steps = metrics.of(end.stream, end.side)
        amount = _bytes_per_step(steps)
        if amount is None:
            continue
        kind, io_s = end_kind(stage, end, plan), [each.io_s / each.count for each in steps]
        yield MovingRecord(kind=kind, bytes=amount, seconds=quartiles(io_s), run=run, host=host), _warm(io_s)
        whole = _bytes_per_step(of_all[plan.stream(end.stream).writer].of(end.stream, "write"))
        ports.append(
            PortRecord(
                port=end.port,
                side=end.side,
                bytes_per_step=amount,
                share=amount / whole if end.side == "read" and whole and amount else 1.0,
                per_step=number_of_steps(steps) / max(map(number_of_steps, metrics.steps_of.values())),
            )
        )
    if compute_s:
        program, parameters, ranks = stage_identity(stage)
        record = StageRecord(
            program=program, parameters=parameters, ranks=ranks, seconds=quartiles(compute_s), ports=ports, run=run,
            host=host,
        )  # fmt: skip
        yield record, compute_s


def _bytes_per_step(steps: Sequence[StepRecord]) -> float | None:
    """Of one end; None where they are not known."""
    if not steps or any(each.bytes is None for each in steps):
        return None
    return sum(each.bytes or 0 for each in steps) / number_of_steps(steps)


def _compute_times(metrics: StageMetrics) -> list[float]:
    """Seconds for each step of the fastest end: all computing since the step before it, device copies included."""
    fastest = max(metrics.steps_of, key=lambda end: number_of_steps(metrics.steps_of[end]), default=None)
    found, compute_s = list[float](), 0.0
    for record in sorted(metrics.steps, key=lambda each: each.t):
        compute_s += record.compute_s + record.device_s
        if (record.stream, record.side) == fastest:
            found.append(compute_s / record.count)
            compute_s = 0.0
    return _warm(found)


def _warm(values: list[float]) -> list[float]:
    return values[min(WARM_STEPS, len(values) // 3) :]
