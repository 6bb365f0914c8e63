"""Reading files of JSON lines that another process may be writing, or was killed while writing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Journal:
    """The records of a file in order, and how many lines could not be read."""

    records: list[dict[str, Any]] = field(default_factory=list)
    unreadable: int = 0
    exists: bool = True


def read_journal(path: Path) -> Journal:
    """All whole records of a file of JSON lines; a missing file holds none.

    A last line without its newline is still being written (or its writer was killed) and does not count
    as unreadable; any other line that is not a JSON object does.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return Journal(exists=False)
    lines = data.split(b"\n")
    records, unreadable = [], 0
    for position, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:  # broken JSON or not UTF-8
            record = None
        if isinstance(record, dict):
            records.append(record)
        elif position < len(lines) - 1:
            unreadable += 1
    return Journal(records, unreadable)
