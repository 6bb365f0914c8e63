"""What `wf campaign report` writes: the page in one file with its pictures, these as files too, tables, report.json."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from workflow.campaign.campaign_directory import RUNS_FOLDER, Schedule
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.file.trials import short_names, trial_text
from workflow.campaign.ledger import read_history
from workflow.campaign.results.campaign_tables import (
    LATEX_FILE,
    comparison_table,
    latex_tables,
    method_text,
    metric_table,
    status_table,
    table_columns,
    table_rows,
    varied,
    write_table,
)
from workflow.campaign.results.make_results import make_results
from workflow.campaign.results.picture_canvas import ResultsPicture, axis_unit
from workflow.campaign.results.results_model import CampaignResults, CampaignStatus, with_labels
from workflow.campaign.results.results_pictures import make_pictures
from workflow.campaign.results.results_summary import results_summary
from workflow.campaign.results.samples import measured
from workflow.errors import RunError, named_if_missing
from workflow.formatting import moment
from workflow.plan.plan_model import Plan
from workflow.plan.read_plan import read_plan
from workflow.replace_file import replace_file
from workflow.report.html.page import TEMPLATES
from workflow.report.html.page_sections import KeyFact, PipelineDrawing, pipeline_drawing
from workflow.run.records.run_directory import PLAN_FILE

PICTURES = "pictures"


def write_page(directory: Path, results: CampaignResults) -> list[Path]:
    """Write report.html and pictures/; returns the page. Pictures of an earlier report that are not drawn now go."""
    pictures = make_pictures(results)
    folder = directory / PICTURES
    folder.mkdir(exist_ok=True)
    kept = set()
    for picture in pictures:
        for suffix, content in picture.files().items():
            replace_file(folder / f"{picture.name}{suffix}", content)
            kept.add(f"{picture.name}{suffix}")
    for old in [path for suffix in (".svg", ".pdf", ".csv") for path in folder.glob(f"*{suffix}")]:
        if old.name not in kept:
            old.unlink(missing_ok=True)
    page = directory / "report.html"
    replace_file(page, make_page(results, pictures, trial_drawing(directory, results)).encode())
    return [page]


def make_page(results: CampaignResults, pictures: list[ResultsPicture], shown: TrialDrawing | None = None) -> str:
    """The page: key facts, the pipeline, comparisons, a table and pictures per metric, and what repeats it."""
    results = with_labels(results)
    status = CampaignStatus(campaign=results.campaign, site=results.site, spent_s=0.0, trials=results.trials)
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    facts = [
        KeyFact("site", results.site, "site"), KeyFact("host", results.host, "host"),
        KeyFact("started", moment(results.started), "started"), KeyFact("ended", moment(results.ended), "ended"),
        KeyFact("load", "" if results.load is None else f"{results.load:.1f}", "median load average"),
        KeyFact("options", shlex.join(results.options), "of the command line, kept from the last run"),
        KeyFact("order", f"seed {results.seed}", "seed of the random order"),
        KeyFact("versions", versions, "versions"),
    ]  # fmt: skip
    drawn = [(picture, picture.address) for picture in pictures]
    return TEMPLATES.get_template("campaign.html.j2").render(
        results=results,
        summary=results_summary(results),
        shown=shown,
        key_facts=[fact for fact in facts if fact.value],
        metrics=[
            (metric, metric_table(results, metric), [each for each in drawn if each[0].metric == metric.name])
            for metric in results.metrics
        ],
        comparisons=comparison_table(results),
        method=method_text(results.comparisons),
        trials=status_table(status),
        operations=[each for each in drawn if not each[0].metric],
    )


class TrialDrawing(NamedTuple):
    """The drawing, and which trial it is of."""

    drawing: PipelineDrawing
    caption: str


def trial_drawing(directory: Path, results: CampaignResults) -> TrialDrawing | None:
    """Of the first trial; None where none of its runs is there any more, or it is too large to be drawn."""
    trial = next((each for each in results.trials if not each.is_baseline), None)
    plan = _read_plan(directory / RUNS_FOLDER, trial.trial) if trial is not None else None
    drawing = pipeline_drawing(plan) if plan is not None else None
    if trial is None or drawing is None:
        return None
    names = short_names(varied(each.parameters for each in results.trials))
    label = trial_text(trial.parameters, names) if trial.parameters else ""
    others = "; the others differ in these values" if len(results.trials) > 1 else ""
    return TrialDrawing(drawing, f"The trial {label}{others}." if label else "")


def _read_plan(runs: Path, key: str) -> Plan | None:
    for path in sorted(runs.glob(f"{key}-*/{PLAN_FILE}")):
        try:
            return read_plan(path.read_bytes(), str(path))
        except (OSError, RunError):
            continue
    return None


def write_results(
    directory: Path, spec: CampaignSpec, schedule: Schedule, notes: Sequence[str] = ()
) -> tuple[CampaignResults, list[Path]]:
    """Compute the results from the ledger and write them; returns them, and the files that were written.

    `notes`: what to say first.

    Raises:
        WfError: scipy or matplotlib is not installed; RunError: a file cannot be written.
    """
    history = read_history(directory)
    try:
        with named_if_missing("the report of a campaign", "campaign"):
            results = make_results(spec, schedule, history)
            results = results.model_copy(update={"notes": [*notes, *results.notes]})
            repetitions = measured(schedule, spec, history)
            keys = varied(trial.parameters for trial in schedule.trials)
            rows = list(table_rows(repetitions, keys, results.metrics))
            written = write_table(directory, table_columns(keys), rows)
            replace_file(directory / "report.json", (results.model_dump_json(indent=2) + "\n").encode())
            replace_file(directory / LATEX_FILE, latex_tables(results, axis_unit).encode())
            return results, [
                *written,
                directory / LATEX_FILE,
                directory / "report.json",
                *write_page(directory, results),
            ]
    except OSError as error:
        raise RunError(
            f"cannot write {error.filename or directory}: {error.strerror}", "check the directory"
        ) from error
