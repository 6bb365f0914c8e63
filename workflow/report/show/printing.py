"""What the verbs of `wf` print: the plan, the report of a run, its status and its end, a comparison, components.

Every function takes an optional `output`, for tests; the default is the terminal.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import EXIT_OK, EXIT_VIOLATED, Problem, to_message, to_notes
from workflow.formatting import moment, part_text, plural
from workflow.messages import WIDEST, message_lines, read_sources
from workflow.report.show.report_tables import expectation_messages, expectations_text, tables_of_report
from workflow.report.show.terminal import make_output
from workflow.report.show.text_table import COLOURS

if TYPE_CHECKING:
    from workflow.compare.comparison import Comparison
    from workflow.forecast.forecast_model import Forecast
    from workflow.plan.plan_model import Plan
    from workflow.report.report_model import Report
    from workflow.report.show.terminal import Output
    from workflow.spec.models.component import Component


def show_report(report: Report, output: Output | None = None, run_dir: Path | None = None) -> None:
    """The whole report. `run_dir`: of the run, where it is known."""
    from workflow.report.show.plan_tables import parameters_line
    from workflow.report.show.run_in_words import compression_lines, note_lines, summary

    output = output or make_output()
    run = report.run
    output.say(f"{run.name}: {run.verdict}", _colour(report))
    output.say(f"  {run.directory}, started {moment(run.started)}" + (f" on {run.host}" if run.host else ""))
    output.say(f"  {summary(report)}")
    if report.params:
        output.say(f"  params: {parameters_line(report.params)}", wrap=True)
    for line in note_lines(report.tags, report.user_notes):
        output.say(f"  {line}", wrap=True)
    show_messages([to_message("warning", text) for text in report.warnings if run.state != "lost"], output)
    _show_fault(report, output)
    for table in tables_of_report(report, "terminal"):
        output.draw(table)
    for line in compression_lines(report):
        output.say(line, "dim", wrap=True)
    show_messages(to_notes([*report.unfinished_files, *report.notes]), output)
    _show_next(report, output, run_dir)


def show_status(report: Report, output: Output | None = None, run_dir: Path | None = None) -> None:
    """How far a run is: a line for the run, one per stage and one per stream. `run_dir`: of the run, where it is
    known."""
    from workflow.report.show.run_in_words import course_lines, note_lines

    output = output or make_output()
    run = report.run
    # Of a run that has succeeded only: of another one none is compared.
    reason = run.reason or (expectations_text(report) if run.exit_code == EXIT_VIOLATED else "")
    which = f", {part}" if (part := part_text(run.part, run.parts)) else ""
    output.say(f"{run.directory}: {run.verdict}{which}" + (f" ({reason})" if reason else ""), _colour(report))
    show_messages([to_message("warning", text) for text in report.warnings if run.state != "lost"], output)
    for line in note_lines(report.tags, report.user_notes):
        output.say(f"  {line}", wrap=True)
    for table in tables_of_report(report, "status"):
        output.draw(table)
    show_messages(to_notes([*report.unfinished_files, *course_lines(report)]), output)
    _show_next(report, output, run_dir)


def show_end(report: Report, run_dir: Path, output: Output | None = None) -> None:
    """The last lines of `wf run`: the verdict, its reason, and where the results are."""
    from workflow.report.build.report_notes import program_notes
    from workflow.report.show.run_in_words import result_paths, summary

    bad = report.run.exit_code != EXIT_OK
    output = output or make_output(stderr=bad)
    output.say(f"{report.run.name}: {report.run.verdict} ({summary(report)})", _colour(report))
    show_messages([to_message("warning", text) for text in report.warnings], output)
    _show_fault(report, output)
    show_messages(to_notes(program_notes(report.stages)), output)
    for path in result_paths(run_dir):
        output.say(f"  {path}")
    _show_next(report, output, run_dir)


def _show_next(report: Report, output: Output, run_dir: Path | None) -> None:
    """What to type after a run that has failed. `run_dir`: None where only its name is known."""
    from workflow.report.show.run_in_words import next_line
    from workflow.run.records.find_runs import typed_name

    name = shlex.quote(report.run.directory) if run_dir is None else typed_name(run_dir)
    if line := next_line(report.run, name):
        output.say(f"  {line}")


def _colour(report: Report) -> str:
    """Of its verdict, and of a run that has not kept what was expected, or lacks a part."""
    whole = "warning" if report.run.lacks else report.run.state
    return COLOURS.get("violated" if report.run.exit_code == EXIT_VIOLATED else whole, "")


def _show_fault(report: Report, output: Output) -> None:
    from workflow.report.show.run_in_words import fault_messages, last_lines

    show_messages([*fault_messages(report), *expectation_messages(report)], output)
    for line, style in last_lines(report):
        output.say(line, style)


_OPEN_PORTS = "SST listens on all network interfaces of its node; streams in shared memory have no port"


def show_plan(plan: Plan, output: Output | None = None, missing: Sequence[Problem] = (), whole: bool = False) -> None:
    """The verdict, then what was decided, for people; `wf plan --json` has all of it.

    Args:
        missing: what this machine lacks for the plan.
        whole: also how each end is configured, the environment, and the launch lines.
    """
    from workflow.report.show.node_map import has_node_map, job_text, node_map
    from workflow.report.show.plan_tables import parameters_line, plan_tables, verdict_text

    output = output or make_output()
    stages, streams = plural(len(plan.stages), "stage"), plural(len(plan.streams), "stream")
    output.say(verdict_text(plan, missing), "bold", wrap=True)
    output.say(f"  {stages}, {streams}, site {plan.site}")
    if plan.params and not whole:
        output.say(f"  params: {parameters_line(plan.params)}", wrap=True)
    for table in plan_tables(plan, whole):
        output.draw(table)
    if whole:
        _show_environment(plan, output)
        _show_edited(plan, output)
    if has_node_map(plan):
        output.say("\nnode map", "bold")
        for line in node_map(plan):
            output.say(line)
    if plan.allocation is not None:
        output.say(job_text(plan.allocation))
    if whole:
        _show_launch_lines(plan, output)
        if open_to_all := [stream.name for stream in plan.streams if stream.traits.over_network]:
            output.say(f"\n{', '.join(open_to_all)}: {_OPEN_PORTS}", wrap=True)
    else:
        output.say(
            "\n`--wide` also shows engine parameters, transports, environment and launch lines",
            "dim",
            wrap=True,
        )


def _show_environment(plan: Plan, output: Output) -> None:
    from workflow.report.show.plan_tables import environment_settings, setting_lines

    if settings := environment_settings(plan):
        output.say("\nenvironment", "bold")
    for each in settings:
        for line in setting_lines(each, output.width):
            output.say(f"  {line}")
        output.say_prose(each.reason, indent=4)


def _show_edited(plan: Plan, output: Output) -> None:
    """What wf changes in configs that the user wrote."""
    edited = [(stage.name, path, changes) for stage in plan.stages for path, changes in stage.edited.items()]
    if edited:
        output.say("\nchanged configs", "bold")
    for stage, path, changes in edited:
        output.say(f"  {stage}: {Path(path).name}" + ("" if changes else ": nothing"))
        for line in changes:
            output.say(f"    {line}")


def _show_launch_lines(plan: Plan, output: Output) -> None:
    from workflow.report.show.plan_tables import launch_lines

    output.say("\nlaunch lines", "bold")
    for name, argv in launch_lines(plan):
        output.say(f"  {name}: {shlex.join(argv)}")


def show_forecast(forecast: Forecast, output: Output) -> None:
    """What a step of the plan costs, by what was measured on its site."""
    from workflow.report.show.forecast_tables import cost_table, pace_text

    output.say(f"\nforecast, by what was measured on site {forecast.site}", "bold")
    if forecast.is_empty:
        output.say("  nothing is known of this pipeline yet: run it once, then `wf calibrate RUN`")
        return
    for pace in forecast.paces:
        output.say(f"  {pace_text(pace, named=len(forecast.paces) > 1)}")
    output.draw(cost_table(forecast))
    show_messages(to_notes(forecast.notes), output)


def show_lines(lines: Sequence[str]) -> None:
    """Lines that are drawn: none is folded."""
    output = make_output()
    for line in lines:
        output.say(line)


def show_strategies(plan: Plan, stream: str, blocks: str | None, shape: str | None, wide: bool = False) -> None:
    """What each strategy of distribution would cost, for every reader of this stream. Raises WfError."""
    from workflow.report.show.strategy_table import MEANING, strategies_tables

    output = make_output(wide=wide)
    for lines, table in strategies_tables(plan, stream, blocks, shape):
        output.say("\n".join(lines))
        output.draw(table)
    output.say(f"\n{MEANING}")


def show_messages(problems: Sequence[Problem], output: Output | None = None) -> None:
    """Errors, warnings and notes, each with an excerpt of its source: all messages of `wf` are printed here."""
    if not problems:
        return
    output = output or make_output()
    wrap = output.width is not None
    for line in message_lines(problems, read_sources(problems), output.width or WIDEST, wrap=wrap):
        output.say_parts([(text, COLOURS.get(style, "")) for text, style in line])


def show_errors(problems: Sequence[Problem]) -> None:
    """Messages on standard error."""
    show_messages(problems, make_output(stderr=True))


def show_comparison(comparison: Comparison, output: Output | None = None) -> None:
    """The verdict, then every difference."""
    from workflow.report.show.tables_of_runs import difference_table

    output = output or make_output()
    colour = "green" if comparison.identical else "bold red"
    output.say(comparison.to_text(), colour)
    output.say(f"  A: {comparison.a}\n  B: {comparison.b}")
    output.draw(difference_table(comparison))
    for side, names in (("A", comparison.only_a), ("B", comparison.only_b)):
        if names:
            output.say(f"only in {side}, not compared: {', '.join(names)}", "dim")
    show_messages(to_notes(comparison.notes), output)


def show_component(component: Component, output: Output | None = None) -> None:
    """One component: what it does, its parameters, what it reads and writes."""
    from workflow.report.show.component_and_site_tables import parameter_table, port_table

    output = output or make_output()
    output.say(f"{component.component} ({component.kind}): {component.summary}", "bold")
    if component.needs:
        output.say(f"  needs the Python modules {', '.join(component.needs)}")
    if component.steer:
        output.say(f"  can be changed while it runs: {', '.join(component.steer)}")
    for table in (
        parameter_table(component),
        port_table(component.reads, "reads"),
        port_table(component.writes, "writes"),
    ):
        output.draw(table)
