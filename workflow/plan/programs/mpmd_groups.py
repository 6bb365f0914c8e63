"""Stages that one launch line starts: those joined by `via: ssc`, which couples programs through MPI itself.

SSC (ADIOS2 2.12.1, engine/ssc) finds the other end in MPI_COMM_WORLD, so both must be in it: `mpiexec A : B`, or a
`srun --multi-prog` file. Each program then has to keep to its own part of the world; `workflow.stage` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from workflow.formatting import plural
from workflow.launch.launch_line import Launch, Segment, multi_mpiexec, multi_srun
from workflow.plan.notes import Notes
from workflow.plan.placeholders import literal
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import RUN_DIR, GroupPlan, StagePlan
from workflow.plan.problems import Problems
from workflow.plan.run_paths import stage_dir
from workflow.plan.streams.transports import BUILD
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.port_matching import SSC, JoinedStream
from workflow.site.site_model import Site

_WRAPPER = ("-m", "workflow.launch.mpmd_wrapper")


def launch_together(
    stages: Sequence[StagePlan],
    joined: Mapping[str, JoinedStream],
    declared: Mapping[str, DeclaredStage],
    *,
    python: str,
    mpiexec: str,
    site: Site,
    notes: Notes,
) -> tuple[list[StagePlan], list[GroupPlan]]:
    """The stages with what each executes in its launch line, and the lines. Notes what cannot be in one."""
    streams = {name: stream for name, stream in joined.items() if stream.engine.engine == SSC}
    ends: dict[str, list[str]] = {}
    for name, stream in streams.items():
        if _check(name, stream, declared, site, notes.problems) and stream.writer is not None and stream.readers:
            ends[name] = [port.stage for port in stream.ports]
    grouped: dict[str, StagePlan] = {}
    groups = []
    for members in _components([stage.name for stage in stages], ends.values()):
        inside = [_wrapped(stage, python, site) for stage in stages if stage.name in members]
        grouped |= {stage.name: stage for stage in inside}
        own = {name: joins for name, joins in ends.items() if joins[0] in members}
        groups.append(_group(inside, own, mpiexec, site, notes))
    return [grouped.get(stage.name, stage) for stage in stages], groups


def _components(stages: Sequence[str], joins: Iterable[Sequence[str]]) -> list[set[str]]:
    """The sets of stages that streams join, in the order of the stages."""
    found: list[set[str]] = []
    for ends in joins:
        touched = [members for members in found if members & set(ends)]
        found = [members for members in found if not members & set(ends)]
        found.append(set(ends).union(*touched))
    return sorted(found, key=lambda members: min(stages.index(name) for name in members))


def _wrapped(stage: StagePlan, python: str, site: Site) -> StagePlan:
    """The stage started by what gives it its own directory, environment and output."""
    argv = [literal(python), *_WRAPPER, stage_dir(stage.name)]
    return stage.model_copy(update={"argv": argv, "launcher": site.launcher})


def _group(
    stages: Sequence[StagePlan], ends: dict[str, list[str]], mpiexec: str, site: Site, notes: Notes
) -> GroupPlan:
    name = stages[0].name
    ranks, first = {}, 0
    for stage in stages:
        ranks[stage.name] = first, stage.ranks
        first += stage.ranks
    extra = [literal(word) for word in site.launcher_args]
    files: dict[str, str] = {}
    argv: list[str] = []
    segments = [Segment(stage.ranks, stage.argv) for stage in stages]
    launch = _common_launch(stages, ends, site, notes.problems)
    if site.launcher == "mpiexec":
        argv = multi_mpiexec(launch, segments, extra, literal(mpiexec))
    elif site.launcher == "srun":
        file = f"{RUN_DIR}/launches/{name}/programs.conf"
        argv, files[file] = multi_srun(launch, segments, extra, file)
    why = f"{' and '.join(ends)}: SSC finds its other end in MPI_COMM_WORLD, so one launch line starts both"
    for stage in stages:
        notes.why(f"stages.{stage.name}.launcher", f"together with {_others(stage, stages)}; {why}")
    return GroupPlan(
        name=name, stages=[stage.name for stage in stages], ranks=ranks, streams=ends, launcher=site.launcher,
        argv=argv, files=files,
    )  # fmt: skip


def _others(stage: StagePlan, stages: Sequence[StagePlan]) -> str:
    return " and ".join(each.name for each in stages if each is not stage)


def _common_launch(stages: Sequence[StagePlan], ends: Mapping[str, object], site: Site, problems: Problems) -> Launch:
    """What holds for the whole line. Launchers lay out all its ranks alike: notes where the stages differ."""
    places = [stage.placement for stage in stages]
    first = min(start for place in places for start, _ in place.nodes)
    nodes = max(end for place in places for _, end in place.nodes) - first
    cores = {place.cores_per_rank for place in places}
    ranks = sum(stage.ranks for stage in stages)
    key = f"streams.{next(iter(ends))}.via"
    if nodes > 1:
        per_node = {place.ranks_per_node for place in places}
        follow = sum(node_count(place) for place in places) == nodes and all(
            one.nodes[-1][1] <= two.nodes[0][0] for one, two in pairwise(places)
        )
        # One stage's last ranks would share their node with the next one's first.
        full = all(stage.ranks % stage.placement.ranks_per_node == 0 for stage in stages[:-1])
        if not follow or not full or len(per_node) > 1:
            problems.add(
                key,
                f"one launch line of {site.launcher} lays out all ranks alike, and {_layout(stages)}",
                "put all on one node (`place: {share: STAGE}`), or equally many ranks on each node; or `via: sst`",
            )
    if site.launcher == "srun" and len(cores - {0}) > 1:
        problems.add(
            key,
            f"one line of srun gives all ranks equally many cores, and {_layout(stages)}",
            "the same `place: {cores_per_rank: N}` in all of them; or `via: sst`",
        )
    per_node_ranks = ranks if nodes == 1 else places[0].ranks_per_node
    return Launch(ranks, nodes, first, per_node_ranks, 0 if 0 in cores else max(cores))


def _layout(stages: Sequence[StagePlan]) -> str:
    return " and ".join(
        f"{stage.name} has {plural(stage.ranks, 'rank')} of {plural(stage.placement.cores_per_rank, 'core')}, "
        f"{stage.placement.ranks_per_node} to a node, on {plural(node_count(stage.placement), 'node')}"
        for stage in stages
    )


def _check(
    name: str, stream: JoinedStream, declared: Mapping[str, DeclaredStage], site: Site, problems: Problems
) -> bool:
    """Whether SSC can do this at all; notes why not."""
    key = f"streams.{name}.via"
    before = len(problems.found)
    if site.launcher == "none":
        problems.add(
            key, f"SSC joins programs of one MPI launch, and site {site.site} has no launcher",
            "use `via: sst`, or a site with `launcher: mpiexec` or `srun`",
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
                f"SSC starts both ends in one MPI launch, and the program of {port.stage} would take all ranks of it "
                "for its own",
                f"use `via: sst`; or let it open its streams with workflow.stage: "
                f"`stages.{port.stage}.{port.side}s: {{{port.name}: {{}}}}`",
            )
    return len(problems.found) == before
