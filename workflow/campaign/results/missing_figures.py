"""Why a figure that a program measures itself is not known. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.campaign.results.samples import Measured
from workflow.errors import did_you_mean, listing
from workflow.report_figures import OWN, to_figure_name


def why_unknown(name: str, repetitions: Sequence[Measured]) -> str:
    """What is wrong with the `figures.json` of the repetitions without this figure; empty for other figures."""
    figure = to_figure_name(name)
    if figure is None or not figure.is_own:
        return ""
    stage, without = figure.name, [each.attempt for each in repetitions if name not in each.figures]
    if problem := next(filter(None, (each.figure_problems.get(stage) for each in without)), ""):
        return f"{stage}: {problem}"
    begin = f"stages.{stage}.{OWN}"
    known = {each.removeprefix(begin) for attempt in without for each in attempt.figures if each.startswith(begin)}
    if not known:
        return f"{stage} wrote no figures.json"
    return did_you_mean(figure.field.removeprefix(OWN), known) or f"figures of {stage}: {listing(known)}"
