"""The launch lines of a plan with the probe in the place of the programs, and where their ranks must be. Pure."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from workflow.launch.launch_request import LaunchRequest, RankedProgram
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.launch_requests import group_request, stage_request
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import GroupPlan, LaunchPlan, Plan, StagePlan
from workflow.run.proof import rank_probe
from workflow.run.proof.planned_ranks import PlannedStage


def must_prove(plan: Plan, hosts: Sequence[str], own: str) -> bool:
    """Whether somebody else than wf decides where ranks run: a launcher that reaches other nodes than this one,
    which is `own`."""
    if plan.proof == "off":
        return False
    elsewhere = any(host.partition(".")[0] != own.partition(".")[0] for host in hosts)
    launchers = {line.launcher for line in _launch_lines(plan)}
    return any(LAUNCHERS[name].starts_ranks and (elsewhere or LAUNCHERS[name].other_machines) for name in launchers)


def _launch_lines(plan: Plan) -> list[LaunchPlan]:
    return [*(stage.launch for stage in plan.stages if stage.launch.group is None), *(g.launch for g in plan.groups)]


def probe_requests(plan: Plan, folder: Path, hosts: Sequence[str]) -> list[tuple[str, list[StagePlan], LaunchRequest]]:
    """(name, stages, launch line) of every line of a launcher, with the probe in the place of the programs."""
    found: list[tuple[str, list[StagePlan], LaunchRequest]] = []
    for stage in plan.stages:
        if stage.launch.group is None and LAUNCHERS[stage.launch.launcher].starts_ranks:
            request = stage_request(stage, str(folder), hosts)
            found.append((stage.name, [stage], _with_probe(request, [(stage.name, 0)], folder)))
    for group in plan.groups:
        stages = [plan.stage(name) for name in group.stages]
        request = group_request(group, plan, str(folder), hosts)
        found.append((group.name, stages, _with_probe(request, _first_ranks(group), folder)))
    return found


def _first_ranks(group: GroupPlan) -> list[tuple[str, int]]:
    return [(name, group.ranks[name][0]) for name in group.stages]


def _with_probe(request: LaunchRequest, stages: Sequence[tuple[str, int]], folder: Path) -> LaunchRequest:
    launcher = LAUNCHERS[request.launcher]
    start = [sys.executable, "-I", "-S", rank_probe.__file__, str(folder)]
    variables = [launcher.rank_variable, launcher.local_rank_variable]
    programs = [
        RankedProgram(program.ranks, [*start, stage, str(first), *variables])
        for program, (stage, first) in zip(request.programs, stages, strict=True)
    ]
    # Not in the stage's directory: a node that does not see it must be able to say so.
    return dataclasses.replace(request, name=f"probe {request.name}", programs=programs, cwd="/")


def to_planned(stage: StagePlan, hosts: Sequence[str]) -> PlannedStage:
    """Where the ranks of a stage must be."""
    placement = stage.placement
    nodes = node_count(placement)
    first, each = placement.nodes[0][0], placement.cores_per_rank
    bound = placement.cores if each else []
    return PlannedStage(
        stage=stage.name,
        ranks=stage.ranks,
        nodes=nodes,
        ranks_per_node=placement.ranks_per_node,
        hosts=hosts[first : first + nodes],
        cores=[bound[rank * each : (rank + 1) * each] for rank in range(placement.ranks_per_node)] if bound else [],
        cores_per_rank=each,
    )
