"""Plans of small real pipelines, made from the models: for tests of runs. The programs are in tests/faults/programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from workflow.plan.plan_model import EndPlan, LaunchPlan, Placement, Plan, StagePlan, StreamPlan
from workflow.run.records.run_directory import create_run_dir
from workflow.site.load_site import launcher_options
from workflow.spec.models.deadlines import Deadlines
from workflow.spec.models.pipeline import Queue

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests/faults/programs"
RUN_DIR = "${{ run.dir }}"
DEADLINES = {"node": 10.0, "start": 60.0, "step": 60.0, "run": 120.0, "stop": 3.0}
Way = Literal["sst", "live", "after"]  # SST, a BP5 file that is followed, a BP5 file that is read when it is done


@dataclass(frozen=True)
class Source:
    """What stands for a loaded pipeline file."""

    text: bytes = b"wf: 1\n"


def make_end(stream: str, side: Literal["read", "write"], way: Way = "sst", readers: int = 1, **more: Any) -> EndPlan:
    parameters = {
        ("sst", "write"): {"RendezvousReaderCount": str(readers), "QueueLimit": "2", "QueueFullPolicy": "Block"},
        ("sst", "read"): {"OpenTimeoutSecs": "60"},
        ("live", "read"): {"OpenTimeoutSecs": "60", "BeginStepPollingFrequencySecs": "0.05"},
    }.get((way, side), {})
    settings = {
        "stream": stream, "port": stream, "side": side, "engine": "SST" if way == "sst" else "BP5", "io": stream,
        "parameters": parameters, "path": path_of(stream, way), "open_timeout_s": 60, "step_timeout_s": 60,
    }  # fmt: skip
    return EndPlan.model_validate(settings | more)


def path_of(stream: str, way: Way) -> str:
    return f"{RUN_DIR}/streams/{stream}" + ("" if way == "sst" else ".bp")


def make_stage(name: str, argv: list[str], ends: list[EndPlan] | None = None, **more: Any) -> StagePlan:
    settings = {
        "name": name, "kind": "analysis", "program": argv, "launch": {"launcher": "none"}, "env": {}, "ranks": 1,
        "cwd": f"{RUN_DIR}/stages/{name}/work", "ends": ends or [], "observed": "metrics",
        "placement": Placement(nodes=[(0, 1)], ranks_per_node=more.get("ranks", 1), cores=[], cores_per_rank=0),
    }  # fmt: skip
    return StagePlan.model_validate(settings | more)


def make_stream(name: str, writer: str, readers: list[str], way: Way = "sst", **more: Any) -> StreamPlan:
    settings = {
        "name": name, "writer": writer, "readers": readers, "via": "sst" if way == "sst" else "bp5", "keep": True,
        "engine": "SST" if way == "sst" else "BP5", "coupling": "after" if way == "after" else "live",
        "queue": Queue.model_validate({}) if way == "sst" else None, "path": path_of(name, way),
        "on_disk": [path_of(name, way) + (".sst" if way == "sst" else "")],
    }  # fmt: skip
    return StreamPlan.model_validate(settings | more)


def make_plan(stages: list[StagePlan], streams: list[StreamPlan] | None = None, **deadlines: float) -> Plan:
    return Plan(
        wf_version="0", pipeline="small", pipeline_file="pipeline.yaml", site="local", stages=stages,
        launch_options=launcher_options("mpiexec"),
        streams=streams or [], proof="off", deadlines=Deadlines.model_validate(DEADLINES | deadlines),
    )  # fmt: skip


def chain(
    way: Way, *, plain: bool = False, ranks: int = 1, steps: int = 400, step_s: float = 0.02, sink: bool = True,
    options: dict[str, list[str]] | None = None, **deadlines: float,
) -> Plan:  # fmt: skip
    """md → saxs → keep, or md → saxs; `options` are added to a stage's command line. Of several ranks is md."""
    names = ["md", "saxs", "keep"] if sink else ["md", "saxs"]
    streams = ["atoms", "pattern"][: len(names) - 1]
    stages = []
    for index, name in enumerate(names):
        ends = []
        argv = [sys.executable, str(PROGRAMS / ("plain.py" if plain else "staged.py"))]
        launch, count = LaunchPlan(launcher="none"), 1
        if ranks > 1 and name == "md":
            mpiexec = str(Path(sys.executable).with_name("mpiexec"))
            launch, count = LaunchPlan(launcher="mpiexec", executable=mpiexec), ranks
        if index > 0:
            ends.append(make_end(streams[index - 1], "read", way))
        if index < len(streams):
            ends.append(make_end(streams[index], "write", way))
        if plain:
            argv += [f"--{end.side}={end.path}:{end.engine}" for end in ends]
        if index == 0:
            argv += ["--steps", str(steps), "--step-s", str(step_s)]
        stages.append(
            make_stage(
                name, argv + (options or {}).get(name, []), ends, launch=launch, ranks=count,
                observed="evidence" if plain else "metrics",
                env={"SstVerbose": "3" if plain else "2", "PYTHONPATH": str(ROOT)},
                starts_after=names[index - 1 : index] if way == "after" and index else [],
            )
        )  # fmt: skip
    return make_plan(
        stages,
        [make_stream(stream, names[index], [names[index + 1]], way) for index, stream in enumerate(streams)],
        **deadlines,
    )


def write_run(plan: Plan, folder: Path) -> Path:
    """The run directory of a plan."""
    return create_run_dir(plan, Source(), folder / "run")
