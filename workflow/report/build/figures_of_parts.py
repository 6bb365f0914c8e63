"""The figures of a run of several parts: what its pipeline expects is expected of the whole run. Pure.

Times are those in which parts ran, without the time between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workflow.report.build.met_expectations import figures_of
from workflow.report.read.run_records import Records
from workflow.report.report_model import Report
from workflow.report_figures import FigureName, to_figure_name

# What parts add to the whole; of other figures the mean counts, each part with its own weight.
_ADDED = {
    "wall_s", "open_s", "compute_s", "device_s", "io_s", "wait_s", "load_s", "cpu_s", "bytes_in", "bytes_out", "bytes",
}  # fmt: skip
_RATES = {"throughput": "bytes", "transfer_rate": "bytes", "load_rate": "bytes"}
_SHARES = ("overlap", "compute_share", "device_share", "io_share", "wait_share", "idle")


def figures_of_run(parts: Sequence[Report], records: Records) -> dict[str, float]:
    """The figures of all parts of a run together, by name; those that cannot be had of the whole are left out.

    Args:
        parts: their reports, the first one first.
        records: of the last one, whose counts of steps are those of the whole run.
    """
    figures = [figures_of(report) for report in parts]
    named = {name: to_figure_name(name) for each in figures for name in each}
    found = {
        name: _of_all(name, figure, figures)
        for name, figure in named.items()
        if figure is not None and not _is_unknown(name, figure, parts, figures)
    }
    return {name: value for name, value in found.items() if value is not None} | _counted(records)


def _is_unknown(name: str, figure: FigureName, parts: Sequence[Report], figures: Sequence[Mapping[str, float]]) -> bool:
    """Whether a part adds to this figure of the whole, and does not tell how much."""
    if figure.field not in _ADDED:
        return False
    lacking = [report for report, known in zip(parts, figures, strict=True) if name not in known]
    return any(_ran(figure, report) for report in lacking)


def _ran(figure: FigureName, report: Report) -> bool:
    """Whether the stage of a figure, or the writer of its stream, was started in a part."""
    if figure.section == "run":
        return True
    stage = report.stream(figure.name).writer if figure.section == "streams" else figure.name
    return report.stage(stage).started is not None


def _of_all(name: str, figure: FigureName, parts: Sequence[Mapping[str, float]]) -> float | None:
    known, field = [(part[name], part) for part in parts if name in part], figure.field
    place = name.removesuffix(field)
    if field in _ADDED:
        return sum(value for value, _ in known)
    if field == "longest_queue" or field.endswith("_max_s"):
        return max(value for value, _ in known)
    if field == "step_rate":
        ran = [part for part in parts if f"{place}wall_s" in part]
        seconds = sum(part[f"{place}wall_s"] for part in ran)
        if not seconds or any(f"{place}steps_out" not in part for part in ran):
            return None  # a part whose steps are not known
        return sum(part[f"{place}steps_out"] for part in ran) / seconds
    if field in _RATES:
        amounts = [(part.get(place + _RATES[field], 0.0), value) for value, part in known]
        seconds = sum(amount / value for amount, value in amounts if value)
        return sum(amount for amount, _ in amounts) / seconds if seconds else None
    if field in _SHARES:
        its = "run.wall_s" if figure.section == "streams" else f"{place}wall_s"
        return _mean([(value, part.get(its, 0.0)) for value, part in known])
    if field == "step_s":
        steps = [max(part.get(f"{place}steps_in", 0.0), part.get(f"{place}steps_out", 0.0)) for _, part in known]
        return _mean([(value, count) for (value, _), count in zip(known, steps, strict=True)])
    # What a program has measured itself is of the part that ran last; its file on disk has the data of all parts.
    return known[-1][0] if figure.is_own or field == "stored" else None


def _mean(values: Sequence[tuple[float, float]]) -> float | None:
    weight = sum(each for _, each in values)
    return sum(value * each for value, each in values) / weight if weight else None


def _counted(records: Records) -> dict[str, float]:
    """What the state counts from the first part on: steps, of which one that was written twice counts once, and steps
    that were discarded."""
    found: dict[str, float] = {}
    for stage in records.plan.stages:
        for side, field in (("read", "steps_in"), ("write", "steps_out")):
            ends = [end for end in records.state.ends_of(stage.name) if end.side == side]
            if ends and all(end.counted for end in ends):
                found[f"stages.{stage.name}.{field}"] = sum(end.steps for end in ends)
    writers = [records.state.writer(stream.name) for stream in records.plan.streams]
    found |= {f"streams.{end.stream}.steps": end.steps for end in writers if end.counted}
    for stream in records.plan.streams:
        dropped = [records.state.dropped(stream.name, reader) for reader in stream.readers]
        if dropped and None not in dropped:
            found[f"streams.{stream.name}.dropped"] = max(each or 0 for each in dropped)
    return found
