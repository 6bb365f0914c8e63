"""What was measured on a site and what a run will take: `wf calibrate --show`, forecasts beside measurements. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from workflow.formatting import NOTHING, plural, rate, size, three_figures
from workflow.report.show.text_table import Column, Table, make_table, number_column, prose_column, text_column

if TYPE_CHECKING:
    from workflow.forecast.calibration_model import (
        Calibration,
        CompressorRates,
        LaunchCost,
        StageRecord,
        StreamPoint,
        StreamRates,
    )
    from workflow.forecast.forecast_model import Forecast, GroupForecast, StageForecast, StreamForecast, Term
    from workflow.forecast.quartiles import Estimate
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
    return rate(value) if line.unit == "B/s" else short_time(value)


MEASURED_COLUMNS: list[Column[ForecastLine]] = [
    prose_column("forecast of", lambda line: line.what),
    number_column("forecast", lambda line: _value(line, line.forecast) if line.complete else at_least(line.low)),
    number_column("from", lambda line: _value(line, line.low), gives_way=1),
    number_column("to", lambda line: _value(line, line.high if line.complete else None), gives_way=2),
    number_column("measured", lambda line: _value(line, line.measured)),
    number_column("difference", lambda line: NOTHING if line.difference is None else f"{line.difference * 100:+.0f} %"),
]


def measured_table(report: Report) -> Table:
    """Forecast beside measurement, and which term explains a wrong forecast."""
    off = [f"the forecast differs most in: {report.off}"] if report.off else []
    return make_table(MEASURED_COLUMNS, report.forecast, below=off)


class MeasuredStreamRow(NamedTuple):
    """One size of one kind of stream."""

    rates: StreamRates
    point: StreamPoint


STREAM_COLUMNS: list[Column[MeasuredStreamRow]] = [
    text_column("stream", lambda row: kind_text(row.rates)),
    number_column("step", lambda row: size(row.point.bytes)),
    number_column("throughput", lambda row: rate_text(row.point.step_s.rate_of(row.point.bytes))),
    number_column("time per step", lambda row: time_text(row.point.step_s)),
    number_column("writing", lambda row: time_text(row.point.write_s)),
    number_column("reading", lambda row: time_text(row.point.read_s)),
    number_column(
        "computing longer by",
        lambda row: NOTHING if row.point.behind_s is None else time_text(row.point.behind_s),
        gives_way=1,
    ),
    number_column(
        "CPU", lambda row: f"{short_time(row.point.write_cpu_s.median)} + {short_time(row.point.read_cpu_s.median)}"
    ),
]
COMPRESSOR_COLUMNS: list[Column[CompressorRates]] = [
    text_column("compressor", lambda each: compressor_text(each)),
    prose_column("data", lambda each: f"{each.data}, {size(each.bytes)}"),
    number_column("ratio", lambda each: f"{each.ratio:.3f}"),
    number_column("compress, per core", lambda each: rate_text(each.compress)),
    number_column("decompress, per core", lambda each: rate_text(each.decompress)),
]
LAUNCH_COLUMNS: list[Column[LaunchCost]] = [
    text_column("launcher", lambda each: each.launcher),
    number_column("ranks", lambda each: str(each.ranks)),
    number_column("program begins after", lambda each: time_text(each.begin_s)),
    number_column("opens its streams after", lambda each: time_text(each.ready_s)),
]
STAGE_COLUMNS: list[Column[StageRecord]] = [
    text_column("stage", lambda each: each.program),
    prose_column(
        "with", lambda each: ", ".join(f"{key}: {value}" for key, value in each.parameters.items()) or NOTHING
    ),
    number_column("ranks", lambda each: str(each.ranks)),
    number_column("computes, per step", lambda each: time_text(each.compute_s)),
    number_column("CPU", lambda each: NOTHING if each.cpu_s is None else short_time(each.cpu_s)),
    prose_column("moves, per step", lambda each: ports_text(each)),
    text_column("from", lambda each: each.run),
]


def head_lines(calibration: Calibration) -> list[str]:
    """The site, when and with what each part was measured, and memcpy."""
    lines = [f"site {calibration.site}"]
    about: dict[str, list[str]] = {}
    for part, each in calibration.measured.items():
        adios2 = f"adios2 {each.adios2}" + (" with MPI" if each.parallel_adios2 else "") if each.adios2 else "no adios2"
        text = f"{each.date} on {each.host}, {plural(each.cores, 'core')}, {adios2}, wf {each.wf_version}"
        text += ", quick" if each.quick else ""
        text += "" if each.complete else ", ended before its end"
        text += f", {each.busy_text}: times may be shorter" if each.is_disturbed else ""
        about.setdefault(text, []).append(part)
    lines += [f"  {', '.join(parts)}: {text}" for text, parts in about.items()]
    if calibration.memory is not None:
        lines.append(f"memcpy of one core: {rate_text(calibration.memory)}")
    return lines


def calibration_tables(calibration: Calibration) -> list[Table]:
    """One table per part; one without rows is not shown."""
    return [
        make_table(STREAM_COLUMNS, _rows(calibration.transports)),
        make_table(STREAM_COLUMNS, _rows(calibration.file_system)),
        make_table(COMPRESSOR_COLUMNS, calibration.compressors),
        make_table(LAUNCH_COLUMNS, calibration.launch),
        make_table(STAGE_COLUMNS, calibration.stages),
    ]


def _rows(measured: list[StreamRates]) -> list[MeasuredStreamRow]:
    return [MeasuredStreamRow(rates, point) for rates in measured for point in rates.points]


def kind_text(rates: StreamRates) -> str:
    """`sst-tcp`, `bp5, 2 writers, 1 aggregator, async guided`."""
    parts = [rates.via + (" between two nodes" if rates.nodes > 1 else "")]
    if rates.writers > 1:
        parts.append(plural(rates.writers, "writer"))
        parts += [plural(rates.aggregators, "aggregator")] if rates.aggregators else []
    parts += [f"async {rates.async_write}"] if rates.async_write != "off" else []
    return ", ".join(parts)


def compressor_text(rates: CompressorRates) -> str:
    """`blosc zstd 5`, `zfp 0.001`."""
    shown = [
        rates.parameters[key]
        for key in ("compressor", "clevel", "accuracy", "blockSize100k")
        if key in rates.parameters
    ]
    return " ".join([rates.operator, *shown])


def ports_text(record: StageRecord) -> str:
    """`reads 16.0 MB, writes 8.0 MB`."""
    parts = [f"{port.side}s {size(port.bytes_per_step)} ({port.port})" for port in record.ports]
    return ", ".join(parts) or NOTHING


def time_text(times: Estimate) -> str:
    """`12.3 ms (11.9 to 13.0)`, in one unit."""
    unit, factor = _unit(times.median)
    shown = [three_figures(each * factor) for each in (times.median, times.low, times.high)]
    interval = "" if shown[1] == shown[2] else f" ({shown[1]} to {shown[2]})"
    return f"{shown[0]} {unit}{interval}"


def short_time(seconds: float) -> str:
    """`12.3 ms`: with fractions of milliseconds, which steps need."""
    unit, factor = _unit(seconds)
    return f"{three_figures(seconds * factor)} {unit}"


def _unit(seconds: float) -> tuple[str, float]:
    return ("s", 1.0) if abs(seconds) >= 0.9995 else ("ms", 1e3)


def rate_text(rates: Estimate) -> str:
    """`1.4 GB/s (1.3 GB/s to 1.5 GB/s)`."""
    if rate(rates.low) == rate(rates.high):
        return rate(rates.median)
    return f"{rate(rates.median)} ({rate(rates.low)} to {rate(rates.high)})"
