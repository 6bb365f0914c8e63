"""report.html: the report as one page that needs nothing but itself, with pictures of when and why."""

from __future__ import annotations

import base64
import json
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from workflow.formatting import duration, moment, percent, size
from workflow.plan.plan_model import Plan
from workflow.report.build.output_outcomes import accuracy_lines
from workflow.report.html import sections
from workflow.report.read.metrics_file import StageMetrics
from workflow.report.read.run_records import Records
from workflow.report.report_model import Report
from workflow.report.show import tables

MOST_PICTURES = 6
MOST_BYTES = 1_500_000  # per picture; larger ones are named, not embedded
HINTS = {
    "overlap": "time that the limiting stage did not wait ÷ time of the run: 100 % when all else hides behind it",
    "limited by": "the stage that the others wait for: make this one faster",
}
SIGNS = {"succeeded": "✓", "failed": "✗", "died": "✗", "interrupted": "■", "running": "…", "unfinished": "…"}


def make_html(records: Records, report: Report) -> str:
    """The page for this report; pictures are read from the run directory."""
    run_dir, plan, metrics = records.run_dir, records.plan, records.metrics
    streams = (
        sections.table(tables.report_streams(report))
        + f'<p class="small soft">Written at, read at: {tables.PERCEIVED}</p>'
        if report.streams
        else '<p class="soft">This pipeline has no streams.</p>'
    )
    parts = [
        _header(report),
        _section("What went wrong", sections.faults(report)),
        _section("Timeline", sections.timeline(report, metrics)),
        _section("Where the time went", sections.time_shares(report)),
        _section("Streams", streams),
        sections.stream_cards(records, report),
        _section("Compression", "".join(f"<p>{escape(line)}</p>" for line in accuracy_lines(report))),
        _section("Pictures", _pictures(run_dir)),
        _section("Stages", sections.table(tables.report_stages(report))),
        _section("Notes", "".join(f"<p>{escape(note)}</p>" for note in [*report.notes, *plan.advice])),
        _section("Environment", _environment(run_dir, plan, report, metrics)),
    ]
    return _page(f"{report.run.name}: {report.run.state}", "\n".join(parts), report)


def _page(title: str, body: str, report: Report) -> str:
    css = resources.files("workflow.report.html").joinpath("page.css").read_text(encoding="utf-8")
    made = f"wf {report.run.wf_version}, report version {report.report_version}; the numbers are in report.json"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{css}</style></head>\n<body>\n{body}\n<footer>{escape(made)}</footer></body></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>" if body else ""


def _header(report: Report) -> str:
    run = report.run
    facts = {
        "started": moment(run.started),
        "took": duration(run.wall_s),
        "host": run.host,
        "data streamed": size(sum(stream.bytes or 0 for stream in report.streams)) if report.streams else "",
        "limited by": run.limited_by,
        "overlap": percent(run.overlap) if run.overlap is not None else "",
    }
    items = "".join(
        f'<div title="{escape(HINTS.get(key, key))}"><dt>{key}</dt><dd>{escape(value)}</dd></div>'
        for key, value in facts.items()
        if value
    )
    fault = f"stage {run.stage}: {run.reason}" if run.stage and run.stage not in run.reason else run.reason
    return (
        f"<header><h1>{escape(run.name)}</h1>"
        f'<span class="verdict {run.state}">{SIGNS[run.state]} {run.state}</span></header>'
        f'<p class="soft small">{escape(run.directory)}</p><dl class="facts">{items}</dl>'
        + (f'<div class="reason">{escape(fault)}</div>' if fault and run.state != "succeeded" else "")
    )


def choose_pictures(run_dir: Path) -> tuple[list[Path], int]:
    """At most six PNG files below pictures/, summaries first, the others evenly spread; and how many there are."""
    found = sorted(path for path in (run_dir / "pictures").rglob("*.png") if path.is_file())
    summaries = [path for path in found if "summary" in path.stem][:MOST_PICTURES]
    others = [path for path in found if path not in summaries]
    room = min(MOST_PICTURES - len(summaries), len(others))
    spread = {round(index * (len(others) - 1) / max(1, room - 1)) for index in range(room)}
    return summaries + [others[index] for index in sorted(spread)], len(found)


def _pictures(run_dir: Path) -> str:
    chosen, count = choose_pictures(run_dir)
    figures = ""
    for path in chosen:
        name = path.relative_to(run_dir).as_posix()
        data = path.read_bytes()
        if len(data) <= MOST_BYTES:
            code = base64.b64encode(data).decode("ascii")
            picture = f'<img alt="{escape(name)}" src="data:image/png;base64,{code}">'
        else:
            picture = f'<p class="soft">{size(len(data))}: too large for this page</p>'
        figures += f"<figure>{picture}<figcaption>{escape(name)}</figcaption></figure>"
    more = f'<p class="small soft">{len(chosen)} of {count} pictures.</p>' if count > len(chosen) else ""
    return f'<div class="pictures">{figures}</div>{more}' if figures else ""


def _environment(run_dir: Path, plan: Plan, report: Report, metrics: dict[str, StageMetrics]) -> str:
    facts = {"wf": plan.wf_version, "site": plan.site, "host": report.run.host, "pipeline file": plan.pipeline_file}
    if versions := sorted({each.adios2 for each in metrics.values() if each.adios2}):
        facts["adios2 in the stages"] = ", ".join(versions)
    facts |= {str(key).replace("_", " "): _text(value) for key, value in _command(run_dir).items()}
    for names, argv in tables.launch_lines(plan):
        facts[f"stage {names.strip()}"] = " ".join(argv)
    return table_of(facts)


def table_of(facts: dict[str, str]) -> str:
    """Two columns: what, and its value."""
    body = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in facts.items() if value)
    return f'<table class="plain small">{body}</table>'


def _command(run_dir: Path) -> dict[str, Any]:
    try:
        command = json.loads((run_dir / "command.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return command if isinstance(command, dict) else {}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    if isinstance(value, list):
        return " ".join(str(each) for each in value)
    return "" if value is None else str(value)
