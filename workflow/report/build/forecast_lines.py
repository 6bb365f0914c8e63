"""The forecast of a run beside what its stages recorded. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from workflow.forecast.forecast_model import Forecast, StageForecast, Term
from workflow.forecast.quartiles import Quartiles, together
from workflow.report.build.step_terms import StepTerms, step_terms
from workflow.report.read.run_records import Records
from workflow.report.report_model import ForecastLine

# A term that differs by less than this share of the slowest stage's time per step is not worth naming.
WORTH_NAMING = 0.1


def forecast_lines(forecast: Forecast, records: Records) -> tuple[list[ForecastLine], str]:
    """(time per step of each stage and its terms, throughput of each stream; the term that is off most)."""
    if forecast.is_empty:
        return [], ""
    lines: list[ForecastLine] = []
    terms = {stage.name: step_terms(records, stage.name) for stage in records.plan.stages}
    off: list[tuple[float, str]] = []
    slowest = max((_median(each.period) or 0.0 for each in terms.values()), default=0.0)
    for stage in forecast.stages:
        seen = terms[stage.name]
        pace = _median(seen.period)
        complete = all(each.complete for group in forecast.groups if stage.name in group.stages for each in [group])
        lines.append(_line(f"time per step of {stage.name}", "s", stage.step, pace, complete=complete))
        parts = _term_lines(stage, terms)
        lines += parts
        off += [
            (abs(part.forecast - part.measured), part.what)
            for part in parts
            if part.measured is not None and abs(part.forecast - part.measured) > WORTH_NAMING * slowest
        ]
    for stream in forecast.streams:
        if stream.throughput is None:
            continue
        seen = terms[records.plan.stream(stream.name).writer]
        moved = seen.moved.get((stream.name, "write"))
        pace = _median(seen.period)
        # A stream that has not each step of its writer has its bytes at a slower pace.
        measured = moved[1] * moved[0] / seen.steps / pace if moved is not None and pace and seen.steps else None
        lines.append(_line(f"throughput of {stream.name}", "B/s", stream.throughput, measured))
    return lines, max(off)[1] if off else ""


def _term_lines(stage: StageForecast, recorded: Mapping[str, StepTerms]) -> list[ForecastLine]:
    """Computing, and moving the data of each stream: compressing and writing are recorded as one."""
    lines, seen = [], recorded[stage.name]
    moving: dict[str, list[Term]] = {}
    for term in stage.terms:
        if term.name == "compute":
            # Steps that a thread writes behind make the computing longer: both are recorded as one.
            behind = [each.seconds for each in stage.terms if each.name == "write behind"]
            lines.append(_line(f"{stage.name}: compute", "s", together([term.seconds, *behind]), _median(seen.compute)))
        elif term.name == "hand over":
            lines.append(
                _line(f"{stage.name}: hand over {term.stream}", "s", term.seconds, _handed_over(term.stream, recorded))
            )
        elif term.name != "write behind":
            moving.setdefault(term.stream, []).append(term)
    for stream, terms in moving.items():
        io = next((values for (name, _), values in seen.io.items() if name == stream), [])
        name = " + ".join(term.name for term in terms)
        lines.append(
            _line(f"{stage.name}: {name} {stream}", "s", together(each.seconds for each in terms), _median(io))
        )
    return lines


def _handed_over(stream: str, recorded: Mapping[str, StepTerms]) -> float | None:
    """What handing over a step took: the time inside the call of the end that came last, for which the other waited."""
    inside = [median(values) for each in recorded.values() for end, values in each.inside.items() if end[0] == stream]
    return min(inside, default=None)


def _line(what: str, unit: str, forecast: Quartiles, measured: float | None, *, complete: bool = True) -> ForecastLine:
    return ForecastLine(
        what=what, unit="s" if unit == "s" else "B/s",
        forecast=forecast.median, low=forecast.low, high=forecast.high, complete=complete, measured=measured,
        # A bound differs from what it bounds by any amount.
        difference=forecast.median / measured - 1 if measured and complete else None,
    )  # fmt: skip


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
