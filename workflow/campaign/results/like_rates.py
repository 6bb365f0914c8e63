"""Whether a figure of two trials can be compared: the rate of a file and that of a stream cannot. Pure."""

from __future__ import annotations

from workflow.campaign.campaign_directory import ScheduledTrial
from workflow.engines import traits_of
from workflow.report_figures import to_figure_name

UNLIKE = "a file and a stream"
# Of a file, how fast steps are written, into memory perhaps; of a stream, how fast they are written and taken.
_RATES = ("throughput", "transfer_rate")


def is_like(metric: str, trial: ScheduledTrial, reference: ScheduledTrial) -> bool:
    """Whether a metric of two trials can be compared; also where the engine of a stream is not known."""
    figure = to_figure_name(metric)
    if figure is None or figure.section != "streams" or figure.field not in _RATES:
        return True
    engines = [each.engines[figure.name] for each in (trial, reference) if figure.name in each.engines]
    return len({traits_of(engine).in_memory for engine in engines}) < 2
