"""The figures of a run's report that a campaign can measure: their units, and which direction is better. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from workflow.campaign.file.campaign_spec import Better
from workflow.report.report_model import Report, StagePart, StreamPart

SECTIONS = ("run", "stages", "streams")


class Figure(NamedTuple):
    """What a field of the report measures."""

    unit: str
    """s, B, B/s, steps, steps/s, 1; empty: not known."""
    better: Better
    own_program: bool = True
    """Whether it is known also for programs that do not use `workflow.stage`."""


RUN: Mapping[str, Figure] = {"wall_s": Figure("s", "less"), "overlap": Figure("1", "more", own_program=False)}
STAGE: Mapping[str, Figure] = {
    "wall_s": Figure("s", "less"),
    "open_s": Figure("s", "less", own_program=False),
    "compute_s": Figure("s", "less", own_program=False),
    "io_s": Figure("s", "less", own_program=False),
    "wait_s": Figure("s", "less", own_program=False),
    "cpu_s": Figure("s", "less"),
    "steps_in": Figure("steps", "more"),
    "steps_out": Figure("steps", "more"),
    "step_rate": Figure("steps/s", "more"),
    "step_s": Figure("s", "less", own_program=False),
    "bytes_in": Figure("B", "more", own_program=False),
    "bytes_out": Figure("B", "more", own_program=False),
}
STREAM: Mapping[str, Figure] = {
    "throughput": Figure("B/s", "more"),
    "transfer_rate": Figure("B/s", "more", own_program=False),
    "io_s": Figure("s", "less", own_program=False),
    "wait_s": Figure("s", "less", own_program=False),
    "load_s": Figure("s", "less", own_program=False),
    "load_rate": Figure("B/s", "more", own_program=False),
    "steps": Figure("steps", "more"),
    "bytes": Figure("B", "more"),
    "stored": Figure("B", "less"),
    "longest_queue": Figure("steps", "less"),
}
# Those of the program's own `figures.json`: `stages.NAME.figures.X`. Unit and direction are given with the metric.
OWN = "figures."
PERCEIVED = "perceived_throughput"
# Computed from two runs: bytes written ÷ (time of the stage − its time without I/O).
WITH_BASELINE: Mapping[str, Figure] = {PERCEIVED: Figure("B/s", "more", own_program=False)}
STAGE_FIGURES: Mapping[str, Figure] = {**STAGE, **WITH_BASELINE}


class FigureName(NamedTuple):
    """`streams.field.throughput` in its parts; `name` is empty for the run as a whole."""

    section: str
    name: str
    field: str

    def __str__(self) -> str:
        """As in the campaign file."""
        return ".".join(part for part in self if part)

    @property
    def figure(self) -> Figure:
        """What it measures. Raises KeyError for a field that there is not."""
        return Figure("", "less") if self.is_own else fields_of(self.section)[self.field]

    @property
    def is_own(self) -> bool:
        """Whether the program of the stage measured it."""
        return self.section == "stages" and self.field.startswith(OWN)


def fields_of(section: str) -> Mapping[str, Figure]:
    """The fields of a section: `run`, `stages` or `streams`. Raises KeyError."""
    return {"run": RUN, "stages": STAGE_FIGURES, "streams": STREAM}[section]


def to_figure_name(text: str) -> FigureName | None:
    """The parts of a figure's name; None when it has not the form of one. Names of stages have no dots."""
    section, _, rest = text.partition(".")
    name, _, field = rest.rpartition(".")
    if section == "stages" and f".{OWN}" in rest:
        name, _, own = rest.partition(f".{OWN}")
        field = OWN + own if own else ""
    if section not in SECTIONS or not field or (section == "run") != (not name):
        return None
    return FigureName(section, name, field)


def figures_of(report: Report) -> dict[str, float]:
    """All figures of a run that are known, by name."""
    found: dict[str, float | None] = {f"run.{field}": getattr(report.run, field) for field in RUN}
    for stage in report.stages:
        found |= {f"stages.{stage.name}.{field}": _stage_figure(stage, field) for field in STAGE}
        found |= {f"stages.{stage.name}.{OWN}{name}": value for name, value in stage.figures.items()}
    for stream in report.streams:
        found |= {f"streams.{stream.name}.{field}": _stream_figure(stream, field) for field in STREAM}
    return {name: value for name, value in found.items() if value is not None}


def _stage_figure(stage: StagePart, field: str) -> float | None:
    """A field of the report, or what follows from two of them."""
    if field == "step_rate":
        return stage.steps_out / stage.wall_s if stage.steps_out and stage.wall_s else None
    if field == "step_s":
        parts, steps = (stage.compute_s, stage.io_s, stage.wait_s), max(stage.steps_out or 0, stage.steps_in or 0)
        return sum(part or 0.0 for part in parts) / steps if steps and stage.compute_s is not None else None
    value: float | None = getattr(stage, field)
    return value


def _stream_figure(stream: StreamPart, field: str) -> float | None:
    """A field of the report; of loading, that of the slowest of its readers."""
    if field == "load_s":
        return max((each.io_s for each in stream.readers if each.io_s is not None), default=None)
    if field == "load_rate":
        return min((each.transfer_rate for each in stream.readers if each.transfer_rate is not None), default=None)
    value: float | None = getattr(stream, field)
    return value
