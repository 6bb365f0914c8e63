"""Pass on the steps at which conditions hold, and some around each: for pictures and archives of what matters.

Each rank has its share of every step. What is compared is of all ranks together, so all pass on the same steps.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

# This file is started by path: make the modules beside it importable by their full names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from components.relay.program import StepShare, read_share, write_share
from workflow import stage
from workflow.component_program import arguments
from workflow.conditions import Condition, read_condition
from workflow.formatting import plural

NUMBER = "selected_step"
STEP = "step"
STATISTICS = ("max", "min", "mean")


class Values(NamedTuple):
    """What is known of the finite values of a variable, or of a part of them."""

    low: float = np.inf
    high: float = -np.inf
    total: float = 0.0
    number: int = 0


def values_of(arrays: list[stage.Array]) -> Values:
    """Of some arrays together."""
    finite = [each[np.isfinite(each)] for each in arrays]
    parts = [
        Values(float(each.min()), float(each.max()), float(each.sum(dtype=np.float64)), each.size)
        for each in finite
        if each.size
    ]
    return together(parts)


def together(parts: list[Values]) -> Values:
    """Of all parts."""
    lows, highs, totals, counts = zip(*parts, strict=True) if parts else ([], [], [], [])
    return Values(min(lows, default=np.inf), max(highs, default=-np.inf), sum(totals), sum(counts))


def is_event(step: int, values: Values | None, conditions: Mapping[str, Condition]) -> bool:
    """Whether all conditions hold; none does for values that are not there."""
    found = {STEP: float(step)}
    if values is not None:
        mean = values.total / values.number if values.number else np.nan
        found |= {"min": values.low if values.number else np.nan, "max": values.high if values.number else np.nan}
        found |= {"mean": mean}
    return all(condition.holds(found[name]) for name, condition in conditions.items())


def read_values(step: stage.Step, variable: str) -> Values:
    """Of a variable, on all ranks together."""
    mine, comm = values_of([piece.values for piece in step.share(variable)]), stage.communicator()
    return mine if comm is None else together(comm.allgather(mine))


def numbered(share: StepShare, step: int) -> StepShare:
    """A step with its number in the input."""
    if NUMBER in share.shapes:
        return share
    piece = stage.Piece(np.asarray(step, dtype=np.int64), ())
    return StepShare({**share.pieces, NUMBER: [piece]}, {**share.shapes, NUMBER: ()})


def main() -> None:
    """Keep the newest steps in memory, and write them when an event comes."""
    args = arguments(__file__)
    given = {name: getattr(args, name) for name in (*STATISTICS, STEP)}
    conditions = {name: read_condition(text) for name, text in given.items() if text}
    statistics = [name for name in conditions if name != STEP]
    if not conditions:
        raise SystemExit('select: there is no condition; for example `max: "> 0.9"` with `variable: V`')
    if bool(statistics) != bool(args.variable):
        lacks = "`variable`" if statistics else "a condition on it: `max`, `min` or `mean`"
        raise SystemExit(f"select: {' and '.join(statistics) or args.variable} needs {lacks}")
    kept: deque[StepShare] = deque(maxlen=args.before)
    events = passed = first = newest = 0
    last = -1
    with stage.open_reader("input") as stream, stage.open_writer("output") as out:
        for step in stream:
            waits = args.times == "each" or not events
            values = read_values(step, args.variable) if waits and statistics else None
            if waits and is_event(step.index, values, conditions):
                first, newest, events = first if events else step.index, step.index, events + 1
                last = step.index + args.after
            if step.index > last and not (waits and args.before):
                continue
            step.copy_attributes_to(out)
            share = numbered(read_share(step), step.index)
            if step.index > last:
                kept.append(share)
                continue
            for each in (*kept, share):
                write_share(each, out)
                passed += 1
            kept.clear()
    if stage.rank() == 0:
        which = "" if not events else f", from step {first} to {newest}" if events > 1 else f", at step {first}"
        print(f"select: {plural(events, 'event')}{which}; {passed} of {plural(stream.steps, 'step')} passed on")


if __name__ == "__main__":
    main()
