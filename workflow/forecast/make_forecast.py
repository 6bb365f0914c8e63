"""The forecast of a plan: how long each step takes, and who decides that.

A pipeline in its steady state makes its steps at one pace: that of the slowest of

- the stages: the time that a stage needs for a step, as a sum of terms (`stream_costs`);
- their cores: CPU time of a stage ÷ the cores that it is bound to, threads that move data included;
- the streams: what a transport gives when its ends do nothing else;
- the nodes: CPU time of all stages on a node ÷ the cores that stages may use there;
- stages of several ranks that leave too few cores free for the others: theirs and that of the others together, because
  what one rank loses all of them wait for.

Stages joined by live streams whose queue blocks wait for each other: they are one group. A file that is read after the
run of its writer, and a queue that discards, separate groups. docs/explanation/forecast.md has the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workflow.forecast.calibration_model import Calibration, calibrated_text
from workflow.forecast.forecast_model import Forecast, GroupForecast, StageForecast, StreamForecast, Term
from workflow.forecast.known_stages import (
    ComputeTime,
    StreamSize,
    competitors,
    compute_time,
    has_several_ranks,
    read_share,
    records_of,
    step_ratios,
    stream_sizes,
)
from workflow.forecast.quartiles import NOTHING, Estimate, Quartiles, exactly, together
from workflow.forecast.stream_costs import StreamTerms, stream_terms
from workflow.formatting import plural, rate, size
from workflow.plan.plan_model import Plan, StagePlan, StreamPlan
from workflow.plan.streams.queue import held_on_node, steps_held

# By how much a time per step is off at most, besides the spread of what was measured, in 80 % of runs: chosen from the
# first pipelines of tests/bench/bench_forecast.py and its studies; its pipelines of other shapes judge it.
MODEL_ERROR = 0.15
# A difference below this is not worth a message.
WORTH_SAYING = 1.1
# A queue that takes this share of a node's memory is worth knowing.
MUCH_MEMORY = 0.1


@dataclass(frozen=True)
class Knowledge:
    """What is known of each stage and stream of a plan."""

    plan: Plan
    compute: Mapping[str, ComputeTime | None]
    sizes: Mapping[str, StreamSize]
    terms: Mapping[str, StreamTerms]
    stage_steps: Mapping[str, float]
    stream_steps: Mapping[str, float]


@dataclass(frozen=True)
class Work:
    """What one stage does for a step of its own."""

    terms: list[Term]
    seconds: Quartiles
    cpu: Quartiles | None
    complete: bool


def make_forecast(plan: Plan, calibration: Calibration) -> Forecast:
    """The forecast. Pure."""
    records = {stage.name: records_of(stage, calibration) for stage in plan.stages}
    sizes = stream_sizes(plan, records)
    terms, missing = dict[str, StreamTerms](), list[str]()
    for stream in plan.streams:
        if stream.name in sizes:
            shares = {name: read_share(plan.stage(name), stream.name, records[name]) for name in stream.readers}
            terms[stream.name], lacking = stream_terms(stream, sizes[stream.name], shares, plan, calibration)
            missing += lacking
        else:
            missing.append(
                f"stream {stream.name}: the size of its steps is not known: state `step_size:`, or run it once and "
                "`wf calibrate --from RUN`"
            )
    stage_steps, stream_steps = step_ratios(plan, records)
    compute = {stage.name: compute_time(stage, records[stage.name], sizes) for stage in plan.stages}
    missing += [
        f"stage {name}: its computing time is not known: run it once, then `wf calibrate --from RUN`"
        for name, known in compute.items()
        if known is None
    ]
    knowledge = Knowledge(plan, compute, sizes, terms, stage_steps, stream_steps)
    work = {stage.name: _work(stage, knowledge) for stage in plan.stages}
    groups = _groups(plan, work, knowledge)
    group_of = {name: group for group in groups for name in group.stages}
    streams = [_stream(stream, group_of[stream.writer], knowledge) for stream in plan.streams]
    return Forecast(
        site=plan.site,
        calibrated=calibrated_text(calibration),
        groups=groups,
        stages=[_stage(stage.name, work[stage.name], group_of[stage.name].step, knowledge) for stage in plan.stages],
        streams=streams,
        missing=missing,
        warnings=_warnings(streams, knowledge),
    )


def _warnings(streams: Sequence[StreamForecast], known: Knowledge) -> list[str]:
    return [
        text
        for stream, forecast in zip(known.plan.streams, streams, strict=True)
        for text in stream_warnings(
            stream, forecast, known.terms.get(stream.name), _compute_pace(stream, known), known.plan
        )
    ]


def _work(stage: StagePlan, known: Knowledge) -> Work:
    """What a stage does for a step of its own: all its streams, each as often as it has a step."""
    compute = known.compute[stage.name]
    complete = compute is not None
    terms = [] if compute is None else [Term(name="compute", seconds=compute.seconds, source=compute.source)]
    cpu = NOTHING if compute is None or compute.cpu_s is None else exactly(compute.cpu_s)
    cpu_known = compute is not None and compute.cpu_s is not None
    for end in stage.ends:
        of_stream = known.terms.get(end.stream)
        if of_stream is None or stage.name not in of_stream.of_stage:
            complete = cpu_known = False
            continue
        complete = complete and stage.name not in of_stream.partial
        share = known.stream_steps[end.stream] / known.stage_steps[stage.name]
        terms += [term.model_copy(update={"seconds": term.seconds * share}) for term in of_stream.of_stage[stage.name]]
        cpu += of_stream.cpu[stage.name] * share
    return Work(terms, together(term.seconds for term in terms), cpu if cpu_known else None, complete)


def _groups(plan: Plan, work: Mapping[str, Work], known: Knowledge) -> list[GroupForecast]:
    """Each group at its pace; a group behind a queue that discards is no faster than what fills that queue."""
    groups = {names[0]: _group(names, plan, work, known) for names in coupled_stages(plan)}
    first = {name: names[0] for names in coupled_stages(plan) for name in names}
    for stream in plan.streams:
        if stream.coupling != "live" or _couples(stream):
            continue
        source = groups[first[stream.writer]]
        for reader in stream.readers:
            own = groups[first[reader]]
            if own.step.median < source.step.median:
                groups[first[reader]] = own.model_copy(
                    update={"step": source.step, "limited_by": source.limited_by, "complete": source.complete}
                )
    return list(groups.values())


def _group(names: Sequence[str], plan: Plan, work: Mapping[str, Work], known: Knowledge) -> GroupForecast:
    """The pace of stages that wait for each other: that of the slowest part, per step of the source."""
    paces: list[tuple[str, Quartiles]] = []
    for name in names:
        stage, ratio = plan.stage(name), known.stage_steps[name]
        paces.append((f"stage {name}", work[name].seconds * ratio))
        cpu, cores = work[name].cpu, _bound_cores(stage)
        if cpu is not None and cores:
            paces.append((f"CPU of stage {name}", cpu * (ratio / cores)))
    for stream in plan.streams:
        least = known.terms[stream.name].step if stream.name in known.terms else None
        if stream.writer in names and least is not None:
            paces.append((f"stream {stream.name}", least * known.stream_steps[stream.name]))
    paces += _nodes(names, plan, work, known)
    paces += _turns(names, plan, work, known)
    # Equal ones: the stage is named, which the reader can do something about.
    limit = max(paces, key=lambda pace: pace[1].median)[0]
    longest = Quartiles(
        median=max(pace.median for _, pace in paces),
        low=max(pace.low for _, pace in paces),
        high=max(pace.high for _, pace in paces),
    )
    step = longest.eight_of_ten(MODEL_ERROR)
    return GroupForecast(
        stages=list(names), step=step, complete=all(work[name].complete for name in names), limited_by=limit
    )


def _nodes(names: Iterable[str], plan: Plan, work: Mapping[str, Work], known: Knowledge) -> list[tuple[str, Quartiles]]:
    """What the cores of each node need for a step, where more than one stage of a group shares them."""
    usable = len(plan.node.usable)
    needs: dict[int, list[Quartiles]] = {}
    for name in names:
        cpu, placement = work[name].cpu, plan.stage(name).placement
        if cpu is None:
            continue
        nodes = [node for low, high in placement.nodes for node in range(low, high)]
        for node in nodes:
            needs.setdefault(node, []).append(cpu * (known.stage_steps[name] / len(nodes) / usable))
    return [(f"cores of node {node}", together(parts)) for node, parts in needs.items() if len(parts) > 1]


def _turns(names: Sequence[str], plan: Plan, work: Mapping[str, Work], known: Knowledge) -> list[tuple[str, Quartiles]]:
    """What a step takes where others of a group run on the cores of a stage whose ranks wait for each other.

    Those that poll while they wait take an equal part of the cores all the time, the others as long as they work.
    """

    def busy(name: str) -> Quartiles:
        seconds, cpu = work[name].seconds, work[name].cpu
        if cpu is not None and cpu.median < seconds.median * plan.stage(name).ranks:
            seconds = cpu * (1 / plan.stage(name).ranks)
        return seconds * known.stage_steps[name]

    found = []
    for name in names:
        stage = plan.stage(name)
        others = competitors(stage, names, plan) if has_several_ranks(stage) else []
        polling = sum(has_several_ranks(other) for other in others)
        if others:
            own = work[name].seconds * (known.stage_steps[name] * (1 + polling))
            beside = [busy(other.name) for other in others if not has_several_ranks(other)]
            found.append((f"cores of stage {name}", together([own, *beside])))
    return found


def _bound_cores(stage: StagePlan) -> int:
    """Cores that a stage is bound to; 0: it may use all that are free."""
    return len(stage.placement.cores) * sum(high - low for low, high in stage.placement.nodes)


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


def _stage(name: str, work: Work, step: Estimate, known: Knowledge) -> StageForecast:
    ratio = known.stage_steps[name]
    return StageForecast(
        name=name, terms=work.terms, work=work.seconds, cpu=work.cpu, complete=work.complete,
        step=step * (1 / ratio), steps_per_step=ratio,
    )  # fmt: skip


def _stream(stream: StreamPlan, writing: GroupForecast, known: Knowledge) -> StreamForecast:
    """Its throughput at the pace of the group that writes it; a pace that is only a bound gives none."""
    size, terms = known.sizes.get(stream.name), known.terms.get(stream.name)
    per_stream_step = writing.step * (1 / known.stream_steps[stream.name])
    moves = writing.complete and per_stream_step.low > 0
    return StreamForecast(
        name=stream.name,
        bytes=None if size is None else size.bytes,
        source="" if size is None else size.source,
        throughput=per_stream_step.rate_of(size.bytes) if size is not None and moves else None,
        capacity=terms.step.rate_of(size.bytes) if size is not None and terms is not None and terms.step else None,
        queue_memory=None if size is None else _queue_memory(stream, size, known.plan),
    )


def _queue_memory(stream: StreamPlan, size: StreamSize, plan: Plan) -> float | None:
    """On the node of the writer that has most ranks: the queue, and the step that is being filled."""
    if stream.queue is None:
        return None
    writer = plan.stage(stream.writer)
    return held_on_node(int(steps_held(stream.queue) * size.bytes), writer.ranks, writer.placement)


def _compute_pace(stream: StreamPlan, known: Knowledge) -> Quartiles | None:
    """Time per step of a stream that the computing of its ends alone would allow; None where it is not known."""
    paces = []
    for name in (stream.writer, *stream.readers):
        compute = known.compute[name]
        if compute is None:
            return None
        paces.append(compute.seconds * (known.stage_steps[name] / known.stream_steps[stream.name]))
    return max(paces, key=lambda pace: pace.median)


def stream_warnings(
    stream: StreamPlan, forecast: StreamForecast, terms: StreamTerms | None, pace: Quartiles | None, plan: Plan
) -> list[str]:
    """What the measurements advise against: only what is outside of the spread.

    `pace`: time per step that the computing of both ends alone would allow.
    """
    found = []
    slower = terms.slower if terms is not None else None
    if slower is not None and slower.low > WORTH_SAYING:
        found.append(
            f"stream {stream.name}: this compressor makes output {_factor(slower.median)}× slower here "
            f"({_factor(slower.low)} to {_factor(slower.high)}): a faster codec, or none"
        )
    if forecast.bytes is not None and forecast.capacity is not None and pace is not None and pace.low > 0:
        needed = forecast.bytes / pace.median
        if forecast.bytes / pace.high > forecast.capacity.high * WORTH_SAYING:
            gave = "the transport" if stream.traits.in_memory else "the file system"
            found.append(
                f"stream {stream.name}: its stages could use {rate(needed)}, {gave} gave "
                f"{rate(forecast.capacity.median)}: it limits the pipeline"
            )
    memory, room = forecast.queue_memory, plan.node.memory
    if memory is not None and stream.queue is not None and room and memory > MUCH_MEMORY * room:
        steps = plural(stream.queue.limit, "step")
        found.append(
            f"stream {stream.name}: a queue of {steps} and the step that is filled take {size(memory)} of the "
            f"{size(room)} of a node; a smaller `queue.limit` takes less"
        )
    return found


def _factor(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
