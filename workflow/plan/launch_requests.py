"""The plan's stages as requests to `launch`: for the run with real hosts, for `wf plan` with `node[0]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workflow.launch.launch_request import NIC_VARIABLE, LaunchRequest, NodeFacts, RankLayout
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import RUN_DIR, EndPlan, LaunchPlan, Plan, StagePlan

# SST is the only engine whose processes find each other by their ids (`run.processes.adios2_workarounds`), and whose
# RDMA transport must be given the network adapter.
_RDMA = "rdma"


@dataclass(frozen=True)
class GrantedNodes:
    """What a run has got: hosts by the plan's node index, and the plan's cores → their numbers on this machine.

    `whole_nodes` is False where other jobs may use the rest of the nodes; `binds` where the system binds no process.
    `cpus_per_core`: how many the scheduler counts.
    """

    hosts: Sequence[str] = ()
    whole_nodes: bool = True
    cpus_per_core: int = 1
    numbers: Mapping[int, int] = field(default_factory=dict)
    binds: bool = True

    def cores_of(self, stage: StagePlan) -> list[int]:
        """The cores of a stage, as they are numbered where its ranks run: elsewhere as in the plan."""
        numbers = {} if LAUNCHERS[stage.launch.launcher].other_machines else self.numbers
        return [numbers.get(core, core) for core in stage.placement.cores] if self.binds else []

    def with_replaced(self, replaced: Mapping[int, int]) -> GrantedNodes:
        """With other hosts in the places of some nodes of the plan: node → the one that is there now."""
        places = range(len(self.hosts))
        return replace(self, hosts=[self.hosts[replaced.get(place, place)] for place in places]) if replaced else self


NOTHING_YET = GrantedNodes()


def launcher_of(plan: Plan) -> LaunchPlan | None:
    """The launcher of the plan's stages; None where all are started without one."""
    return next((stage.launch for stage in plan.stages if LAUNCHERS[stage.launch.launcher].starts_ranks), None)


def stage_request(
    stage: StagePlan, plan: Plan, folder: str = "", received: GrantedNodes = NOTHING_YET
) -> LaunchRequest:
    """The launch line of a stage.

    `folder` is that of the stage; by default as a plan string, below `${{ run.dir }}`.
    """
    return LaunchRequest(
        name=stage.name,
        launcher=stage.launch.launcher,
        executable=stage.launch.executable,
        arguments=stage.launch.arguments,
        program=stage.program,
        ranks=stage.ranks,
        layout=_layout(stage, received),
        folder=folder or f"{RUN_DIR}/stages/{stage.name}",
        cwd=stage.cwd,
        env=stage.env,
        secrets=stage.secrets,
        hosts=received.hosts,
        whole_nodes=received.whole_nodes,
        cpus_per_core=received.cpus_per_core,
        node=node_facts(plan),
        options=plan.launch_options,
        start_s=plan.deadlines.start,
        separate_ids=_needs_separate_ids(stage),
    )


def node_names(plan: Plan) -> list[str]:
    """`node[0]`, `node[1]`, … in place of hosts; [] for a plan of one node, whose lines need no host."""
    nodes = max((end for stage in plan.stages for _, end in stage.placement.nodes), default=0)
    return [f"node[{index}]" for index in range(nodes)] if nodes > 1 else []


def _layout(stage: StagePlan, received: GrantedNodes) -> RankLayout:
    place = stage.placement
    return RankLayout(
        nodes=node_count(place),
        first_node=place.nodes[0][0],
        ranks_per_node=place.ranks_per_node,
        cores_per_rank=place.cores_per_rank,
        cores=_parts(received.cores_of(stage), place.ranks_per_node),
        gpus=_parts(place.gpus, place.ranks_per_node),
        nics=place.nics if NIC_VARIABLE not in stage.env and any(map(_uses_adapter, stage.ends)) else (),
    )


def _needs_separate_ids(stage: StagePlan) -> bool:
    return not stage.random_sst_ids and any(end.traits.over_network for end in stage.ends)


def _uses_adapter(end: EndPlan) -> bool:
    return end.transport == _RDMA


def _parts(values: Sequence[int], count: int) -> list[Sequence[int]]:
    """The values in `count` equal parts; [] of none."""
    size = len(values) // count
    return [values[index * size : (index + 1) * size] for index in range(count)] if size else []


def node_facts(plan: Plan) -> NodeFacts:
    """What a launch line must know of the nodes."""
    node = plan.node
    return NodeFacts(node.cores, node.threads_per_core, node.gpus, node.gpu_variable)
