"""The verbs for a run that goes on: what joins it and leaves it, and the values of its stages."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from workflow.cli.completion import complete_run
from workflow.errors import RunError

_STEERED = re.compile(r"stages\.([^.=]+)\.steer\.([^.=]+)")


@click.command()
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--component", metavar="NAME", help="Attach this component, instead of FILE")
@click.option("--with", "values", multiple=True, metavar="KEY=VALUE", help="A parameter of the component (repeatable)")
@click.option(
    "--to", "streams", multiple=True, metavar="STREAM", help="What a component or a script reads (repeatable)"
)
@click.option(
    "--from", "first", default="newest", metavar="STEP",
    help="The first step: `newest` (the default), `beginning` (the oldest that is kept), or its number",
)  # fmt: skip
@click.option(
    "--when",
    metavar="CONDITION",
    help="Only the steps at which it holds: `V max > 0.9`, also `min` and `mean`; or `step >= 100`",
)
@click.option("--before", type=click.IntRange(0), default=0, help="With --when: so many steps before each, too")
@click.option("--after", type=click.IntRange(0), default=0, help="With --when: so many steps after each, too")
@click.option("--once", is_flag=True, help="With --when: only the first time")
@click.option("--name", metavar="NAME", help="What it is called in the run (default: as the file or the component)")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change a value of the file (repeatable)")
@click.option("--site", metavar="SITE", help="The machine (default: this one)")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not the progress")
@click.option("--detach", "-d", is_flag=True, help="Return once it has started; it continues without a terminal")
def attach(
    run: Path,
    file: Path | None,
    component: str | None,
    values: tuple[str, ...],
    streams: tuple[str, ...],
    first: str,
    when: str | None,
    before: int,
    after: int,
    once: bool,
    name: str | None,
    sets: tuple[str, ...],
    site: str | None,
    quiet: bool,
    detach: bool,
) -> None:
    """Let a stage join a running run and read its streams.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest`. FILE is a pipeline
    file in which streams without `from` are those of the run, or a Python script that uses workflow.stage. What is
    attached may be slow, crash, or be stopped: the run does not notice. It ends with the run, by Ctrl-C, or by
    `wf detach`. Exits as `wf run` does.
    """
    from workflow.api.attachments import Trigger, plan_attached
    from workflow.api.plans import show_warnings
    from workflow.api.runs import detach_run, run_planned_here
    from workflow.report.show.printing import show_end
    from workflow.run.records.find_runs import typed_name

    if (file is None) == (component is None):
        raise click.UsageError("what is to be attached? Give FILE or --component; for example `--component plot`")
    if when is None and (before or after or once):
        raise click.UsageError('--before, --after and --once belong to --when; for example `--when "V max > 0.9"`')
    trigger = None if when is None else Trigger(when, before, after, once)
    attached = plan_attached(
        run, file, component=component, streams=streams, parameters=values, trigger=trigger,
        first=_first(first), name=name, sets=sets, site=site,
    )  # fmt: skip
    planned, directory = attached.planned, attached.directory
    if detach:
        show_warnings(planned.check_here())
        detach_run(planned.loaded, planned.plan, directory)
        other = typed_name(directory.parent.parent)
        click.echo(f"{directory.name} is attached: {directory}\n  next: wf detach {other} {directory.name}")
        return
    report, directory = run_planned_here(planned, directory, quiet=quiet)
    show_end(report, directory)
    sys.exit(report.run.exit_code)


@click.command()
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.argument("name")
def detach(run: Path, name: str) -> None:
    """End what is attached to a run; the run goes on.

    RUN is the whole name of a run below runs/, a path, or `latest`; NAME is what `wf attach` has named. Exits with 1
    when something could not be ended.
    """
    from workflow.cli.following import cancel_run
    from workflow.run.records.attached_runs import attached_runs
    from workflow.run.records.find_runs import find_whole_run, newest_part
    from workflow.spec.suggest import did_you_mean, listing

    run_dir = newest_part(find_whole_run(run))
    found = {each.name: each for each in attached_runs(run_dir)}
    if name not in found:
        hint = did_you_mean(name, found) or (f"attached: {listing(found)}" if found else "nothing is attached to it")
        raise RunError(f"{run_dir.name} has no `{name}` attached", hint)
    sys.exit(cancel_run(found[name]))


@click.command("set")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.option(
    "--at-step", type=click.IntRange(min=0), metavar="N",
    help="The first step of the stage that is computed with it, counted from 0 (default: the next one)",
)  # fmt: skip
def set_(run: Path, values: tuple[str, ...], at_step: int | None) -> None:
    """Change values of a stage while its run goes on.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest`. KEY is
    `stages.STAGE.steer.NAME`, one of the values that the stage declares by `steer:`, or its component. All ranks take
    it at the same step. It is recorded, and `wf resume` and `wf replay` do the same at the same step. What is out of
    bounds, or comes too late, is refused, and the run goes on as it was.
    """
    from workflow.api.runs import find_running
    from workflow.api.set_values import set_values
    from workflow.report.build.steering_notes import steered_text, units_of

    stage, new = _read_values(values)
    run_dir, plan = find_running(run)
    taken = set_values(run_dir, plan, stage, new, at_step, say=lambda text: click.echo(text, err=True))
    if taken is not None:
        units = units_of(plan, stage)
        click.echo(steered_text(stage, taken.old, taken.new, taken.step, units, is_exact=taken.is_exact))
    else:
        when = "at its next step" if at_step is None else f"at step {at_step}"
        click.echo(f"{stage}: {', '.join(new)} will be taken {when}; `wf status {run_dir.name}` shows when it was")


def _first(text: str) -> Any:
    if text not in ("newest", "beginning") and not text.isdigit():
        raise click.UsageError(
            f"--from {text}: expected newest, beginning or the number of a step; for example `--from 40`"
        )
    return int(text) if text.isdigit() else text


def _read_values(texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The stage, and name → value. Raises UsageError, and SpecError for a value that is no YAML."""
    from workflow.spec.yaml_tree.node import plain
    from workflow.spec.yaml_tree.parse import parse_value

    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        match = _STEERED.fullmatch(key)
        if match is None or not equals:
            raise click.UsageError(f"{text}: expected stages.STAGE.steer.NAME=VALUE; for example "
                                   "`stages.sim.steer.feed=0.04`")  # fmt: skip
        found.setdefault(match[1], {})[match[2]] = plain(parse_value(value, f"wf set {key}"))
    if len(found) > 1:
        raise click.UsageError(f"one stage at a time, not {' and '.join(found)}: each has steps of its own")
    return found.popitem()
