"""The ranks of a run that are processes of this node, by their environment. Only the standard library."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from workflow.formats.run_variables import RANK_NAME_VARIABLE, RUN_VARIABLE, STAGE_VARIABLE
from workflow.run.processes.process_reaper import PROC, stat_fields

# Of launchers, one on each node, above the ranks. Where another launcher has started them they have its rank variables:
# Slurm's PMI sets PMI_RANK for hydra's. A name has 15 letters (proc_pid_comm(5)).
_DAEMONS = frozenset({"hydra_pmi_proxy", "hydra_bstrap_pr", "orted", "prted", "prterun"})


# A process has the environment of its parent until it executes its program, which takes its time on a busy node: so
# long it is looked at again.
RECHECK_S = 5.0


class RankProcess(NamedTuple):
    """One rank of a stage. `cores` is the list of processors that it may use, as Linux writes it: `0-3,8`."""

    stage: str
    rank: int
    pid: int
    cores: str


class _Looked(NamedTuple):
    """A process as it was found: its place in /proc changes with the process that has this id."""

    place: tuple[int, int]
    rank: tuple[str, int] | None
    first_s: float
    """When it was found, by the monotonic clock."""
    is_final: bool


class RankFinder:
    """Finds the ranks of one run, again and again: a process that was found RECHECK_S ago is not looked at any more."""

    def __init__(self, run_dir: str) -> None:
        self._run = run_dir
        self._seen: dict[int, _Looked] = {}

    def find(self) -> list[RankProcess]:
        """The processes that are ranks now; of those that a rank has started only the first one counts."""
        seen: dict[int, _Looked] = {}
        own, now = os.getuid(), time.monotonic()
        for entry in os.scandir(PROC):
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):  # ended meanwhile
                status = entry.stat()
                if status.st_uid != own:
                    continue
                place = status.st_ino, status.st_ctime_ns
                known = self._seen.get(int(entry.name))
                if known is None or known.place != place:
                    known = _Looked(place, None, now, False)
                if not known.is_final:
                    is_final = now - known.first_s >= RECHECK_S
                    known = _Looked(place, self._rank(Path(entry.path)), known.first_s, is_final)
                seen[int(entry.name)] = known
        self._seen = seen
        ranks = {pid: each.rank for pid, each in seen.items() if each.rank is not None}
        return sorted(
            RankProcess(*ranks[pid], pid, cores)
            for pid in _first_of_each(ranks)
            if (cores := allowed_cores(pid)) is not None
        )

    def _rank(self, folder: Path) -> tuple[str, int] | None:
        """(stage, rank) by the environment of a process; None for all that is no rank of this run."""
        words = (word.split(b"=", 1) for word in (folder / "environ").read_bytes().split(b"\0") if b"=" in word)
        environ = {os.fsdecode(key): os.fsdecode(value) for key, value in words}
        if environ.get(RUN_VARIABLE) != self._run:
            return None
        stages, file = Path(self._run) / "stages", Path(environ.get(STAGE_VARIABLE, ""))
        if not file.is_relative_to(stages):
            return None  # a probe
        if (folder / "comm").read_text().rstrip("\n") in _DAEMONS:
            return None
        name = environ.get(RANK_NAME_VARIABLE, "")
        # Without a launcher there is one rank. The launcher itself has no rank.
        rank = environ.get(name, "") if name else "0"
        return (file.relative_to(stages).parts[0], int(rank)) if rank.isdigit() else None


def _first_of_each(ranks: Mapping[int, tuple[str, int]]) -> list[int]:
    """Those without a parent that is the same rank."""
    return [pid for pid, rank in ranks.items() if ranks.get(_parent(pid)) != rank]


def _parent(pid: int) -> int:
    try:
        return int(stat_fields((PROC / str(pid) / "stat").read_bytes())[1])
    except (OSError, IndexError):
        return 0


def allowed_cores(pid: int) -> str | None:
    """`Cpus_allowed_list` of a process; None when it has ended."""
    try:
        text = (PROC / str(pid) / "status").read_text()
    except OSError:
        return None
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return None if fields.get("State", "Z")[0] in "ZX" else fields.get("Cpus_allowed_list", "")
