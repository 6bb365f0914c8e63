"""`wf balance`: let wf choose."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow.cli.options import GivenPipeline, json_option, pipeline_options, say_wait
from workflow.errors import EXIT_OK, EXIT_UNDECIDED, named_if_missing

if TYPE_CHECKING:
    from workflow.balance.balance_model import Balance, ProbeRecord
    from workflow.balance.candidates import Space


@click.command()
@pipeline_options
@click.option(
    "--goal",
    type=click.Choice(["time", "steps-per-second", "node-hours"]),
    default="time",
    show_default=True,
    help="What is to be as good as possible",
)
@click.option(
    "--probes", type=click.IntRange(min=1), default=30, show_default=True, help="Run candidates so often at most"
)
@click.option(
    "--budget-node-hours",
    type=click.FloatRange(min=0, min_open=True),
    metavar="HOURS",
    help="Start no run that is expected to exceed this with all runs before; the first run always starts",
)
@click.option("--steps", type=click.IntRange(min=8), default=24, show_default=True, help="Steps of each run, at least")
@click.option("--nodes", type=click.IntRange(min=1), help="Nodes that a run may use (default: all that are here)")
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY=[…]",
    help="Try these values of a key as well (repeatable)",
)
@click.option("--fixed", multiple=True, metavar="KEY", help="Leave this key as it is (repeatable)")
@click.option("--dry-run", is_flag=True, help="Run nothing: show what would be tried, and the best by the forecast")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where runs are kept (default: balance/NAME)")
@json_option("Print the choice as JSON")
def balance(
    given: GivenPipeline,
    goal: str,
    probes: int,
    budget_node_hours: float | None,
    steps: int,
    nodes: int | None,
    vary: tuple[str, ...],
    fixed: tuple[str, ...],
    dry_run: bool,
    directory: Path | None,
    as_json: bool,
) -> None:
    """Choose ranks, placement, transports and policies by short runs.

    PIPELINE is the YAML file, which is not changed: the choice is written as an overlay. What wf varies by itself
    changes no data, but for the last digits of sums. Runs of an earlier call count; Ctrl-C keeps them. Exits with 5 if
    the runs do not decide.
    """
    from workflow.balance.balance_model import OVERLAY_FILE

    say_wait("planning the candidates…", as_json)
    with named_if_missing("comparing candidates", "components"):
        from workflow.api.balances import BalanceRequest, balance_pipeline, read_vary
    request = BalanceRequest(
        given.path, "node-hours" if goal == "node-hours" else "time", probes, steps, nodes, budget_node_hours,
        read_vary(vary), fixed, given.profiles, given.sets, given.via, given.site, directory,
    )  # fmt: skip
    found, folder = balance_pipeline(
        request, plan_only=dry_run, begin=partial(_show_space, as_json), show=partial(_show_probe, as_json)
    )
    if as_json:
        click.echo(found.to_json(), nl=False)
    else:
        _show(found)
    faster = found.decided or found.chosen.ratio.high < 1
    if not as_json and found.chosen.settings and faster and not dry_run:
        overlay = folder / OVERLAY_FILE
        shown = overlay.relative_to(Path.cwd()) if overlay.is_relative_to(Path.cwd()) else overlay
        click.echo(f"  next: wf run {shlex.quote(str(given.path))} --overlay {shlex.quote(str(shown))}")
    sys.exit(EXIT_OK if found.decided or dry_run else EXIT_UNDECIDED)


def _show_space(as_json: bool, space: Space) -> None:
    """With `--json` on standard error: it takes minutes."""
    from workflow.balance.show_balance import tried_lines

    for line in tried_lines(space):
        click.echo(line, err=as_json)


def _show_probe(as_json: bool, probe: ProbeRecord, seconds: float | None, left: int) -> None:
    from workflow.balance.show_balance import probe_line

    click.echo(probe_line(probe, seconds, left), err=as_json)


def _show(found: Balance) -> None:
    from workflow.balance.show_balance import compared_table, runs_table, setting_lines, verdict_lines
    from workflow.report.show.printing import show_table

    if found.probes:
        show_table(runs_table(found))
        click.echo("")
    for line in verdict_lines(found):
        click.echo(line)
    for text in found.given_up:
        click.echo(f"  given up, because all candidates with it that ran have failed: {text}")
    if found.chosen.settings:
        for line in setting_lines(found):
            click.echo(line)
        show_table(compared_table(found))
