"""report.html: the report as one self-contained file. The templates are in html/templates."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from workflow import __version__
from workflow.errors import EXIT_VIOLATED
from workflow.formatting import duration, moment, percent, plural
from workflow.report.html.node_drawings import node_drawings
from workflow.report.html.page_sections import (
    KeyFact,
    embed_pictures,
    environment_facts,
    find_stage_faults,
    make_axis_marks,
    make_lanes,
    make_legend,
    make_stream_cards,
    make_time_shares,
    pipeline_drawing,
)
from workflow.report.read.run_records import Records, read_proof
from workflow.report.report_model import Report
from workflow.report.show.folded_members import fold_plan, fold_report
from workflow.report.show.node_map import has_node_map, node_count_text
from workflow.report.show.plan_tables import brief_command, parameters_line, transport_table
from workflow.report.show.report_tables import (
    NOT_KNOWN,
    expectation_table,
    expectations_text,
    placement_tables,
    spread_table,
    stage_table,
    stream_table,
)
from workflow.report.show.run_in_words import compression_lines, fault_text, note_lines, total_text

if TYPE_CHECKING:
    from workflow.report.show.text_table import Table

SIGNS = {
    "succeeded": "✓",
    "failed": "✗",
    "lost": "✗",
    "interrupted": "■",
    "stopped": "■",
    "running": "…",
    "submitted": "…",
    "unfinished": "…",
}
OVERLAP_HINT = "time that the limiting stage did not wait ÷ time of the run: 100 % when it hides all other work"
LIMIT_HINT = "the stage that works while the others wait: make this one faster"


FOLDER = Path(__file__).with_name("templates")


def bytecode_cache(folder: Path) -> FileSystemBytecodeCache | None:
    """Keeps compiled templates in a folder, as Python keeps its modules: compiling takes 15 ms in each run.

    None where Python is not to write such files, or cannot. Jinja compares a checksum of the source, but not the
    settings of the environment: they belong to a version of wf.
    """
    if sys.dont_write_bytecode:
        return None
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return FileSystemBytecodeCache(str(folder), f"{__version__}-%s.cache") if os.access(folder, os.W_OK) else None


# What programs printed is escaped; SVG is marked as safe where it is made. Each template is rendered once, so that
# optimizing it does not pay.
TEMPLATES = Environment(
    loader=FileSystemLoader(FOLDER), bytecode_cache=bytecode_cache(FOLDER.with_name("__pycache__")), autoescape=True,
    undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, optimized=False,
)  # fmt: skip
# Of a command line, as `shlex.join` writes it.
# Texts for a terminal have code between back-ticks.
TEMPLATES.filters["code"] = lambda text: Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))
TEMPLATES.filters["brief"] = lambda line: brief_command(shlex.split(line))


def compile_templates() -> None:
    """Load all templates, so that `make_html` need not: takes about 15 ms where they must be compiled, else 1 ms."""
    for name in TEMPLATES.list_templates():
        TEMPLATES.get_template(name)


def make_html(records: Records, report: Report) -> str:
    """The page for this report; pictures are read from the run directory."""
    folded = fold_report(report)
    return TEMPLATES.get_template("page.html.j2").render(
        run=report.run,
        report_version=report.report_version,
        sign=SIGNS[report.run.state],
        key_facts=key_facts(report),
        fault=fault_text(report),
        user_notes=note_lines([], report.user_notes),
        expectation_table=expectation_table(report, "page"),
        expectations=expectations_text(report),
        is_violated=report.run.exit_code == EXIT_VIOLATED,
        drawing=pipeline_drawing(fold_plan(records.plan)),
        stage_faults=find_stage_faults(report),
        plural=plural,
        legend=make_legend(report),
        lanes=make_lanes(report, records),
        axis_marks=make_axis_marks(report),
        time_shares=make_time_shares(report),
        stream_table=stream_table(folded, "page"),
        transport_table=transport_table(records.plan),
        stream_cards=make_stream_cards(records, report),
        compression=compression_lines(report),
        pictures=embed_pictures(records.run_dir),
        node_drawings=node_drawings(records.plan) if has_node_map(records.plan) else [],
        node_count=node_count_text(records.plan),
        stage_table=stage_table(folded, "page"),
        member_tables=member_tables(report),
        spread_table=spread_table(report),
        placement_tables=placement_tables(read_proof(records.run_dir)),
        notes=[*report.unfinished_files, *report.notes, *records.plan.advice],
        environment=environment_facts(records, report),
    )


def member_tables(report: Report) -> list[Table]:
    """Which member has which values."""
    if not any(stage.values for stage in report.stages):
        return []
    from workflow.report.show.member_values import members_of_run  # few runs pay for it

    return members_of_run(report, "page")


def key_facts(report: Report) -> list[KeyFact]:
    """The figures below the title; those that are not known are left out."""
    run = report.run
    volume = total_text(report) if report.streams else ""
    limited_by = run.limited_by or (NOT_KNOWN if run.limit_unknown else "")
    restarts = ", ".join(dict.fromkeys(restart.stage for restart in report.restarts))
    facts = [
        KeyFact("started", moment(run.started), "started"),
        KeyFact("took", duration(run.wall_s), "took"),
        KeyFact("host", run.host, "host"),
        KeyFact("data streamed", volume, "data streamed"),
        KeyFact("limited by", limited_by, run.limit_unknown or run.limit_evidence or LIMIT_HINT),
        KeyFact("overlap", "" if run.overlap is None else percent(run.overlap), OVERLAP_HINT),
        KeyFact("started again", restarts, "stages that had failed, and went on at the step where they were"),
        KeyFact("params", parameters_line(report.params), "parameters of the pipeline"),
        KeyFact("tags", ", ".join(report.tags), "added to the run by users"),
    ]
    return [fact for fact in facts if fact.value]
