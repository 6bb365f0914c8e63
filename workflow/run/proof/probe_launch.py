"""The launch lines of a plan with the probe in place of the programs, and where their ranks must be. Pure."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from workflow.launch.launch_request import LaunchRequest, RankedProgram, RankLayout
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.launch_requests import GrantedNodes, bound_by_wrapper, group_request, stage_request
from workflow.plan.plan_model import Plan
from workflow.run.proof import rank_probe
from workflow.run.proof.planned_ranks import PlannedStage

# On how many nodes the run's directory is looked at: more of them load its file system, and find no more.
LOOKING_NODES = 256


@dataclass(frozen=True)
class ProbeLine:
    """A launch line with the probe in the place of the programs, and where its ranks must be.

    `lookers` are those that look at the run's directory: (stage, rank).
    """

    name: str
    request: LaunchRequest
    planned: tuple[PlannedStage, ...]
    lookers: frozenset[tuple[str, int]]


class _Line(NamedTuple):
    """A launch line: `stages` has each one's name and its first rank; `bound`: the line itself binds the ranks."""

    name: str
    request: LaunchRequest
    stages: Sequence[tuple[str, int]]
    bound: bool


def probe_lines(plan: Plan, folder: Path, received: GrantedNodes) -> list[ProbeLine]:
    """Every line of a launcher."""
    lines: list[_Line] = []
    for stage in plan.stages:
        if stage.launch.group is None and LAUNCHERS[stage.launch.launcher].starts_ranks:
            request = stage_request(stage, plan, str(folder / "lines" / stage.name), received)
            lines.append(_Line(stage.name, request, [(stage.name, 0)], True))
    for group in plan.groups:
        request = group_request(group, plan, str(folder / "lines" / group.name), received)
        first = [(name, group.ranks[name][0]) for name in group.stages]
        lines.append(_Line(group.name, request, first, not bound_by_wrapper(group, plan)))
    layouts = [
        (stage, program.layout)
        for line in lines
        for program, (stage, _) in zip(line.request.programs, line.stages, strict=True)
    ]
    lookers = choose_lookers(layouts)
    return [_line(line, folder, lookers) for line in lines]


def choose_lookers(layouts: Sequence[tuple[str, RankLayout]]) -> frozenset[tuple[str, int]]:
    """(stage, rank): the first rank of each node in one stage alone. Of many nodes some are taken, spread evenly."""
    first: dict[int, tuple[str, int]] = {}
    for stage, layout in layouts:
        for index in range(layout.nodes):
            first.setdefault(layout.first_node + index, (stage, index * layout.ranks_per_node))
    nodes = sorted(first)
    return frozenset(first[node] for node in nodes[:: max(1, math.ceil(len(nodes) / LOOKING_NODES))])


def _line(line: _Line, folder: Path, lookers: frozenset[tuple[str, int]]) -> ProbeLine:
    name, request, stages, bound = line
    launcher = LAUNCHERS[request.launcher]
    start = [sys.executable, "-I", "-S", rank_probe.__file__, str(folder)]
    variables = [launcher.rank_variable, launcher.local_rank_variable]
    programs = [
        dataclasses.replace(program, argv=[*start, stage, str(first), *variables, _numbers(stage, lookers)])
        for program, (stage, first) in zip(request.programs, stages, strict=True)
    ]
    planned = tuple(
        _planned(stage, first, program, request, bound)
        for program, (stage, first) in zip(programs, stages, strict=True)
    )
    # Not in the stage's directory: a node that does not see it must be able to say so.
    probing = dataclasses.replace(request, name=f"probe {name}", programs=programs, cwd="/")
    return ProbeLine(name, probing, planned, frozenset(each for each in lookers if each[0] in dict(stages)))


def _numbers(stage: str, lookers: frozenset[tuple[str, int]]) -> str:
    return ",".join(str(rank) for name, rank in sorted(lookers) if name == stage) or "-"


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
