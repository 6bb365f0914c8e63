"""All records of a run that its report needs: events, metrics, proof of the placement."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from workflow.core_set import format_cores
from workflow.errors import RunError
from workflow.formats.bp_index import read_index
from workflow.formats.metrics_lines import METRICS_FILE
from workflow.formats.read_json import read_json
from workflow.plan.plan_model import Plan
from workflow.report.read.run_states import read_expectations
from workflow.report.read.stage_metrics import FirstStep, StageMetrics, join_attempts, read_metrics, read_own_figures
from workflow.report.report_model import ExpectationPart
from workflow.run.records.events_file import read_events
from workflow.run.records.run_directory import PROOF_FILE, attempt_dir, read_allocation, read_filled_plan
from workflow.run.records.run_notes import RunNotes, read_notes
from workflow.run.state.events import (
    Event,
    StageCpu,
    StageExited,
    StagesRestarted,
    StageStarted,
    StageSteered,
    SteeringAsked,
    SteeringRefused,
    StreamProgress,
    Tick,
)
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import EndKey, RunState, initial_state


class CpuSample(NamedTuple):
    """Seconds that all processes of a stage have had the CPU until `t` (Unix s), and were ready to run without it."""

    t: float
    cpu_s: float
    ready_s: float


@dataclass(frozen=True)
class Records:
    """The plan, what the supervisor saw, and what each stage recorded about itself (by name).

    `seen` holds (when, steps so far) of each end as the supervisor saw it, a few times a second at most; `cpu` the
    samples of the CPU time of a stage, from its start on; `steering` what was asked of the values of stages, and what
    became of it; `own_figures` what programs measured themselves, and
    `figure_problems` what is wrong with their files; `partial` the files that were not finished, of a run with a
    verdict; `judged` what was found of its expectations when it ended, where that was kept; `notes` what people
    say of it; `hosts` the nodes of its job, as the plan counts them, with spare ones in the place of those that were
    lost.
    """

    run_dir: Path
    plan: Plan
    state: RunState
    seen: dict[EndKey, list[tuple[float, int]]]
    metrics: dict[str, StageMetrics]
    cpu: dict[str, list[CpuSample]]
    partial: list[PartialFile]
    steering: list[SteeringAsked | StageSteered | SteeringRefused] = field(default_factory=list)
    own_figures: dict[str, dict[str, float]] = field(default_factory=dict)
    figure_problems: dict[str, str] = field(default_factory=dict)
    judged: list[ExpectationPart] | None = None
    notes: RunNotes = field(default_factory=RunNotes)
    hosts: list[str] = field(default_factory=list)

    def at(self, t: float) -> Records:
        """The same of a run that goes on, at this time (Unix s): its last event may be of long ago."""
        return replace(self, state=fold(self.state, [Tick(t)]))


def read_records(run_dir: Path, state: RunState | None = None) -> Records:
    """Read plan.json, events.jsonl and stages/*/metrics.jsonl; only the plan must be there and whole.

    `state`: the one that the supervisor ended with, where it is known; it may know more than could be written.

    Raises:
        RunError: there is no plan, or it cannot be read.
    """
    plan = read_filled_plan(run_dir)
    stages = run_dir / "stages"
    events = _events(run_dir)
    seen: dict[EndKey, list[tuple[float, int]]] = {}
    for event in events:
        if isinstance(event, StreamProgress):
            seen.setdefault((event.stream, event.stage, event.side), []).append((event.t, event.steps))
    state = state or fold(initial_state(plan), _without_early_progress(events))
    metrics = {stage.name: _metrics(run_dir, stage.name, state) for stage in plan.stages}
    partial = find_partial_files(plan) if state.finished is not None else []
    read = {stage.name: read_own_figures(stages / stage.name / "work") for stage in plan.stages}
    own = {name: figures for name, (figures, _) in read.items() if figures}
    wrong = {name: problem for name, (_, problem) in read.items() if problem}
    cpu = _cpu_samples(events)
    judged = read_expectations(run_dir) if plan.expectations else None
    notes = read_notes(run_dir)
    steering = [event for event in events if isinstance(event, SteeringAsked | StageSteered | SteeringRefused)]
    return Records(
        run_dir, plan, state, seen, metrics, cpu, partial, steering, own, wrong, judged, notes,
        _hosts(run_dir, state),
    )  # fmt: skip


def _hosts(run_dir: Path, state: RunState) -> list[str]:
    allocation = read_allocation(run_dir)
    hosts = [] if allocation is None else [*allocation.host_names]
    for move in state.moves:
        if move.node < len(hosts):
            hosts[move.node] = move.by_host
    return hosts


def _metrics(run_dir: Path, stage: str, state: RunState) -> StageMetrics:
    """What all attempts of a stage have recorded."""
    begun = [event for event in state.attempts if stage in event.stages]
    firsts: list[FirstStep] = [lambda _: 0, *(partial(event.begins, stage) for event in begun)]
    parts = [
        (first, read_metrics(attempt_dir(run_dir, stage, number) / METRICS_FILE))
        for number, first in enumerate(firsts, start=1)
    ]
    return parts[0][1] if len(parts) == 1 else join_attempts(parts)


def _cpu_samples(events: list[Event]) -> dict[str, list[CpuSample]]:
    """The samples of each stage of which there are any; never falling, though a process may end between two looks, and
    each attempt of a stage begins anew."""
    started: dict[str, CpuSample] = {}  # stage → what its earlier attempts have used, when this one was started
    samples: dict[str, list[CpuSample]] = {}
    for event in events:
        if isinstance(event, StageStarted):
            before = samples[event.stage][-1] if event.stage in samples else CpuSample(event.t, 0.0, 0.0)
            started[event.stage] = before._replace(t=event.t)
        if isinstance(event, StageCpu | StageExited) and event.cpu_s is not None and event.stage in started:
            first = started[event.stage]
            of_stage = samples.setdefault(event.stage, [first])
            last = of_stage[-1]
            ready_s = first.ready_s + event.ready_s if isinstance(event, StageCpu) else last.ready_s
            of_stage.append(CpuSample(event.t, max(first.cpu_s + event.cpu_s, last.cpu_s), max(ready_s, last.ready_s)))
    return samples


def _without_early_progress(events: list[Event]) -> list[Event]:
    """The events that lead to the same counts: progress counts from the beginning, so that of each end the last one
    before a restart, and before the end, is enough."""
    last: dict[tuple[EndKey, int], int] = {}
    restarts = 0
    for number, event in enumerate(events):
        restarts += isinstance(event, StagesRestarted)
        if isinstance(event, StreamProgress):
            last[(event.stream, event.stage, event.side), restarts] = number
    numbers = set(last.values())
    return [e for number, e in enumerate(events) if number in numbers or not isinstance(e, StreamProgress)]


def _events(run_dir: Path) -> list[Event]:
    try:
        return list(read_events(run_dir))
    except RunError:
        return []  # written, and not started yet


# As the component `archive` calls a file until its stream has ended.
SUFFIX = ".partial"


@dataclass(frozen=True)
class PartialFile:
    """`path` is what is there; `wanted` the file that it was to become. `steps`: those that can be read, None where
    that is not known."""

    wanted: Path
    path: Path
    steps: int | None


def find_partial_files(plan: Plan) -> list[PartialFile]:
    """Those of all stages; `plan` has its run directory filled in."""
    found = []
    for stage in plan.stages:
        for value in stage.parameters.values() if stage.component is not None else ():
            path = Path(f"{value}{SUFFIX}")
            if isinstance(value, str) and path.is_absolute() and path.exists():
                index = read_index(path / "md.idx") if path.is_dir() else None
                found.append(PartialFile(Path(value), path, None if index is None else index.steps))
    return found


class RanksOnNode(NamedTuple):
    """The ranks of a stage on one node: their numbers, the cores of all of them, and GPUs, as the launcher set them."""

    stage: str
    host: str
    ranks: str
    cores: str
    gpus: str


class StreamResult(NamedTuple):
    """A smoke stream, or why there was none."""

    stream: str
    way: str
    result: str


class ProofTables(NamedTuple):
    """What `proof.json` says of the placement, as far as the report shows it."""

    ranks: list[RanksOnNode]
    streams: list[StreamResult]


def read_proof(run_dir: Path) -> ProofTables | None:
    """None where none was taken, or the file cannot be read."""
    try:
        record = read_json((run_dir / PROOF_FILE).read_bytes())
        return ProofTables(_ranks(record["stages"]), _streams(record))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _ranks(stages: dict[str, list[dict[str, Any]]]) -> list[RanksOnNode]:
    found = []
    for stage, ranks in sorted(stages.items()):
        hosts: dict[str, list[dict[str, Any]]] = {}
        for rank in ranks:
            hosts.setdefault(rank["host"], []).append(rank)
        for host, its in sorted(hosts.items()):
            cores = "; ".join(dict.fromkeys(rank["cores"] for rank in its))
            gpus = "; ".join(dict.fromkeys(value for rank in its for value in rank.get("gpus", {}).values()))
            found.append(RanksOnNode(stage, host, format_cores(rank["rank"] for rank in its), cores, gpus))
    return found


def _streams(record: dict[str, Any]) -> list[StreamResult]:
    tried = [
        StreamResult(
            each["stream"],
            f"{each['writer']} → {', '.join(each['readers'])} by {each['transport']}",
            each["text"] if each["seconds"] is None else f"3 steps in {each['seconds']:.2f} s",
        )
        for each in record["streams"]
    ]
    return tried + [StreamResult(name, "", f"not tried: {why}") for name, why in record["untried"].items()]
