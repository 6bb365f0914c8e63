"""Stages that one launch line starts: those joined by `via: ssc`, which couples programs through MPI itself.

SSC (ADIOS2 2.12.1, engine/ssc) finds the other end in MPI_COMM_WORLD, so one launch line must start both programs. Each
program then has to keep to its own part of MPI_COMM_WORLD; `workflow.stage` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from workflow.launch.launchers import LAUNCHERS
from workflow.plan.making import Making, counted, stage_dir
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import GroupPlan, LaunchPlan, StagePlan
from workflow.plan.programs.placeholders import literal
from workflow.plan.streams.transports import BUILD
from workflow.plan.topology.port_matching import Joined
from workflow.spec.models.pipeline import Queue

SSC = "SSC"
# What the writer may be ahead of its reader.
ONE_STEP = Queue(limit=1, when_full="block")
_WRAPPER = ("-m", "workflow.launch.mpmd_wrapper")


@dataclass(frozen=True)
class MpmdGroup:
    """Stages of one launch line, in the order of their ranks, and the streams between them (writer, then readers)."""

    stages: list[str]
    streams: dict[str, list[str]]

    @property
    def name(self) -> str:
        """That of its first stage."""
        return self.stages[0]


def launch_groups(joined: Mapping[str, Joined], making: Making) -> list[MpmdGroup]:
    """The stages that must share a launch line. Notes streams whose ends cannot."""
    streams = {name: stream for name, stream in joined.items() if making.loaded.engines[name].engine == SSC}
    ends: dict[str, list[str]] = {}
    for name, stream in streams.items():
        if _check(name, stream, making) and stream.writer is not None and stream.readers:
            ends[name] = [port.stage for port in stream.ports]
    order = list(making.loaded.spec.stages)
    groups = []
    for members in _components(order, ends.values()):
        own = {name: joins for name, joins in ends.items() if joins[0] in members}
        groups.append(MpmdGroup([name for name in order if name in members], own))
    return groups


def _components(stages: Sequence[str], joins: Iterable[Sequence[str]]) -> list[set[str]]:
    """The sets of stages that streams join, in the order of the stages."""
    found: list[set[str]] = []
    for ends in joins:
        touched = [members for members in found if members & set(ends)]
        found = [members for members in found if not members & set(ends)]
        found.append(set(ends).union(*touched))
    return sorted(found, key=lambda members: min(stages.index(name) for name in members))


def site_launch(making: Making) -> LaunchPlan:
    """The site's launcher."""
    site, launcher = making.site, LAUNCHERS[making.site.launcher]
    beside = str(PurePosixPath(making.python).parent / launcher.executable)
    executable = site.launcher_path or (beside if launcher.comes_with_python else launcher.executable)
    if not launcher.starts_ranks:
        return LaunchPlan(launcher=site.launcher)
    arguments = [literal(word) for word in site.launcher_args]
    return LaunchPlan(launcher=site.launcher, executable=literal(executable), arguments=arguments)


def member_launch(name: str, group: MpmdGroup, making: Making) -> LaunchPlan:
    """The launch of a stage in a group: by a wrapper that gives it its own directory, environment and output."""
    others = " and ".join(each for each in group.stages if each != name)
    why = f"{' and '.join(group.streams)}: SSC finds its other end in MPI_COMM_WORLD, so one launch line starts both"
    making.notes.why(f"stages.{name}.launcher", f"together with {others}; {why}")
    wrapper = [literal(making.python), *_WRAPPER, stage_dir(name)]
    return LaunchPlan(launcher=making.site.launcher, group=group.name, wrapper=wrapper)


def to_group_plan(group: MpmdGroup, plans: Mapping[str, StagePlan], making: Making) -> GroupPlan:
    """The plan of one line. Notes where the layouts of its stages differ."""
    stages = [plans[name] for name in group.stages]
    _check_layout(stages, f"streams.{next(iter(group.streams))}.via", making)
    ranks, first = {}, 0
    for stage in stages:
        ranks[stage.name] = first, stage.ranks
        first += stage.ranks
    return GroupPlan(
        name=group.name, stages=group.stages, ranks=ranks, streams=group.streams, launch=site_launch(making)
    )


def _check_layout(stages: Sequence[StagePlan], key: str, making: Making) -> None:
    """Launchers lay out all ranks of a line alike: notes where the stages differ."""
    places, launcher = [stage.placement for stage in stages], making.site.launcher
    nodes = max(end for place in places for _, end in place.nodes) - min(place.nodes[0][0] for place in places)
    cores = {place.cores_per_rank for place in places}
    if nodes > 1:
        per_node = {place.ranks_per_node for place in places}
        follow = sum(node_count(place) for place in places) == nodes and all(
            one.nodes[-1][1] <= two.nodes[0][0] for one, two in pairwise(places)
        )
        # One stage's last ranks would share their node with the next one's first.
        full = all(stage.ranks % stage.placement.ranks_per_node == 0 for stage in stages[:-1])
        if not follow or not full or len(per_node) > 1:
            making.problems.add(
                key,
                f"one launch line of {launcher} lays out all ranks alike, and {_layout(stages)}",
                "put all on one node (`place: {share: STAGE}`), or equally many ranks on each node; or `via: sst`",
            )
    if LAUNCHERS[launcher].equal_cores and len(cores - {0}) > 1:
        making.problems.add(
            key,
            f"one line of {launcher} gives all ranks equally many cores, and {_layout(stages)}",
            "the same `place: {cores_per_rank: N}` in all of them; or `via: sst`",
        )


def _layout(stages: Sequence[StagePlan]) -> str:
    return " and ".join(
        f"{stage.name} has {counted(stage.ranks, 'rank')} of {counted(stage.placement.cores_per_rank, 'core')}, "
        f"{stage.placement.ranks_per_node} to a node, on {counted(node_count(stage.placement), 'node')}"
        for stage in stages
    )


def _check(name: str, stream: Joined, making: Making) -> bool:
    """Whether SSC can do this at all; notes why not."""
    site, key = making.site, f"streams.{name}.via"
    before = len(making.problems.found)
    launcher = LAUNCHERS[site.launcher]
    if not launcher.several_programs:
        able = " or ".join(f"`{each}`" for each, other in LAUNCHERS.items() if other.several_programs)
        lacks = (
            f"has {site.launcher}, which starts one program"
            if LAUNCHERS[site.launcher].starts_ranks
            else "has no launcher"
        )
        making.problems.add(
            key, f"SSC joins programs of one MPI launch, and site {site.site} {lacks}",
            f"use `via: sst`, or a site with `launcher:` {able}",
        )  # fmt: skip
    if site.planes and "mpi" not in site.planes:
        seen = site.seen.get("planes", f"site {site.site}")
        making.problems.add(
            key,
            f"the ADIOS2 of this Python has no MPI ({seen}), and SSC moves data by it",
            f"{BUILD.format('MPI')}; or `via: sst`",
        )
    for port in stream.ports:
        if not making.loaded.spec.stages[port.stage].uses_stage:
            making.problems.add(
                key,
                f"SSC starts both ends in one MPI launch, and the program of {port.stage} would take all ranks of it "
                "for its own",
                f"use `via: sst`; or let it open its streams with workflow.stage: "
                f"`stages.{port.stage}.{port.side}s: {{{port.name}: {{}}}}`",
            )
    return len(making.problems.found) == before
