"""What the measurements advise against, as sentences. Only what is outside of the spread is said."""

from __future__ import annotations

from workflow.forecast.calibration_model import Calibration, MeasuringConditions
from workflow.forecast.forecast_model import StreamForecast
from workflow.forecast.quartiles import Quartiles
from workflow.forecast.stage_terms import StreamTerms
from workflow.formatting import plural, rate, size
from workflow.plan.plan_model import Plan, StreamPlan

# A difference below this is not worth a message.
WORTH_SAYING = 1.1
# A queue that takes this share of a node's memory is worth knowing.
MUCH_MEMORY = 0.1


def stream_warnings(
    stream: StreamPlan, forecast: StreamForecast, terms: StreamTerms | None, pace: Quartiles | None, plan: Plan
) -> list[str]:
    """`pace`: time per step that the computing of both ends alone would allow."""
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


def calibrated_text(calibration: Calibration) -> str:
    """`2026-11-22 on node17`; of parts measured at different times the oldest."""
    oldest = min(calibration.measured.values(), key=lambda each: each.date, default=None)
    if oldest is None:
        return ""
    busy = max(calibration.measured.values(), key=lambda each: 1 - each.free)
    return f"{oldest.date[:10]} on {oldest.host}" + (f" {busy_text(busy)}" if busy.is_disturbed else "")


def busy_text(conditions: MeasuringConditions) -> str:
    """`while other programs used 1.3 of 2 cores`."""
    return f"while other programs used {conditions.others:.1f} of {plural(conditions.cores, 'core')}"
