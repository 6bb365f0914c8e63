"""What was started again in a run, how long that took, and with which run it goes on. Pure."""

from __future__ import annotations

from pathlib import PurePath

from workflow.formatting import duration
from workflow.plan.plan_model import Plan
from workflow.report.read.run_records import Records
from workflow.report.report_model import RestartPart
from workflow.run.events import StagesRestarted
from workflow.run.lifecycle_events import RestartDecided
from workflow.spec.suggest import listing


def make_restarts(records: Records) -> list[RestartPart]:
    """All of them, in order."""
    begun: dict[tuple[str, ...], list[StagesRestarted]] = {}
    for event in records.state.attempts:
        begun.setdefault(tuple(event.stages), []).append(event)
    found = []
    for decided in records.state.restarts:
        of_unit = begun.get(tuple(decided.stages), [])
        found.append(_part(records, decided, of_unit.pop(0) if of_unit else None))
    return found


def _part(records: Records, decided: RestartDecided, begun: StagesRestarted | None) -> RestartPart:
    next_step = _next_step(records, decided) if begun is not None else None
    return RestartPart(
        t=decided.t,
        stage=decided.stage,
        stages=decided.stages,
        reason=decided.reason,
        attempt=None if begun is None else begun.attempt,
        first_step=None if begun is None else begun.first_step,
        replayed=None if begun is None else max(0, decided.step - begun.first_step),
        gap_s=None if next_step is None else next_step - decided.t,
    )


def _next_step(records: Records, decided: RestartDecided) -> float | None:
    """When the stage that failed has finished a step again (Unix s)."""
    seen = [t for key, steps in records.seen.items() if key[1] == decided.stage for t, _ in steps if t > decided.t]
    return min(seen, default=None)


def part_notes(plan: Plan) -> list[str]:
    """With which run this one goes on, and where its stages began."""
    if (part := plan.part) is None:
        return []
    firsts: dict[int, list[str]] = {}
    for stage in plan.stages:
        if stage.name not in part.finished:
            firsts.setdefault(max((end.first_step for end in stage.ends), default=0), []).append(stage.name)
    begun = [f"{listing(names)} began at step {first}" for first, names in sorted(firsts.items())]
    done = [f"{listing(list(part.finished))} had done {'its' if len(part.finished) == 1 else 'their'} work"]
    text = "; ".join([*(done if part.finished else []), *begun])
    return [f"part {part.number} of the run, which goes on with {PurePath(part.run).name}: {text}"]


def restart_note(part: RestartPart) -> str:
    """One restart in a sentence."""
    others = [each for each in part.stages if each != part.stage]
    together = f", together with {listing(others)}" if others else ""
    if part.attempt is None:
        return f"{part.stage} {part.reason}; it was to be started again{together}"
    again = f"attempt {part.attempt} began at step {part.first_step}{together}"
    if part.replayed:
        again += f", so that {part.stage} did {part.replayed} of its steps twice"
    gap = "" if part.gap_s is None else f"; its next step was done {duration(part.gap_s)} later"
    return f"{part.stage} {part.reason}; {again}{gap}"
