"""What a step of a stream takes, from what was measured of streams of that kind.

Between two measured sizes a time is interpolated, above the largest it grows with the size, below the smallest it is
that of the smallest: a stream has a latency and a bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workflow.forecast.calibration_model import Calibration, StreamPoint, StreamRates
from workflow.forecast.quartiles import NOTHING, Quartiles, between
from workflow.forecast.shared_cores import share_a_node
from workflow.plan.plan_model import EndPlan, Plan, StagePlan, StreamPlan


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
    """One of the times of a step of that size."""
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
    return next(end for end in plan.stage(stream.writer).ends if end.stream == stream.name and end.side == "write")


def _apart(one: int, other: int) -> float:
    return abs(math.log2(one / other))
