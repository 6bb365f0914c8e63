"""The plan's stages and groups as requests to `launch`: for the run with real hosts, for `wf plan` with `node[0]`."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.launch.launch_request import LaunchRequest, RankedProgram, RankLayout
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import RUN_DIR, GroupPlan, Plan, StagePlan

# SST is the only engine whose processes find each other by their ids (`run.processes.evpath_workaround`).
_SST = "SST"


def stage_request(stage: StagePlan, folder: str = "", hosts: Sequence[str] = ()) -> LaunchRequest:
    """The launch line of a stage that has one of its own. `hosts` are by node index.

    `folder` is that of the stage; by default as a plan string, below `${{ run.dir }}`.
    """
    placement = stage.placement
    layout = RankLayout(
        nodes=node_count(placement),
        first_node=placement.nodes[0][0],
        ranks_per_node=placement.ranks_per_node,
        cores_per_rank=placement.cores_per_rank,
        gpus_per_rank=stage.launch.gpus_per_rank,
    )
    return LaunchRequest(
        name=stage.name,
        launcher=stage.launch.launcher,
        executable=stage.launch.executable,
        arguments=stage.launch.arguments,
        programs=[RankedProgram(stage.ranks, stage.program)],
        layout=layout,
        folder=folder or f"{RUN_DIR}/stages/{stage.name}",
        cwd=stage.cwd,
        env=stage.env,
        cores=placement.cores,
        hosts=hosts,
        separate_ids=any(end.engine == _SST for end in stage.ends),
    )


def group_request(group: GroupPlan, plan: Plan, folder: str = "", hosts: Sequence[str] = ()) -> LaunchRequest:
    """The launch line of several stages. `folder` is that of the group; by default as a plan string.

    Each rank starts through its stage's wrapper, which sets directory, environment and cores. No stage can have the
    name of the request.
    """
    folder = folder or f"{RUN_DIR}/launches/{group.name}"
    stages = [plan.stage(name) for name in group.stages]
    return LaunchRequest(
        name=f"launch {group.name}",
        launcher=group.launch.launcher,
        executable=group.launch.executable,
        arguments=group.launch.arguments,
        programs=[RankedProgram(stage.ranks, stage.launch.wrapper) for stage in stages],
        layout=_common_layout(stages, group.launch.gpus_per_rank),
        folder=folder,
        cwd=folder,
        hosts=hosts,
        separate_ids=any(end.engine == _SST for stage in stages for end in stage.ends),
    )


def _common_layout(stages: Sequence[StagePlan], gpus_per_rank: int) -> RankLayout:
    """What holds for the whole line; the plan has checked that the layouts of its stages agree."""
    places = [stage.placement for stage in stages]
    first = min(start for place in places for start, _ in place.nodes)
    nodes = max(end for place in places for _, end in place.nodes) - first
    cores = {place.cores_per_rank for place in places}
    ranks = sum(stage.ranks for stage in stages)
    per_node = ranks if nodes == 1 else places[0].ranks_per_node
    return RankLayout(nodes, first, per_node, 0 if 0 in cores else max(cores), gpus_per_rank)


def node_names(plan: Plan) -> list[str]:
    """`node[0]`, `node[1]`, … in place of hosts; [] for a plan of one node, whose lines need no host."""
    nodes = max((end for stage in plan.stages for _, end in stage.placement.nodes), default=0)
    return [f"node[{index}]" for index in range(nodes)] if nodes > 1 else []
