"""`wf campaign VERB`: many runs from one file. Only prints and exits; `workflow.campaign` does the work."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from workflow.cli.archive_verbs import archive_of_campaign
from workflow.cli.options import json_option, say_wait, to_share, wide_option
from workflow.cli.verb_group import VerbGroup
from workflow.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_VIOLATED, RunError, SpecError, WfError

if TYPE_CHECKING:
    from workflow.campaign.changes.changes_model import CampaignChanges
    from workflow.campaign.planning.planned_trials import PlannedCampaign
    from workflow.campaign.results.results_model import CampaignStatus

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=VerbGroup)
def campaign() -> None:
    """Run a pipeline with many values, and compare the results.

    A campaign file names a pipeline and the values that vary. `wf campaign VERB --help` describes each verb.
    """


def directory_option(function: F) -> F:
    """Where the campaign runs."""
    return click.option(
        "--dir",
        "directory",
        type=click.Path(path_type=Path),
        help="The campaign's directory (default: campaigns/NAME)",
    )(function)


def set_option(function: F) -> F:
    """Keys of the campaign file."""
    return click.option(
        "--set", "sets", multiple=True, metavar="KEY=VALUE",
        help="Override a key of the campaign file: repetitions=20, scale=frontier, set.stages.md.ranks=4, "
        "'matrix.stages.md.ranks=[1, 2]'",
    )(function)  # fmt: skip


@dataclass(frozen=True)
class GivenOptions:
    """What the command line lays over a campaign file."""

    sets: tuple[str, ...]
    profiles: tuple[str, ...]
    site: str | None
    as_written: bool


def overlay_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of a verb that plans a campaign: it gets them as `options`."""

    @functools.wraps(function)
    def verb(
        sets: tuple[str, ...], profiles: tuple[str, ...], site: str | None, as_written: bool, **others: Any
    ) -> None:
        function(options=GivenOptions(sets, profiles, site, as_written), **others)

    decorated: Callable[..., None] = verb
    for decorate in (
        click.option("--as-written", is_flag=True, help="Run the file as written, without the options of the last run"),
        click.option("--profile", "profiles", multiple=True, metavar="NAME", help="Apply a profile of the pipeline"),
        click.option(
            "--site", metavar="NAME",
            help="Run on this machine: a name from configs/sites, or the path of a file",
        ),
        set_option,
    ):  # fmt: skip
        decorated = decorate(decorated)
    return decorated


def junit_option(function: F) -> F:
    """A file for CI systems."""
    return click.option(
        "--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the trials as test cases: JUnit's XML"
    )(function)


@campaign.command()
@click.argument("file", metavar="CAMPAIGN", type=click.Path(path_type=Path))
@overlay_options
@directory_option
@junit_option
@json_option("Print the trials and their cost as JSON")
@wide_option
def plan(
    file: Path, options: GivenOptions, directory: Path | None, junit: Path | None, as_json: bool, wide: bool
) -> None:
    """List the trials of a campaign and their cost; start nothing.

    The list also says which trials cannot run.

    CAMPAIGN is the YAML file; of a campaign that has run also its directory, or its name below campaigns/. Exits with
    2 when a trial cannot run, or when the campaign exceeds its budget.
    """
    from workflow.api.campaigns import plan_campaign
    from workflow.campaign.show_campaign import show_plan, write_plan_junit

    planned, problems, size = plan_campaign(file, directory, **vars(options))
    if junit is not None:
        write_plan_junit(junit, planned)
    if as_json:
        from workflow.cli.json_output import CampaignPlan

        document = CampaignPlan.of(planned, size, problems)
        click.echo(document.to_json(), nl=False)
        sys.exit(EXIT_OK if document.ok else EXIT_BAD_INPUT)
    show_plan(planned, size, [problem for problem in problems if problem.level != "error"], wide)
    refuse(planned, problems)


def refuse(planned: PlannedCampaign, problems: list[Any]) -> None:
    """Raise SpecError with all that is wrong with the campaign."""
    wrong = [*planned.problems, *(problem for problem in problems if problem.level == "error")]
    if wrong:
        raise SpecError(wrong)


@campaign.command()
@click.argument("file", metavar="CAMPAIGN", type=click.Path(path_type=Path))
@overlay_options
@directory_option
@click.option("--failed", is_flag=True, help="Run again only the repetitions that failed")
@click.option("--remeasure-reference", is_flag=True, help="Measure the reference trials again, beside the new trials")
@click.option("--detach", "-d", is_flag=True, help="Return once it has started; it continues without a terminal")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not a line per repetition")
@junit_option
def run(
    file: Path,
    options: GivenOptions,
    directory: Path | None,
    failed: bool,
    remeasure_reference: bool,
    detach: bool,
    quiet: bool,
    junit: Path | None,
) -> None:
    """Run the repetitions of a campaign that are not finished.

    Trials run side by side where there is room, otherwise one by one.

    CAMPAIGN is the YAML file; of a campaign that has run also its directory, or its name below campaigns/. Finished
    repetitions are not run again: a campaign that was stopped or killed continues, and if values were added to its
    file, only these are run. Comparisons of new trials with ones that were measured at another time get no verdict;
    --remeasure-reference runs the latter again, beside the new trials. A campaign keeps its options: they need not be
    given again. Exits with 0 when all repetitions succeeded, 1 when some failed or the budget was spent, 2 when
    a trial cannot run, 3 when all succeeded and some did not meet an expectation of the pipeline, and 130 when it was
    interrupted. Ctrl-C ends it cleanly, unless it was started with --detach: see `wf campaign watch` and
    `wf campaign cancel`.
    """
    if failed and remeasure_reference:
        raise click.UsageError("--failed and --remeasure-reference cannot be combined")
    if detach:
        if junit is not None:
            raise click.UsageError("--junit has no effect with --detach: the campaign has not ended then")
        _detach(file, options, directory, failed, remeasure_reference)
        return
    from workflow.api.campaigns import run_campaign
    from workflow.campaign.show_campaign import ProgressLines, show_end, write_status_junit

    lines = ProgressLines(quiet)
    outcome = run_campaign(
        file, directory, **vars(options), only_failed=failed, remeasure_reference=remeasure_reference, show=lines,
        say=lines.tell,
    )  # fmt: skip
    if junit is not None:
        write_status_junit(junit, outcome.status)
    show_end(outcome)
    sys.exit(outcome.exit_code)


def _detach(file: Path, options: GivenOptions, directory: Path | None, failed: bool, remeasure_reference: bool) -> None:
    from workflow.api.campaigns import detach_campaign

    where, began = detach_campaign(
        file, directory, **vars(options), only_failed=failed, remeasure_reference=remeasure_reference
    )
    name = shlex.quote(where.name if where.parent == Path("campaigns").absolute() else str(where))
    if began:
        click.echo(f"{where.name} has started: {where}\n  next: wf campaign watch {name}, or wf campaign cancel {name}")
    else:
        click.echo(f"{where.name}: nothing is left to run\n  next: wf campaign report {name}")


def campaign_argument(function: F) -> F:
    """A campaign that has been started."""
    return click.argument("name", metavar="CAMPAIGN", type=click.Path(path_type=Path))(function)


@campaign.command()
@campaign_argument
@directory_option
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not a line per repetition")
def watch(name: Path, directory: Path | None, quiet: bool) -> None:
    """Show the progress of a campaign until its end.

    Works on any host that sees the directory of the campaign.

    CAMPAIGN is its file, its directory, or its name below campaigns/. Exits with 0 when all repetitions succeeded, 3
    when some of these did not keep what the pipeline expects, else 1. Ending `wf campaign watch` does not end the
    campaign; Ctrl-C on a terminal asks.
    """
    from workflow.cli.following import show_campaign_to_the_end

    sys.exit(show_campaign_to_the_end(name, directory, quiet))


@campaign.command()
@campaign_argument
@directory_option
@click.option("--now", is_flag=True, help="Kill the stages at once, without time to close their files")
def cancel(name: Path, directory: Path | None, now: bool) -> None:
    """End a campaign, and wait for its end.

    Works on any host that sees the directory of the campaign.

    CAMPAIGN is its file, its directory, or its name below campaigns/. Running repetitions are interrupted and recorded
    as such; `wf campaign run` continues the campaign later. If the process of the campaign has died, this ends the runs
    that it has left.
    """
    from workflow.cli.following import cancel_campaign

    cancel_campaign(name, directory, now)


@campaign.command("list")
@click.option(
    "--lines", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="How many of the newest campaigns"
)
@json_option("Print the campaigns as JSON")
@wide_option
def list_all(lines: int, as_json: bool, wide: bool) -> None:
    """List the campaigns below campaigns/, the newest first.

    A campaign is `lost` when the process that ran it has died; `wf campaign run` continues it.
    """
    from workflow.campaign.campaign_directory import known_campaigns
    from workflow.campaign.campaign_state import list_campaigns
    from workflow.campaign.results.campaign_tables import campaign_list_table
    from workflow.campaign.results.results_model import CampaignList
    from workflow.report.show.terminal import make_output

    found = list_campaigns(list(reversed(known_campaigns()[-lines:])))
    if as_json:
        click.echo(CampaignList(campaigns=found).model_dump_json(indent=2))
    elif not found:
        raise RunError("no campaigns here: there is none below campaigns/", "start one: wf campaign run FILE")
    else:
        make_output(wide=wide).draw(campaign_list_table(found))


@campaign.command()
@campaign_argument
@directory_option
@json_option("Print the counts as JSON")
@wide_option
def status(name: Path, directory: Path | None, as_json: bool, wide: bool) -> None:
    """Show how far a campaign is, who runs it, and what runs now.

    CAMPAIGN is its file, its directory, or its name below campaigns/.
    """
    from workflow.api.campaigns import campaign_status
    from workflow.campaign.show_campaign import show_status

    found = campaign_status(name, directory)
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        show_status(found, wide)


@campaign.command()
@campaign_argument
@set_option
@directory_option
@json_option("Print the results as JSON")
@wide_option
def report(name: Path, sets: tuple[str, ...], directory: Path | None, as_json: bool, wide: bool) -> None:
    """Show medians, intervals and comparisons; write the files.

    The files are table.csv, report.json and report.html.

    CAMPAIGN is its file, its directory, or its name below campaigns/. `--set` changes this report only.
    """
    from workflow.api.campaigns import report_campaign
    from workflow.campaign.show_campaign import show_results

    say_wait("computing the results, drawing the pictures…", as_json)
    results, written = report_campaign(name, directory, sets=sets)
    if as_json:
        click.echo(results.model_dump_json(indent=2))
        return
    show_results(results, wide)
    for path in written:
        click.echo(path)


def comparison_options(function: F) -> F:
    """What is compared, and where the result goes."""
    for decorate in (
        wide_option,
        json_option("Print the comparison as JSON"),
        click.option(
            "--junit", type=click.Path(path_type=Path), metavar="FILE",
            help="Write each metric of each trial as a test case",
        ),
        click.option(
            "--tolerance", callback=to_share, metavar="SHARE", help="Smallest difference that counts: 5%, 0.05"
        ),
    ):  # fmt: skip
        function = decorate(function)
    return function


def _show_comparison(
    found: CampaignChanges, junit: Path | None, as_json: bool, wide: bool, strict: bool, *, gate: bool
) -> int:
    """Print a comparison, write JUnit's file; returns the exit code of the gate, or 0 without one."""
    from workflow.campaign.changes.show_changes import show_changes, show_gate, write_changes_junit

    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        show_changes(found, wide)
    if junit is not None:
        write_changes_junit(junit, found, strict)
    return show_gate(found, strict, quiet=as_json) if gate else EXIT_OK


@campaign.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@comparison_options
@click.option("--gate", is_flag=True, help="Exit with 4 when a metric has regressed")
@click.option(
    "--strict", is_flag=True, help="As --gate; exit with 5 when a metric is undecided, or NEW lacks a trial of BASE"
)
def compare(
    base: Path,
    new: Path,
    tolerance: float | None,
    junit: Path | None,
    as_json: bool,
    wide: bool,
    gate: bool,
    strict: bool,
) -> None:
    """Compare two campaigns: machines, dates or versions.

    BASE and NEW are each a campaign's file, its directory, its name below campaigns/, or its report.json from
    elsewhere. Trials are matched by the values that vary. A metric has regressed when it is significantly worse
    and by more than the tolerance, which is the metric's threshold unless it is given.

    Exits with 0, or with 2 when there is nothing to compare. With --gate, exits with 4 when a metric has regressed.
    With --strict, also exits with 5 when none has regressed but one is undecided.
    """
    from workflow.api.campaigns import compare_campaigns

    found = compare_campaigns(base, new, tolerance=tolerance)
    sys.exit(_show_comparison(found, junit, as_json, wide, strict, gate=gate or strict))


@campaign.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path), required=False)
@click.option("--old-set", "old_sets", multiple=True, metavar="KEY=VALUE", help="Override a key of OLD's campaign file")
@click.option("--new-set", "new_sets", multiple=True, metavar="KEY=VALUE", help="Override a key of NEW's campaign file")
@click.option("--old-python", metavar="PROGRAM", help="The Python of OLD's components (default: that of wf)")
@click.option("--new-python", metavar="PROGRAM", help="The Python of NEW's components (default: that of wf)")
@set_option
@click.option("--profile", "profiles", multiple=True, metavar="NAME", help="Apply a profile of the pipelines")
@click.option(
    "--site",
    metavar="NAME",
    help="Run on this machine: a name from configs/sites, or the path of a file",
)
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path), help="Where they run (default: campaigns/NAME-gate)"
)
@comparison_options
@click.option("--strict", is_flag=True, help="Exit with 5 when a metric is undecided, or NEW lacks a trial of OLD")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not a line per repetition")
def gate(
    old: Path,
    new: Path | None,
    old_sets: tuple[str, ...],
    new_sets: tuple[str, ...],
    old_python: str | None,
    new_python: str | None,
    sets: tuple[str, ...],
    profiles: tuple[str, ...],
    site: str | None,
    directory: Path | None,
    tolerance: float | None,
    strict: bool,
    junit: Path | None,
    as_json: bool,
    wide: bool,
    quiet: bool,
) -> None:
    """Measure two versions interleaved; fail if the new one is worse.

    The two versions of a program run alternately, so the result holds on a busy machine, too.

    OLD and NEW are the campaign files of two checkouts; a folder stands for the file in it with the name of NEW.
    Without NEW both versions use the file OLD, and differ in --old-set and --new-set (two commands, two values) or in
    --old-python and --new-python (two environments). NEW's file sets the repetitions and the metrics. In each block
    both versions of each trial run once, in random order. Finished repetitions are not run again.

    Exits with 0 when no metric has regressed, and with 4 when one has: it is significantly worse, and by more than the
    tolerance (default: the metric's threshold). With --strict, exits with 5 when none has regressed but one is
    undecided. Exits with 1 when a repetition failed, 2 for bad input, 3 when NEW did not meet an expectation of its
    pipeline, and 130 when it was interrupted: the same command then continues.
    """
    from workflow.api.gates import GateVersion, gate_campaign
    from workflow.campaign.show_campaign import ProgressLines, show_end

    if new is None and old.is_file() and not (old_sets or new_sets or old_python or new_python):
        text = f"NEW is missing: {old} would be compared with itself, which measures only the noise of the machine"
        words = f"wf campaign gate OLD {shlex.quote(str(old))}"
        raise WfError(text, f"name the file of the other checkout: `{words}`, or what differs: --new-set, --new-python")
    given = new or old
    file = _same_place(old, given) if old.is_dir() and new is not None else old
    before, after = (
        GateVersion(path, (*sets, *more), python)
        for path, more, python in ((file, old_sets, old_python), (given, new_sets, new_python))
    )
    lines = ProgressLines(quiet or as_json)
    outcome, found = gate_campaign(
        before, after, directory, profiles=profiles, site=site, tolerance=tolerance, show=lines,
        say=lines.tell,
    )  # fmt: skip
    if found is None:
        show_end(outcome, gate=True)
        sys.exit(outcome.exit_code)
    code = _show_comparison(found, junit, as_json, wide, strict, gate=True)
    sys.exit(code or (EXIT_VIOLATED if _violated_by_new(outcome.status) else EXIT_OK))


def _same_place(folder: Path, file: Path) -> Path:
    """The file in a checkout that is where `file` is in another one: by as much of its path as there is.

    `../new/campaigns/c.yaml` in `../old`: `../old/campaigns/c.yaml`.
    """
    parts = [part for part in file.parts if part not in (file.anchor, "..", ".")]
    found = (folder.joinpath(*parts[first:]) for first in range(len(parts)))
    return next((each for each in found if each.exists() and not each.samefile(file)), folder / file.name)


def _violated_by_new(status: CampaignStatus) -> bool:
    """Whether the new version did not meet an expectation of its pipeline."""
    from workflow.campaign.planning.both_versions import VERSION

    return any(each.violated for each in status.trials if each.parameters[VERSION] == "new")


@campaign.command()
def schema() -> None:
    """Print the JSON Schema of the campaign file, for editors."""
    import json

    from workflow.campaign.file.campaign_spec import campaign_schema

    click.echo(json.dumps(campaign_schema(), indent=2))


campaign.add_command(archive_of_campaign)
