"""What `wf campaign compare` prints and writes: differences, verdicts, the result of the gate, and JUnit's XML."""

from __future__ import annotations

from pathlib import Path

from workflow.campaign.changes.changes_model import CampaignChanges
from workflow.campaign.changes.changes_tables import (
    changes_table,
    difference_table,
    unmatched_metrics_text,
    unmatched_table,
)
from workflow.campaign.changes.gate import faults, gate_cases
from workflow.campaign.junit import to_junit
from workflow.campaign.results.campaign_tables import method_text
from workflow.errors import EXIT_OK, EXIT_REGRESSED, EXIT_UNDECIDED, RunError, WfError, to_message, to_notes
from workflow.formatting import plural
from workflow.installation import install_command
from workflow.replace_file import replace_file
from workflow.report.show.printing import show_messages
from workflow.report.show.terminal import COLOURS, draw_table, make_output, say


def show_changes(changes: CampaignChanges, wide: bool = False) -> None:
    """What differs, a table per metric, and the trials that one side alone has."""
    console = make_output(wide=wide)
    say(console, f"{changes.base} (base) and {changes.new} (new)", "bold")
    differences = difference_table(changes)
    if differences.rows:
        say(console, "\nwhat differs", "bold")
        draw_table(console, differences)
    for metric in changes.metrics:
        tolerance = f"tolerance {metric.threshold * 100:g} %"
        say(console, f"\n{metric.name} ({metric.of}, {metric.better} is better, {tolerance})", "bold")
        draw_table(console, changes_table(changes, metric))
    say(console, f"\nratios are new ÷ base: {method_text(changes.changes)}", "dim", wrap=True)
    if changes.unmatched:
        draw_table(console, unmatched_table(changes))
    alone = unmatched_metrics_text(changes)
    show_messages(to_notes([*([alone] if alone else []), *changes.notes]), console)


def write_changes(path: Path, changes: CampaignChanges) -> list[Path]:
    """Write the page; returns the files. Raises WfError where it is not to be a page, or matplotlib is missing."""
    if path.suffix not in (".html", ".htm"):
        raise WfError(f"{path} is not the name of a page", f"for example `-o {path.with_suffix('.html')}`")
    try:
        from workflow.campaign.changes.changes_page import write_changes_page

        return write_changes_page(path, changes)
    except ModuleNotFoundError as error:
        raise WfError(f"the page needs {str(error.name).partition('.')[0]}", install_command("campaign")) from error


def show_gate(changes: CampaignChanges, strict: bool, quiet: bool = False) -> int:
    """The result of the gate, and why it failed; returns the exit code. `quiet`: only why it failed."""
    found = list(faults(changes, strict))
    if quiet and not found:
        return EXIT_OK
    console = make_output(stderr=bool(found))
    if not found:
        # Undecided is no regression, and no proof of none either.
        count = sum(change.decision == "undecided" for change in changes.changes)
        unsure = f", {count} undecided: `--strict` fails then" if count else ""
        text = f"gate passed: {plural(len(changes.changes), 'ratio')}, none regressed{unsure}"
        say(console, text, COLOURS["succeeded"])
        return EXIT_OK
    show_messages([to_message("error", text) for text in found], console)
    say(console, f"gate failed: {len(found)} of {plural(len(gate_cases(changes, strict)), 'case')}", COLOURS["failed"])
    return EXIT_REGRESSED if any(faults(changes, strict=False)) else EXIT_UNDECIDED


def write_changes_junit(path: Path, changes: CampaignChanges, strict: bool) -> None:
    """A test case for each metric of each trial. Raises RunError when the file cannot be written."""
    try:
        replace_file(path, to_junit(f"{changes.new} against {changes.base}", gate_cases(changes, strict)))
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}", "name another file: `--junit FILE`") from error
