"""The launch lines of a plan with the probe in the place of the programs, and where their ranks must be. Pure."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.launch.launch_request import LaunchRequest, RankedProgram
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.launch_requests import Received, bound_by_wrapper, group_request, stage_request
from workflow.plan.plan_model import Plan
from workflow.run.proof import rank_probe
from workflow.run.proof.planned_ranks import PlannedStage


@dataclass(frozen=True)
class ProbeLine:
    """A launch line with the probe in the place of the programs, and where its ranks must be."""

    name: str
    request: LaunchRequest
    planned: tuple[PlannedStage, ...]


def probe_lines(plan: Plan, folder: Path, received: Received) -> list[ProbeLine]:
    """Every line of a launcher."""
    found: list[ProbeLine] = []
    for stage in plan.stages:
        if stage.launch.group is None and LAUNCHERS[stage.launch.launcher].starts_ranks:
            request = stage_request(stage, plan, str(folder / "lines" / stage.name), received)
            found.append(_line(stage.name, request, [(stage.name, 0)], folder, bound=True))
    for group in plan.groups:
        request = group_request(group, plan, str(folder / "lines" / group.name), received)
        first = [(name, group.ranks[name][0]) for name in group.stages]
        found.append(_line(group.name, request, first, folder, bound=not bound_by_wrapper(group, plan)))
    return found


def _line(
    name: str, request: LaunchRequest, stages: Sequence[tuple[str, int]], folder: Path, *, bound: bool
) -> ProbeLine:
    """`stages`: each one's name and its first rank. `bound`: the line itself binds the ranks."""
    launcher = LAUNCHERS[request.launcher]
    start = [sys.executable, "-I", "-S", rank_probe.__file__, str(folder)]
    variables = [launcher.rank_variable, launcher.local_rank_variable]
    programs = [
        dataclasses.replace(program, argv=[*start, stage, str(first), *variables])
        for program, (stage, first) in zip(request.programs, stages, strict=True)
    ]
    planned = tuple(
        _planned(stage, first, program, request, bound)
        for program, (stage, first) in zip(programs, stages, strict=True)
    )
    # Not in the stage's directory: a node that does not see it must be able to say so.
    return ProbeLine(name, dataclasses.replace(request, name=f"probe {name}", programs=programs, cwd="/"), planned)


def _planned(stage: str, first: int, program: RankedProgram, request: LaunchRequest, bound: bool) -> PlannedStage:
    layout = program.layout
    # Without whole nodes the launcher chooses the cores.
    cores = layout.cores if bound and (request.whole_nodes or not LAUNCHERS[request.launcher].other_machines) else ()
    return PlannedStage(
        stage=stage,
        ranks=program.ranks,
        nodes=layout.nodes,
        ranks_per_node=layout.ranks_per_node,
        hosts=request.hosts[layout.first_node : layout.first_node + layout.nodes],
        cores=cores,
        cores_per_rank=layout.cores_per_rank,
        own_cores=bool(cores) or (layout.cores_per_rank > 0 and not request.whole_nodes),
        gpus=layout.gpus,
        nics=layout.nics,
        first=first,
    )
