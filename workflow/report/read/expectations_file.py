"""Whether a run met its expectations, as found when it ended: `expectations.json` in its directory.

It is stored because it could not be determined again later: data may be removed, and another host may see records late.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from workflow.formats.read_json import read_json
from workflow.replace_file import replace_file
from workflow.report.report_model import ExpectationPart, Report

EXPECTATIONS_FILE = "expectations.json"


class ExpectationsKept(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    expectations_version: Literal[1] = 1
    expectations: list[ExpectationPart]


def read_expectations(run_dir: Path) -> list[ExpectationPart] | None:
    """None where nothing was kept, or where it cannot be read: the report then finds it out anew."""
    try:
        return ExpectationsKept.model_validate(read_json((run_dir / EXPECTATIONS_FILE).read_bytes())).expectations
    except (OSError, ValueError):
        return None


def keep_expectations(run_dir: Path, report: Report) -> None:
    """Keep what a run that has succeeded measured; to be called by the process that has supervised it.

    A full disk changes no verdict.
    """
    path = run_dir / EXPECTATIONS_FILE
    if not report.expectations or report.run.state != "succeeded" or path.exists():
        return
    text = ExpectationsKept(expectations=report.expectations).model_dump_json(indent=2) + "\n"
    with contextlib.suppress(OSError):
        replace_file(path, text.encode())
