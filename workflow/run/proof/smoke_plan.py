"""Which streams are tested by a smoke stream, and how its ends are started on the nodes of the stages. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.launch.launch_request import LaunchRequest, RankedProgram
from workflow.plan.launch_requests import GrantedNodes, stage_request
from workflow.plan.plan_model import Plan, StagePlan, StreamPlan

# Not imported: only programs of stages import their package.
PROGRAM = Path(__file__).parents[2] / "stage" / "adios" / "sst_end.py"
STEPS = 3
# Planned for many steps and slow readers; three steps must not be dropped.
_OWN_PARAMETERS = {"QueueFullPolicy": "Block"}


@dataclass(frozen=True)
class SmokeEnd:
    """One end: `file` is what its program reads, with this text."""

    stage: str
    request: LaunchRequest
    file: Path
    text: str


@dataclass(frozen=True)
class SmokeStream:
    """A stream that is tried: its writer, then its readers. `transport` is SST's name of how data moves."""

    stream: str
    transport: str
    ends: tuple[SmokeEnd, ...]


def plan_smoke(
    plan: Plan, folder: Path, received: GrantedNodes, python: str, patience_s: float
) -> tuple[list[SmokeStream], dict[str, str]]:
    """(the streams to try, stream → why it is not tried) of all live streams. `python`: for programs of users' own."""
    tried: list[SmokeStream] = []
    untried: dict[str, str] = {}
    for stream in plan.streams:
        if stream.coupling != "live":
            continue
        stages = [plan.stage(name) for name in (stream.writer, *stream.readers)]
        if reason := _why_not(stream, stages):
            untried[stream.name] = reason
            continue
        ends = [
            _end(plan, stream, stage, number, folder, received, python, patience_s)
            for number, stage in enumerate(stages)
        ]
        tried.append(SmokeStream(stream.name, stream.transport or "its default transport", tuple(ends)))
    return tried, untried


def _why_not(stream: StreamPlan, stages: Sequence[StagePlan]) -> str:
    if not stream.traits.in_memory:
        return f"{stream.engine} moves its data through files"
    if any(stage.launch.group is not None for stage in stages):
        return "its ends share a launch line"
    if stream.transport == "mpi":
        return "transport mpi needs programs of MPI"
    if len({stage.placement.nodes[0][0] for stage in stages}) == 1:
        return "its ends begin on the same node"
    return ""


def _end(
    plan: Plan,
    stream: StreamPlan,
    stage: StagePlan,
    number: int,
    folder: Path,
    received: GrantedNodes,
    python: str,
    patience_s: float,
) -> SmokeEnd:
    side = "read" if number else "write"
    end = next(each for each in stage.ends if each.stream == stream.name and each.side == side)
    file = folder / "ends" / f"{stream.name}.{stage.name}.json"
    text = json.dumps(
        {
            "side": side,
            "path": str(folder / "streams" / stream.name),
            "parameters": end.parameters | (_OWN_PARAMETERS if side == "write" else {}),
            "number": number,
            "steps": STEPS,
            "patience_s": patience_s,
        }
    )
    interpreter = stage.program[0] if stage.component is not None else python
    program = [interpreter, str(PROGRAM), "smoke", str(file)]
    request = stage_request(stage, plan, str(folder / "lines" / f"{stream.name}.{stage.name}"), received)
    return SmokeEnd(stage.name, _one_rank(request, program), file, text)


def _one_rank(request: LaunchRequest, program: Sequence[str]) -> LaunchRequest:
    """The same line for the first rank alone."""
    layout = request.programs[0].layout
    first = dataclasses.replace(
        layout, nodes=1, ranks_per_node=1, cores=layout.cores[:1], gpus=layout.gpus[:1], nics=layout.nics[:1]
    )
    env = {key: value for key, value in request.env.items() if key != "WF_STAGE"} | {"SstVerbose": "2"}
    return dataclasses.replace(
        request, name=f"smoke {request.name}", programs=[RankedProgram(1, program, first)], env=env, cwd="/"
    )
