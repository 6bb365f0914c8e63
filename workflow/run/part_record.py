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
    """`number`: of the part, from 2 on; `run`: the directory of the part before."""

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


def newest_part(run_dir: Path) -> Path:
    """The last of the parts that go on with this run, of those in the same folder; the run itself where there is none.

    Two parts may go on with one run: the one with the later name counts, which was made later.
    """
    following = {
        Path(record.run).resolve(): path.parent
        for path in sorted(run_dir.parent.glob(f"*/{PART_FILE}"))
        if not path.parent.is_symlink() and (record := read_part(path.parent)) is not None
    }
    newest, seen = run_dir.resolve(), set[Path]()
    while newest in following and newest not in seen:
        seen.add(newest)
        newest = following[newest].resolve()
    return newest


def parts_of(run_dir: Path) -> list[Path]:
    """This run and the parts before it that are there, the first one first."""
    found = [run_dir.resolve()]
    while (record := read_part(found[0])) is not None and Path(record.run).exists():
        found.insert(0, Path(record.run).resolve())
    return found
