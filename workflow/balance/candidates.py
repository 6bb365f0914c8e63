"""The combinations of values that can be planned, each with its plan and its forecast. Pure, but for `decide`."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workflow.balance.balance_model import Goal
from workflow.balance.knobs import Knob
from workflow.balance.search import Candidate
from workflow.errors import SpecError
from workflow.forecast.calibration_model import Calibration, StageRecord
from workflow.forecast.forecast_model import Forecast
from workflow.forecast.make_forecast import coupled_stages, make_forecast
from workflow.plan.plan_model import EndPlan, Plan

# More combinations are not planned: the keys that matter least keep their values.
MOST_CANDIDATES = 1000
Settings = dict[str, Any]
"""Key → value, laid over the pipeline."""
PlanSettings = Callable[[Settings], Plan]
"""The plan with these settings. Raises SpecError."""


@dataclass(frozen=True)
class PlannedCandidate:
    """A combination of values that can be planned."""

    settings: Settings
    """Without those that are as in the file."""
    values: tuple[int, ...]
    """Of each key, the index of its value."""
    plan: Plan


@dataclass(frozen=True)
class Space:
    """All candidates: the first one is today's pipeline."""

    knobs: list[Knob]
    candidates: list[PlannedCandidate]
    refused: list[str]
    """`KEY=VALUE: why`."""

    @property
    def paced(self) -> bool:
        """Whether in all candidates all stages wait for each other, so that there is one pace of all."""
        return all(len(coupled_stages(each.plan)) == 1 for each in self.candidates)


def make_space(knobs: Sequence[Knob], today: Plan, decide: PlanSettings, most_nodes: int) -> Space:
    """The values that can be planned at all, then the combinations of them that can be planned.

    Of combinations with the same plan the first one counts. A plan of more than `most_nodes` is left out.
    """
    refused, kept = dict[str, list[str]](), list[Knob]()
    for knob in knobs:
        values = [knob.values[0]]
        for value in knob.values[1:]:
            try:
                if not knob.joint:
                    decide({knob.key: value})
            except SpecError as error:
                refused.setdefault(error.problems[0].message, []).append(setting_text(knob.key, value))
            else:
                values.append(value)
        if len(values) > 1 and len(values) * math.prod(len(each.values) for each in kept) <= MOST_CANDIDATES:
            kept.append(Knob(knob.key, tuple(values)))
        elif len(values) > 1:
            why = f"more than {MOST_CANDIDATES} combinations; to vary it, keep another key: `--fixed KEY`"
            refused.setdefault(why, []).append(knob.key)
    candidates = [PlannedCandidate({}, (0,) * len(kept), today)]
    seen = {_what_runs(today)}
    for chosen in itertools.product(*(range(len(knob.values)) for knob in kept)):
        settings = {knob.key: knob.values[index] for knob, index in zip(kept, chosen, strict=True) if index}
        if not settings:
            continue
        try:
            plan = decide(settings)
        except SpecError:  # ranks that do not fit together
            continue
        if plan.nodes <= most_nodes and (same := _what_runs(plan)) not in seen:
            seen.add(same)
            candidates.append(PlannedCandidate(settings, chosen, plan))
    tried = [
        Knob(knob.key, tuple(knob.values[index] for index in sorted({each.values[place] for each in candidates})))
        for place, knob in enumerate(kept)
    ]
    return Space(tried, candidates, [f"{', '.join(keys)}: {why}" for why, keys in refused.items()])


def _what_runs(plan: Plan) -> str:
    """The plan without what changes nothing: the names of presets (`sst`, where there is only TCP, and `sst-tcp`), and
    where its values come from."""
    streams = [stream.model_copy(update={"via": "", "parameters": {}, "fallback": False}) for stream in plan.streams]
    stages = [
        stage.model_copy(update={"ends": [end.model_copy(update={"parameters": _chosen(end)}) for end in stage.ends]})
        for stage in plan.stages
    ]
    return plan.model_copy(update={"streams": streams, "stages": stages, "reasons": {}, "advice": []}).to_json()


def _chosen(end: EndPlan) -> dict[str, str]:
    """Engine parameters without the transport, which the stream has."""
    return {name: value for name, value in end.parameters.items() if name != "DataTransport"}


def set_text(key: str, value: object) -> str:
    """`stages.sim.ranks=2`: for `--set`, exactly this value."""
    return f"{key}={json.dumps(value)}"


def setting_text(key: str, value: object) -> str:
    """`stages.sim.ranks=2`, for people."""
    return f"{key}={json.dumps(value) if isinstance(value, dict | list) else value}"


def weight(candidate: PlannedCandidate, goal: Goal) -> float:
    """What a second of this candidate counts."""
    return float(candidate.plan.nodes) if goal == "node-hours" else 1.0


def forecasts(space: Space, calibration: Calibration, ran: Sequence[StageRecord], counted: str) -> list[float | None]:
    """Seconds per step of each candidate, as far as is known; None where nothing is.

    `ran`: what the stages took in probes. For other numbers of ranks the same work is assumed, evenly divided. A
    forecast that lacks a part is too short: as an order of the candidates it is better than none.
    """
    found: list[float | None] = []
    known = calibration.model_copy(update={"stages": [*ran, *calibration.stages]})
    for candidate in space.candidates:
        forecast = _forecast(candidate.plan, known)
        is_known = all(stage.terms for stage in forecast.stages if stage.name == counted)
        # Groups that do not wait for each other run one after the other, or beside each other: the longest decides.
        longest = max((group.step.median for group in forecast.groups), default=0.0)
        found.append(longest if is_known and longest > 0 else None)
    return found


def limited_by(plan: Plan, calibration: Calibration) -> str | None:
    """What sets the pace of a plan, by the forecast: `stage sim`. None: a stage is not known, which may be it."""
    groups = _forecast(plan, calibration).groups
    if not all(group.complete for group in groups):
        return None
    return max(groups, key=lambda group: group.step.median).limited_by


def _forecast(plan: Plan, known: Calibration) -> Forecast:
    """With the records of other numbers of ranks, too."""
    stages = [*known.stages, *_divided(plan, known.stages)]
    return make_forecast(plan, known.model_copy(update={"stages": stages}))


def _divided(plan: Plan, known: Sequence[StageRecord]) -> list[StageRecord]:
    """Records of the same programs with the ranks of this plan, from those with other ranks."""
    found = []
    for stage in plan.stages:
        same = [each for each in known if each.program == stage.component]
        if not same or any(each.ranks == stage.ranks for each in same):
            continue
        nearest = min(same, key=lambda each: abs(math.log(each.ranks / stage.ranks)))
        share = nearest.ranks / stage.ranks
        found.append(nearest.model_copy(update={"ranks": stage.ranks, "compute_s": nearest.compute_s * share}))
    return found


def to_search(
    space: Space, forecast: Sequence[float | None], goal: Goal, probes: Mapping[int, Sequence[float]]
) -> tuple[list[Candidate], dict[int, list[float]]]:
    """What the search asks for, in what the goal counts."""
    weights = [weight(each, goal) for each in space.candidates]
    candidates = [
        Candidate(each.values, None if seconds is None else seconds * factor)
        for each, seconds, factor in zip(space.candidates, forecast, weights, strict=True)
    ]
    return candidates, {index: [each * weights[index] for each in times] for index, times in probes.items()}
