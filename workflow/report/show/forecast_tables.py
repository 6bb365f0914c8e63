"""What a step of a plan costs, and what runs on a site have measured, as tables. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflow.formatting import NOTHING, size, three_figures
from workflow.report.show.text_table import Column, Table, make_table, number_column, prose_column, text_column

if TYPE_CHECKING:
    from workflow.forecast.calibration_model import Calibration, MovingRecord, StageRecord
    from workflow.forecast.forecast_model import Cost, Forecast, GroupPace
    from workflow.forecast.quartiles import Quartiles

COST_COLUMNS: list[Column[Cost]] = [
    text_column("stage", lambda cost: cost.stage),
    text_column("does", lambda cost: cost.name),
    number_column("per step", lambda cost: "not known" if cost.seconds is None else time_text(cost.seconds)),
    prose_column("from", lambda cost: cost.source),
]
STAGE_COLUMNS: list[Column[StageRecord]] = [
    text_column("stage", lambda each: each.program),
    prose_column(
        "with", lambda each: ", ".join(f"{key}: {value}" for key, value in each.parameters.items()) or NOTHING
    ),
    number_column("ranks", lambda each: str(each.ranks)),
    number_column("computes, per step", lambda each: time_text(each.seconds)),
    prose_column("moves, per step", lambda each: ports_text(each)),
    text_column("run", lambda each: each.run),
]
END_COLUMNS: list[Column[MovingRecord]] = [
    prose_column("stream", lambda each: each.kind.text),
    number_column("step", lambda each: size(each.bytes)),
    number_column("takes", lambda each: time_text(each.seconds)),
    text_column("run", lambda each: each.run),
]


def cost_table(forecast: Forecast) -> Table:
    """All that stages do for a step."""
    return make_table(COST_COLUMNS, forecast.costs)


def pace_text(pace: GroupPace, *, named: bool) -> str:
    """`time per step: 45.1 ms (44.0 to 46.2), limited by stage saxs: compute`.

    What is known of a sum bounds the time from below.
    """
    name = f"time per step of {', '.join(pace.stages)}" if named else "time per step"
    step = time_text(pace.seconds) if pace.complete else f"at least {short_time(pace.seconds.low)}"
    return f"{name}: {step}, limited by stage {pace.stage}: {pace.mostly}"


def calibration_tables(calibration: Calibration) -> list[Table]:
    """What stages compute, and what moving data takes; one without rows is not shown."""
    ends = sorted(calibration.ends, key=lambda each: (each.kind.text, each.bytes))
    return [make_table(STAGE_COLUMNS, calibration.stages), make_table(END_COLUMNS, ends)]


def ports_text(record: StageRecord) -> str:
    """`reads 16.0 MB (input), writes 8.0 MB (pdf)`."""
    parts = [f"{port.side}s {size(port.bytes_per_step)} ({port.port})" for port in record.ports]
    return ", ".join(parts) or NOTHING


def time_text(times: Quartiles) -> str:
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
