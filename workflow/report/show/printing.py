"""What is printed, in colours and tables: the plan, the report of a run, and what else there is to see.

Every function takes an optional `console`, for tests; by default it prints to the terminal.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from workflow.formatting import duration, moment, plural
from workflow.plan.plan_model import Plan
from workflow.report.build.output_outcomes import accuracy_lines
from workflow.report.show import tables
from workflow.report.show.ascii_text import fit
from workflow.report.show.plain_output import print_plain
from workflow.report.show.rich_terminal import COLOURS, draw_table, make_console, say
from workflow.report.show.summary import fault, places, summary
from workflow.report.show.tables import Table

if TYPE_CHECKING:
    from workflow.compare.comparison import Comparison
    from workflow.report.report_model import Report
    from workflow.report.show.rich_terminal import Console
    from workflow.spec.models.component import Component


class Finding(Protocol):
    """One line of `wf doctor`."""

    name: str
    state: Any
    detail: str
    hint: str


def show_report(report: Report, console: Console | None = None) -> None:
    """The whole report."""
    console = console or make_console()
    run = report.run
    say(console, f"{run.name}: {run.state}", COLOURS.get(run.state, ""))
    say(console, f"  {run.directory}, started {moment(run.started)}" + (f" on {run.host}" if run.host else ""))
    say(console, f"  {summary(report)}")
    for line, style in fault(report):
        say(console, line, style)
    draw_table(console, tables.report_stages_short(report))
    _show_streams(console, report)
    for line in (*accuracy_lines(report), *(f"note: {note}" for note in report.notes)):
        say(console, line, "dim")


def show_status(report: Report, console: Console | None = None) -> None:
    """How far a run is: a line for the run, one per stage and one per stream."""
    console = console or make_console()
    run = report.run
    reason = f" ({run.reason})" if run.reason else ""
    say(console, f"{run.directory}: {run.state}{reason}", COLOURS.get(run.state, ""))
    stages = [[each.name, each.state, tables.exit_text(each), duration(each.wall_s)] for each in report.stages]
    head = [tables.text("stage"), tables.text("state"), tables.figure("exit"), tables.figure("time")]
    draw_table(console, Table(head, stages))
    _show_streams(console, report)


def show_end(report: Report, run_dir: Path, console: Console | None = None) -> None:
    """What `wf run` says last: the verdict, why, and where everything lies."""
    bad = report.run.state != "succeeded"
    stream = sys.stderr if bad else sys.stdout
    lines = [(f"{report.run.name}: {report.run.state} ({summary(report)})", COLOURS.get(report.run.state, ""))]
    lines += fault(report)
    lines += [(f"  {path}", "") for path in places(run_dir)]
    if console is None and not stream.isatty():
        # Loading Rich takes longer than all the rest here.
        for line, _ in lines:
            print_plain(stream, line)
        return
    console = console or make_console(stderr=bad)
    for line, style in lines:
        say(console, line, style)


def show_plan(plan: Plan, console: Console | None = None) -> None:
    """Everything that was decided, for people; `wf plan --json` has it all."""
    console = console or make_console()
    stages, streams = plural(len(plan.stages), "stage"), plural(len(plan.streams), "stream")
    say(console, f"{plan.pipeline}: {stages}, {streams}, site {plan.site}", "bold")
    draw_table(console, tables.plan_stages(plan))
    draw_table(console, tables.plan_added(plan))
    draw_table(console, tables.plan_streams(plan))
    draw_table(console, tables.plan_ends(plan))
    draw_table(console, tables.plan_transports(plan))
    draw_table(console, tables.plan_environment(plan))
    draw_table(console, tables.placement(plan))
    say(console, "\nlaunch lines", "bold")
    for names, argv in tables.launch_lines(plan):
        say(console, f"  {names}: {shlex.join(argv)}")
    show_advice(plan.advice, console)


def show_advice(advice: Sequence[str], console: Console | None = None) -> None:
    """What a careful colleague would mention."""
    if advice:
        console = console or make_console()
        for each in advice:
            say(console, f"note: {each}", "yellow")


def show_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """The verdict, then every difference."""
    console = console or make_console()
    colour = "green" if comparison.identical else "bold red"
    say(console, comparison.to_text(), colour)
    say(console, f"  A: {comparison.a}\n  B: {comparison.b}")
    found = tables.differences(comparison)
    if found.rows:
        draw_table(console, found)
    for side, names in (("A", comparison.only_a), ("B", comparison.only_b)):
        if names:
            say(console, f"only in {side}, not compared: {', '.join(names)}", "dim")
    for note in comparison.notes:
        say(console, f"note: {note}", "yellow")


def show_table(content: Table, console: Console | None = None) -> None:
    """One table."""
    draw_table(console or make_console(), content)


def show_component(component: Component, console: Console | None = None) -> None:
    """One component: what it does, takes, reads and writes."""
    console = console or make_console()
    say(console, f"{component.component} ({component.kind}): {component.summary}", "bold")
    if component.needs:
        say(console, f"  needs the Python modules {', '.join(component.needs)}")
    for title, content in (
        ("parameters", tables.parameters(component)),
        ("reads", tables.port_variables(component.reads)),
        ("writes", tables.port_variables(component.writes)),
    ):
        if content.rows:
            say(console, f"\n{title}", "bold")
            draw_table(console, content)


def show_doctor(findings: Sequence[Finding], console: Console | None = None) -> None:
    """What is installed, and what to type to get the rest."""
    console = console or make_console()
    head = [tables.text("what"), tables.text("state"), tables.text("found")]
    draw_table(console, Table(head, [[each.name, each.state, each.detail] for each in findings]))
    for each in findings:
        if each.hint:
            say(console, f"{each.name}: {each.hint}")


def _show_streams(console: Console, report: Report) -> None:
    draw_table(console, tables.report_streams_short(report))
    if any(stream.throughput for stream in report.streams):
        console.print(fit(console.encoding, f"rate: {tables.PERCEIVED}"), style="dim")
