"""The sections of report.html that show figures: timeline, shares, streams, faults. Pure."""

from __future__ import annotations

from html import escape

from workflow.formatting import duration, percent, plural, rate
from workflow.plan.plan_model import Plan
from workflow.report.build.queue_history import queue_history
from workflow.report.build.timeline import DOING, Doing, data_rates, make_lane
from workflow.report.html import charts
from workflow.report.read.metrics_file import StageMetrics
from workflow.report.read.run_records import Records
from workflow.report.report_model import Report, StreamPart
from workflow.report.show.tables import Table

RATE_INTERVALS = 200
MOST_TICKS = 5
MOST_RIGHT = 0.87  # where a label may begin
TICK_UNITS = (
    *(digit * 10.0**power for power in range(-3, 1) for digit in (1, 2, 5)), 10.0, 15.0, 30.0,
    *(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 30)), *(3600.0 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 96)),
)  # fmt: skip
TICK_NAMES = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


def table(content: Table) -> str:
    """A table that turns into cards in a narrow window."""
    titles = "".join(f'<th class="number">{t}</th>' if right else f"<th>{t}</th>" for t, right in content.head)
    body = ""
    for row in content.rows:
        cells = ""
        for position, ((title, right), cell) in enumerate(zip(content.head, row, strict=True)):
            kind = "name" if position == 0 else "number" if right else "text"
            shown = f'<span class="{escape(cell)}">{escape(cell)}</span>' if title == "state" else escape(cell)
            cells += f'<td class="{kind}" data-label="{escape(title)}">{shown}</td>'
        body += f"<tr>{cells}</tr>"
    # The table scrolls, not the page.
    inner = f'<table class="wide"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{inner}</div>'


def axis(start: float, end: float) -> str:
    """Round times since the start of the run, at their places."""
    span = end - start
    unit = next((unit for unit in TICK_UNITS if span / unit <= MOST_TICKS), TICK_UNITS[-1])
    ticks = [index * unit for index in range(int(span / unit) + 1)]
    return f'<div class="axis">{"".join(_tick(t, unit, t / span) for t in ticks)}</div>'


def _tick(t: float, unit: float, place: float) -> str:
    scale, name = next((scale, name) for scale, name in TICK_NAMES if unit >= scale)
    text = f"{t / scale:g} {name}" if t else "0"
    # A label near the right edge would hang over it: its mark alone says enough.
    shown = text if place < MOST_RIGHT else "&nbsp;"
    return f'<span style="left:{100 * place:.2f}%">{shown}</span>'


def legend(report: Report) -> str:
    """What the colours mean; only those that occur."""
    seen: list[tuple[str, str]] = [
        (doing, charts.LABELS[doing])
        for doing in DOING
        if any((stage.share(doing) or 0) > 0 for stage in report.stages)
    ]
    if any(stage.compute_s is None and stage.started is not None for stage in report.stages):
        seen.append(("ran", "ran (keeps no metrics)"))
    items = "".join(f'<span><i class="{key}"></i>{text}</span>' for key, text in seen)
    return f'<div class="legend">{items}</div>'


def timeline(report: Report, metrics: dict[str, StageMetrics]) -> str:
    """One lane per stage."""
    start, end = report.run.started, report.run.ended
    if start is None or end is None or end <= start:
        return '<p class="soft">Nothing ran yet.</p>'
    lanes = ""
    for stage in report.stages:
        lane = charts.lane(make_lane(stage, metrics[stage.name], start, end), start, end)
        state = "" if stage.state == "succeeded" else f' <span class="small {stage.state}">{stage.state}</span>'
        lanes += f'<div class="name">{escape(stage.name)}{state}</div><div class="bar">{lane}</div>'
    return f'{legend(report)}<div class="lanes">{lanes}<div class="blank"></div>{axis(start, end)}</div>'


def time_shares(report: Report) -> str:
    """One stacked bar per stage that kept metrics, and its numbers."""
    rows = ""
    for stage in report.stages:
        parts: dict[Doing, float] = {doing: share for doing in DOING if (share := stage.share(doing)) is not None}
        if not parts:
            continue
        shown = (doing for doing in ("compute", "io", "wait") if doing in parts)
        text = " · ".join(f"{charts.LABELS[doing]} {percent(parts[doing])}" for doing in shown)
        rows += (
            f'<div class="name">{escape(stage.name)}</div><div><div class="bar">'
            f'{charts.share_bar(parts, f"{stage.name}: {text}")}</div><span class="small soft">{text} of '
            f"{duration(stage.wall_s)}</span></div>"
        )
    return f'<div class="lanes">{rows}</div>' if rows else '<p class="soft">No stage kept metrics.</p>'


def stream_cards(records: Records, report: Report) -> str:
    """Per stream: data rate and queue over time, and how it was wired."""
    start, end = report.run.started, report.run.ended
    if start is None or end is None or end <= start:
        return ""
    cards = ""
    for stream in report.streams:
        figures = _rate_figure(records, stream, start, end) + _queue_figure(records, stream, start, end)
        figures += axis(start, end) if figures else ""
        cards += f'<div class="card"><h3>{escape(stream.name)}</h3>{figures}{_wiring(records.plan, stream)}</div>'
    return f'<div class="cards">{cards}</div>' if cards else ""


def _rate_figure(records: Records, stream: StreamPart, start: float, end: float) -> str:
    steps = records.metrics[stream.writer].of(stream.name, "write")
    if not steps:
        return ""
    rates = data_rates(steps, start, end, RATE_INTERVALS)
    highest = f"up to {rate(max(rates))}"
    chart = charts.columns(rates, max(rates), f"{stream.name}: data written over time, {highest}")
    return _figure("data written over time", highest, chart)


def _queue_figure(records: Records, stream: StreamPart, start: float, end: float) -> str:
    if stream.coupling != "live":
        return ""
    history = queue_history(records.plan.stream(stream.name), records)
    if not history:
        return ""
    top = stream.queue_limit or max(length for _, length in history) or 1
    limit = f"limit {stream.queue_limit}, {stream.when_full} when full" if stream.queue_limit else "no limit"
    chart = charts.stairs(history, start, end, top, f"{stream.name}: steps in the queue, {limit}")
    return _figure("steps waiting in the queue", f"up to {stream.longest_queue}; {limit}", chart)


def _figure(title: str, note: str, chart: str) -> str:
    caption = f"<figcaption><span>{escape(title)}</span><span>{escape(note)}</span></figcaption>"
    return f'<figure>{caption}<div class="plot">{chart}</div></figure>'


def _wiring(plan: Plan, stream: StreamPart) -> str:
    ends = [(stage, end) for stage in plan.stages for end in stage.ends if end.stream == stream.name]
    text = ""
    for stage, end in ends:
        settings = "\n".join(f"  {key} = {value}" for key, value in sorted(end.parameters.items()))
        verb = "writes" if end.side == "write" else "reads"
        text += f"{stage.name} {verb} {end.path} ({end.engine}, io {end.io})\n{settings}\n"
    return f"<details><summary>engine parameters</summary><pre>{escape(text.rstrip())}</pre></details>"


def faults(report: Report) -> str:
    """Why stages failed, with the end of what they said."""
    text = ""
    for stage in report.stages:
        # The culprit of a hang may have been stopped before it failed: then the run's reason is about it.
        reason = stage.reason or (report.run.reason if stage.name == report.run.stage else "")
        if reason or stage.last_lines:
            text += f"<h3>{escape(stage.name)}</h3>" + (f"<p>{escape(reason)}</p>" if reason else "")
        if stage.last_lines:
            count = plural(len(stage.last_lines), "line")
            text += f'<p class="small soft">last {count} of stages/{escape(stage.name)}/stderr.log</p>'
            text += f"<pre>{escape(chr(10).join(stage.last_lines))}</pre>"
    return text
