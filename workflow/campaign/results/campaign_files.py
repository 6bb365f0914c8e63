"""What `wf campaign report` writes into the campaign's directory: tables, report.json, report.html, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workflow.campaign.campaign_directory import Schedule
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import read_history
from workflow.campaign.results.campaign_tables import varied
from workflow.campaign.results.latex_tables import LATEX_FILE, latex_tables
from workflow.campaign.results.make_results import make_results
from workflow.campaign.results.results_model import CampaignResults
from workflow.campaign.results.results_table import table_columns, table_rows, write_table
from workflow.campaign.results.samples import measured
from workflow.errors import RunError, WfError
from workflow.installation import install_command
from workflow.replace_file import replace_file


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
        results = make_results(spec, schedule, history)
        results = results.model_copy(update={"notes": [*notes, *results.notes]})
        repetitions = measured(schedule, spec, history)
        keys = varied(trial.parameters for trial in schedule.trials)
        rows = list(table_rows(repetitions, keys, results.metrics))
        written = write_table(directory, table_columns(keys), rows)
        replace_file(directory / "report.json", (results.model_dump_json(indent=2) + "\n").encode())
        replace_file(directory / LATEX_FILE, latex_tables(results).encode())
        from workflow.campaign.results.campaign_page import write_page

        return results, [*written, directory / LATEX_FILE, directory / "report.json", *write_page(directory, results)]
    except ModuleNotFoundError as error:
        text = f"the report of a campaign needs {str(error.name).partition('.')[0]}"
        raise WfError(text, install_command("campaign")) from error
    except OSError as error:
        raise RunError(
            f"cannot write {error.filename or directory}: {error.strerror}", "check the directory"
        ) from error
