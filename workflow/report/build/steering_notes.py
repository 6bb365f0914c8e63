"""Which values of stages were changed while the run went on, for the report. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from workflow.formats.steering_files import Value
from workflow.formatting import plural
from workflow.plan.plan_model import Plan
from workflow.report.read.run_records import Records
from workflow.report.report_model import SteeringPart
from workflow.run.state.events import StageSteered, SteeringAsked, SteeringRefused

# A stage may change values of another one at each step.
MOST_KEPT = 100


def make_steering(records: Records) -> list[SteeringPart]:
    """What was taken and refused, in order, each once: an attempt takes again what an earlier one has taken."""
    # By stage and id: changes of the pipeline file have the same ids in each stage.
    found: dict[tuple[str, str], SteeringPart] = {}
    for event in records.steering:
        if isinstance(event, StageSteered):
            part = SteeringPart(
                t=event.t, stage=event.stage, by=event.by, step=event.step, old=event.old, new=event.new,
                units=units_of(records.plan, event.stage), exact=event.exact,
            )  # fmt: skip
            found.setdefault((event.stage, event.id), part)
        elif isinstance(event, SteeringRefused):
            part = SteeringPart(
                t=event.t, stage=event.stage, by=event.by, step=None, new=event.values,
                units=units_of(records.plan, event.stage), refused=event.reason,
            )  # fmt: skip
            found.setdefault((event.stage, event.id), part)
    return list(found.values())


def steering_note(part: SteeringPart) -> str:
    """One change in a sentence."""
    if part.refused:
        return f"{part.stage} was not given {values_text(part.new, part.units)}, requested by {part.by}: {part.refused}"
    assert part.step is not None
    return f"{steered_text(part.stage, part.old, part.new, part.step, part.units, is_exact=part.exact)}, by {part.by}"


def units_of(plan: Plan, stage: str) -> dict[str, str]:
    """The values of a stage that have a unit, with it; `1` is none."""
    return {name: each.unit for name, each in plan.stage(stage).steer.items() if each.unit not in ("", "1")}


def steered_text(
    stage: str,
    old: Mapping[str, Value],
    new: Mapping[str, Value],
    step: int,
    units: Mapping[str, str],
    *,
    is_exact: bool = True,
) -> str:
    """`sim: gain 1.0 → 2.5 mm from step 57 on`."""
    was = {name: f"{_shown(value)} " for name, value in old.items()}
    changes = ", ".join(
        f"{name} {was.get(name, '')}→ {_shown(value, units.get(name, ''))}" for name, value in new.items()
    )
    return f"{stage}: {changes} from {'' if is_exact else 'about '}step {step} on"


def values_text(values: Mapping[str, Value], units: Mapping[str, str]) -> str:
    """`feed=0.04, gain=2.5 mm`."""
    return ", ".join(f"{name}={_shown(value, units.get(name, ''))}" for name, value in values.items())


def _shown(value: Value, unit: str = "") -> str:
    return f"{str(value).lower() if isinstance(value, bool) else value} {unit}".rstrip()


def steering_notes(records: Records, kept: list[SteeringPart], count: int) -> list[str]:
    """A note for each change, and on what is not known of the others."""
    earlier = [f"{plural(count - len(kept), 'change')} of values before these: `wf events` has all"]
    return [*(earlier if count > len(kept) else []), *map(steering_note, kept), *_unanswered(records)]


def _unanswered(records: Records) -> list[str]:
    """Of a run that has ended: what was asked for, and neither taken nor refused."""
    if records.state.finished is None:
        return []
    answered = {(event.stage, event.id) for event in records.steering if not isinstance(event, SteeringAsked)}
    asked = {(event.stage, event.id): event for event in records.steering if isinstance(event, SteeringAsked)}
    missed = [event for key, event in asked.items() if key not in answered]
    left_out = max(0, len(missed) - MOST_KEPT)
    earlier = f"{plural(left_out, 'change')} before these not taken either: `wf events` has all"
    return [*([earlier] if left_out else []), *map(_missed_note, missed[left_out:])]


def _missed_note(asked: SteeringAsked) -> str:
    step = "" if asked.step is None else f"; step {asked.step} was not reached"
    names = ", ".join(asked.values)
    return f"{asked.stage} did not take {names}, requested by {asked.by}: it reached no further step{step}"
