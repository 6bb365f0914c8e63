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


def following_part(run_dir: Path) -> Path | None:
    """The run that goes on with this one, of those in the same folder: the newest, where there are several."""
    return next((path for path, record in reversed(linking_runs(run_dir)) if record.number > 1), None)


def linking_runs(run_dir: Path) -> list[tuple[Path, PartRecord]]:
    """The runs in the same folder that have links to files of this one, the newest last."""
    found = []
    for path in sorted(run_dir.parent.glob(f"*/{PART_FILE}"), key=lambda path: path.stat().st_mtime):
        record = read_part(path.parent)
        if record is not None and not path.parent.is_symlink() and Path(record.run).resolve() == run_dir.resolve():
            found.append((path.parent, record))
    return found


def newest_part(run_dir: Path) -> Path:
    """The last of the parts that go on with this run; the run itself where there is none."""
    newest, seen = run_dir.resolve(), set[Path]()
    while newest not in seen and (following := following_part(newest)) is not None:
        seen.add(newest)
        newest = following.resolve()
    return newest
