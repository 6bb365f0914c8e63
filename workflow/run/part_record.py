"""`part.json` of a run that goes on with an earlier one: which one that is. Small: all runs can be looked at."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from workflow.formats.read_json import read_json
from workflow.formats.typed_fields import from_fields
from workflow.replace_file import replace_file

PART_FILE = "part.json"


@dataclass(frozen=True)
class PartRecord:
    """`number`: of the part, from 2 on; `run`: the directory of the part before. 1: the run goes on with no other, and
    re-uses files of that one."""

    number: int
    run: str


def write_part(run_dir: Path, record: PartRecord) -> None:
    """Write the record. Raises OSError."""
    replace_file(run_dir / PART_FILE, (json.dumps(asdict(record)) + "\n").encode())


def read_part(run_dir: Path) -> PartRecord | None:
    """The record of a run; None for one that goes on with no other, or where it cannot be read."""
    try:
        return from_fields(PartRecord, read_json((run_dir / PART_FILE).read_bytes()))
    except (OSError, ValueError, TypeError, AttributeError):
        return None
