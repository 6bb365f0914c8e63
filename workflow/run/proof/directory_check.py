"""Checks that each node sees the run directory, and how late it sees changes that others make there.

Both ends are timed by this process alone: it knows when it replaced the pulse, and when a line of a probe came. The
time that the line needed is part of the figure, which is therefore a bound.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection
from pathlib import Path

from workflow.run.proof.compare_placement import PlacementDifference
from workflow.run.proof.placement_probe import DirectoryAnswer, PulseSeen
from workflow.run.proof.proof_model import DirectorySeen
from workflow.run.proof.rank_probe import ANSWERS, PULSE, STALE_S, TOKEN

# Half of the silence after which guards take the supervisor for dead.
_LATE_S = 5.0
PULSE_S = 0.25
# The files of the nodes that were not seen at once: one listing of the directory for all of them.
_LIST_S = 1.0


class DirectoryCheck:
    """The supervisor's end. Times are of the caller's clock, in seconds."""

    def __init__(self, folder: Path, token: str) -> None:
        self._folder, self._token = folder, token
        self._pulses: list[float] = []
        self._looked = -math.inf
        self._answers: dict[str, tuple[float, DirectoryAnswer]] = {}
        self._seen: dict[str, float] = {}  # host → seconds until it saw a change
        self._seen_here: dict[str, float] = {}  # host → seconds until its file was seen here
        (folder / TOKEN).write_text(token)
        (folder / PULSE).write_text("-")

    def beat(self, now: float) -> None:
        """Change the pulse, and look for the files of the nodes, when it is time for them."""
        if not self._pulses or now - self._pulses[-1] >= PULSE_S:
            self._change_pulse(now)
        waiting = {answer.answer: host for host, (_, answer) in self._answers.items() if host not in self._seen_here}
        if waiting and now - self._looked >= _LIST_S:
            self._looked = now
            with contextlib.suppress(OSError):
                for name in waiting.keys() & {path.name for path in (self._folder / ANSWERS).iterdir()}:
                    since, answer = self._answers[waiting[name]]
                    if self._has_come(answer):
                        self._seen_here[waiting[name]] = now - since

    def _change_pulse(self, now: float) -> None:
        temporary = self._folder / f".{PULSE}"
        with contextlib.suppress(OSError):
            temporary.write_text(str(len(self._pulses)))
            temporary.replace(self._folder / PULSE)
            self._pulses.append(now)

    def take(self, answer: DirectoryAnswer | PulseSeen, now: float) -> None:
        """What the probe of a node has said."""
        if isinstance(answer, PulseSeen):
            if answer.pulse < len(self._pulses):
                self._seen.setdefault(answer.host, max(0.0, now - self._pulses[answer.pulse]))
        elif answer.host not in self._answers:
            self._answers[answer.host] = now, answer
            if self._has_come(answer):
                self._seen_here[answer.host] = 0.0

    def seen(self) -> list[DirectorySeen]:
        """Each node that has answered."""
        return [
            DirectorySeen(host, _rounded(self._seen.get(host)), _rounded(self._seen_here.get(host)))
            for host in sorted(self._answers)
        ]

    def differences(self, run_dir: Path, hosts: Collection[str]) -> list[PlacementDifference]:
        """Nodes that do not see the directory, or see it late. `hosts`: all that ranks have answered from."""
        blind: list[tuple[str, str]] = []
        for host in sorted(hosts):
            answer = self._answers[host][1] if host in self._answers else DirectoryAnswer(host, "", "")
            if answer.token != self._token:
                said = "it has another directory of that name" if answer.token else answer.error
                blind.append((host, said))
            elif answer.error or host not in self._seen_here:
                blind.append((host, answer.error or "what it writes there is not seen here"))
        if blind:
            host, said = blind[0]
            more = f" (and {len(blind) - 1} more)" if len(blind) > 1 else ""
            text = f"{host}{more} does not see the run directory {run_dir}" + (f": {said}" if said else "")
            return [PlacementDifference("error", "", text, "directory")]
        late = {host: self._seen.get(host) for host in hosts}
        slow = [(host, seconds) for host, seconds in sorted(late.items()) if seconds is None or seconds > _LATE_S]
        if slow:
            host, seconds = slow[0]
            after = f"more than {STALE_S:.0f} s" if seconds is None else f"{seconds:.1f} s"
            text = f"{host} sees changes in the run directory {after} late"
            return [PlacementDifference("warning", "", text, "directory")]
        return []

    def _has_come(self, answer: DirectoryAnswer) -> bool:
        try:
            return (self._folder / ANSWERS / answer.answer).read_text() == self._token
        except (OSError, ValueError):
            return False


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
