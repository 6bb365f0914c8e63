"""What the stages of a plan need and this machine lacks: for `wf check`, `wf run` and `wf doctor`.

The plan states the needs (`plan.stage_needs`), and the site looks them up (`site.availability`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from workflow.errors import Problem, Severity
from workflow.plan.stage_needs import stage_needs
from workflow.redaction import SecretMissingError, read_secrets
from workflow.site.availability import ProgramNeed, StageNeed, other_machine, start_look_up

if TYPE_CHECKING:
    from workflow.plan.plan_model import Plan
    from workflow.plan.topology.declared_stages import CompletePipeline
    from workflow.site.availability import NeedState
    from workflow.site.site_model import Site
    from workflow.spec.origins import Origins


def look_up_needs(pipeline: CompletePipeline, plan: Plan) -> list[NeedState]:
    """Whether this machine has what each stage needs. Starts one process for each Python besides that of wf."""
    return start_look_up(stage_needs(plan, pipeline))()


def preflight(pipeline: CompletePipeline, plan: Plan, site: Site) -> list[Problem]:
    """What is missing, and notes on what cannot be known here, with their places.

    An error where the stage fails for certain; a warning where it may succeed all the same.
    """
    return start_preflight(pipeline, plan, site)()


def start_preflight(
    pipeline: CompletePipeline, plan: Plan, site: Site, run: bool = False
) -> Callable[[], list[Problem]]:
    """Begins `preflight`; the result waits for its end. In between a Python besides that of wf may answer.

    `run`: the launchers are started here, also those that start ranks on other machines.
    """
    origins = pipeline.origins
    if why := other_machine(site):
        message = (
            f"programs, launchers and Python modules are not checked: site {site.site} is not this machine ({why})"
        )
        note = Problem(*origins.place("site"), "site", message, "`wf check` on that machine checks them", "note")
        needs = [need for need in stage_needs(plan, pipeline) if run and is_launcher(need)]
        finish = start_look_up(needs)
        return lambda: [*pipeline.warnings, note, *to_problems(finish(), origins)]
    finish = start_look_up(stage_needs(plan, pipeline))
    missing = origins.as_written(_missing_secrets(plan, origins))
    return lambda: [*pipeline.warnings, *missing, *to_problems(finish(), origins)]


def _missing_secrets(plan: Plan, origins: Origins) -> Iterator[Problem]:
    """The secrets that no stage could read, at the keys of the plan's stages."""
    for stage in plan.stages:
        for name, source in stage.secrets.items():
            key = f"stages.{stage.name}.env.{name}"
            try:
                read_secrets({name: source})
            except SecretMissingError as error:
                hint = "`wf run` reads it when the stage starts"
                yield Problem(*origins.place(key), key, str(error), hint)


def is_launcher(need: StageNeed) -> bool:
    """Whether a need is the executable that starts the ranks."""
    return isinstance(need.thing, ProgramNeed) and need.thing.role == "launcher"


def to_problems(states: list[NeedState], origins: Origins) -> list[Problem]:
    """The needs that are not met, at the keys that ask for them."""
    found = []
    for state in states:
        key = state.need.key
        if state.state == "missing":
            level: Severity = "error" if state.need.certain else "warning"
            found.append(Problem(*origins.place(key), origins.written(key), state.detail, state.hint, level))
        elif state.state == "unchecked":
            detail = f"not checked: {state.detail}"
            found.append(Problem(*origins.place(key), origins.written(key), detail, state.hint, "note"))
    return found
