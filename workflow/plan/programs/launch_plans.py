"""What starts the ranks of each stage: the program itself, or the site's launcher."""

from __future__ import annotations

from pathlib import PurePosixPath

from workflow.formatting import plural
from workflow.launch.launchers import DIRECT, LAUNCHERS
from workflow.plan.plan_model import LaunchPlan, Placement
from workflow.plan.plan_notes import Notes
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.site.site_model import Site
from workflow.spec.placeholder_syntax import literal

# Batch systems start the script of a job on its first node.
_NODE_OF_SUPERVISOR = 0


def plan_launch(stage: DeclaredStage, placement: Placement, python: str, site: Site, notes: Notes) -> LaunchPlan:
    """The launch of one stage. Notes more ranks than its component or the site can have."""
    _check_ranks(stage, site, notes)
    key, ranks = f"stages.{stage.name}.launcher", stage.spec.ranks
    first = placement.nodes[0][0]
    if ranks == 1 and first == _NODE_OF_SUPERVISOR and not site.launch_single:
        notes.why(key, "one rank is started directly")
        return LaunchPlan(launcher=DIRECT)
    where = f"on node {first}, and the supervisor is on node {_NODE_OF_SUPERVISOR}" if ranks == 1 and first else ""
    notes.why(key, f"{plural(ranks, 'rank')} {where or f'on site {site.site}'}")
    return _site_launch(python, site)


def _site_launch(python: str, site: Site) -> LaunchPlan:
    """A line of the site's launcher."""
    launcher = LAUNCHERS[site.launcher]
    if not launcher.starts_ranks:
        return LaunchPlan(launcher=site.launcher)
    beside = str(PurePosixPath(python).parent / launcher.executable)
    executable = site.launcher_path or (beside if launcher.comes_with_python else launcher.executable)
    arguments = [literal(word) for word in site.launcher_args]
    return LaunchPlan(launcher=site.launcher, executable=literal(executable), arguments=arguments)


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
