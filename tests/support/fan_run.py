"""A run of one writer and several readers, from records made by hand: one, two and keep read what md writes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.sample_run import START, Record, make_end, make_stage, write_lines, write_run
from workflow.plan.plan_model import Plan, StreamPlan
from workflow.report.read.run_records import Records, read_records
from workflow.report.read.stage_metrics import StageMetrics, read_metrics
from workflow.site.load_site import launcher_options
from workflow.spec.models.deadlines import Deadlines
from workflow.spec.models.pipeline import Queue

READERS = ["one", "two"]


def fan(limit: int | None = 3, when_full: str = "block", engine: str = "SST") -> Plan:
    """md writes atoms to one and two, and log to keep."""
    queue = None if limit is None else Queue.model_validate({"limit": limit, "when_full": when_full})

    def stream(name: str, readers: list[str]) -> StreamPlan:
        return StreamPlan(
            name=name, writer="md", readers=readers, via=engine.lower(), engine=engine, keep=True, coupling="live",
            path="${{ run.dir }}/streams/" + name, queue=queue, on_disk=["${{ run.dir }}/streams/" + name],
        )  # fmt: skip

    return Plan(
        wf_version="0", pipeline="fan", pipeline_file="pipeline.yaml", site="local",
        launch_options=launcher_options("mpiexec"),
        stages=[
            make_stage("md", "simulation", [make_end("atoms", "write", engine), make_end("log", "write", engine)]),
            *(make_stage(name, "sink", [make_end("atoms", "read", engine)]) for name in READERS),
            make_stage("keep", "sink", [make_end("log", "read", engine)]),
        ],
        streams=[stream("atoms", READERS), stream("log", ["keep"])],
        deadlines=Deadlines(),
    )  # fmt: skip


def opened(stream: str, side: str, t: float = 0.0) -> Record:
    return {"kind": "open", "t": START + t, "stream": stream, "side": side, "engine": "SST", "seconds": 0.0}


def stepped(
    stream: str, side: str, times: Sequence[float], size: int | None = 100, wait_s: float = 0.0
) -> list[Record]:
    """One step at each of these times, each after so long a wait."""
    return [
        {
            "kind": "step", "t": START + t, "stream": stream, "side": side, "step": step, "bytes": size,
            "wait_s": wait_s, "io_s": 0.25, "compute_s": 0.0,
        }
        for step, t in enumerate(times)
    ]  # fmt: skip


def closed(stream: str, side: str, steps: int, t: float) -> Record:
    return {"kind": "close", "t": START + t, "stream": stream, "side": side, "steps": steps, "complete": True}


def begun(*names: str) -> list[Record]:
    run = {
        "event": "run_started",
        "events_version": 3,
        "t": START,
        "run": "fan",
        "plan_version": 1,
        "pid": 1,
        "host": "node1",
    }
    return [run, *({"event": "stage_started", "t": START, "stage": name, "pid": 9} for name in names)]


def event(kind: str, t: float, **more: Any) -> Record:
    return {"event": kind, "t": START + t, **more}


def records_of(
    folder: Path, plan: Plan, metrics: dict[str, list[Record]], events: list[Record] | None = None
) -> Records:
    return read_records(write_run(folder / "run", plan, [*begun("md", *READERS, "keep"), *(events or [])], metrics))


def metrics_of(*lines: Record) -> StageMetrics:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        write_lines(path, list(lines))
        return read_metrics(path)


def written(times: Sequence[float], size: int | None = 100, wait_s: float = 0.0) -> list[Record]:
    return [opened("atoms", "write"), *stepped("atoms", "write", times, size, wait_s)]


def taken(times: Sequence[float], size: int | None = 100, wait_s: float = 0.0) -> list[Record]:
    return [opened("atoms", "read"), *stepped("atoms", "read", times, size, wait_s)]


def foreign(plan: Plan, **ranks: int) -> Plan:
    """These stages keep no metrics."""
    stages = [
        stage.model_copy(update={"observed": "evidence", "ranks": ranks[stage.name], "env": {"SstVerbose": "3"}})
        if stage.name in ranks
        else stage
        for stage in plan.stages
    ]
    return plan.model_copy(update={"stages": stages})
