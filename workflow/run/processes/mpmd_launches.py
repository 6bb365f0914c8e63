"""Launch lines that start several stages: one process for all of them, and how each of them ended.

The launcher reports one end for all of them. Every rank starts through `workflow.launch.mpmd_wrapper`, which records
how the rank ended before the launcher sees it. The first record of a failure names the stage that failed. A stage
without a record was ended by the launcher together with the others, unless the launcher reports success: then its
records are lost, for example because the disk is full.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from workflow.formats.json_lines import Tail
from workflow.formats.rank_files import EXITS_FILE, RankExit, to_exit
from workflow.launch.launchers import ProcessSpec, make_process
from workflow.plan.launch_requests import NOTHING_YET, GrantedNodes, group_request
from workflow.plan.plan_model import GroupPlan, Plan
from workflow.run.observe.sst_log import last_lines
from workflow.run.processes.stage_processes import Ending
from workflow.run.records.run_directory import group_dir, stage_dir

# How MPICH's message begins on the stderr of a rank that has called MPI_Abort.
_ABORT = "Abort("
_LAST_BYTES = 4000


class Ended(NamedTuple):
    """A stage of a launch line has ended."""

    stage: str
    ending: Ending


@dataclass
class MpmdLaunch:
    """One launch line of several stages, from before its start to the end of the last stage."""

    group: GroupPlan
    process: ProcessSpec
    pid: int | None = None
    _tails: dict[str, Tail] = field(default_factory=dict)
    _exits: dict[str, list[RankExit]] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)

    def poll(self, run_dir: Path, *, fresh: bool = False) -> list[Ended]:
        """The stages that have ended since the last call, the one that failed first comes first.

        `fresh`: ask the file server for the sizes of the files (`formats.json_lines.Tail`).
        """
        for name in self.group.stages:
            self._read(name, run_dir, fresh)
        found: list[tuple[float, Ended]] = []
        for name in self.group.stages:
            if name not in self._over and (seen := self._ending(name)) is not None:
                found.append((seen[0], Ended(name, seen[1])))
        self._over |= {ended.stage for _, ended in found}
        return [ended for _, ended in sorted(found, key=lambda pair: (pair[1].ending.code == 0, pair[0]))]

    def last(self, run_dir: Path, ending: Ending) -> list[Ended]:
        """The launcher has ended: the stages that left records, then those that left none.

        A launcher reports success only when all ranks have: this counts for a stage without any record of an end,
        unless a record of another stage contradicts it.
        """
        recorded = self.poll(run_dir, fresh=True)
        left = [name for name in self.group.stages if name not in self._over]
        self._over |= set(left)
        left.sort(key=lambda name: not _aborted(stage_dir(run_dir, name)))
        if ending.code != 0 or ending.signal is not None:
            return [*recorded, *(Ended(name, ending) for name in left)]
        failed = any(record.code != 0 for exits in self._exits.values() for record in exits)
        trusted = Ending(0, None, "its ranks left no record: this is the exit code of its launcher")
        early = Ending(None, signal.SIGKILL, "its launcher ended, with exit code 0, before it did")
        return [*recorded, *(Ended(name, early if failed or self._exits[name] else trusted) for name in left)]

    def _read(self, name: str, run_dir: Path, fresh: bool) -> None:
        """Read what the ranks of this stage have recorded since the last call.

        On a network file system lines may appear torn or mixed: then the whole file is read again next time.
        """
        tail = self._tails.setdefault(name, Tail(stage_dir(run_dir, name) / EXITS_FILE))
        exits = self._exits.setdefault(name, [])
        if tail.offset == 0:
            exits.clear()
        for line in tail.read(fresh=fresh).split("\n")[:-1]:
            try:
                if (record := to_exit(line)) is not None:
                    exits.append(record)
            except (ValueError, TypeError, KeyError):
                tail.offset = 0

    def _ending(self, name: str) -> tuple[float, Ending] | None:
        """(when, how): by its first rank that failed, or by its last when none did; None while it runs."""
        exits = sorted(self._exits[name], key=lambda record: record.t)
        bad = next((record for record in exits if record.code != 0), None)
        if bad is not None:
            note = "one of its ranks" if self.group.ranks[name][1] > 1 else ""
            return bad.t, Ending(bad.code, bad.signal, note)
        if len(exits) < self.group.ranks[name][1]:
            return None
        return exits[-1].t, Ending(0, None)


class MpmdLaunches:
    """All launch lines of several stages in a run, on the nodes that it has received."""

    def __init__(self, plan: Plan, run_dir: Path, received: GrantedNodes = NOTHING_YET) -> None:
        self._run_dir = run_dir
        self._all = [
            MpmdLaunch(group, make_process(group_request(group, plan, str(group_dir(run_dir, group.name)), received)))
            for group in plan.groups
        ]

    def of(self, stage: str) -> MpmdLaunch | None:
        """The line that starts this stage; None where it has its own."""
        return next((launch for launch in self._all if stage in launch.group.stages), None)

    def named(self, process: str) -> MpmdLaunch | None:
        """The line whose process has this name."""
        return next((launch for launch in self._all if launch.process.name == process), None)

    def poll(self) -> Iterator[Ended]:
        """The stages that have ended while their launcher lives."""
        for launch in self._all:
            if launch.pid is not None:
                yield from launch.poll(self._run_dir)


def _aborted(folder: Path) -> bool:
    """Whether a stage's stderr ends with the message of MPI_Abort."""
    return any(_ABORT in line for line in last_lines(folder / "stderr.log", _LAST_BYTES, _LAST_BYTES))
