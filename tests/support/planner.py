"""Makes plans from the text of a pipeline file, with three tiny components and a machine that is always the same."""

from __future__ import annotations

from pathlib import Path

from workflow.launch.launchers import launch_line
from workflow.plan.launch_requests import stage_request
from workflow.plan.make import make_plan
from workflow.plan.plan_model import EndPlan, Plan
from workflow.site.load_site import launcher_options
from workflow.site.site_model import Site
from workflow.spec.load import Loaded, load_pipeline

COMPONENTS = Path(__file__).parents[1] / "specs/components"
SITE = Site(
    site="test",
    summary="4 cores",
    nodes=1,
    cores_per_node=4,
    memory_per_node=2**33,
    operators=["blosc", "bzip2", "zfp"],
    launcher_options=launcher_options("mpiexec"),
)
HEAD = "wf: 1\nname: test\n"
# walker → tally → keep, see tests/specs/components
CHAIN = """
stages:
  walk: {component: walker}
  count: {component: tally, with: {variable: position}}
  keep: {component: keep}
streams:
  positions: {from: walk, to: count}
  counts: {from: count, to: keep}
"""
NEAR_AND_FAR = """
stages:
  walk: {component: walker, ranks: 2, place: {cores_per_rank: 1}}
  near: {component: keep, place: {share: walk}}
  far: {component: keep, ranks: 1, place: {cores_per_rank: 4}, with: {path: b.bp}}
streams:
  positions: {from: walk, to: [near, far]}
"""
"""On nodes of four cores the second reader has one of its own."""
WALKERS = """
stages:
  walk: {component: walker, members: MEMBERS, with: {walkers: "${{ member.n }}"}MORE}
  count: {component: tally, with: {variable: position}}
  keep: {component: keep}
streams:
  positions: {from: walk, to: count, collect: any}
  counts: {from: count, to: keep}
"""


def walkers(members: str, more: str = "") -> str:
    """A pipeline with these `members:`. `more`: of their stage, e.g. `, env: {…}`."""
    return WALKERS.replace("MEMBERS", members).replace("MORE", more)


def with_launcher(launcher: str, **changes: object) -> Site:
    """SITE with another launcher."""
    return SITE.model_copy(update={"launcher": launcher, "launcher_options": launcher_options(launcher), **changes})


class Planner:
    """Plans texts as `pipeline.yaml` in one folder. The fixture `plan_of` is one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, text: str = CHAIN, via: str | None = None, sets: tuple[str, ...] = (), profile: str = "") -> Loaded:
        """The pipeline with this text below its head."""
        file = self.folder / "pipeline.yaml"
        file.write_text(HEAD + text)
        return load_pipeline(file, via=via, sets=sets, profiles=[profile] if profile else [])

    def __call__(
        self,
        text: str = CHAIN,
        via: str | None = None,
        sets: tuple[str, ...] = (),
        profile: str = "",
        site: Site = SITE,
    ) -> Plan:
        """The plan of the pipeline with this text below its head."""
        return make_plan(self.load(text, via, sets, profile), site, python="/env/bin/python", wf_version="1.2.3")


def line_of(plan: Plan, stage: str) -> list[str]:
    """What starts a stage that has a launch line of its own."""
    return launch_line(stage_request(plan.stage(stage), plan)).argv


def end_of(plan: Plan, stage: str, stream: str) -> EndPlan:
    """The end that a stage has of a stream."""
    return next(end for end in plan.stage(stage).ends if end.stream == stream)
