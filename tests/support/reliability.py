"""What `make reliability` keeps of a cell of a long table, for docs/reliability.md; and when a cell is to be ended."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from workflow.report.report_model import RestartPart

VARIABLE = "WF_RELIABILITY"
# How the streams sim → work and work → keep go.
_LIVE, _AFTER, _SST = "bp5, coupling: live", "bp5, coupling: after", "sst, transport: tcp"
_DISCARDS = "keep: true, queue: {limit: 1, when_full: discard}"
_WAYS = {
    "live then sst": (_LIVE, _SST),
    "live then shm": (_LIVE, "shm"),
    "live then live": (_LIVE, _LIVE),
    "live then after": (_LIVE, _AFTER),
    "after then sst": (_AFTER, _SST),
    "after then after": (_AFTER, _AFTER),
    "spool then sst": (f"{_SST}, keep: true", _SST),
    "spool then live": (f"{_SST}, keep: true", _LIVE),
    # The spool has what the queue has not discarded.
    "discard, spool then sst": (f"{_SST}, {_DISCARDS}", _SST),
    "discard, spool then live": (f"{_SST}, {_DISCARDS}", _LIVE),
    "ucx, spool then ucx": ("sst, transport: ucx, keep: true", "sst, transport: ucx"),
    "spool in memory then sst": (f"{_SST}, keep: {{where: /dev/shm, steps: 8}}", _SST),
    "spool on the node then live": (f"{_SST}, keep: {{where: $TMPDIR}}", _LIVE),
    # Shared memory, which has a spool as well.
    "shm, spool then shm": ("shm, keep: true", "shm"),
    "shm, spool then live": ("shm, keep: true", _LIVE),
    "shm, discard, spool then shm": (f"shm, {_DISCARDS}", "shm"),
    "shm, spool in memory then shm": ("shm, keep: {where: /dev/shm, steps: 8}", "shm"),
}


def ways(*names: str) -> dict[str, tuple[str, str]]:
    """Of the ways in which two streams go, the `via` of each: those of these names, in this order."""
    return {name: _WAYS[name] for name in names}


def note(table: str, **cell: Any) -> None:
    """Append one cell to the file that the variable names; without it, nothing is kept."""
    if name := os.environ.get(VARIABLE):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps({"table": table, **cell}) + "\n")


def steps_written(run_dir: Path) -> int:
    """How many steps the simulation has written so far."""
    return steps_done(run_dir, "sim")


def steps_done(run_dir: Path, stage: str) -> int:
    """How many steps the first attempt of a stage has written and read so far."""
    with contextlib.suppress(OSError):
        return (run_dir / f"stages/{stage}/metrics.jsonl").read_text().count('"kind": "step"')
    return 0


# How the component `faulty` of tests/support ends, and at which place of a step.
ENDS = ("kill", "exit1", "exit0", "raise", "segv")
PLACES = ("start", "before", "inside", "after", "close")


class FaultyCell(NamedTuple):
    """One cell of the tables of sim → work → keep, in which `work` is that component."""

    way: str
    how: str
    where: str
    at: int = 5

    def __str__(self) -> str:
        return f"{self.way}, {self.how} {self.where} {self.at}"


def each_end(ways: Iterable[str], ends: Iterable[str] = ENDS) -> list[FaultyCell]:
    """Each of these ends at each place."""
    return [FaultyCell(way, how, where) for way, how, where in itertools.product(ways, ends, PLACES)]


def note_restart(folder: Path, cell: FaultyCell, restart: RestartPart) -> None:
    """The cell, whose data are as promised. `folder`: of the tokens that the component leaves when it fails."""
    failed = (folder / "tokens" / "0").stat().st_mtime
    note(
        "restart", way=cell.way, how=cell.how, equal=True, replayed=restart.replayed, gap_s=restart.gap_s,
        decided_s=max(0.0, restart.t - failed),
    )  # fmt: skip
