"""Launch lines that start several stages: one process for all of them, and how each of them ended.

The launcher reports one end for all of them. Every rank starts through `workflow.launch.mpmd_wrapper`, which records
how the rank ended before the launcher learns of it. The first of these records names the stage at fault. A stage
without a record was ended by the launcher together with the others.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from workflow.formats.json_lines import Tail
from workflow.launch.mpmd_wrapper import EXITS_FILE
from workflow.plan.plan_model import GroupPlan, Placement, Plan, StagePlan
from workflow.run.processes.stage_processes import Ending
from workflow.run.run_directory import group_dir, stage_dir

# MPI's own last words on the stderr of a rank that ended all of them.
_ABORT = "Abort("
_LAST_BYTES = 4000


class Ended(NamedTuple):
    """A stage of a launch line has ended."""

    stage: str
    ending: Ending


@dataclass
class Launch:
    """One launch line at work."""

    group: GroupPlan
    process: StagePlan  # the line as the one thing that the supervisor starts
    folder: Path
    pid: int | None = None
    _tails: dict[str, Tail] = field(default_factory=dict)
    _exits: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)

    def poll(self, run_dir: Path) -> list[Ended]:
        """The stages that have ended since the last call, the one at fault first."""
        for name in self.group.stages:
            self._read(name, run_dir)
        found: list[tuple[float, Ended]] = []
        for name in self.group.stages:
            if name not in self._over and (seen := self._ending(name)) is not None:
                found.append((seen[0], Ended(name, seen[1])))
        self._over |= {ended.stage for _, ended in found}
        return [ended for _, ended in sorted(found, key=lambda pair: (pair[1].ending.code == 0, pair[0]))]

    def last(self, run_dir: Path, ending: Ending) -> list[Ended]:
        """The launcher has ended: the stages of which nothing was heard, after those of which something was."""
        heard = self.poll(run_dir)
        left = [name for name in self.group.stages if name not in self._over]
        self._over |= set(left)
        left.sort(key=lambda name: not _aborted(stage_dir(run_dir, name)))
        if ending.code == 0 and ending.signal is None:
            ending = Ending(None, signal.SIGKILL, "its launcher ended, with exit code 0, before it did")
        return [*heard, *(Ended(name, ending) for name in left)]

    def _read(self, name: str, run_dir: Path) -> None:
        """What the ranks of this stage have noted since the last call.

        On a file system of several machines their lines may be seen torn or mixed: then all is read again next time.
        """
        tail = self._tails.setdefault(name, Tail(stage_dir(run_dir, name) / EXITS_FILE))
        exits = self._exits.setdefault(name, [])
        if tail.offset == 0:
            exits.clear()
        for line in tail.read().splitlines():
            try:
                record = json.loads(line)
                if "started" not in record:
                    exits.append({key: record[key] for key in ("t", "code", "signal")})
            except (ValueError, TypeError, KeyError):
                tail.offset = 0

    def _ending(self, name: str) -> tuple[float, Ending] | None:
        """(when, how): by its first rank that failed, or by its last when none did; None while it runs."""
        exits = sorted(self._exits[name], key=lambda record: float(record["t"]))
        bad = next((record for record in exits if record["code"] != 0), None)
        if bad is not None:
            note = "one of its ranks" if self.group.ranks[name][1] > 1 else ""
            return float(bad["t"]), Ending(bad["code"], bad["signal"], note)
        if len(exits) < self.group.ranks[name][1]:
            return None
        return float(exits[-1]["t"]), Ending(0, None)


class Launches:
    """All launch lines of a run."""

    def __init__(self, plan: Plan, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._all = [
            Launch(group, _as_stage(group, plan, run_dir), group_dir(run_dir, group.name)) for group in plan.groups
        ]

    def of(self, stage: str) -> Launch | None:
        """The line that starts this stage; None where it has its own."""
        return next((launch for launch in self._all if stage in launch.group.stages), None)

    def named(self, process: str) -> Launch | None:
        """The line whose process has this name."""
        return next((launch for launch in self._all if launch.process.name == process), None)

    def poll(self) -> Iterator[Ended]:
        """The stages that have ended while their launcher lives."""
        for launch in self._all:
            if launch.pid is not None:
                yield from launch.poll(self._run_dir)


def _as_stage(group: GroupPlan, plan: Plan, run_dir: Path) -> StagePlan:
    """A launch line as what the supervisor starts, watches and ends. No stage can have its name."""
    ranks = sum(count for _, count in group.ranks.values())
    return StagePlan(
        name=f"launch {group.name}", kind="simulation", program=group.argv, argv=group.argv, launcher=group.launcher,
        env={}, cwd=str(group_dir(run_dir, group.name)), ranks=ranks, observed="evidence",
        placement=Placement(nodes=[(0, 1)], ranks_per_node=ranks, cores=[], cores_per_rank=0),
        ends=[end for name in group.stages for end in plan.stage(name).ends],
    )  # fmt: skip


def _aborted(folder: Path) -> bool:
    """Whether the last words on a stage's stderr are MPI's."""
    try:
        return _ABORT in (folder / "stderr.log").read_bytes()[-_LAST_BYTES:].decode(errors="replace")
    except OSError:
        return False
