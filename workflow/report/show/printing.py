"""What the verbs of `wf` print: the plan, the report of a run, its status and its end, a comparison, components.

Every function takes an optional `console`, for tests; the default is the terminal.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import EXIT_OK, EXIT_VIOLATED, Problem, to_message, to_notes
from workflow.formatting import moment, part_text, plural
from workflow.messages import WIDEST, message_lines, read_sources
from workflow.report.show.report_tables import (
    expectation_messages,
    expectation_table,
    expectations_text,
    explain_columns,
    stage_table,
    stream_table,
)
from workflow.report.show.terminal import COLOURS, UNLIMITED, draw_table, make_output, say, say_parts, say_prose

if TYPE_CHECKING:
    from workflow.compare.comparison import Comparison
    from workflow.forecast.forecast_model import Forecast
    from workflow.plan.plan_model import Plan
    from workflow.report.report_model import Report
    from workflow.report.show.member_values import MemberTable
    from workflow.report.show.terminal import Console, PlainOutput
    from workflow.report.show.text_table import Table, View
    from workflow.spec.models.component import Component


def show_report(report: Report, console: Console | PlainOutput | None = None, run_dir: Path | None = None) -> None:
    """The whole report. `run_dir`: of the run, where it is known."""
    from workflow.report.show.folded_members import fold_report, spread_lines
    from workflow.report.show.member_values import members_of_run
    from workflow.report.show.plan_tables import parameters_line
    from workflow.report.show.run_in_words import compression_lines, limit_lines, note_lines, summary

    console = console or make_output()
    run = report.run
    say(console, f"{run.name}: {run.verdict}", _colour(report))
    say(console, f"  {run.directory}, started {moment(run.started)}" + (f" on {run.host}" if run.host else ""))
    say(console, f"  {summary(report)}")
    if report.params:
        say(console, f"  params: {parameters_line(report.params)}", wrap=True)
    for line in note_lines(report.tags, report.user_notes):
        say(console, f"  {line}", wrap=True)
    show_messages([to_message("warning", text) for text in report.warnings if run.state != "lost"], console)
    _show_fault(report, console)
    whole, report = report, fold_report(report)
    left_out = draw_table(console, stage_table(report, "terminal"))
    for line in spread_lines(whole):
        say(console, line, "dim", wrap=True)
    _show_members(console, members_of_run(whole, "terminal"))
    if meaning := explain_columns(left_out):
        say(console, meaning, "dim", wrap=True)
    _show_streams(console, report, "terminal")
    draw_table(console, expectation_table(report, "terminal"))
    for line in (*limit_lines(report), *compression_lines(report)):
        say(console, line, "dim", wrap=True)
    show_messages(to_notes([*report.unfinished_files, *report.notes]), console)
    _show_next(report, console, run_dir)


def show_status(report: Report, console: Console | PlainOutput | None = None, run_dir: Path | None = None) -> None:
    """How far a run is: a line for the run, one per stage and one per stream. `run_dir`: of the run, where it is
    known."""
    from workflow.report.show.folded_members import fold_report
    from workflow.report.show.member_values import members_of_run
    from workflow.report.show.run_in_words import course_lines, note_lines

    console = console or make_output()
    run = report.run
    # Of a run that has succeeded only: of another one none is compared.
    reason = run.reason or (expectations_text(report) if run.exit_code == EXIT_VIOLATED else "")
    which = f", {part}" if (part := part_text(run.part, run.parts)) else ""
    say(console, f"{run.directory}: {run.verdict}{which}" + (f" ({reason})" if reason else ""), _colour(report))
    show_messages([to_message("warning", text) for text in report.warnings if run.state != "lost"], console)
    for line in note_lines(report.tags, report.user_notes):
        say(console, f"  {line}", wrap=True)
    folded = fold_report(report)
    draw_table(console, stage_table(folded, "status"))
    _show_members(console, members_of_run(report, "status"))
    _show_streams(console, folded, "status")
    draw_table(console, expectation_table(report, "status"))
    show_messages(to_notes([*report.unfinished_files, *course_lines(report)]), console)
    _show_next(report, console, run_dir)


def show_end(report: Report, run_dir: Path, console: Console | PlainOutput | None = None) -> None:
    """The last lines of `wf run`: the verdict, its reason, and where the results are."""
    from workflow.report.build.report_notes import program_notes
    from workflow.report.show.run_in_words import result_paths, summary

    bad = report.run.exit_code != EXIT_OK
    console = console or make_output(stderr=bad)
    say(console, f"{report.run.name}: {report.run.verdict} ({summary(report)})", _colour(report))
    show_messages([to_message("warning", text) for text in report.warnings], console)
    _show_fault(report, console)
    show_messages(to_notes(program_notes(report.stages)), console)
    for path in result_paths(run_dir):
        say(console, f"  {path}")
    _show_next(report, console, run_dir)


def _show_next(report: Report, console: Console | PlainOutput, run_dir: Path | None) -> None:
    """What to type after a run that has failed. `run_dir`: None where only its name is known."""
    from workflow.report.show.run_in_words import next_line
    from workflow.run.records.find_runs import typed_name

    name = shlex.quote(report.run.directory) if run_dir is None else typed_name(run_dir)
    if line := next_line(report.run, name):
        say(console, f"  {line}")


def _colour(report: Report) -> str:
    """Of its verdict, and of a run that has not kept what was expected, or lacks a part."""
    whole = "warning" if report.run.lacks else report.run.state
    return COLOURS.get("violated" if report.run.exit_code == EXIT_VIOLATED else whole, "")


def _show_fault(report: Report, console: Console | PlainOutput) -> None:
    from workflow.report.show.run_in_words import fault_messages, last_lines

    show_messages([*fault_messages(report), *expectation_messages(report)], console)
    for line, style in last_lines(report):
        say(console, line, style)


_OPEN_PORTS = "SST listens on all network interfaces of its node; streams in shared memory have no port"


def show_plan(
    plan: Plan, console: Console | PlainOutput | None = None, missing: Sequence[Problem] = (), whole: bool = False
) -> None:
    """The verdict, then what was decided, for people; `wf plan --json` has all of it.

    Args:
        missing: what this machine lacks for the plan.
        whole: also how each end is configured, the environment, and the launch lines.
    """
    from workflow.report.show.node_map import has_node_map, job_text, node_map
    from workflow.report.show.plan_tables import parameters_line, plan_tables, verdict_text

    console = console or make_output()
    stages, streams = plural(len(plan.stages), "stage"), plural(len(plan.streams), "stream")
    say(console, verdict_text(plan, missing), "bold", wrap=True)
    say(console, f"  {stages}, {streams}, site {plan.site}")
    if plan.params and not whole:
        say(console, f"  params: {parameters_line(plan.params)}", wrap=True)
    for table in plan_tables(plan, whole):
        draw_table(console, table)
    if any(stage.member for stage in plan.stages):
        from workflow.report.show.member_values import planned_members  # few plans pay for it

        _show_members(console, planned_members(plan))
    if whole:
        _show_environment(plan, console)
        _show_edited(plan, console)
    if has_node_map(plan):
        say(console, "\nnode map", "bold")
        for line in node_map(plan):
            say(console, line)
    if plan.allocation is not None:
        say(console, job_text(plan.allocation))
    if whole:
        _show_launch_lines(plan, console)
        if open_to_all := [stream.name for stream in plan.streams if stream.traits.over_network]:
            say(console, f"\n{', '.join(open_to_all)}: {_OPEN_PORTS}", wrap=True)
    else:
        say(
            console,
            "\n`--wide` also shows engine parameters, transports, environment and launch lines",
            "dim",
            wrap=True,
        )


def _show_environment(plan: Plan, console: Console | PlainOutput) -> None:
    from workflow.report.show.plan_tables import environment_settings, setting_lines

    if settings := environment_settings(plan):
        say(console, "\nenvironment", "bold")
    for each in settings:
        for line in setting_lines(each, getattr(console, "width", UNLIMITED)):
            say(console, f"  {line}")
        say_prose(console, each.reason, indent=4)


def _show_edited(plan: Plan, console: Console | PlainOutput) -> None:
    """What wf changes in configs that the user wrote."""
    edited = [(stage.name, path, changes) for stage in plan.stages for path, changes in stage.edited.items()]
    if edited:
        say(console, "\nchanged configs", "bold")
    for stage, path, changes in edited:
        say(console, f"  {stage}: {Path(path).name}" + ("" if changes else ": nothing"))
        for line in changes:
            say(console, f"    {line}")


def _show_launch_lines(plan: Plan, console: Console | PlainOutput) -> None:
    from workflow.report.show.plan_tables import launch_lines

    say(console, "\nlaunch lines", "bold")
    for name, argv in launch_lines(plan):
        say(console, f"  {name}: {shlex.join(argv)}")


def show_forecast(forecast: Forecast, console: Console | PlainOutput) -> None:
    """What a step of the plan costs, by what was measured on its site."""
    from workflow.report.show.forecast_tables import cost_table, pace_text

    say(console, f"\nforecast, by what was measured on site {forecast.site}", "bold")
    if forecast.is_empty:
        say(console, "  nothing is known of this pipeline yet: run it once, then `wf calibrate RUN`")
        return
    for pace in forecast.paces:
        say(console, f"  {pace_text(pace, named=len(forecast.paces) > 1)}")
    draw_table(console, cost_table(forecast))
    show_messages(to_notes(forecast.notes), console)


def show_lines(lines: Sequence[str]) -> None:
    """Lines that are drawn: none is folded."""
    console = make_output()
    for line in lines:
        say(console, line)


def show_strategies(plan: Plan, stream: str, blocks: str | None, shape: str | None, wide: bool = False) -> None:
    """What each strategy of distribution would cost, for every reader of this stream. Raises WfError."""
    from workflow.report.show.strategy_table import MEANING, strategies_tables

    console = make_output(wide=wide)
    for lines, table in strategies_tables(plan, stream, blocks, shape):
        say(console, "\n".join(lines))
        draw_table(console, table)
    say(console, f"\n{MEANING}")


def show_messages(problems: Sequence[Problem], console: Console | PlainOutput | None = None) -> None:
    """Errors, warnings and notes, each with an excerpt of its source: all messages of `wf` are printed here."""
    if not problems:
        return
    console = console or make_output()
    width = getattr(console, "width", WIDEST)  # a pipe has none
    for line in message_lines(problems, read_sources(problems), width, wrap=hasattr(console, "width")):
        say_parts(console, line)


def show_errors(problems: Sequence[Problem]) -> None:
    """Messages on standard error."""
    show_messages(problems, make_output(stderr=True))


def show_comparison(comparison: Comparison, console: Console | PlainOutput | None = None) -> None:
    """The verdict, then every difference."""
    from workflow.report.show.tables_of_runs import MEANING, difference_table

    console = console or make_output()
    colour = "green" if comparison.identical else "bold red"
    say(console, comparison.to_text(), colour)
    say(console, f"  A: {comparison.a}\n  B: {comparison.b}")
    differences = difference_table(comparison)
    draw_table(console, differences)
    if differences.rows:
        say(console, MEANING, "dim", wrap=True)
    for side, names in (("A", comparison.only_a), ("B", comparison.only_b)):
        if names:
            say(console, f"only in {side}, not compared: {', '.join(names)}", "dim")
    show_messages(to_notes(comparison.notes), console)


def show_table(table: Table, console: Console | PlainOutput | None = None) -> None:
    """One table."""
    draw_table(console or make_output(), table)


def show_component(component: Component, console: Console | PlainOutput | None = None) -> None:
    """One component: what it does, its parameters, what it reads and writes."""
    from workflow.report.show.component_and_site_tables import parameter_table, port_table

    console = console or make_output()
    say(console, f"{component.component} ({component.kind}): {component.summary}", "bold")
    if component.needs:
        say(console, f"  needs the Python modules {', '.join(component.needs)}")
    if component.steer:
        say(console, f"  can be changed while it runs: {', '.join(component.steer)}")
    for title, table in (
        ("parameters", parameter_table(component)),
        ("reads", port_table(component.reads)),
        ("writes", port_table(component.writes)),
    ):
        if table.rows:
            say(console, f"\n{title}", "bold")
            draw_table(console, table)


def _show_members(console: Console | PlainOutput, members: Sequence[MemberTable]) -> None:
    """The values of the members of each ensemble."""
    for each in members:
        draw_table(console, each.table)
        if each.more:
            say(console, each.more, "dim", wrap=True)


def _show_streams(console: Console | PlainOutput, report: Report, view: View) -> None:
    from workflow.run.state.stream_rates import THROUGHPUT

    draw_table(console, stream_table(report, view))
    if any(stream.throughput for stream in report.streams):
        say(console, THROUGHPUT, "dim", wrap=True)
