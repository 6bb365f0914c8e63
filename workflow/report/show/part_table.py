"""Where the stages of the next part of a run begin, and which stages are re-used, for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath

from workflow.formatting import plural
from workflow.plan.plan_model import PartPlan
from workflow.run.cut import Cut
from workflow.spec.suggest import listing


def planned_part_text(part: PartPlan, cut: Cut, reached: Mapping[str, int], own: Collection[str]) -> str:
    """`part 2, which goes on with RUN`, each stage with the step at which it begins, and what was changed.

    `own`: the programs of the user's own.
    """
    rows = [(name, "done", "") for name in cut.finished]
    for name in cut.positions.begins:
        step = cut.first_step(name)
        lost = max(0, reached[name] - step, *cut.positions.repeated(name).values())
        why = [cut.reasons[name]] if cut.reasons[name] else []
        rows.append(
            (name, f"step {step}", "; ".join([*why, *([f"{plural(lost, 'step')} done again"] if lost else [])]))
        )
    width = max(len(name) for name, _, _ in rows)
    begin = max(len(where) for _, where, _ in rows)
    lines = [f"  {name:{width}}  {where:{begin}}  {why}".rstrip() for name, where, why in rows]
    changed = [f"changed: {each}" for each in part.changed]
    text = "\n".join([f"part {part.number}, which goes on with {PurePath(part.run).name}:", *lines, *changed])
    unsaved = [name for name in own if name in cut.positions.begins and cut.first_step(name) and name not in cut.states]
    if unsaved:
        text += f"\nnote: {listing(unsaved)} saved no state: what it writes of a step must depend on that step alone"
    return text


def reuse_text(run: str | None, reasons: Mapping[str, str]) -> str:
    """What is re-used of an earlier run, and why each other stage runs. `run`: its name; None: there is none."""
    if run is None:
        return "no run of this pipeline has succeeded yet: all stages run"
    width = max(len(name) for name in reasons)
    lines = [f"  {name:{width}}  {f'runs: {why}' if why else 're-used'}" for name, why in reasons.items()]
    return "\n".join([f"re-used from {run}:", *lines])
