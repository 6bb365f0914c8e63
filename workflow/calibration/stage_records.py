"""What stages took in former runs, for the forecast of others: computing and CPU time per step, sizes of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workflow.campaign.campaign_directory import read_schedule
from workflow.campaign.ledger import CAMPAIGNS, LEDGER_FILE, read_history
from workflow.errors import RunError, WfError
from workflow.forecast.calibration_model import Calibration, PortRecord, StageRecord
from workflow.forecast.known_stages import (
    SAME_SIZE,
    StageIdentity,
    competitors,
    has_several_ranks,
    share_of_a_core,
    stage_identity,
)
from workflow.forecast.quartiles import quartiles
from workflow.plan.plan_model import Plan, StagePlan
from workflow.plan.read_plan import read_plan
from workflow.report.build.measured_forecast import StepTerms, step_terms
from workflow.report.read.run_records import CpuSample, Records, read_records
from workflow.run.records.events_file import read_start_and_verdict
from workflow.run.records.find_runs import find_run, is_run
from workflow.run.records.run_directory import PLAN_FILE, RUNS

# Less than this of its time ready to run without the CPU, and a stage is said to have had the CPU for itself.
LITTLE_WAITING = 0.05


@dataclass
class _Samples:
    """The same stage, of all runs given, with steps of the same size."""

    stage: StagePlan
    identity: StageIdentity
    ports: list[PortRecord]
    runs: list[str] = field(default_factory=list)
    steps: int = 0
    compute_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


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


def make_records(run_dirs: Sequence[Path]) -> tuple[list[StageRecord], list[str]]:
    """The records of the stages of these runs, and those of which there are none, or no exact ones, with the reason."""
    found: list[_Samples] = []
    left_out: dict[str, None] = {}
    for run_dir in run_dirs:
        try:
            records = read_records(run_dir)
            plan = read_plan((run_dir / PLAN_FILE).read_bytes(), str(run_dir / PLAN_FILE))
        except (WfError, OSError) as error:
            left_out[f"{run_dir.name}: {error}"] = None
            continue
        of_stage = {stage.name: step_terms(records, stage.name) for stage in plan.stages}
        written = {
            stream: size
            for terms in of_stage.values()
            for (stream, side), (_, size) in terms.moved.items()
            if side == "write"
        }
        for stage in plan.stages:
            terms = of_stage[stage.name]
            if not terms.compute:
                why = "its program does not use workflow.stage" if stage.observed == "evidence" else "it has no steps"
                left_out[f"stage {stage.name}: {why}"] = None
                continue
            busy = _busy_beside(stage, plan, records)
            # Ranks that wait for one which has lost its core are not ready to run: beside other stages of the plan what
            # those left is the better estimate.
            if stage.observed == "metrics" and busy:
                terms.ready_s = None
            if terms.ready_s is None:
                why = "ran on its cores for an unknown time, so its recorded computing time may be too long"
                left_out |= {f"stage {stage.name}: {name} {why}": None for name, known in busy.items() if known is None}
            share = share_of_a_core([known for known in busy.values() if known is not None])
            _add(found, stage, terms, written, run_dir.resolve().name, share)
    return [_to_record(samples) for samples in found], list(left_out)


def with_records(calibration: Calibration, records: Iterable[StageRecord]) -> Calibration:
    """The calibration with these records before all others, in place of those of the same stages."""
    new = list(records)
    old = [each for each in calibration.stages if not any(_is_same(each, other) for other in new)]
    return calibration.model_copy(update={"stages": [*new, *old]})


def _is_same(one: StageRecord, other: StageRecord) -> bool:
    key = (one.program, one.parameters, one.ranks) == (other.program, other.parameters, other.ranks)
    return key and _same_ports(one.ports, other.ports)


def _same_ports(one: Sequence[PortRecord], other: Sequence[PortRecord]) -> bool:
    sizes = [{(each.port, each.side): each.bytes_per_step for each in ports} for ports in (one, other)]
    return sizes[0].keys() == sizes[1].keys() and all(
        abs(size - sizes[1][key]) <= SAME_SIZE * max(size, sizes[1][key]) for key, size in sizes[0].items()
    )


def _busy_beside(stage: StagePlan, plan: Plan, records: Records) -> dict[str, float | None]:
    """The shares of its time in which those were ready to run, waiting in vain included, that run on its cores.

    None: nothing is recorded of that stage, neither steps nor CPU time.
    """
    steps = records.metrics[stage.name].steps
    first, last = steps[0].t, steps[-1].t
    found: dict[str, float | None] = {}
    for other in competitors(stage, [each.name for each in plan.stages], plan) if last > first else []:
        of_other = records.metrics[other.name].steps
        inside = [each for each in of_other if first < each.t <= last]
        polls = has_several_ranks(other)
        busy_s = sum(each.compute_s + each.device_s + each.io_s + each.wait_s * polls for each in inside)
        by_cpu = None if of_other else _busy_by_cpu(records.cpu.get(other.name, []), other.ranks, first, last)
        found[other.name] = min(1.0, busy_s / (last - first)) if of_other else by_cpu
    return found


def _busy_by_cpu(samples: Sequence[CpuSample], ranks: int, first: float, last: float) -> float | None:
    """The same of a program that records no steps: its CPU time between the samples that enclose this time."""
    if len(samples) < 2:
        return None
    before = max((each for each in samples if each.t <= first), default=samples[0])
    after = min((each for each in samples if each.t >= last), default=samples[-1])
    busy_s = (after.cpu_s - before.cpu_s + after.ready_s - before.ready_s) / ranks
    return min(1.0, busy_s / max(last - first, after.t - before.t))


def _add(
    found: list[_Samples],
    stage: StagePlan,
    terms: StepTerms,
    written: Mapping[str, float],
    run: str,
    share_of_core: float,
) -> None:
    """`share_of_core`: what others left of its cores, where its own waiting for them is not known."""
    identity, ports = stage_identity(stage), _ports(stage, terms, written)
    samples = next((each for each in found if each.identity == identity and _same_ports(each.ports, ports)), None)
    if samples is None:
        samples = _Samples(stage, identity, ports)
        found.append(samples)
    else:
        now = {(each.port, each.side): each.steps for each in ports}
        samples.ports = [
            each.model_copy(update={"steps": each.steps + now[each.port, each.side]}) for each in samples.ports
        ]
    samples.runs.append(run)
    samples.steps += terms.steps
    alone = share_of_core if terms.ready_s is None else _share_alone(stage, terms)
    samples.compute_s += [seconds * alone for seconds in terms.compute]
    cpu_s = _compute_cpu(stage, terms, alone)
    samples.cpu_s += [] if cpu_s is None else [cpu_s]


def _ports(stage: StagePlan, terms: StepTerms, written: Mapping[str, float]) -> list[PortRecord]:
    """What each port moves; `written`: bytes of a step of each stream whose writer records them.

    A program may also write files of its own, which are no streams of the pipeline.
    """
    ports = {(end.stream, end.side): end.port for end in stage.ends}
    found = []
    for (stream, side), (steps, size) in terms.moved.items():
        if (stream, side) not in ports:
            continue
        whole = written.get(stream)
        share = size / whole if side == "read" and whole and size else 1.0
        found.append(PortRecord(port=ports[stream, side], side=side, bytes_per_step=size, share=share, steps=steps))
    return found


def _share_alone(stage: StagePlan, terms: StepTerms) -> float:
    """The share of its computing time that a stage would have needed with the CPU for itself.

    What it was ready to run and did not is spread over its computing and moving data alike.
    """
    busy = _mean(terms.compute) + sum(_mean(values) for values in terms.io.values())
    if terms.ready_s is None or not busy:
        return 1.0
    waited = terms.ready_s / stage.ranks / busy
    return 1.0 if waited < LITTLE_WAITING else max(0.0, 1 - waited)


def _compute_cpu(stage: StagePlan, terms: StepTerms, alone: float) -> float | None:
    """CPU time of the computing alone, all ranks: its share of the working time, and no more than its time allows.

    `alone`: the share of that time that it would have needed with the CPU for itself. Ranks that wait for one which
    has lost its core poll: that is CPU time, too.
    """
    if terms.cpu_s is None:
        return None
    computing = _mean(terms.compute)
    moving = sum(_mean(values) for values in terms.io.values())
    if computing + moving <= 0:
        return 0.0
    most = stage.ranks * max(1, stage.placement.cores_per_rank) * computing * alone
    return min(terms.cpu_s * computing / (computing + moving), most)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _to_record(samples: _Samples) -> StageRecord:
    runs = samples.runs
    return StageRecord(
        program=samples.identity.program,
        parameters=samples.identity.parameters,
        ranks=samples.identity.ranks,
        run=runs[0] if len(runs) == 1 else f"{runs[0]} and {len(runs) - 1} others",
        steps=samples.steps,
        compute_s=quartiles(samples.compute_s),
        cpu_s=_mean(samples.cpu_s) if samples.cpu_s else None,
        ports=samples.ports,
    )
