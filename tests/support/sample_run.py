"""Run directories with the files that a real run leaves, made in a moment: for tests of the report.

The chain is md → saxs → keep. The times of a step come from a small model of a bounded queue, so that
waits, queue lengths and totals fit together as they do in a real run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workflow.plan.plan_model import EndPlan, Placement, Plan, StagePlan, StreamPlan
from workflow.provenance.provenance_model import PROVENANCE_FILE, Provenance
from workflow.site.load_site import launcher_options
from workflow.spec.models.deadlines import Deadlines
from workflow.spec.models.pipeline import Queue

START = 1_790_000_000.0
PROVENANCE = Provenance(
    host="node1", user="ada", command=["wf", "run", "pipeline.yaml"], directory="/home/ada", python="/usr/bin/python3",
    versions={"wf": "0.1.0", "python": "3.11.2"}, created=START,
)  # fmt: skip
Record = dict[str, Any]


def make_end(stream: str, side: str, engine: str = "SST") -> EndPlan:
    return EndPlan.model_validate(
        {
            "stream": stream, "port": stream, "side": side, "engine": engine,
            "path": "${{ run.dir }}/streams/" + stream, "open_timeout_s": 120, "step_timeout_s": 600, "io": stream,
            "parameters": {"QueueLimit": "2", "QueueFullPolicy": "Block", "RendezvousReaderCount": "1"},
        }
    )  # fmt: skip


def make_stage(
    name: str, kind: str, ends: list[EndPlan], ranks: int = 1, cores: Sequence[int] = (0,), **more: Any
) -> StagePlan:
    settings = {
        "name": name, "kind": kind, "component": name, "program": ["python", f"{name}.py"],
        "launch": {"launcher": "mpiexec", "executable": "mpiexec"} if ranks > 1 else {"launcher": "none"}, "env": {},
        "cwd": "${{ run.dir }}/stages/" + name + "/work",
        "ranks": ranks, "ends": ends, "observed": "metrics",
        "placement": Placement(nodes=[(0, 1)], ranks_per_node=ranks, cores=list(cores), cores_per_rank=1),
    }  # fmt: skip
    return StagePlan.model_validate(settings | more)


def make_plan(limit: int = 2, when_full: str = "block", engine: str = "SST", **stage_more: Any) -> Plan:
    """The chain md → saxs → keep; both streams alike."""
    live = engine == "SST"

    def stream(name: str, writer: str, reader: str) -> StreamPlan:
        return StreamPlan(
            name=name, writer=writer, readers=[reader], via=engine.lower(), engine=engine, keep=True,
            coupling="live" if live else "after", path="${{ run.dir }}/streams/" + name,
            queue=Queue.model_validate({"limit": limit, "when_full": when_full}) if live else None,
            on_disk=["${{ run.dir }}/streams/" + name + (".sst" if live else ".bp")],
        )  # fmt: skip

    return Plan(
        wf_version="0.1.0", pipeline="shock-diffraction", pipeline_file="pipeline.yaml", site="local",
        launch_options=launcher_options("mpiexec"),
        stages=[
            make_stage("md", "simulation", [make_end("atoms", "write", engine)], ranks=2, cores=[0, 1], **stage_more),
            make_stage(
                "saxs", "analysis", [make_end("atoms", "read", engine), make_end("pattern", "write", engine)], cores=[2]
            ),
            make_stage("keep", "sink", [make_end("pattern", "read", engine)], cores=[3]),
        ],
        streams=[stream("atoms", "md", "saxs"), stream("pattern", "saxs", "keep")],
        deadlines=Deadlines(),
    )  # fmt: skip


class Recorder:
    """Collects the metrics lines of one stage on its own clock."""

    def __init__(self, stage: str, start: float) -> None:
        self.stage, self.now, self.free = stage, start, start
        self.lines: list[Record] = [
            {
                "kind": "start",
                "metrics_version": 2,
                "t": start,
                "stage": stage,
                "ranks": 1,
                "adios2": "2.12.1",
                "mpi": False,
                "parallel": False,
            }
        ]

    def open(self, stream: str, side: str, at: float) -> None:
        self.lines.append(
            {"kind": "open", "t": at, "stream": stream, "side": side, "engine": "SST", "seconds": at - self.now}
        )
        self.now = at

    def step(self, stream: str, side: str, step: int, volume: int, compute: float, wait: float, io: float) -> None:
        self.now += compute + wait + io
        self.lines.append(
            {
                "kind": "step", "t": self.now, "stream": stream, "side": side, "step": step, "bytes": volume,
                "wait_s": wait, "io_s": io, "compute_s": compute,
            }
        )  # fmt: skip

    def close(self, stream: str, side: str, steps: int, complete: bool = True) -> None:
        self.lines.append(
            {"kind": "close", "t": self.now, "stream": stream, "side": side, "steps": steps, "complete": complete}
        )


def simulate(
    steps: int, md_s: float, saxs_s: float, keep_s: float, limit: int = 2, volume: int = 2_400_000
) -> dict[str, list[Record]]:
    """Metrics of the chain with bounded queues: compute times per step given, waits follow."""
    md, saxs, keep = Recorder("md", START + 0.5), Recorder("saxs", START + 0.3), Recorder("keep", START + 0.2)
    for stage, stream, side in ((md, "atoms", "write"), (saxs, "atoms", "read"), (saxs, "pattern", "write")):
        stage.open(stream, side, START + (0.9 if stream == "atoms" else 1.0))
    keep.open("pattern", "read", START + 1.0)
    taken: list[list[float]] = [[], []]  # when step i left each queue
    for step in range(steps):
        wobble = 1 + 0.3 * ((step * 7919) % 13 - 6) / 6
        ready = md.now + md_s * wobble + 0.004
        room = taken[0][step - limit] if step >= limit else 0.0
        md.step("atoms", "write", step, volume, md_s * wobble, max(0.0, room - ready), 0.004)
        saxs.step("atoms", "read", step, volume, 0.0, max(0.0, md.now - saxs.now), 0.006)
        taken[0].append(saxs.now)
        ready = saxs.now + saxs_s * wobble + 0.001
        room = taken[1][step - limit] if step >= limit else 0.0
        saxs.step("pattern", "write", step, volume // 8, saxs_s * wobble, max(0.0, room - ready), 0.001)
        keep.step(
            "pattern", "read", step, volume // 8, 0.0 if step == 0 else keep_s, max(0.0, saxs.now - keep.now), 0.001
        )
        taken[1].append(keep.now)
    for stage, stream, side in (
        (md, "atoms", "write"), (saxs, "atoms", "read"), (saxs, "pattern", "write"), (keep, "pattern", "read"),
    ):  # fmt: skip
        stage.close(stream, side, steps)
    return {"md": md.lines, "saxs": saxs.lines, "keep": keep.lines}


def make_events(
    metrics: dict[str, list[Record]], state: str = "succeeded", culprit: str = "", reason: str = ""
) -> list[Record]:
    """The supervisor's view of these metrics."""
    ends = {stage: lines[-1]["t"] + 0.1 for stage, lines in metrics.items()}
    events: list[Record] = [
        {
            "event": "run_started",
            "events_version": 3,
            "t": START,
            "run": "sample",
            "plan_version": 1,
            "pid": 1,
            "host": "node1",
        }
    ]
    for number, stage in enumerate(metrics):
        events.append({"event": "stage_started", "t": START + 0.1, "stage": stage, "pid": 100 + number})
    for stage, end in ends.items():
        bad = stage == culprit
        events.append(
            {
                "event": "stage_exited",
                "t": end,
                "stage": stage,
                "code": None if bad else 0,
                "signal": 9 if bad else None,
            }
        )
        verdict: Record = {"event": "stage_failed", "reason": reason} if bad else {"event": "stage_succeeded"}
        events.append(verdict | {"t": end, "stage": stage})
    last = max(ends.values()) + 0.05
    events.append(
        {
            "event": "run_finished", "t": last, "state": state, "exit_code": 0 if state == "succeeded" else 1,
            "reason": reason, "stage": culprit,
        }
    )  # fmt: skip
    return sorted(events, key=lambda event: float(event["t"]))


def write_run(run_dir: Path, plan: Plan, events: list[Record], metrics: dict[str, list[Record]]) -> Path:
    """Write the files; returns the directory."""
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "plan.json").write_text(plan.to_json())
    (run_dir / PROVENANCE_FILE).write_text(PROVENANCE.to_json())
    write_lines(run_dir / "events.jsonl", events)
    for stage in plan.stages:
        folder = run_dir / "stages" / stage.name
        folder.mkdir(parents=True, exist_ok=True)
        if stage.name in metrics:
            write_lines(folder / "metrics.jsonl", metrics[stage.name])
    return run_dir


def write_lines(path: Path, records: list[Record]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def write_sample(
    run_dir: Path,
    steps: int = 41,
    md_s: float = 0.05,
    saxs_s: float = 0.12,
    keep_s: float = 0.002,
    plan: Plan | None = None,
) -> Path:
    """A whole run that succeeded, limited by its analysis. `plan`: that of `make_plan` with other placements."""
    metrics = simulate(steps, md_s, saxs_s, keep_s)
    return write_run(run_dir, plan or make_plan(), make_events(metrics), metrics)
