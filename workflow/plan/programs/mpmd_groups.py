"""Stages that one launch line starts: those joined by `via: ssc`, which couples programs through MPI itself.

SSC (ADIOS2 2.12.1, engine/ssc) finds the other end in MPI_COMM_WORLD, so one launch line must start both programs. Each
program then has to keep to its own part of MPI_COMM_WORLD; `workflow.stage` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workflow.formatting import plural
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import GroupPlan, LaunchPlan, Placement
from workflow.plan.problems import Problems
from workflow.plan.streams.transports import BUILD
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.port_matching import JoinedStream
from workflow.site.site_model import Site


@dataclass(frozen=True)
class MpmdGroup:
    """Stages of one launch line, in the order of their ranks, and the streams between them (writer, then readers)."""

    stages: list[str]
    streams: dict[str, list[str]]

    @property
    def name(self) -> str:
        """That of its first stage."""
        return self.stages[0]


def launch_groups(
    joined: Mapping[str, JoinedStream], declared: Mapping[str, DeclaredStage], site: Site, problems: Problems
) -> list[MpmdGroup]:
    """The stages that must share a launch line. Notes streams whose ends cannot."""
    streams = {name: stream for name, stream in joined.items() if stream.engine.traits.shares_launch}
    ends: dict[str, list[str]] = {}
    for name, stream in streams.items():
        if _check(name, stream, declared, site, problems) and stream.writer is not None and stream.readers:
            ends[name] = [port.stage for port in stream.ports]
    groups = []
    for members in _components(list(declared), ends.values()):
        own = {name: joins for name, joins in ends.items() if joins[0] in members}
        groups.append(MpmdGroup([name for name in declared if name in members], own))
    return groups


def _components(stages: Sequence[str], joins: Iterable[Sequence[str]]) -> list[set[str]]:
    """The sets of stages that streams join, in the order of the stages."""
    found: list[set[str]] = []
    for ends in joins:
        touched = [members for members in found if members & set(ends)]
        found = [members for members in found if not members & set(ends)]
        found.append(set(ends).union(*touched))
    return sorted(found, key=lambda members: min(stages.index(name) for name in members))


def to_group_plan(
    group: MpmdGroup,
    declared: Mapping[str, DeclaredStage],
    placements: Mapping[str, Placement],
    launch: LaunchPlan,
    problems: Problems,
) -> GroupPlan:
    """The plan of one line. Notes where its ranks cannot get their GPUs."""
    members = {name: (declared[name].spec.ranks, placements[name]) for name in group.stages}
    _check_gpus(members, f"streams.{next(iter(group.streams))}.via", problems)
    ranks, first = {}, 0
    for name, (count, _) in members.items():
        ranks[name] = first, count
        first += count
    return GroupPlan(name=group.name, stages=group.stages, ranks=ranks, streams=group.streams, launch=launch)


_Members = Mapping[str, tuple[int, Placement]]  # stage → its ranks and where they run


def _check_gpus(members: _Members, key: str, problems: Problems) -> None:
    """A line gives each rank its GPUs by its number on its node: notes where that means different ranks."""
    places = [placement for _, placement in members.values()]
    nodes = max(end for place in places for _, end in place.nodes) - min(place.nodes[0][0] for place in places)
    if nodes > 1 and any(place.gpus for place in places):
        layout = " and ".join(
            f"{name} has {plural(ranks, 'rank')} of {plural(place.gpus_per_rank, 'GPU')} on "
            f"{plural(node_count(place), 'node')}"
            for name, (ranks, place) in members.items()
        )
        problems.add(
            key,
            f"one launch line on several nodes cannot give each rank its GPUs, and {layout}",
            "put all on one node (`place: {share: STAGE}`), or use `via: sst`",
        )


def _check(
    name: str, stream: JoinedStream, declared: Mapping[str, DeclaredStage], site: Site, problems: Problems
) -> bool:
    """Whether SSC can do this at all; notes why not."""
    key = f"streams.{name}.via"
    before = len(problems.found)
    launcher = LAUNCHERS[site.launcher]
    if not launcher.several_programs:
        able = " or ".join(f"`{each}`" for each, other in LAUNCHERS.items() if other.several_programs)
        lacks = f"has {site.launcher}, which starts one program" if launcher.starts_ranks else "has no launcher"
        problems.add(
            key, f"SSC joins programs of one MPI launch, and site {site.site} {lacks}",
            f"use `via: sst`, or a site with `launcher:` {able}",
        )  # fmt: skip
    if site.planes and "mpi" not in site.planes:
        seen = site.seen.get("planes", f"site {site.site}")
        problems.add(
            key,
            f"the ADIOS2 of this Python has no MPI ({seen}), and SSC moves data by it",
            f"{BUILD.format('MPI')}; or `via: sst`",
        )
    for port in stream.ports:
        if not declared[port.stage].spec.uses_stage:
            problems.add(
                key,
                f"SSC starts both ends in one MPI launch, and the program of {port.stage} would use all its ranks",
                f"use `via: sst`; or let it open its streams with workflow.stage: "
                f"`stages.{port.stage}.{port.side}s: {{{port.name}: {{}}}}`",
            )
    return len(problems.found) == before
