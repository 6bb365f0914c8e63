"""What `wf campaign compare` prints and writes: differences, verdicts, the result of the gate, and JUnit's XML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workflow.campaign.changes.changes_model import CampaignChanges, FactChange
from workflow.campaign.changes.gate import decision_word, faults, gate_cases
from workflow.campaign.file.trials import short_names, trial_text
from workflow.campaign.junit import to_junit
from workflow.campaign.results.campaign_tables import (
    method_text,
    metric_text,
    p_text,
    parameter_columns,
    ratio_interval,
    varied,
)
from workflow.campaign.results.results_model import ComparisonResult, MetricFacts
from workflow.errors import EXIT_OK, EXIT_REGRESSED, EXIT_UNDECIDED, RunError, to_message, to_notes
from workflow.formatting import NOTHING, plain_figure, plural
from workflow.replace_file import replace_file
from workflow.report.show.printing import show_messages
from workflow.report.show.terminal import make_output
from workflow.report.show.text_table import COLOURS, Column, Table, make_table, number_column, state_column, text_column
from workflow.spec.suggest import listing


def show_changes(changes: CampaignChanges, wide: bool = False) -> None:
    """What differs, a table per metric, and what one side alone has."""
    output = make_output(wide=wide)
    output.say(f"{changes.base} (base) and {changes.new} (new)", "bold")
    output.draw(difference_table(changes))
    for metric in changes.metrics:
        tolerance = f"tolerance {metric.threshold * 100:g} %"
        output.say(f"\n{metric.name} ({metric.of}, {metric.better} is better, {tolerance})", "bold")
        output.draw(changes_table(changes, metric))
    output.say(f"\nratios are new ÷ base: {method_text(changes.changes)}", "dim", wrap=True)
    show_messages(to_notes([*unmatched_texts(changes), *changes.notes]), output)


def show_gate(changes: CampaignChanges, strict: bool, quiet: bool = False) -> int:
    """The result of the gate, and why it failed; returns the exit code. `quiet`: only why it failed."""
    found = list(faults(changes, strict))
    if quiet and not found:
        return EXIT_OK
    output = make_output(stderr=bool(found))
    if not found:
        # Undecided is no regression, and no proof of none either.
        count = sum(change.decision == "undecided" for change in changes.changes)
        unsure = f", {count} undecided: `--strict` fails then" if count else ""
        text = f"gate passed: {plural(len(changes.changes), 'ratio')}, none regressed{unsure}"
        output.say(text, COLOURS["succeeded"])
        return EXIT_OK
    show_messages([to_message("error", text) for text in found], output)
    output.say(f"gate failed: {len(found)} of {plural(len(gate_cases(changes, strict)), 'case')}", COLOURS["failed"])
    return EXIT_REGRESSED if any(faults(changes, strict=False)) else EXIT_UNDECIDED


def write_changes_junit(path: Path, changes: CampaignChanges, strict: bool) -> None:
    """A test case for each metric of each trial. Raises RunError when the file cannot be written."""
    try:
        replace_file(path, to_junit(f"{changes.new} against {changes.base}", gate_cases(changes, strict)))
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}", "name another file: `--junit FILE`") from error


def difference_table(changes: CampaignChanges) -> Table:
    """What differs between the two campaigns as a whole; what is the same is left out."""
    columns: list[Column[FactChange]] = [
        text_column("", lambda each: each.fact),
        text_column("base", lambda each: each.base),
        text_column("new", lambda each: each.new),
    ]
    return make_table(columns, [each for each in changes.facts if each.base != each.new], title="what differs")


def changes_table(changes: CampaignChanges, metric: MetricFacts) -> Table:
    """One metric of all trials that both have."""
    rows = [each for each in changes.changes if each.metric == metric.name]
    columns: list[Column[ComparisonResult]] = [
        *parameter_columns(varied(each.at for each in rows), lambda each: each.at),
        number_column("base", lambda each: metric_text(each.median_against, metric.unit)),
        number_column("new", lambda each: metric_text(each.median, metric.unit)),
        number_column("n", lambda each: f"{each.count_against}, {each.count}", gives_way=2),
        number_column("ratio", lambda each: NOTHING if each.ratio is None else plain_figure(each.ratio)),
        number_column("95 % interval", lambda each: ratio_interval(each.ratio, each.low, each.high), gives_way=3),
        number_column("p", lambda each: p_text(each.corrected_p), gives_way=1),
        state_column("verdict", lambda each: decision_word(each, metric)),
    ]
    return make_table(columns, rows)


def unmatched_texts(changes: CampaignChanges) -> Iterator[str]:
    """`only old.json has the metric rate`."""
    names = short_names(varied(each.parameters for each in changes.unmatched))
    for side, source in (("base", changes.base), ("new", changes.new)):
        trials = [trial_text(each.parameters, names) for each in changes.unmatched if each.side == side]
        metrics = [name for name, where in changes.unmatched_metrics.items() if where == side]
        for kind, alone in (("trial", trials), ("metric", metrics)):
            if alone:
                yield f"only {source} has the {kind if len(alone) == 1 else f'{kind}s'} {listing(alone)}"
