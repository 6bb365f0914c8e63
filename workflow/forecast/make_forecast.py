"""What a step of a plan costs, by what was measured: figures with their sources, and their sums. Pure.

Stages joined by live streams whose queue blocks wait for each other: they make their steps at the pace of the slowest
of them. A file that is read after the run of its writer, and a queue that discards, separate stages. What was not
measured is not known: docs/explanation/forecast.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from workflow.forecast.calibration_model import Calibration
from workflow.forecast.earlier_runs import EarlierRuns, end_kind, find_earlier_runs, same_size
from workflow.forecast.forecast_model import Cost, Forecast, GroupPace
from workflow.forecast.quartiles import together
from workflow.formatting import plural, size
from workflow.plan.plan_model import EndPlan, Plan, StagePlan, StreamPlan

RUN_IT = "run it once, then `wf calibrate RUN`"


def make_forecast(plan: Plan, calibration: Calibration) -> Forecast:
    """The forecast. Pure."""
    known = find_earlier_runs(plan, calibration)
    costs = {
        stage.name: [
            _compute(stage, known),
            *(_move(stage, end, plan, known, calibration) for end in stage.ends if end.traits.has_steps),
        ]
        for stage in plan.stages
    }
    return Forecast(
        site=plan.site,
        paces=_paces(plan, known, costs),
        costs=[cost for of_stage in costs.values() for cost in of_stage],
        notes=_shared_cores(plan),
    )


def _compute(stage: StagePlan, known: EarlierRuns) -> Cost:
    """What a stage computes for a step: as in an earlier run of the same program with steps of the same size."""
    record, differing = known.records.get(stage.name), known.differing.get(stage.name)
    if record is not None:
        source = f"{plural(record.seconds.count, 'step')} of run {record.run}"
        return Cost(stage.name, "compute", "", record.seconds, source)
    if stage.observed == "evidence":
        return Cost(stage.name, "compute", "", None, "its program does not use workflow.stage")
    if differing is None:
        return Cost(stage.name, "compute", "", None, RUN_IT)
    sizes = f"steps of {size(differing.then)} in run {differing.run}, here they have {size(differing.now)}"
    return Cost(stage.name, "compute", "", None, f"it read {sizes}: correct `step_size:`, or {RUN_IT}")


def _move(stage: StagePlan, end: EndPlan, plan: Plan, known: EarlierRuns, calibration: Calibration) -> Cost:
    """What moving a step takes at one end: as at an end of the same kind, interpolated between two sizes.

    Below the smallest size it is the time of the smallest: no step takes longer than a larger one.
    """

    def unknown(why: str) -> Cost:
        return Cost(stage.name, end.side, end.stream, None, why)

    whole, kind = known.sizes.get(end.stream), end_kind(stage, end, plan)
    if whole is None:
        return unknown(f"its steps may be of any size: state `step_size:`, or {RUN_IT}")
    amount = whole * known.share(stage, end)
    points = sorted((each for each in calibration.ends if each.kind == kind), key=lambda each: each.bytes)
    if not points:
        return unknown(f"{kind.text} was not measured: {RUN_IT}")
    near = next((each for each in points if same_size(each.bytes, amount)), points[0])
    if near.bytes >= amount or same_size(near.bytes, amount):
        return Cost(stage.name, end.side, end.stream, near.seconds, f"{size(near.bytes)} in run {near.run}")
    if points[-1].bytes < amount:
        return unknown(f"{kind.text} was measured up to {size(points[-1].bytes)}, not with {size(amount)}: {RUN_IT}")
    low, high = next(pair for pair in pairwise(points) if pair[1].bytes > amount)
    share = (amount - low.bytes) / (high.bytes - low.bytes)
    source = f"between {size(low.bytes)} in run {low.run} and {size(high.bytes)} in run {high.run}"
    return Cost(stage.name, end.side, end.stream, low.seconds * (1 - share) + high.seconds * share, source)


def _paces(plan: Plan, known: EarlierRuns, costs: Mapping[str, Sequence[Cost]]) -> list[GroupPace]:
    """That of each group of stages; one behind a queue that discards is no faster than what fills that queue."""
    paces = {names[0]: _pace(names, known, costs) for names in coupled_stages(plan)}
    group = {name: first for first, pace in paces.items() for name in pace.stages}
    live = [(group[stream.writer], group[reader]) for stream in plan.streams if stream.coupling == "live"
            for reader in stream.readers]  # fmt: skip
    changed = True
    while changed:  # along chains of such queues, in whatever order the plan has them
        changed = False
        for source, behind in live:
            if paces[behind].seconds.median < paces[source].seconds.median:
                complete = paces[source].complete and paces[behind].complete
                paces[behind] = replace(paces[source], stages=paces[behind].stages, complete=complete)
                changed = True
    return [pace for pace in paces.values() if pace.seconds.median]


def _pace(names: list[str], known: EarlierRuns, costs: Mapping[str, Sequence[Cost]]) -> GroupPace:
    """The pace of stages that wait for each other: that of the slowest, per step of the source."""
    found = []
    for name in names:
        seconds = {
            cost.name: cost.seconds * (known.stream_steps[cost.stream] if cost.stream else known.stage_steps[name])
            for cost in costs[name]
            if cost.seconds is not None
        }
        mostly = max(seconds, key=lambda each: seconds[each].median, default="")
        found.append((together(seconds.values()), name, mostly))
    slowest, stage, mostly = max(found, key=lambda each: each[0].median)
    complete = all(cost.seconds is not None for name in names for cost in costs[name])
    return GroupPace(names, slowest, complete, stage, mostly)


def coupled_stages(plan: Plan) -> list[list[str]]:
    """Stages that wait for each other, each group in the order of the plan."""
    group = {stage.name: [stage.name] for stage in plan.stages}
    for stream in plan.streams:
        for reader in stream.readers if _couples(stream) else []:
            one, other = group[stream.writer], group[reader]
            if one is not other:
                one += other
                group.update(dict.fromkeys(other, one))
    position = {stage.name: number for number, stage in enumerate(plan.stages)}
    groups = {id(names): names for names in group.values()}
    return [sorted(names, key=position.__getitem__) for names in groups.values()]


def _couples(stream: StreamPlan) -> bool:
    """Whether a slow reader makes the writer wait. A file holds all steps: its reader waits, never the writer."""
    return stream.queue is not None and stream.queue.when_full == "block"


def _shared_cores(plan: Plan) -> list[str]:
    """That processes of stages that run at once share cores, on the first such node: what they take from each other was
    not measured."""
    asked: dict[int, int] = {}
    for stage in (each for each in plan.stages if not each.starts_after):
        placement = stage.placement
        for node in (node for low, high in placement.nodes for node in range(low, high)):
            asked[node] = asked.get(node, 0) + placement.ranks_per_node
    usable = len(plan.node.usable)
    crowded = next((node for node in sorted(asked) if asked[node] > usable), None)
    if crowded is None:
        return []
    return [
        f"the stages on node {crowded} have {asked[crowded]} processes and share {plural(usable, 'core')}: what they "
        "take from each other is not known, and a step may take longer"
    ]
