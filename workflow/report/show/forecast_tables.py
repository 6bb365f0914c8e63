"""The forecast of a plan as tables and lines, and beside it what the run took. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflow.formatting import NOTHING, size
from workflow.report.show.calibration_tables import rate_text, short_time, time_text
from workflow.report.show.text_table import Column, Table, make_table, number_column, prose_column, text_column

if TYPE_CHECKING:
    from workflow.forecast.forecast_model import Forecast, GroupForecast, StageForecast, StreamForecast, Term
    from workflow.report.report_model import ForecastLine, Report

NOTHING_KNOWN = "nothing is known yet: run it once, then `wf calibrate --from RUN`"
FORECAST_STAGE_COLUMNS: list[Column[StageForecast]] = [
    text_column("stage", lambda stage: stage.name),
    prose_column("per step", lambda stage: " + ".join(term_text(term) for term in stage.terms) or NOTHING),
    number_column("works", lambda stage: time_text(stage.work) if stage.complete else at_least(stage.work.low)),
    number_column("CPU", lambda stage: NOTHING if stage.cpu is None else short_time(stage.cpu.median), gives_way=1),
]
FORECAST_STREAM_COLUMNS: list[Column[StreamForecast]] = [
    text_column("stream", lambda stream: stream.name),
    number_column("step", lambda stream: size(stream.bytes)),
    number_column("throughput", lambda stream: NOTHING if stream.throughput is None else rate_text(stream.throughput)),
    number_column(
        "at most", lambda stream: NOTHING if stream.capacity is None else rate_text(stream.capacity), gives_way=2
    ),
    number_column("queue, on a node", lambda stream: size(stream.queue_memory), gives_way=1),
]


def forecast_tables(forecast: Forecast) -> list[Table]:
    """Stages, then streams."""
    return [make_table(FORECAST_STAGE_COLUMNS, forecast.stages), make_table(FORECAST_STREAM_COLUMNS, forecast.streams)]


def pace_lines(forecast: Forecast) -> list[str]:
    """`time per step: 45.1 ms (44.0 to 46.2), limited by stream data`, for each group of which a part is known."""
    several = len(forecast.groups) > 1
    return [pace_text(group, named=several) for group in forecast.groups if group.complete or group.step.high > 0]


def pace_text(group: GroupForecast, *, named: bool) -> str:
    """One of the lines."""
    name = f"time per step of {', '.join(group.stages)}" if named else "time per step"
    step = time_text(group.step) if group.complete else at_least(group.step.low)
    return f"{name}: {step}, limited by {group.limited_by}"


def term_text(term: Term) -> str:
    """`compute 12.3 ms`, `write data 4.1 ms`."""
    of = f" {term.stream}" if term.stream else ""
    return f"{term.name}{of} {short_time(term.seconds.median)}"


def at_least(low: float) -> str:
    """A sum of which parts are not known bounds the time from below: with the lower ends of the parts that are."""
    return f"at least {short_time(low)}" if low else NOTHING


def _value(line: ForecastLine, value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{size(value)}/s" if line.unit == "B/s" else short_time(value)


MEASURED_COLUMNS: list[Column[ForecastLine]] = [
    prose_column("forecast of", lambda line: line.what),
    number_column("forecast", lambda line: _value(line, line.forecast) if line.complete else at_least(line.low)),
    number_column("from", lambda line: _value(line, line.low), gives_way=1),
    number_column("to", lambda line: _value(line, line.high if line.complete else None), gives_way=2),
    number_column("measured", lambda line: _value(line, line.measured)),
    number_column("difference", lambda line: NOTHING if line.difference is None else f"{line.difference * 100:+.0f} %"),
]


def measured_table(lines: list[ForecastLine]) -> Table:
    """Forecast beside measurement."""
    return make_table(MEASURED_COLUMNS, lines)


def off_text(report: Report) -> str:
    """Which term explains a wrong forecast."""
    return f"the forecast differs most in: {report.off}" if report.off else ""
