"""The page of `wf campaign compare -o FILE.html`, in one file; its picture and the data of it lie beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workflow.campaign.changes.changes_model import CampaignChanges
from workflow.campaign.changes.gate import faults
from workflow.campaign.changes.show_changes import (
    changes_table,
    difference_table,
    unmatched_metrics_text,
    unmatched_table,
)
from workflow.campaign.file.trials import short_names, trial_text
from workflow.campaign.results.campaign_tables import method_text, ratio_text, varied
from workflow.campaign.results.picture_canvas import ResultsPicture
from workflow.campaign.results.results_pictures import RatioRow, count_text, ratio_picture
from workflow.errors import RunError, WfError
from workflow.installation import install_command
from workflow.replace_file import replace_file
from workflow.report.html.page import TEMPLATES


def write_changes(path: Path, changes: CampaignChanges) -> list[Path]:
    """Write the page; returns the files. Raises WfError where it is not to be a page, or matplotlib is missing."""
    if path.suffix not in (".html", ".htm"):
        raise WfError(f"{path} is not the name of a page", f"for example `-o {path.with_suffix('.html')}`")
    try:
        return write_changes_page(path, changes)
    except ModuleNotFoundError as error:
        raise WfError(f"the page needs {str(error.name).partition('.')[0]}", install_command("campaign")) from error


def write_changes_page(path: Path, changes: CampaignChanges) -> list[Path]:
    """Write the page, and beside it the picture as SVG, PDF and CSV; returns what was written.

    Raises:
        RunError: a file cannot be written; ModuleNotFoundError: matplotlib is not installed.
    """
    picture = changes_picture(path.stem, changes)
    texts = {path: make_changes_page(changes, picture).encode()}
    if picture is not None:
        texts |= {path.with_suffix(suffix): content for suffix, content in picture.files().items()}
    try:
        for file, text in texts.items():
            replace_file(file, text)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}", "name another file: `-o FILE.html`") from error
    return list(texts)


def changes_picture(name: str, changes: CampaignChanges) -> ResultsPicture | None:
    """All ratios with their intervals; None where none is known."""
    rows = list(_rows(changes))
    title = (
        f"{changes.new} against {changes.base}, better to the right: {ratio_text(changes.changes)} (its inverse where "
        "less is better) with its 95 % interval; the band is the tolerance"
    )
    found = [f"{changes.new} against {changes.base}", count_text([each.decision for each in changes.changes])]
    return ratio_picture(name, title, found, rows) if rows else None


def make_changes_page(changes: CampaignChanges, picture: ResultsPicture | None) -> str:
    """The page: what differs, the picture, a table per metric."""
    return TEMPLATES.get_template("campaign_changes.html.j2").render(
        changes=changes,
        differences=difference_table(changes),
        common=[fact for fact in changes.facts if fact.base == fact.new],
        metrics=[(metric, changes_table(changes, metric)) for metric in changes.metrics],
        method=method_text(changes.changes),
        unmatched=unmatched_table(changes),
        unmatched_metrics=unmatched_metrics_text(changes),
        regressed=list(faults(changes, strict=False)),
        picture=picture,
        address="" if picture is None else picture.address,
    )


def _rows(changes: CampaignChanges) -> Iterator[RatioRow]:
    metrics = {metric.name: metric for metric in changes.metrics}
    names = short_names(varied(each.parameters for each in changes.changes))
    for each in changes.changes:
        if each.ratio is not None:
            label = f"{each.metric} ({trial_text(each.parameters, names)})" if each.parameters else each.metric
            yield RatioRow(
                label=label,
                ratio=each.ratio,
                low=each.low,
                high=each.high,
                corrected_p=each.corrected_p,
                decision=each.decision,
                threshold=metrics[each.metric].threshold,
                better=metrics[each.metric].better,
            )
