"""The data of the sections of report.html, as its templates need them: drawing, time, streams, pictures, versions."""

from __future__ import annotations

import base64
import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from markupsafe import Markup

from workflow.formatting import duration, in_one_line, percent, rate, size
from workflow.plan.plan_model import Plan
from workflow.provenance.provenance_model import Provenance, read_provenance
from workflow.report.build.steering_notes import steering_note
from workflow.report.build.timeline import ACTIVITIES, Lane, data_rates, make_lane, queue_history, recorded_until
from workflow.report.graph.graph_svg import SvgDrawing, draw_pipeline
from workflow.report.graph.pipeline_graph import make_pipeline_graph
from workflow.report.html import svg_charts
from workflow.report.read.run_records import Records
from workflow.report.report_model import Report, StagePart, StreamPart
from workflow.report.show.plan_tables import launch_lines

RATE_INTERVALS = 200
MOST_TICKS = 5
RIGHTMOST_LABEL = 87.0  # percent of the width: the label of a mark further right is on its left, inside the page
TIGHT = 30.0  # percent between marks, for two labels beside one another on a phone
TICK_UNITS = (
    *(digit * 10.0**power for power in range(-3, 1) for digit in (1, 2, 5)), 10.0, 15.0, 30.0,
    *(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 30)), *(3600.0 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 96)),
)  # fmt: skip
TICK_NAMES = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


class KeyFact(NamedTuple):
    """One figure below the title; `hint` is shown when the pointer rests on it."""

    name: str
    value: str
    hint: str


class AxisMark(NamedTuple):
    """A mark of the time axis, `left` percent from its start; the label of the last may be on its left."""

    left: float
    label: str
    css_class: Literal["", "end", "tight end"]
    """end: the label is on the left; tight: on a narrow page that leaves no room for the label before."""


class LegendEntry(NamedTuple):
    """A colour, and what it stands for."""

    css_class: str
    label: str


class LaneChart(NamedTuple):
    """The lane of a stage; `state` is empty when it succeeded."""

    stage: str
    state: str
    chart: Markup


class TimeShares(NamedTuple):
    """What a stage spent its time on, as a bar and in words."""

    stage: str
    chart: Markup
    text: str


class CardFigure(NamedTuple):
    """A chart of a stream with its title and a note on its scale."""

    title: str
    note: str
    chart: Markup


class StreamCard(NamedTuple):
    """One stream: charts, the variables that are known before it starts, and the engine parameters of its ends."""

    stream: str
    figures: list[CardFigure]
    variables: str
    parameters: str


class StageFault(NamedTuple):
    """Why a stage failed, and the end of its output by file."""

    stage: str
    reason: str
    last_lines: dict[str, list[str]]


def time_span(report: Report) -> tuple[float, float] | None:
    """Start and end of the time axis in Unix seconds; None when nothing ran yet."""
    start, end = report.run.started, report.run.ended
    return None if start is None or end is None or end <= start else (start, end)


def make_axis_marks(report: Report) -> list[AxisMark]:
    """Round times since the start of the run, each at its place."""
    times = time_span(report)
    return round_marks(times[1] - times[0]) if times else []


def round_marks(seconds: float) -> list[AxisMark]:
    """At most six marks of an axis of that length."""
    longest = TICK_UNITS[-1] * max(1, math.ceil(seconds / TICK_UNITS[-1] / MOST_TICKS))
    unit = next((unit for unit in TICK_UNITS if seconds / unit <= MOST_TICKS), longest)
    scale, name = next((scale, name) for scale, name in TICK_NAMES if unit >= scale)
    at_end: Literal["end", "tight end"] = "tight end" if 100 * unit / seconds < TIGHT else "end"
    marks = []
    for index in range(int(seconds / unit) + 1):
        left = 100 * index * unit / seconds
        label = f"{index * unit / scale:g} {name}" if index else "0"
        marks.append(AxisMark(left, label, "" if left < RIGHTMOST_LABEL else at_end))
    return marks


def make_legend(report: Report) -> list[LegendEntry]:
    """The colours that occur, and what they stand for."""
    seen = [
        LegendEntry(activity, svg_charts.LABELS[activity])
        for activity in ACTIVITIES
        if any(stage.parts().get(activity) for stage in report.stages)
    ]
    if any(stage.compute_s is None and stage.started is not None for stage in report.stages):
        seen.append(LegendEntry("ran", "not on the CPU (keeps no metrics)"))
    if any(not each.refused for each in report.steering):
        seen.append(LegendEntry("moment", "a value was changed"))
    return seen


def make_lanes(report: Report, records: Records) -> list[LaneChart]:
    """What each stage did when."""
    times = time_span(report)
    if times is None:
        return []
    return [
        LaneChart(
            stage.name,
            "" if stage.state == "succeeded" else stage.state,
            svg_charts.lane(_lane(stage, records, *times), *times, moments=_moments(report, stage)),
        )
        for stage in report.stages
    ]


def _moments(report: Report, stage: StagePart) -> list[tuple[float, str]]:
    """When values of a stage were changed."""
    return [(each.t, steering_note(each)) for each in report.steering if each.stage == stage.name and not each.refused]


def _lane(stage: StagePart, records: Records, start: float, end: float) -> Lane:
    return make_lane(stage, records.metrics[stage.name], start, end, records.cpu.get(stage.name, []))


def make_time_shares(report: Report) -> list[TimeShares]:
    """What each stage spent its time on; of one without metrics, its CPU time."""
    rows = []
    for stage in report.stages:
        if parts := stage.parts():
            # All that is in the bar, so that the shares are the whole.
            named = (activity for activity in ACTIVITIES if parts.get(activity, 0.0) >= 0.005)
            text = " · ".join(f"{svg_charts.LABELS[each]} {in_one_line(percent(parts[each]))}" for each in named)
            bar = svg_charts.share_bar(parts, f"{stage.name}: {text}")
            rows.append(TimeShares(stage.name, bar, f"{text} of {in_one_line(duration(stage.wall_s))}"))
    return rows


def make_stream_cards(records: Records, report: Report) -> list[StreamCard]:
    """Data rate and queue of each stream over time, and its engine parameters."""
    times = time_span(report)
    if times is None:
        return []
    return [
        StreamCard(
            stream.name,
            [*_rate_figure(records, stream, *times), *_queue_figure(records, stream, *times)],
            _variables(records.plan, stream),
            _parameters(records.plan, stream),
        )
        for stream in report.streams
    ]


def _rate_figure(records: Records, stream: StreamPart, start: float, end: float) -> list[CardFigure]:
    steps = records.metrics[stream.writer].of(stream.name, "write")
    if not steps:
        return []
    rates = data_rates(steps, start, end, RATE_INTERVALS)
    note = f"{rate(stream.throughput)}, at most {rate(max(rates))} in 1/{RATE_INTERVALS} of the time"
    chart = svg_charts.columns(rates, max(rates), f"{stream.name}: throughput over time, {note}")
    return [CardFigure("throughput over time", note, chart)]


def _queue_figure(records: Records, stream: StreamPart, start: float, end: float) -> list[CardFigure]:
    plan = records.plan.stream(stream.name)
    history = queue_history(plan, records) if stream.coupling == "live" else []
    if not history:
        return []
    top = stream.queue_limit or max(length for _, length in history) or 1
    limit = f"limit {stream.queue_limit}, {stream.when_full} when full" if stream.queue_limit else "no limit"
    label = f"{stream.name}: steps in the queue, {limit}"
    chart = svg_charts.stairs(history, start, end, top, label, recorded_until(plan, records))
    return [CardFigure("steps waiting in the queue", f"up to {stream.longest_queue}; {limit}", chart)]


def _variables(plan: Plan, stream: StreamPart) -> str:
    """A line for each: name, type, shape and unit, as far as pipeline and components declare them."""
    ends = [end for stage in plan.stages for end in stage.ends if end.stream == stream.name]
    # A writer that declares nothing comes first all the same: then its readers say what they need.
    known = {name: fact for end in reversed(ends) for name, fact in end.variables.items()}
    units = {name: unit for end in ends for name, unit in end.units.items()}
    names = list(dict.fromkeys([*known, *units]))
    width = max((len(name) for name in names), default=0)
    lines = []
    for name in names:
        kind, shape = (known[name].type, known[name].shape) if name in known else (None, None)
        dimensions = "" if shape is None else f"[{', '.join(map(str, shape))}]" if shape else "scalar"
        lines.append(
            "  ".join(part for part in (name.ljust(width), kind, dimensions, units.get(name)) if part).rstrip()
        )
    return "\n".join(lines)


def _parameters(plan: Plan, stream: StreamPart) -> str:
    lines = []
    for stage in plan.stages:
        for end in stage.ends:
            if end.stream == stream.name:
                verb = "writes" if end.side == "write" else "reads"
                lines.append(f"{stage.name} {verb} {end.path} ({end.engine}, io {end.io})")
                lines += [f"  {key} = {value}" for key, value in sorted(end.parameters.items())]
                lines.append("")
    return "\n".join(lines).rstrip()


def find_stage_faults(report: Report) -> list[StageFault]:
    """The stages that failed, or left error output."""
    faults = []
    for stage in report.stages:
        # The culprit of a hang may have been stopped before it failed: then the run's reason is about it.
        reason = stage.reason or (report.run.reason if stage.name == report.run.stage else "")
        if reason or stage.last_lines:
            files = {"stdout.log": stage.last_output, "stderr.log": stage.last_lines}
            faults.append(StageFault(stage.name, reason, {file: lines for file, lines in files.items() if lines}))
    return faults


def environment_facts(records: Records, report: Report) -> list[tuple[str, str]]:
    """Versions, host, the command of the run, and what was launched."""
    plan = records.plan
    facts = {"wf": plan.wf_version, "site": plan.site, "host": report.run.host, "pipeline file": plan.pipeline_file}
    if versions := sorted({each.adios2 for each in records.metrics.values() if each.adios2}):
        facts["adios2 in the stages"] = ", ".join(versions)
    if (provenance := read_provenance(records.run_dir)) is not None:
        facts |= _provenance_facts(provenance)
    for name, argv in launch_lines(plan):
        facts[f"stage {name}"] = " ".join(argv)
    return [(name, value) for name, value in facts.items() if value]


def _provenance_facts(provenance: Provenance) -> dict[str, str]:
    facts = {"command": shlex.join(provenance.command), "directory": provenance.directory, "user": provenance.user}
    facts |= {"python": provenance.python, "modules": ", ".join(provenance.modules)}
    facts["versions"] = ", ".join(f"{name} {version}" for name, version in provenance.versions.items())
    if (git := provenance.git) is not None:
        state = {True: ", with changes", False: "", None: ", changes not known"}[git.dirty]
        facts["git"] = f"{git.commit[:12]} {git.branch}".rstrip() + state
    return facts


MOST_STAGES = 40
# CSS pixels. A wider drawing gets too small on the page.
_WIDEST = 1600
_SMALLEST_SCALE = 0.7


class PipelineDrawing(NamedTuple):
    """A drawing for a wide window, and one for a narrow window; None where that is the same."""

    wide: Markup
    narrow: Markup | None


def pipeline_drawing(plan: Plan) -> PipelineDrawing | None:
    """The drawing of a plan; None where there is nothing to see, or too much."""
    if not plan.streams or len(plan.stages) > MOST_STAGES:
        return None
    graph = make_pipeline_graph(plan)
    right, down = draw_pipeline(graph, down=False), draw_pipeline(graph)
    wide = right if right.width <= _WIDEST else down
    # With many readers of one stream from left to right is narrower.
    narrow = min(right, down, key=lambda each: each.width)
    return PipelineDrawing(_on_page(wide), None if narrow is wide else _on_page(narrow))


def _on_page(drawing: SvgDrawing) -> Markup:
    style = f"max-width: {drawing.width:.0f}px; min-width: {drawing.width * _SMALLEST_SCALE:.0f}px; height: auto"
    return Markup(drawing.element(style, xmlns=""))


MOST_PICTURES = 6
LARGEST_BYTES = 1_500_000  # a larger picture is named, not embedded
MOST_OF_SERIES = 60
LARGEST_SERIES_BYTES = 6_000_000
_NUMBERED = re.compile(r"(.*?)(\d+)")


class Picture(NamedTuple):
    """One picture; `png` is the file as base64, empty where it is too large."""

    name: str
    size: str
    png: str


class PictureSeries(NamedTuple):
    """Pictures of steps in one folder, in their order; `found`: how many there are in the run."""

    name: str
    pictures: list[Picture]
    found: int


class ReportPictures(NamedTuple):
    """All that report.html shows; `found`: how many single pictures there are in the run."""

    single: list[Picture]
    found: int
    series: list[PictureSeries]


def embed_pictures(run_dir: Path) -> ReportPictures:
    """The chosen pictures below pictures/."""
    found = sorted(path for path in (run_dir / "pictures").rglob("*.png") if path.is_file())
    numbered = find_series(found)
    in_series = {path for paths in numbered.values() for path in paths}
    single = [path for path in found if path not in in_series]
    chosen = choose_pictures(single)
    series = [
        PictureSeries(
            f"{key.relative_to(run_dir).as_posix()}…",
            [_embedded(path, run_dir) for path in choose_of_series(paths)],
            len(paths),
        )
        for key, paths in numbered.items()
    ]
    return ReportPictures([_embedded(path, run_dir) for path in chosen], len(single), series)


def find_series(found: Sequence[Path]) -> dict[Path, list[Path]]:
    """Pictures of one folder whose names differ in the number at their end: their beginning → two files or more."""
    series: dict[Path, list[Path]] = {}
    for path in found:
        if (match := _NUMBERED.fullmatch(path.stem)) is not None:
            series.setdefault(path.with_name(match[1]) if match[1] else path.parent, []).append(path)
    return {key: sorted(paths, key=number_of) for key, paths in series.items() if len(paths) > 1}


def number_of(path: Path) -> int:
    """The number at the end of a name: that of the step."""
    match = _NUMBERED.fullmatch(path.stem)
    return int(match[2]) if match is not None else 0


def choose_pictures(found: Sequence[Path]) -> list[Path]:
    """At most six, summaries first, the others evenly spread."""
    summaries = [path for path in found if "summary" in path.stem][:MOST_PICTURES]
    others = [path for path in found if path not in summaries]
    return summaries + _spread(others, MOST_PICTURES - len(summaries))


def choose_of_series(paths: Sequence[Path]) -> list[Path]:
    """Evenly spread ones, as many as the page can hold."""
    most = MOST_OF_SERIES
    while most > 2 and sum(path.stat().st_size for path in _spread(paths, most)) > LARGEST_SERIES_BYTES:
        most = most * 4 // 5
    return _spread(paths, most)


def _spread(paths: Sequence[Path], most: int) -> list[Path]:
    room = min(most, len(paths))
    places = {round(index * (len(paths) - 1) / max(1, room - 1)) for index in range(room)}
    return [paths[index] for index in sorted(places)]


def _embedded(path: Path, run_dir: Path) -> Picture:
    data = path.read_bytes()
    png = base64.b64encode(data).decode("ascii") if len(data) <= LARGEST_BYTES else ""
    return Picture(path.relative_to(run_dir).as_posix(), size(len(data)), png)
