"""What starts the ranks of each stage: the program itself, the site's launcher, or the line of its group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from workflow.formatting import plural
from workflow.launch.launchers import DIRECT, LAUNCHERS
from workflow.plan.placeholders import stage_dir
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import GroupPlan, LaunchPlan, Placement
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.streams.transports import BUILD
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream
from workflow.site.site_model import Site
from workflow.spec.placeholder_syntax import literal

# Stages that one launch line starts: those joined by `via: ssc`, which couples programs through MPI itself.
#
# SSC (ADIOS2 2.12.1, engine/ssc) finds the other end in MPI_COMM_WORLD, so one launch line must start both programs.
# Each program then has to keep to its own part of MPI_COMM_WORLD; `workflow.stage` does.


class MpmdGroup(NamedTuple):
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
    before = problems.count
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
    return problems.count == before


# Batch systems start the script of a job on its first node.
_NODE_OF_SUPERVISOR = 0
_WRAPPER = ("-m", "workflow.launch.mpmd_wrapper")


def plan_launch(
    stage: DeclaredStage, placement: Placement, group: MpmdGroup | None, python: str, site: Site, notes: Notes
) -> LaunchPlan:
    """The launch of one stage, which may be in a group. Notes more ranks than its component or the site can have."""
    _check_ranks(stage, site, notes)
    if group is not None:
        return _in_group(stage.name, group, python, site, notes)
    key, ranks = f"stages.{stage.name}.launcher", stage.spec.ranks
    first = placement.nodes[0][0]
    if ranks == 1 and first == _NODE_OF_SUPERVISOR and not site.launch_single:
        notes.why(key, "one rank is started directly")
        return LaunchPlan(launcher=DIRECT)
    where = f"on node {first}, and the supervisor is on node {_NODE_OF_SUPERVISOR}" if ranks == 1 and first else ""
    notes.why(key, f"{plural(ranks, 'rank')} {where or f'on site {site.site}'}")
    return site_launch(python, site)


def site_launch(python: str, site: Site) -> LaunchPlan:
    """A line of the site's launcher."""
    launcher = LAUNCHERS[site.launcher]
    if not launcher.starts_ranks:
        return LaunchPlan(launcher=site.launcher)
    beside = str(PurePosixPath(python).parent / launcher.executable)
    executable = site.launcher_path or (beside if launcher.comes_with_python else launcher.executable)
    arguments = [literal(word) for word in site.launcher_args]
    return LaunchPlan(launcher=site.launcher, executable=literal(executable), arguments=arguments)


def _in_group(name: str, group: MpmdGroup, python: str, site: Site, notes: Notes) -> LaunchPlan:
    """A stage that shares a line: a wrapper gives each rank the stage's directory, environment and output."""
    others = " and ".join(each for each in group.stages if each != name)
    why = f"{' and '.join(group.streams)}: SSC finds its other end in MPI_COMM_WORLD, so one launch line starts both"
    notes.why(f"stages.{name}.launcher", f"together with {others}; {why}")
    wrapper = [literal(python), *_WRAPPER, stage_dir(name)]
    return LaunchPlan(launcher=site.launcher, group=group.name, wrapper=wrapper)


def _check_ranks(stage: DeclaredStage, site: Site, notes: Notes) -> None:
    key, ranks, component = f"stages.{stage.name}.ranks", stage.spec.ranks, stage.component
    if component is not None and component.max_ranks is not None and ranks > component.max_ranks:
        notes.problems.add(
            key,
            f"component {component.component} takes at most {plural(component.max_ranks, 'rank')}, got {ranks}",
            f"`ranks: {component.max_ranks}`",
        )
    if ranks > 1 and not LAUNCHERS[site.launcher].starts_ranks:
        notes.problems.add(
            key,
            f"site {site.site} has no launcher, so stages have one rank",
            "`ranks: 1`, or a site with a launcher",
        )
