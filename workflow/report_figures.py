"""The figures of a run's report that pipelines expect and campaigns measure: units, and which direction is better.

The only list: names as in the report, `workflow.report.build.met_expectations` has their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Better = Literal["less", "more"]
SECTIONS = ("run", "stages", "streams")


class Figure(NamedTuple):
    """What a field of the report measures."""

    unit: str
    """s, B, B/s, steps, steps/s, 1 (a share), ratio (at least 1); empty: not known."""
    better: Better
    own_program: bool = True
    """Whether it is known also for programs that do not use `workflow.stage`."""


RUN: Mapping[str, Figure] = {"wall_s": Figure("s", "less"), "overlap": Figure("1", "more", own_program=False)}
STAGE: Mapping[str, Figure] = {
    "wall_s": Figure("s", "less"),
    "open_s": Figure("s", "less", own_program=False),
    "compute_s": Figure("s", "less", own_program=False),
    "device_s": Figure("s", "less", own_program=False),
    "io_s": Figure("s", "less", own_program=False),
    "wait_s": Figure("s", "less", own_program=False),
    "compute_share": Figure("1", "more", own_program=False),
    "device_share": Figure("1", "less", own_program=False),
    "io_share": Figure("1", "less", own_program=False),
    "wait_share": Figure("1", "less", own_program=False),
    "cpu_s": Figure("s", "less"),
    "steps_in": Figure("steps", "more"),
    "steps_out": Figure("steps", "more"),
    "step_rate": Figure("steps/s", "more"),
    "step_s": Figure("s", "less", own_program=False),
    "step_p50_s": Figure("s", "less", own_program=False),
    "step_p95_s": Figure("s", "less", own_program=False),
    "step_max_s": Figure("s", "less", own_program=False),
    "compute_imbalance": Figure("ratio", "less", own_program=False),
    "bytes_in": Figure("B", "more", own_program=False),
    "bytes_out": Figure("B", "more", own_program=False),
}
STREAM: Mapping[str, Figure] = {
    "throughput": Figure("B/s", "more"),
    "transfer_rate": Figure("B/s", "more", own_program=False),
    "io_s": Figure("s", "less", own_program=False),
    "wait_s": Figure("s", "less", own_program=False),
    "idle": Figure("1", "less", own_program=False),
    "write_p50_s": Figure("s", "less", own_program=False),
    "write_p95_s": Figure("s", "less", own_program=False),
    "write_max_s": Figure("s", "less", own_program=False),
    "write_imbalance": Figure("ratio", "less", own_program=False),
    "load_s": Figure("s", "less", own_program=False),
    "load_p50_s": Figure("s", "less", own_program=False),
    "load_p95_s": Figure("s", "less", own_program=False),
    "load_max_s": Figure("s", "less", own_program=False),
    "load_imbalance": Figure("ratio", "less", own_program=False),
    "load_rate": Figure("B/s", "more", own_program=False),
    "steps": Figure("steps", "more"),
    "dropped": Figure("steps", "less"),
    "bytes": Figure("B", "more"),
    "stored": Figure("B", "less"),
    "longest_queue": Figure("steps", "less"),
}
FIGURES: Mapping[str, Mapping[str, Figure]] = {"run": RUN, "stages": STAGE, "streams": STREAM}
# Those of the program's own `figures.json`: `stages.NAME.figures.X`. Their units are not known.
OWN = "figures."
# Computed from two runs, those of a campaign: bytes written ÷ (time of the stage − its time without I/O).
PERCEIVED = "perceived_throughput"
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
    def is_known(self) -> bool:
        """Whether there is such a field."""
        return self.is_own or self.field in fields_of(self.section)

    @property
    def is_own(self) -> bool:
        """Whether the program of the stage measured it."""
        return self.section == "stages" and self.field.startswith(OWN)


def fields_of(section: str) -> Mapping[str, Figure]:
    """The fields that a campaign may name of a section: `run`, `stages` or `streams`. Raises KeyError."""
    return STAGE_FIGURES if section == "stages" else FIGURES[section]


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
