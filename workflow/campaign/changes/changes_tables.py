"""The tables of a comparison of two campaigns, for the terminal and the page. Pure."""

from __future__ import annotations

from workflow.campaign.changes.changes_model import CampaignChanges, FactChange, SideMedian, TrialChange, UnmatchedTrial
from workflow.campaign.changes.gate import decision_word
from workflow.campaign.results.campaign_tables import metric_text, p_text, parameter_columns, ratio_interval, varied
from workflow.campaign.results.results_model import MetricFacts
from workflow.errors import listing
from workflow.formatting import NOTHING, three_figures
from workflow.report.show.text_table import Column, Table, make_table, number_column, state_column, text_column


def difference_table(changes: CampaignChanges) -> Table:
    """What differs between the two campaigns as a whole; what is the same is left out."""
    columns: list[Column[FactChange]] = [
        text_column("", lambda each: each.fact),
        text_column("base", lambda each: each.base),
        text_column("new", lambda each: each.new),
    ]
    return make_table(columns, [each for each in changes.facts if each.base != each.new])


def changes_table(changes: CampaignChanges, metric: MetricFacts) -> Table:
    """One metric of all trials that both have."""
    rows = [each for each in changes.changes if each.metric == metric.name]
    columns: list[Column[TrialChange]] = [
        *parameter_columns(varied(each.parameters for each in rows), lambda each: each.parameters),
        number_column("base", lambda each: _side(each.base, metric)),
        number_column("new", lambda each: _side(each.new, metric)),
        number_column("n", lambda each: f"{each.base.count}, {each.new.count}", gives_way=2),
        number_column("ratio", lambda each: NOTHING if each.ratio is None else three_figures(each.ratio)),
        number_column("95 % interval", lambda each: ratio_interval(each.ratio, each.low, each.high), gives_way=3),
        number_column("p", lambda each: p_text(each.corrected_p), gives_way=1),
        state_column("verdict", lambda each: decision_word(each, metric)),
    ]
    return make_table(columns, rows)


def unmatched_table(changes: CampaignChanges) -> Table:
    """The trials that one campaign alone has."""
    columns: list[Column[UnmatchedTrial]] = [
        text_column("only in", lambda each: changes.base if each.side == "base" else changes.new),
        *parameter_columns(varied(each.parameters for each in changes.unmatched), lambda each: each.parameters),
    ]
    return make_table(columns, changes.unmatched)


def unmatched_metrics_text(changes: CampaignChanges) -> str:
    """`only old.json has the metric rate`; empty where both have the same."""
    sides = {"base": changes.base, "new": changes.new}
    return "; ".join(
        f"only {source} has the {'metric' if len(names) == 1 else 'metrics'} {listing(names)}"
        for side, source in sides.items()
        if (names := [name for name, where in changes.unmatched_metrics.items() if where == side])
    )


def _side(side: SideMedian, metric: MetricFacts) -> str:
    return metric_text(side.median, metric.unit)
