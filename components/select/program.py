"""Pass on the steps at which conditions hold, and some around each: for pictures and archives of what matters.

Each rank has its share of every step. What is compared is of all ranks together, so all pass on the same steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

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


def figures_of(step: int, values: Values | None) -> dict[str, float]:
    """What conditions are on; not a number for values that are not there."""
    found = {STEP: float(step)}
    if values is not None:
        mean = values.total / values.number if values.number else np.nan
        found |= {"min": values.low if values.number else np.nan, "max": values.high if values.number else np.nan}
        found |= {"mean": mean}
    return found


def is_event(step: int, values: Values | None, conditions: Mapping[str, Condition]) -> bool:
    """Whether all conditions hold; none does for values that are not there."""
    found = figures_of(step, values)
    return all(condition.holds(found[name]) for name, condition in conditions.items())


class Nearest:
    """How near the steps have come to one condition. `figure`: `max(V)`, or `step`."""

    def __init__(self, figure: str, condition: Condition) -> None:
        self._figure, self._condition = figure, condition
        self._held = 0
        self._value, self._step = np.nan, 0

    def look(self, step: int, value: float) -> None:
        """A step more."""
        self._held += self._condition.holds(value)
        # Not for what is not a number.
        if self._distance(value) < (np.inf if np.isnan(self._value) else self._distance(self._value)):
            self._value, self._step = value, step

    def _distance(self, value: float) -> float:
        away = value - self._condition.value
        return abs(away) if self._condition.comparator == "==" else -away if self._is_least else away

    @property
    def _is_least(self) -> bool:
        return self._condition.comparator in (">", ">=")

    @property
    def wanted(self) -> str:
        """`max(V) > 0.9`."""
        return f"{self._figure} {self._condition.text}"

    def to_text(self, *, alone: bool) -> str:
        """`the largest was 0.62 at step 388`. `alone`: there is no other condition."""
        if self._held:
            return f"{self.wanted} at {plural(self._held, 'step')}"
        head = "" if alone else f"{self._figure}: "
        if np.isnan(self._value):
            return f"{head}there were no finite values"
        which = "nearest" if self._condition.comparator == "==" else "largest" if self._is_least else "smallest"
        at = "" if self._figure == STEP else f" at step {self._step}"
        return f"{head}the {which} was {self._shown()}{at}"

    def _shown(self) -> str:
        """The nearest value, with as many digits as show that the condition does not hold."""
        limit = self._condition.value
        for digits in (4, 6, 9, 12):
            text = f"{self._value:.{digits}g}"
            if (float(text) != limit or self._value == limit) and not self._condition.holds(float(text)):
                return text
        return repr(self._value)


def none_selected(steps: int, nearest: Sequence[Nearest]) -> str:
    """Why nothing was passed on, in a sentence."""
    if not steps:
        return "the stream brought no step, and none was selected"
    wanted = " and ".join(each.wanted for each in nearest)
    texts = [each.to_text(alone=len(nearest) == 1) for each in nearest]
    return f"no step of {steps} had {wanted}, and none was selected; {'; '.join(texts)}"


def read_values(step: stage.Step, variable: str) -> Values:
    """Of a variable, on all ranks together; of one that the step lacks, no values."""
    if variable not in step:
        return Values()
    mine, comm = values_of([piece.values for piece in step.share(variable)]), stage.communicator()
    return mine if comm is None else together(comm.allgather(mine))


class Output:
    """Writes the steps that are passed on. What only the first step of the input has, a mesh or coordinates, goes out
    with the first of them: whoever reads all steps has it from the beginning, too.
    """

    def __init__(self, out: stage.Writer) -> None:
        self._out = out
        self._once: stage.StepCopy | None = None
        self._looked = 0  # at so many steps
        self._seen, self._passed = set[str](), set[str]()

    def look(self, step: stage.Step) -> None:
        """Each step of the input, before it is passed on or not. Call it on all ranks."""
        names = set(step.names())
        self._looked += 1
        if self._looked == 1:
            self._once = stage.StepCopy.of(step)
        elif self._once is not None and names & self._once.known.keys():
            self._once = self._once.only(self._once.known.keys() - names)
        self._seen |= names

    def copy_of(self, step: stage.Step) -> stage.StepCopy:
        """The step that was looked at last, in memory. Of the first one there is a copy already."""
        return self._once if self._looked == 1 and self._once is not None else stage.StepCopy.of(step)

    def write(self, number: int, step: stage.StepCopy) -> None:
        """Pass on a step, with its number in the input."""
        once = None if self._once is None else self._once.only(self._once.known.keys() - step.known.keys())
        with self._out.step():
            for copied in (step, once):
                if copied is not None:
                    copied.write_to(self._out)
                    self._passed |= copied.known.keys()
            if NUMBER not in step.known:
                self._out.write(NUMBER, np.int64(number))
        self._once = None

    @property
    def left_out(self) -> list[str]:
        """The variables of the input that no step had which was passed on."""
        return sorted(self._seen - self._passed) if self._passed else []


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
    nearest = {
        name: Nearest(STEP if name == STEP else f"{name}({args.variable})", condition)
        for name, condition in conditions.items()
    }
    kept: deque[tuple[int, stage.StepCopy]] = deque(maxlen=args.before)
    events = passed = first = newest = 0
    last = -1
    with stage.open_reader("input", may_lack=[args.variable]) as stream, stage.open_writer("output") as out:
        output = Output(out)
        for step in stream:
            output.look(step)
            waits = args.times == "each" or not events
            values = read_values(step, args.variable) if waits and statistics else None
            if not events:
                found = figures_of(step.index, values)
                for name, condition in nearest.items():
                    condition.look(step.index, found[name])
            if waits and is_event(step.index, values, conditions):
                first, newest, events = first if events else step.index, step.index, events + 1
                last = step.index + args.after
            if step.index > last and not (waits and args.before):
                continue
            step.copy_attributes_to(out)
            copied = step.index, output.copy_of(step)
            if step.index > last:
                kept.append(copied)
                continue
            for each in (*kept, copied):
                output.write(*each)
                passed += 1
            kept.clear()
    if stage.rank() == 0:
        which = "" if not events else f", from step {first} to {newest}" if events > 1 else f", at step {first}"
        print(f"select: {plural(events, 'event')}{which}; {passed} of {plural(stream.steps, 'step')} passed on")
    if output.left_out:
        stage.note(f"only steps that were not passed on have {', '.join(output.left_out)}")
    if not events:
        stage.note(none_selected(stream.steps, list(nearest.values())), no_steps="output")


if __name__ == "__main__":
    main()
