"""SVG charts for report.html. They stretch with the window, so all text stays outside of them. Pure.

All charts are WIDTH units wide and are drawn with preserveAspectRatio="none"; their colours are CSS classes.
Every text in them is escaped here, so that they can be marked as safe for the templates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from workflow.formatting import duration, percent
from workflow.report.build.timeline import ACTIVITIES, ActivitySpan, Lane
from workflow.report.report_model import Activity

Level = tuple[float, float]  # (Unix time, value from then on)
WIDTH = 1000
LABELS: dict[Activity, str] = {
    "compute": "computing", "device": "copying to or from a device", "io": "moving data",
    "wait": "waiting", "open": "opening streams",
    "cpu": "on the CPU (keeps no metrics)", "ready": "ready, other processes had the CPU",
    "other": "start, end, or not known",
}  # fmt: skip
HOVER_AREAS = 100
FAULT = 12
"""Width of the mark at the end of a stage that failed."""
MOMENT = 3
"""Width of the line at a moment."""


def svg(body: str, height: int, label: str) -> Markup:
    """A chart of that height in pixels, as wide as its place."""
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {height}" height="{height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{body}</svg>'
    )


def lane(
    content: Lane, start: float, end: float, moments: Sequence[tuple[float, str]] = (), height: int = 26
) -> Markup:
    """The bar of one stage on the time axis from `start` to `end`, with a line at each of these moments (Unix s), whose
    text is shown when the pointer rests on it."""
    stage = content.stage
    if stage.started is None or end <= start:
        return svg("", height, f"{stage.name} never started")
    scale = WIDTH / (end - start)
    left, right = (stage.started - start) * scale, ((stage.ended or end) - start) * scale
    known = "other" if stage.compute_s is not None else "ran"
    about = f"{stage.name}: {stage.state} after {duration(stage.wall_s)}"
    body = f'<rect class="{known}" x="{left:.2f}" width="{max(0.5, right - left):.2f}" height="{height}">'
    body += f"{_title(about)}</rect>"
    body += _steps(content.spans, start, scale, height) + _areas(content.intervals, height)
    for t, text in moments:
        x = min(WIDTH - MOMENT, max(0.0, (t - start) * scale))
        body += f'<rect class="moment" x="{x:.2f}" width="{MOMENT}" height="{height}">{_title(text)}</rect>'
    if stage.state == "failed":
        x = max(0.0, right - FAULT)
        body += f'<rect class="fault" x="{x:.2f}" width="{FAULT}" height="{height}">{_title(about)}</rect>'
    return svg(body, height, about)


def _steps(spans: Sequence[ActivitySpan], start: float, scale: float, height: int) -> str:
    rects = []
    for part in spans:
        where = f"{part.stream}, step {part.step}" if part.step >= 0 else part.stream
        what = f"{where}: {LABELS[part.activity]}" if where else LABELS[part.activity]
        rects.append(
            f'<rect class="{part.activity}" x="{(part.start - start) * scale:.2f}" '
            f'width="{max(0.05, (part.end - part.start) * scale):.2f}" height="{height}">'
            f"{_title(f'{what} {duration(part.end - part.start)}')}</rect>"
        )
    return "".join(rects)


def _areas(intervals: Sequence[dict[Activity, float]], height: int) -> str:
    """Shares stacked from the bottom, one path per kind, and a few invisible areas whose tooltips show the numbers."""
    if not intervals:
        return ""
    width, floor, paths = WIDTH / len(intervals), [0.0] * len(intervals), []
    for activity in ACTIVITIES:
        boxes = []
        for index, shares in enumerate(intervals):
            if (share := min(shares.get(activity, 0.0), 1.0 - floor[index])) > 0.002:
                top = (1 - floor[index] - share) * height
                boxes.append(f"M{index * width:g} {top:.1f}h{width:g}v{share * height:.1f}h-{width:g}z")
                floor[index] += share
        if boxes:
            paths.append(f'<path class="{activity}" d="{"".join(boxes)}"/>')
    return "".join(paths) + _hover(intervals, height)


def _hover(intervals: Sequence[dict[Activity, float]], height: int) -> str:
    group = -(-len(intervals) // HOVER_AREAS)
    areas = []
    for first in range(0, len(intervals), group):
        members = intervals[first : first + group]
        means = {activity: sum(each.get(activity, 0.0) for each in members) / len(members) for activity in ACTIVITIES}
        if text := ", ".join(
            f"{LABELS[activity]} {percent(mean)}" for activity, mean in means.items() if mean >= 0.005
        ):
            x, width = first * WIDTH / len(intervals), len(members) * WIDTH / len(intervals)
            areas.append(f'<rect class="hover" x="{x:g}" width="{width:g}" height="{height}">{_title(text)}</rect>')
    return "".join(areas)


def share_bar(parts: dict[Activity, float], label: str, height: int = 18) -> Markup:
    """One stacked bar; `parts` are shares of one."""
    body, x = "", 0.0
    for activity, share in parts.items():
        width = share * WIDTH
        body += f'<rect class="{activity}" x="{x:.1f}" width="{width:.1f}" height="{height}">'
        body += f"{_title(f'{LABELS[activity]} {percent(share)}')}</rect>"
        x += width
    return svg(body, height, label)


def stairs(
    moments: Sequence[Level],
    start: float,
    end: float,
    top: float,
    label: str,
    until: float = math.inf,
    height: int = 56,
) -> Markup:
    """A quantity that changes at moments (Unix s) and stays in between, e.g. a queue's length.

    `until`: nothing is drawn after it, because the quantity is not known there.
    """
    if not moments or end <= start or top <= 0:
        return svg("", height, label)
    scale, path, level = WIDTH / (end - start), f"M0 {height}", 0.0
    for t, value in _thinned(moments, start, end):
        path += f"H{(t - start) * scale:.1f}V{height - min(value, top) / top * (height - 2):.1f}"
        level = value
    last = min(WIDTH, (until - start) * scale)
    return svg(
        f'<path class="area" d="{path}H{last:.1f}V{height}z"/>{_title(f"{label}; last {level:g}")}', height, label
    )


def columns(values: Sequence[float], top: float, label: str, height: int = 56) -> Markup:
    """One column per equal interval of time."""
    if not values or top <= 0:
        return svg("", height, label)
    width = WIDTH / len(values)
    path = f"M0 {height}" + "".join(f"V{height - value / top * (height - 2):.1f}h{width:g}" for value in values)
    return svg(f'<path class="area" d="{path}V{height}z"/>{_title(label)}', height, label)


def _thinned(moments: Sequence[Level], start: float, end: float, most: int = 400) -> list[Level]:
    """At most about 2 × `most` moments: of each interval the highest value and the last one."""
    if len(moments) <= most:
        return list(moments)
    kept: list[Level] = []
    bins: dict[int, list[Level]] = {}
    for moment in moments:
        bins.setdefault(int((moment[0] - start) / (end - start) * most), []).append(moment)
    for members in bins.values():
        highest = max(members, key=lambda moment: moment[1])
        kept += [highest, members[-1]] if highest != members[-1] else [highest]
    return kept


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"
