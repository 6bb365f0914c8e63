"""What a step of a stream costs the stages at both ends, term by term, from what was measured of such streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from workflow.forecast.calibration_model import Calibration, CompressorRates, MeasuredPart, StreamPoint, StreamRates
from workflow.forecast.forecast_model import Term, TermName
from workflow.forecast.known_stages import StreamSize, share_a_node
from workflow.forecast.quartiles import NOTHING, Quartiles, between
from workflow.plan.plan_model import EndPlan, OperatorPlan, Plan, StagePlan, StreamPlan


@dataclass
class StreamTerms:
    """What moving a step of one stream takes at its ends, in seconds; CPU times of all ranks."""

    of_stage: dict[str, list[Term]] = field(default_factory=dict)
    cpu: dict[str, Quartiles] = field(default_factory=dict)
    step: Quartiles | None = None
    """The least that a step takes, when both ends do nothing else."""
    slower: Quartiles | None = None
    """Output with the stream's operator ÷ output without it; None: no operator."""
    partial: set[str] = field(default_factory=set)
    """Stages that work longer than their terms say."""


def stream_terms(
    stream: StreamPlan, known: StreamSize, shares: Mapping[str, float], plan: Plan, calibration: Calibration
) -> tuple[StreamTerms, list[str]]:
    """The terms of a stream, and what was not measured of it. `shares`: how much of a step each reader reads."""
    terms, missing = StreamTerms(), list[str]()
    writer = plan.stage(stream.writer)
    compressor = _compressor(stream, plan, calibration, missing)
    moved = known.bytes * (compressor.ratio if compressor is not None else 1.0)
    for name in stream.readers or [""]:
        reader = plan.stage(name) if name else writer
        rates = find_rates(stream, reader, plan, calibration)
        if rates is None:
            # A machine that was measured before wf knew a way lacks this part alone.
            part: MeasuredPart = "transports" if stream.traits.in_memory else "file_system"
            missing.append(
                f"stream {stream.name}: {_kind(stream)} was not measured on site {plan.site}: "
                f"`wf calibrate --only {part}`"
                if stream.traits.calibrated
                else f"stream {stream.name}: `wf calibrate` does not measure {stream.engine}"
            )
            break
        section: MeasuredPart = "transports" if rates in calibration.transports else "file_system"
        parallel = bool(calibration.measured[section].parallel_adios2)
        share = shares.get(name, 1.0)
        cost = stream_cost(rates, moved, share, writer, reader, parallel)
        shares_its_core = writer.placement.cores_per_rank <= 1
        _add(terms, stream, cost, name, shares_its_core)
        if rates.async_write != "off" and cost.behind is None and shares_its_core and not terms.partial:
            terms.partial.add(writer.name)
            missing.append(
                f"stream {stream.name}: what its writing thread takes from the computing was not measured on site "
                f"{plan.site}: `wf calibrate --only file_system`"
            )
        if compressor is not None:
            before = stream_cost(rates, known.bytes, share, writer, reader, parallel)
            _add_compressor(terms, stream, name, compressor, known.bytes, share, plan)
            terms.slower = _slower(known.bytes / writer.ranks, compressor, cost, before)
    return terms, missing


def _add(terms: StreamTerms, stream: StreamPlan, cost: StreamCost, reader: str, shares_its_core: bool) -> None:
    """`shares_its_core`: a thread of the writer has no core but that of its rank, as when it was measured."""
    source = _source(cost)
    terms.step = cost.step if terms.step is None or cost.step.median > terms.step.median else terms.step
    first = stream.writer not in terms.of_stage
    if first:
        terms.of_stage[stream.writer] = [Term(name="write", stream=stream.name, seconds=cost.write, source=source)]
        if cost.behind is not None and shares_its_core:
            behind = Term(name="write behind", stream=stream.name, seconds=cost.behind, source=source)
            terms.of_stage[stream.writer].append(behind)
        terms.cpu[stream.writer] = cost.write_cpu
    if reader:
        terms.of_stage[reader] = [Term(name="read", stream=stream.name, seconds=cost.read, source=source)]
        terms.cpu[reader] = cost.read_cpu


def _add_compressor(
    terms: StreamTerms,
    stream: StreamPlan,
    reader: str,
    compressor: CompressorRates,
    amount: float,
    share: float,
    plan: Plan,
) -> None:
    source = f"{compressor.operator} on {compressor.data}"
    ends: list[tuple[str, TermName, Quartiles, float]] = [(stream.writer, "compress", compressor.compress, amount)]
    if reader:
        ends.append((reader, "decompress", compressor.decompress, amount * share))
    for stage, name, rate, moved in ends:
        of_stage = terms.of_stage[stage]
        if any(term.name == name for term in of_stage):
            continue
        seconds = rate.rate_of(moved / plan.stage(stage).ranks)
        of_stage.append(Term(name=name, stream=stream.name, seconds=seconds, source=source))
        terms.cpu[stage] += seconds * plan.stage(stage).ranks


def _slower(amount: float, compressor: CompressorRates, cost: StreamCost, before: StreamCost) -> Quartiles:
    """Γ of Huebl et al. 2017, equation 5, with the measured times of writing in place of throughputs."""
    reduced = compressor.compress.rate_of(amount) + cost.write
    return Quartiles(
        median=reduced.median / before.write.median,
        low=reduced.low / before.write.high,
        high=reduced.high / before.write.low,
    )


def _compressor(stream: StreamPlan, plan: Plan, calibration: Calibration, missing: list[str]) -> CompressorRates | None:
    """What was measured of the operator that compresses the stream; with several operators that of the first."""
    operators = writing_end(stream, plan).operators
    if not operators:
        return None
    operator = next(iter(operators.values()))
    found = [rates for rates in calibration.compressors if _is_like(rates, operator)]
    if not found:
        missing.append(
            f"stream {stream.name}: {_setting(operator)} was not measured on site {plan.site}: "
            "`wf calibrate --only compressors --data FILE.bp:VARIABLE`"
        )
        return None
    return next((rates for rates in found if rates.parameters == operator.parameters), found[0])


def _is_like(rates: CompressorRates, operator: OperatorPlan) -> bool:
    """The same operator, of blosc with the same codec: levels and accuracies differ less."""
    codec = operator.parameters.get("compressor")
    return rates.operator == operator.type and rates.parameters.get("compressor") == codec


def _setting(operator: OperatorPlan) -> str:
    codec = operator.parameters.get("compressor", "")
    return f"{operator.type} {codec}".strip()


def _kind(stream: StreamPlan) -> str:
    return f"{stream.engine} {stream.transport}" if stream.transport else stream.engine


def _source(cost: StreamCost) -> str:
    rates = cost.rates
    place = " between two nodes" if rates.nodes > 1 else ""
    return f"{rates.via}, {rates.writers} → {rates.readers} ranks{place}"


@dataclass(frozen=True)
class StreamCost:
    """What one step takes: in all, and at each end. CPU times are of all ranks of an end."""

    step: Quartiles
    write: Quartiles
    read: Quartiles
    write_cpu: Quartiles
    read_cpu: Quartiles
    behind: Quartiles | None
    """How much longer the writer computes while a thread writes the step; None: no thread does, or not measured."""
    rates: StreamRates
    """What it was taken from."""


def find_rates(stream: StreamPlan, reader: StagePlan, plan: Plan, calibration: Calibration) -> StreamRates | None:
    """The measured stream that is most like this one; None where none of its kind was measured."""
    writer = plan.stage(stream.writer)
    end = writing_end(stream, plan)
    asynchronous = end.parameters.get("AsyncWrite", "off").lower()
    apart = 1 if share_a_node(writer, reader) else 2
    aggregators = stream.subfiles
    found = [
        rates
        for rates in (*calibration.transports, *calibration.file_system)
        if (rates.engine, rates.transport) == (stream.engine, stream.transport or "")
        and (rates.async_write.lower() == asynchronous)
    ]

    def difference(rates: StreamRates) -> tuple[float, float, float]:
        shape = _apart(rates.writers, writer.ranks) + _apart(rates.readers, reader.ranks)
        files = _apart(rates.aggregators, aggregators) if rates.aggregators and aggregators else 0.0
        return abs(rates.nodes - apart), shape, files

    return min(found, key=difference, default=None)


def stream_cost(
    rates: StreamRates, size: float, share: float, writer: StagePlan, reader: StagePlan, parallel: bool
) -> StreamCost:
    """What a step of `size` bytes takes, of which the reader reads a share.

    With a serial ADIOS2 rank 0 moves the data of all ranks.
    """
    writers, readers = (writer.ranks, reader.ranks) if parallel else (rates.writers, rates.readers)
    written, taken = size / writers * rates.writers, size * share / readers * rates.readers

    def at(amount: float, field: Callable[[StreamPoint], Quartiles]) -> Quartiles:
        return at_size(rates.points, amount, field)

    threaded = rates.async_write != "off" and all(point.behind_s is not None for point in rates.points)
    return StreamCost(
        step=at(max(written, taken), lambda point: point.step_s),
        write=at(written, lambda point: point.write_s),
        read=at(taken, lambda point: point.read_s),
        write_cpu=at(written, lambda point: point.write_cpu_s) * writers,
        read_cpu=at(taken, lambda point: point.read_cpu_s) * readers,
        behind=at(written, lambda point: point.behind_s or NOTHING) if threaded else None,
        rates=rates,
    )


def at_size(points: Sequence[StreamPoint], size: float, field: Callable[[StreamPoint], Quartiles]) -> Quartiles:
    """One of the times of a step of that size.

    Between two measured sizes it is interpolated, above the largest it grows with the size, below the smallest it is
    that of the smallest: a stream has a latency and a bandwidth.
    """
    above = next((index for index, point in enumerate(points) if point.bytes >= size), len(points))
    if above == 0:
        return field(points[0])
    low = points[above - 1]
    if above == len(points):
        return field(low) * (size / low.bytes)
    high = points[above]
    return between(field(low), field(high), (size - low.bytes) / (high.bytes - low.bytes))


def writing_end(stream: StreamPlan, plan: Plan) -> EndPlan:
    """How the writer opens the stream."""
    return plan.stage(stream.writer).end(stream.name, "write")


def _apart(one: int, other: int) -> float:
    return abs(math.log2(one / other))
