"""What starts the ranks of each stage: the program itself, the site's launcher, or the line of its group."""

from __future__ import annotations

from pathlib import PurePosixPath

from workflow.formatting import plural
from workflow.launch.launchers import DIRECT, LAUNCHERS
from workflow.plan.plan_model import LaunchPlan, Placement
from workflow.plan.plan_notes import Notes
from workflow.plan.programs.mpmd_groups import MpmdGroup
from workflow.plan.run_paths import stage_dir
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.site.site_model import Site
from workflow.spec.placeholder_syntax import literal

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
